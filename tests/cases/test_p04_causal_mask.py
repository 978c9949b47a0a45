"""P4: no option switches causality off.

Sources: keras-team/keras#23038, PR #23040; pytorch/pytorch#99282.
"""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.ops import attention

from .examples import EXAMPLES, block, quick
from .helpers import array, arrays, assert_close, copy_weights, first, randomize

LENGTH = 17
CUTS = (0, 7, 15)


def attend_to_itself(layer, x, padding=None, **arguments):
    return layer(x, x, use_causal_mask=True, value_mask=padding, **arguments)


def decode(layer, x, padding=None, **arguments):
    return layer(x, padding_mask=padding, **arguments)


def translate(layer, x, padding=None, **arguments):
    memory = np.random.default_rng(1).normal(size=(1, 3, 8)).astype("float32")
    memory = np.repeat(memory, len(x), axis=0)
    return layer(x, memory, padding_mask=padding, **arguments)


# name -> (constructor with a dropout rate, call)
CAUSAL = {
    "attention": (
        lambda rate: kt.MultiHeadAttention(2, 4, dropout=rate),
        attend_to_itself,
    ),
    "decoder-only": (
        lambda rate: kt.TransformerDecoder(
            **block(cross_attention=False, dropout=rate)
        ),
        decode,
    ),
    "decoder": (lambda rate: kt.TransformerDecoder(**block(dropout=rate)), translate),
    "stack": (
        lambda rate: kt.TransformerStack(
            **block(num_layers=1, causal=True, dropout=rate)
        ),
        decode,
    ),
}
# Further layers that must be causal in every way of calling them.
SPECIAL = {
    "grouped": (
        lambda: kt.MultiHeadAttention(4, 4, num_key_value_heads=2),
        attend_to_itself,
    ),
    "one-key-head": (
        lambda: kt.MultiHeadAttention(4, 4, num_key_value_heads=1),
        attend_to_itself,
    ),
    "values": (lambda: kt.MultiHeadAttention(2, 4, value_dim=3), attend_to_itself),
    "rotary-attention": (
        lambda: kt.MultiHeadAttention(2, 4, rotary=kt.RotaryEmbedding()),
        attend_to_itself,
    ),
    "window-attention": (
        lambda: kt.MultiHeadAttention(2, 4, sliding_window=3),
        attend_to_itself,
    ),
    "flash-off": (
        lambda: kt.MultiHeadAttention(2, 4, flash_attention=False),
        attend_to_itself,
    ),
    "llama": (EXAMPLES["block-llama"].make, decode),
    "prenorm": (
        lambda: kt.TransformerBlock(**block(causal=True, normalize_first=True)),
        decode,
    ),
    "window": (
        lambda: kt.TransformerBlock(**block(causal=True, sliding_window=3)),
        decode,
    ),
    "relative": (EXAMPLES["stack-relative"].make, decode),
    "alibi": (
        lambda: kt.TransformerStack(
            **block(num_layers=1, causal=True, position_bias=kt.AlibiBias(2))
        ),
        decode,
    ),
    "stack-cross": (EXAMPLES["stack-cross"].make, translate),
}


QUICK_SPECIAL = ["grouped", "values", "window-attention", "llama", "relative"]


@pytest.fixture
def flash(request):
    if request.param == "off":
        keras.config.disable_flash_attention()
    yield request.param
    keras.config.enable_flash_attention()  # Keras's default: where it is possible


@pytest.fixture(scope="module")
def built():
    """Layers by name and dropout rate, all with random weights."""
    layers = {}

    def get(name, rate=0.0):
        if (name, rate) not in layers:
            make, call = CAUSAL[name] if name in CAUSAL else SPECIAL[name]
            layer = make(rate) if name in CAUSAL else make()
            call(layer, sentences())
            layers[name, rate] = randomize(layer)
        return layers[name, rate]

    return get


def sentences():
    """Return row 0, and copies of it that change after each of the cuts."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(1, LENGTH, 8)), 1 + len(CUTS), axis=0)
    for row, cut in enumerate(CUTS, 1):
        x[row, cut + 1 :] = 10 * rng.normal(size=(LENGTH - cut - 1, 8))
    return x.astype("float32")


def assert_past_is_untouched(output):
    output = array(output)
    for row, cut in enumerate(CUTS, 1):
        assert_close(output[row, : cut + 1], output[0, : cut + 1])


def self_scores(scores):
    """Return the scores of self-attention from whatever a layer returned."""
    if isinstance(scores, list):
        return [score for item in scores for score in self_scores(item)]
    return [array(scores[0] if isinstance(scores, tuple) else scores)]


def assert_nothing_above_the_diagonal(scores):
    for score in self_scores(scores):
        above = np.triu(np.ones(score.shape[-2:], bool), 1)
        assert np.all(score[..., above] == 0)


OPTIONS = ("rate", "scores", "padding", "explicit")
GRID = list(itertools.product([0.0, 0.5], *[[False, True]] * 3))
# The whole grid for two; for what is made of these, each option by itself.
CASES = [(name, *options) for name in ("attention", "decoder-only") for options in GRID]
CASES += [
    (name, *options)
    for name in ("decoder", "stack")
    for options in GRID
    if sum(map(bool, options)) in (1, 4)
]


QUICK = [
    case
    for case in CASES
    if case[0] == "attention" or sum(map(bool, case[1:])) in (0, 4)
]


@pytest.mark.parametrize("flash", ["off", "auto"], indirect=True)
@pytest.mark.parametrize(("name", *OPTIONS), quick(CASES, QUICK))
def test_the_future_changes_no_past(
    built, flash, name, rate, scores, padding, explicit
):
    if flash == "off" and name in ("decoder", "stack"):
        pytest.skip("tried with the layers that these are made of")
    layer, call = built(name, rate), CAUSAL[name][1]
    x = sentences()

    def run(x):
        arguments = {"training": False}
        if scores:
            arguments["return_attention_scores"] = True
        if padding:
            # A hole in the middle, and an end.
            arguments["padding"] = np.ones(x.shape[:2], bool)
            arguments["padding"][:, 5:6] = False
            arguments["padding"][:, 16:] = False
        if explicit:
            time = x.shape[1]
            arguments["attention_mask"] = np.ones((len(x), time, time), bool)
        return call(layer, x, **arguments)

    result = run(x)
    assert_past_is_untouched(first(result))
    if scores:
        assert_nothing_above_the_diagonal(result[1])
    # Lengths 1 and 2 are prefixes of the same sentence.
    short = name in ("attention", "decoder-only") and padding == explicit
    lengths = (1, 2) if short else ()
    for length in lengths:
        prefix = run(x[:2, :length])
        assert_close(first(prefix), array(first(result))[:2, :length])
        if scores:
            assert_nothing_above_the_diagonal(prefix[1])


@pytest.mark.parametrize("name", quick(SPECIAL, QUICK_SPECIAL))
def test_the_future_changes_no_past_of_special_layers(built, name):
    layer, call = built(name), SPECIAL[name][1]
    assert_past_is_untouched(call(layer, sentences()))
    output, scores = call(layer, sentences(), return_attention_scores=True)
    assert_past_is_untouched(output)
    assert_nothing_above_the_diagonal(scores)


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize(
    "name", quick(["attention", "decoder-only", "stack"], ["attention"])
)
def test_an_explicit_mask_and_causality_hide_what_either_hides(built, name, scores):
    layer, call = built(name), CAUSAL[name][1]
    x = sentences()[:2]
    mask = np.random.default_rng(2).random((2, LENGTH, LENGTH)) < 0.5
    mask |= np.eye(LENGTH, dtype=bool)
    more = {"return_attention_scores": True} if scores else {}
    ours = call(layer, x, attention_mask=mask, **more)
    folded = mask & np.tril(np.ones((LENGTH, LENGTH), bool))
    assert_close(ours, call(layer, x, attention_mask=folded, **more))
    if name == "attention":  # The same without the causal flag.
        assert_close(ours, layer(x, x, attention_mask=folded, **more))


@pytest.mark.parametrize("name", quick(["decoder-only", "stack"], ["decoder-only"]))
def test_a_causal_block_is_a_block_with_a_triangular_mask(built, name):
    causal, x = built(name), sentences()
    if name == "stack":
        free = kt.TransformerStack(**block(num_layers=1))
    else:
        free = kt.TransformerEncoder(**block())
    free.build(x.shape)
    copy_weights(causal, free)
    lower = np.tril(np.ones((len(x), LENGTH, LENGTH), bool))
    assert_close(causal(x), free(x, attention_mask=lower))
    assert np.abs(array(causal(x)) - array(free(x)))[:, :-1].max() > 1e-3


@pytest.mark.parametrize("name", quick(["attention", "decoder-only"], ["attention"]))
def test_scores_in_training_with_dropout_are_causal(built, name):
    layer, call = built(name, 0.5), CAUSAL[name][1]
    mask = np.ones((4, LENGTH, LENGTH), bool)
    for more in ({}, {"attention_mask": mask}):
        more |= {"return_attention_scores": True, "training": True}
        assert_nothing_above_the_diagonal(call(layer, sentences(), **more)[1])


@pytest.mark.parametrize("name", quick(["attention", "decoder-only"], ["attention"]))
def test_the_future_changes_no_past_in_training_with_dropout(built, name):
    call = CAUSAL[name][1]
    outputs = []
    for row in range(1 + len(CUTS)):
        # A new layer with the same seed draws the same first dropout masks.
        if name == "attention":
            layer = kt.MultiHeadAttention(2, 4, dropout=0.5, seed=3)
        else:
            layer = kt.TransformerDecoder(
                **block(cross_attention=False, dropout=0.5, seed=3)
            )
        layer.build(*[(1, LENGTH, 8)] * (2 if name == "attention" else 1))
        randomize(layer)
        outputs.append(array(call(layer, sentences()[row : row + 1], training=True)))
    assert_past_is_untouched(np.concatenate(outputs))


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", quick(["attention", "llama"], ["attention"]))
def test_the_future_changes_no_past_in_half_precision(dtype, name):
    layer = {
        "attention": lambda: kt.MultiHeadAttention(2, 4, dtype=dtype),
        "llama": lambda: EXAMPLES["block-llama"].make(dtype=dtype),
    }[name]()
    call = attend_to_itself if name == "attention" else decode
    x = sentences()[:2, :5]  # which differ after position 0
    layer.build(*[x.shape] * (2 if name == "attention" else 1))
    randomize(layer)
    output = array(call(layer, x))
    np.testing.assert_array_equal(output[1, 0], output[0, 0])
    assert np.abs(output[1, 1:] - output[0, 1:]).max() > 1e-2


def test_causality_holds_in_predict_and_with_implicit_padding():
    ids = keras.Input((None,), dtype="int32")
    embed = kt.PositionalEmbedding(9, 12, 8)
    x = kt.TransformerStack(**block(num_layers=1, causal=True, dropout=0.5))(embed(ids))
    model = randomize(keras.Model(ids, x))
    batch = np.array([[5, 6, 7, 8, 0], [5, 6, 9, 2, 3], [5, 6, 0, 0, 0]], "int32")
    output = model.predict(batch, verbose=0)
    assert_close(output[1:, :2], output[[0, 0], :2])
    assert np.abs(output[0, 2] - output[1, 2]).max() > 1e-3


@pytest.mark.parametrize(
    "name", quick(["decoder-only", "stack", "llama"], ["decoder-only"])
)
def test_cached_steps_are_as_causal_as_the_full_pass(built, name):
    layer = built(name)
    x = sentences()[:2, :5]
    cache = layer.create_cache(2, 6)
    full = array(layer(x))
    outputs = []
    for start, stop in ((0, 3), (3, 4), (4, 5)):
        positions = np.arange(start, stop, dtype="int32")
        result = layer(x[:, start:stop], cache=cache, positions=positions)
        output, cache = result
        outputs.append(array(output))
    assert_close(np.concatenate(outputs, axis=1), full)


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize(("queries", "keys"), quick([(3, 5), (5, 3)], [(3, 5)]))
def test_unequal_lengths_are_causal_as_in_keras(queries, keys, scores):
    rng = np.random.default_rng(0)
    query = rng.normal(size=(2, queries, 8)).astype("float32")
    value = rng.normal(size=(2, keys, 8)).astype("float32")
    ours, theirs = kt.MultiHeadAttention(2, 4), keras.layers.MultiHeadAttention(2, 4)
    theirs(query, value)
    randomize(theirs)
    ours(query, value)
    ours.set_weights(theirs.get_weights())
    more = {"use_causal_mask": True, "return_attention_scores": scores}
    assert_close(ours(query, value, **more), theirs(query, value, **more))


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", quick([False, True], [False]))
def test_attend_is_causal_whatever_else_is_asked(rank, weights, masked, biased):
    rng = np.random.default_rng(0)
    time = 5
    shape = (2, time, 2, 4) if rank == 4 else (2, time, 6)
    query, key = (rng.normal(size=shape).astype("float32") for _ in range(2))
    changed = key.copy()
    changed[:, 3:] += 10
    query, key, changed = map(ops.convert_to_tensor, (query, key, changed))
    scores = (2, 2, time, time) if rank == 4 else (2, time, time)
    more = {"mask": np.ones(scores, bool)} if masked else {}
    if biased:
        more["bias"] = rng.normal(size=scores).astype("float32")

    def run(key):
        return attention.attend(
            query, key, key, causal=True, return_weights=weights, **more
        )

    ours, expected = run(changed), run(key)
    assert_close(array(ours[0])[:, :3], array(expected[0])[:, :3])
    if weights:
        above = np.triu(np.ones((time, time), bool), 1)
        assert np.all(array(ours[1])[..., above] == 0)


def test_the_laws_have_power_a_bidirectional_layer_breaks_them():
    layer = kt.TransformerEncoder(**block())
    output, scores = layer(sentences(), return_attention_scores=True)
    output = array(output)
    assert np.abs(output[1, 0] - output[0, 0]).max() > 1e-3
    assert all(np.all(score[0] > 0) for score in arrays(scores))
