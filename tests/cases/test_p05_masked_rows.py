"""P5: a row with nothing to attend to gives zeros, and no NaN in any gradient.

Sources: pytorch/pytorch#41508, #160064, #152028; keras-team/keras#18152.
"""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.ops import attention

from .examples import EXAMPLES, block, public_layers, quick
from .helpers import (
    array,
    arrays,
    assert_close,
    first,
    gradients_of,
    randomize,
    twice,
)

IDS = np.array([[5, 6, 7], [0, 0, 0]], "int32")
LEFT = np.array([[0, 0, 5], [0, 5, 6]], "int32")


def _alone(name):
    return lambda: EXAMPLES[name].make()


def _twice(name):
    """An attention or a decoder whose two inputs are the same text."""

    def make():
        layer = EXAMPLES[name].make()
        return lambda x, **more: layer(x, x, **more)

    return make


def _values():
    layer = kt.MultiHeadAttention(2, 4, value_dim=3)
    return lambda x, **more: layer(x, x, **more)


# name -> makes a function of an embedded text.
READERS = {
    "encoder": _alone("encoder"),
    "encoder-prenorm": _alone("encoder-prenorm"),
    "llama": _alone("block-llama"),
    "decoder-only": _alone("decoder-only"),
    "window": lambda: kt.TransformerBlock(**block(sliding_window=2)),
    "stack": _alone("stack"),
    "stack-alibi": _alone("stack-alibi"),
    "stack-relative": _alone("stack-relative"),
    "self-attentive": _alone("self-attentive"),
    "attention": _twice("attention"),
    "attention-values": lambda: _values(),
    "bahdanau": _twice("bahdanau"),
    "luong-dot": _twice("luong-dot"),
    "luong-general": _twice("luong-general"),
    "luong-concat": _twice("luong-concat"),
    "decoder": _twice("decoder"),
    "stack-cross": _twice("stack-cross"),
}
CAUSAL = ["llama", "decoder-only", "stack-relative", "decoder", "stack-cross"]
QUICK = ["llama", "stack-alibi", "self-attentive", "attention", "bahdanau", "decoder"]
POOLINGS = [n for n, e in EXAMPLES.items() if e.layer == "SequencePooling"]


def reader_model(reader):
    """Return a trainable model from ids to numbers."""
    ids = keras.Input((None,), dtype="int32")
    x = kt.PositionalEmbedding(9, 12, 8)(ids)
    return randomize(keras.Model(ids, keras.layers.Dense(1)(READERS[reader]()(x))))


def test_every_layer_with_attention_is_tried():
    # The blocks stand for the encoder and decoder names they are made of.
    tried = {"TransformerEncoder", "TransformerDecoder", "TransformerBlock"}
    tried |= {"TransformerStack", "MultiHeadAttention", "BahdanauAttention"}
    tried |= {"LuongAttention", "SelfAttentiveEmbedding"}
    attending = {e.layer for e in EXAMPLES.values() if e.scores is not None}
    assert attending == tried <= set(public_layers())


@pytest.mark.parametrize("reader", quick(READERS, QUICK))
def test_a_text_of_padding_is_finite_and_disturbs_no_other(reader):
    embed = kt.PositionalEmbedding(9, 12, 8)
    read = READERS[reader]()
    x = embed(IDS)
    alone = read(embed(twice(IDS)))
    for more in ({}, {"return_attention_scores": True}):
        both = read(x, **more)
        for result in arrays(both):
            assert np.isfinite(result).all()
        assert_close(array(first(both))[0], array(alone)[0])
    for score in arrays(both[1]):
        assert np.all(score[1] == 0)
        np.testing.assert_allclose(score[0].sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("reader", quick(CAUSAL, QUICK))
def test_left_padding_with_a_causal_mask_is_finite(reader, scores):
    # The first queries are padding and see nothing but padding.
    more = {"return_attention_scores": True} if scores else {}
    embed = kt.PositionalEmbedding(9, 12, 8)
    result = READERS[reader]()(embed(LEFT), **more)
    for values in arrays(result):
        assert np.isfinite(values).all()
    if scores:
        flat = keras.tree.flatten(result[1])
        own = flat[::2] if reader in ("decoder", "stack-cross") else flat
        for score in map(array, own):
            assert np.all(score[0, :, :2] == 0)
            np.testing.assert_allclose(score[0, :, 2].sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize(
    "reader", quick(READERS, ["llama", "attention-values", "bahdanau"])
)
def test_a_text_of_padding_changes_no_gradient(reader):
    gradients = gradients_of(reader_model(reader))
    targets = np.ones((2, 3, 1), "float32")
    weights = np.array([[1.0] * 3, [0.0] * 3], "float32")
    ours = gradients(IDS, targets, weights)
    for gradient in ours:
        assert np.isfinite(gradient).all()
    # A second text of weight zero without padding leaves the first by itself.
    alone = gradients(twice(IDS), targets, weights)
    assert_close(ours, alone)
    assert max(np.abs(gradient).max() for gradient in ours) > 1e-3
    # With weight one, and with padding on the left, nothing is NaN either.
    for ids in (IDS, LEFT):
        for gradient in gradients(ids, targets, weights * 0 + 1):
            assert np.isfinite(gradient).all()


def test_the_penalty_of_a_text_of_padding_has_a_finite_gradient():
    ids = keras.Input((None,), dtype="int32")
    x = kt.PositionalEmbedding(9, 12, 8)(ids)
    x = kt.SelfAttentiveEmbedding(3, attention_dim=4, penalty=1.0)(x)
    model = randomize(keras.Model(ids, keras.layers.Dense(1)(x)))
    for gradient in gradients_of(model)(IDS, np.ones((2, 3, 1), "float32")):
        assert np.isfinite(gradient).all()


def test_a_text_of_padding_is_finite_in_a_compiled_training_step():
    gradients = gradients_of(reader_model("decoder-only"), eager=False)
    targets = np.ones((2, 3, 1), "float32")
    weights = np.array([[1.0] * 3, [0.0] * 3], "float32")
    for gradient in gradients(IDS, targets, weights):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("name", POOLINGS)
def test_the_pooling_of_a_text_of_padding_is_zero(name):
    layer, (x,) = EXAMPLES[name].make(), EXAMPLES[name].arrays()
    mask = np.array([[True] * 3 + [False] * 2, [False] * 5])
    pooled = array(layer(x, mask=mask))
    assert np.all(pooled[1] == 0)
    assert_close(pooled[0], array(layer(x[:, :3]))[0])


def test_the_pooling_of_a_text_of_padding_has_a_finite_gradient():
    ids = keras.Input((None,), dtype="int32")
    x = kt.PositionalEmbedding(9, 12, 8)(ids)
    pooled = [EXAMPLES[name].make()(x) for name in POOLINGS]
    model = keras.Model(ids, keras.layers.Dense(1)(keras.layers.Concatenate()(pooled)))
    gradients = gradients_of(randomize(model))
    targets, weights = np.ones((2, 1), "float32"), np.array([1.0, 0.0], "float32")
    ours = gradients(IDS, targets, weights)
    for gradient in ours:
        assert np.isfinite(gradient).all()
    assert_close(ours, gradients(twice(IDS), targets, weights))


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("sign", [1, -1])
def test_pooling_takes_no_padding_for_a_token_however_large_the_numbers(name, sign):
    # Beyond any fill value that stands for minus infinity.
    layer, (x,) = EXAMPLES[name].make(), EXAMPLES[name].arrays()
    x = sign * (1e5 + np.abs(x))
    mask = np.array([[True] * 3 + [False] * 2] * 2)
    assert_close(layer(x, mask=mask), array(layer(x[:, :3])))


@pytest.mark.parametrize("name", quick(["decoder", "stack-cross"]))
@pytest.mark.parametrize("scores", [False, True])
def test_an_empty_source_is_finite(name, scores):
    targets, source = EXAMPLES[name].arrays()
    layer = EXAMPLES[name].make()
    mask = np.array([[True] * 5, [False] * 5])
    more = {"encoder_padding_mask": mask}
    if scores:
        more["return_attention_scores"] = True
    both = layer(targets, source, **more)
    for result in arrays(both):
        assert np.isfinite(result).all()
    alone = layer(twice(targets), twice(source))
    assert_close(array(first(both))[0], array(alone)[0])


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize(
    "name", quick(["attention", "attention-grouped", "attention-values"])
)
def test_one_query_that_may_look_nowhere_gets_only_the_bias(name, scores):
    example = EXAMPLES[name]
    layer, inputs = example.make(), example.arrays()
    layer(*inputs)
    randomize(layer)
    mask = np.ones((2, 3, 5), bool)
    mask[1, 2] = False
    result = layer(*inputs, attention_mask=mask, return_attention_scores=scores)
    output = array(first(result))
    assert_close(output[1, 2], array(layer.attention_output.bias))
    free = array(layer(*inputs))
    others = np.ones((2, 3), bool)
    others[1, 2] = False
    assert_close(output[others], free[others])
    if scores:
        assert np.all(array(result[1])[1, :, 2] == 0)


@pytest.mark.parametrize("name", quick(["bahdanau", "luong-dot", "luong-general"]))
def test_one_query_that_may_look_nowhere_gets_a_zero_context(name):
    layer, inputs = EXAMPLES[name].make(), EXAMPLES[name].arrays()
    mask = np.ones((2, 3, 5), bool)
    mask[1, 2] = False
    context, scores = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    assert np.all(array(context)[1, 2] == 0)
    assert np.all(array(scores)[1, 2] == 0)
    assert np.isfinite(array(context)).all()


def test_the_sentence_embedding_of_padding_is_zero():
    # The masked mean of nothing, in this library's own pooling.
    layer, (x,) = EXAMPLES["self-attentive"].make(), EXAMPLES["self-attentive"].arrays()
    mask = np.array([[True] * 5, [False] * 5])
    assert np.all(array(layer(x, mask=mask))[1] == 0)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(
    ("rank", "biased", "dtype"),
    quick(
        [
            (3, False, "float32"),
            (3, True, "float32"),
            (4, False, "float32"),
            (4, True, "float32"),
            (4, True, "float16"),
            (4, False, "bfloat16"),
        ],
        [(3, False, "float32"), (4, True, "float32")],
    ),
)
def test_attend_gives_exact_zeros_for_an_empty_row(dtype, weights, rank, biased):
    rng = np.random.default_rng(0)
    shape = (2, 3, 2, 4) if rank == 4 else (2, 3, 8)
    x = keras.ops.cast(rng.normal(size=shape), dtype)
    scores = (2, 2, 3, 3) if rank == 4 else (2, 3, 3)
    mask = np.ones(scores, bool)
    mask[1] = False
    bias = rng.normal(size=scores).astype("float32") if biased else None
    output, probabilities = attention.attend(
        x, x, x, mask=mask, bias=bias, return_weights=weights
    )
    assert np.all(array(output)[1] == 0)
    assert np.isfinite(array(output)).all()
    if weights:
        assert np.all(array(probabilities)[1] == 0)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", quick(["llama", "bahdanau"], ["bahdanau"]))
def test_a_text_of_padding_is_finite_in_half_precision(dtype, name):
    keras.config.set_dtype_policy(dtype)
    embed, read = kt.PositionalEmbedding(9, 12, 8), READERS[name]()
    both, alone = array(read(embed(IDS))), array(read(embed(twice(IDS))))
    assert np.isfinite(both).all()
    assert_close(both[0], alone[0], atol=1e-2)


@pytest.mark.parametrize("scale", [1e4])
@pytest.mark.parametrize(
    "name", quick(["attention", "bahdanau", "luong-dot", "encoder"], ["attention"])
)
def test_huge_inputs_under_a_mask_stay_finite(name, scale):
    # Scores beyond any fill value that stands for minus infinity.
    example = EXAMPLES[name]
    layer, inputs = example.make(), [scale * x for x in example.arrays()]
    text, _ = example.masks["attention_mask"]
    mask = np.ones((2, 3, inputs[-1].shape[1]), bool)
    mask[..., 1] = False
    mask[1, 2] = False
    result, scores = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    assert np.isfinite(array(result)).all()
    assert np.all(array(scores)[..., 1] == 0)


def test_a_cache_without_a_single_token_is_finite():
    decoder = EXAMPLES["decoder-only"].make()
    (x,) = EXAMPLES["decoder-only"].arrays()
    decoder(x)
    padding = np.array([[True] * 3, [False] * 3])
    cache = decoder.create_cache(2, 6)
    output, cache = decoder(x, padding_mask=padding, cache=cache)
    assert np.isfinite(array(output)).all()
    assert_close(array(output)[0], array(decoder(x))[0])
