"""P7: attention scores come whenever they are asked for, in the right shape.

Sources: keras-team/keras#19303, #20802, #21601; keras-team/keras-hub#2055.
"""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.ops.cache import create_cache

from .examples import CORE, attending, block, quick, shape
from .helpers import array, arrays, assert_close, randomize

ATTENDING = attending()


def built(name, **more):
    layer = ATTENDING[name].make(**more)
    inputs = ATTENDING[name].arrays()
    layer.build(*[x.shape for x in inputs])
    return randomize(layer), inputs


def assert_scores(name, scores, **sizes):
    """Check nesting, shapes and that the rows are probabilities."""
    wanted = ATTENDING[name].scores
    texts = keras.tree.flatten(wanted)
    assert len(keras.tree.flatten(scores)) == len(texts)
    assert isinstance(scores, list) == isinstance(wanted, list)
    for text, score in zip(texts, keras.tree.flatten(scores), strict=True):
        score = score if isinstance(score, np.ndarray) else array(score)
        assert score.shape == shape(text, **sizes)
        np.testing.assert_allclose(score.sum(-1), 1, atol=1e-5)
        assert np.all(score >= 0)


@pytest.mark.parametrize("name", quick(ATTENDING))
def test_scores_have_their_shape_and_change_no_output(name):
    layer, inputs = built(name)
    before = layer(*inputs)
    assert not isinstance(before, (tuple, list))
    output, scores = layer(*inputs, return_attention_scores=True)
    assert_scores(name, scores)
    assert_close(output, before)
    after = layer(*inputs)
    assert not isinstance(after, (tuple, list))
    assert_close(after, before, atol=0)


@pytest.mark.parametrize("setting", quick(["enable", "disable"], ["enable"]))
@pytest.mark.parametrize("name", [name for name in CORE if name in ATTENDING])
def test_scores_come_whatever_the_global_flash_setting(name, setting):
    layer, inputs = built(name)
    try:
        getattr(keras.config, f"{setting}_flash_attention")()
        output, scores = layer(*inputs, return_attention_scores=True)
        assert_close(layer(*inputs), output)
    finally:
        keras.config.enable_flash_attention()
    assert_scores(name, scores)


@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize("name", ["attention", "attention-grouped"])
def test_a_flash_setting_gives_scores_or_says_why_not(name, flash):
    try:
        layer, inputs = built(name, flash_attention=flash)
        result = layer(*inputs, return_attention_scores=True)
    except (ValueError, RuntimeError) as error:
        assert flash and "flash" in str(error).lower()
    else:
        assert_scores(name, result[1])


@pytest.mark.parametrize("name", quick(ATTENDING))
def test_symbolic_scores_have_the_shapes_of_real_ones(name):
    example = ATTENDING[name]
    output, scores = example.make()(*example.symbolic(), return_attention_scores=True)
    none = {"B": None, "T": None, "S": None}
    assert tuple(output.shape) == shape(example.output, **none)
    texts = keras.tree.flatten(example.scores)
    flat = keras.tree.flatten(scores)
    assert len(texts) == len(flat)
    for text, score in zip(texts, flat, strict=True):
        assert tuple(score.shape) == shape(text, **none)


@pytest.mark.parametrize("name", ["attention", "decoder", "bahdanau"])
def test_static_symbolic_scores_have_static_shapes(name):
    example = ATTENDING[name]
    inputs = [keras.Input(x.shape[1:]) for x in example.arrays()]
    _, scores = example.make()(*inputs, return_attention_scores=True)
    texts, flat = keras.tree.flatten(example.scores), keras.tree.flatten(scores)
    for text, score in zip(texts, flat, strict=True):
        assert tuple(score.shape) == shape(text, B=None)


def test_predict_of_a_model_of_all_layers_gives_the_scores_of_eager_calls():
    # One model for all, since each compiled function costs seconds.
    inputs, outputs, real, layers = {}, {}, {}, {}
    for name in filter(ATTENDING.get, CORE):
        example = ATTENDING[name]
        symbolic = example.symbolic()
        layers[name] = example.make()
        _, scores = layers[name](*symbolic, return_attention_scores=True)
        outputs[name] = keras.tree.flatten(scores)
        for index, (tensor, values) in enumerate(
            zip(symbolic, example.arrays(), strict=True)
        ):
            inputs[f"{name}_{index}"] = tensor
            real[f"{name}_{index}"] = values
    model = keras.Model(inputs, outputs)
    predicted = model.predict(real, verbose=0)
    for name, layer in layers.items():
        eager = layer(*ATTENDING[name].arrays(), return_attention_scores=True)[1]
        assert_scores(name, keras.tree.pack_sequence_as(eager, predicted[name]))
        assert_close(predicted[name], arrays(eager))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("attention", ["value_mask", "attention_mask"]),
        ("luong-general", ["key_mask"]),
        ("self-attentive", ["mask"]),
        ("encoder", ["padding_mask", "attention_mask"]),
        ("decoder", ["encoder_padding_mask", "cross_attention_mask"]),
        ("stack", ["padding_mask"]),
    ],
)
def test_rows_over_allowed_keys_sum_to_one(name, arguments):
    layer, inputs = built(name)
    for argument in arguments:
        text, index = ATTENDING[name].masks[argument]
        mask = np.ones(shape(text), bool)
        mask[..., 2] = False
        _, scores = layer(*inputs, return_attention_scores=True, **{argument: mask})
        for score in keras.tree.flatten(scores):
            np.testing.assert_allclose(array(score).sum(-1), 1, atol=1e-5)
        # In a pair, the second scores are those of the source.
        items = scores if isinstance(scores, list) else [scores]
        for item in items:
            hidden = item[index] if isinstance(item, tuple) else item
            assert np.all(array(hidden)[..., 2] == 0)


@pytest.mark.parametrize("name", quick(["decoder", "stack-cross"]))
def test_a_decoder_gives_scores_over_itself_and_over_its_source(name):
    layer = ATTENDING[name].make()
    targets, source = ATTENDING[name].arrays(T=3, S=5)
    _, scores = layer(targets, source, return_attention_scores=True)
    assert_scores(name, scores, T=3, S=5)
    for pair in scores if isinstance(scores, list) else [scores]:
        own, cross = map(array, pair)
        assert own.shape[-2:] == (3, 3)
        assert cross.shape[-2:] == (3, 5)


@pytest.mark.parametrize("name", ["attention", "encoder", "decoder", "bahdanau"])
def test_scores_in_training_are_those_before_dropout(name):
    layer, inputs = built(name, dropout=0.5)
    _, scores = layer(*inputs, return_attention_scores=True, training=True)
    for score in keras.tree.flatten(scores):
        np.testing.assert_allclose(array(score).sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize(
    "name", quick(["attention", "attention-values", "attention-grouped"])
)
def test_the_output_is_the_scores_times_the_values(name):
    layer, inputs = built(name)
    output, scores = layer(*inputs, return_attention_scores=True)
    values = array(layer.value(inputs[1]))  # (B, S, K, H)
    groups = scores.shape[1] // values.shape[2]
    mixed = np.einsum("bnts,bsnh->btnh", array(scores), np.repeat(values, groups, 2))
    assert_close(output, array(layer.attention_output(mixed.astype("float32"))))


def test_our_scores_are_those_of_keras():
    query, value = ATTENDING["attention"].arrays()
    theirs = keras.layers.MultiHeadAttention(2, 4)
    theirs(query, value)
    randomize(theirs)
    ours = kt.MultiHeadAttention(2, 4)
    ours(query, value)
    ours.set_weights(theirs.get_weights())
    more = {"return_attention_scores": True}
    assert_close(ours(query, value, **more), theirs(query, value, **more))


@pytest.mark.parametrize("length", [1, 3])
def test_cached_calls_give_scores_over_the_whole_cache(length):
    layer = kt.MultiHeadAttention(2, 4)
    x = np.random.default_rng(0).normal(size=(2, length, 8)).astype("float32")
    layer(x, x)
    cache = create_cache(2, 6, 2, 4)
    result = layer(
        x, x, cache=cache, use_causal_mask=True, return_attention_scores=True
    )
    assert len(result) == 3
    scores = array(result[1])
    assert scores.shape == (2, 2, length, 6)
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-5)
    assert np.all(scores[..., length:] == 0)
    assert isinstance(result[2], dict)


@pytest.mark.parametrize("name", quick(["decoder-only", "stack"], ["decoder-only"]))
def test_cached_blocks_give_scores_too(name):
    layer = ATTENDING[name].make(**({"causal": True} if name != "decoder-only" else {}))
    (x,) = ATTENDING[name].arrays()
    layer(x)
    result = layer(x, cache=layer.create_cache(2, 6), return_attention_scores=True)
    assert len(result) == 3
    for score in arrays(result[1]):
        assert score.shape == (2, 2, 3, 6)
        np.testing.assert_allclose(score.sum(-1), 1, atol=1e-5)


class Reader(keras.layers.Layer):
    """A user's layer that uses the scores, inside a model that is compiled."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def build(self, shape):
        self.inner.build(shape)

    def call(self, inputs):
        output, scores = self.inner(inputs, return_attention_scores=True)
        return output + ops.mean(scores)


def test_scores_can_be_used_inside_a_trained_model():
    model = keras.Sequential([Reader(kt.TransformerEncoder(**block()))])
    model.compile("sgd", "mse")
    (x,) = ATTENDING["encoder"].arrays()
    assert np.isfinite(model.train_on_batch(x, np.zeros_like(x)))


@pytest.mark.parametrize("name", [name for name in CORE if name in ATTENDING])
def test_recorded_scores_are_the_returned_ones(name):
    example = ATTENDING[name]
    symbolic = example.symbolic()
    layer = example.make(name="chosen")
    model = keras.Model(symbolic, layer(*symbolic))
    inputs = example.arrays()
    with kt.record_attention(model) as record:
        output = model(inputs)
    recorded = [weights for path in record for weights in record[path]]
    assert all(path.split("/")[0] == "chosen" for path in record)
    expected, scores = layer(*inputs, return_attention_scores=True)
    assert_close(output, expected)
    assert len(recorded) == len(keras.tree.flatten(scores))
    for score in arrays(scores):
        assert any(
            one.shape == score.shape and np.allclose(one, score, atol=1e-5)
            for one in recorded
        )
