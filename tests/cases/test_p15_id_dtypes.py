"""P15: ids and positions are whole numbers, however they come in.

Sources: keras-team/keras#19332; deepspeedai/DeepSpeed#5701; pytorch/pytorch#116598.
"""

import keras
import numpy as np
import pytest

import keras_transformer as kt

from .examples import block, quick
from .helpers import array, assert_close, copy_weights, randomize
from .ready_models import READY, batch, compiled

VOCABULARY = 4000
IDS = np.array([[257, 2909, 5], [2909, 1025, 257]])
POLICIES = ["float32", "mixed_float16", "mixed_bfloat16"]
ENCODINGS = ["learned", "sinusoidal"]


def embedding(policy, encoding="learned"):
    embed = kt.PositionalEmbedding(
        9, VOCABULARY, 4, encoding=encoding, dtype=policy, pad_id=None
    )
    embed(IDS.astype("int32"))
    return randomize(embed)


def equal_or_refused(give, expected):
    """Floats give what integers give, or an error that tells the way out."""
    try:
        ours = give()
    except ValueError as error:
        assert "int32" in str(error)
    else:
        assert_close(ours, expected, atol=0)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_ids_through_an_input_without_dtype_are_not_rounded(policy, encoding):
    expected = array(embedding(policy, encoding)(IDS.astype("int32")))

    def give():
        inputs = keras.Input((None,))
        embed = kt.PositionalEmbedding(
            9, VOCABULARY, 4, encoding=encoding, dtype=policy, pad_id=None
        )
        model = keras.Model(inputs, embed(inputs))
        randomize(model)
        return model(IDS.astype("float32"))

    equal_or_refused(give, expected)


@pytest.mark.parametrize("policy", quick(POLICIES[1:], POLICIES[2:]))
def test_ids_of_floats_are_not_rounded_under_a_global_policy(policy):
    keras.config.set_dtype_policy(policy)

    def model(inputs):
        embed = kt.PositionalEmbedding(9, VOCABULARY, 8)
        encoder = kt.TransformerEncoder(**block())
        return keras.Model(inputs, encoder(embed(inputs)))

    whole = randomize(model(keras.Input((None,), dtype="int32")))
    expected = array(whole(IDS.astype("int32")))

    def give():
        floats = copy_weights(whole, model(keras.Input((None,))))
        return floats(IDS.astype("float32"))

    equal_or_refused(give, expected)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eager_ids_of_floats_are_not_rounded(policy, dtype):
    embed = embedding(policy)
    expected = array(embed(IDS.astype("int32")))
    equal_or_refused(lambda: embed(IDS.astype(dtype)), expected)


@pytest.mark.parametrize("parts", [0.5, np.nan, np.inf])
def test_ids_and_positions_with_fractions_are_refused(parts):
    embed, encode = embedding("float32"), kt.SinusoidalEncoding()
    whole = np.array([[0.0, 1.0, 2.0]], "float32")
    broken = np.array([[0.0, parts, 2.0]], "float32")
    x = np.ones((1, 3, 4), "float32")
    attention = kt.MultiHeadAttention(2, 4, rotary=kt.RotaryEmbedding())
    for call in (
        embed,
        lambda positions: embed(IDS[:1], positions=positions),
        lambda positions: embed(IDS[:1], start_index=positions[0, 1]),
        lambda positions: encode(x, positions=positions),
        lambda positions: encode(x, start_index=positions[0, 1]),
        lambda positions: attention(x, x, positions=positions),
        lambda positions: kt.AlibiBias(2)(positions, positions),
    ):
        call(whole)
        with pytest.raises(ValueError, match="must be integers"):
            call(broken)


@pytest.mark.parametrize("policy", quick(POLICIES, POLICIES[2:]))
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("dtype", ["uint16", "int16", "int64", "uint32"])
def test_ids_of_every_whole_dtype_give_the_same(policy, encoding, dtype):
    embed = embedding(policy, encoding)
    expected = array(embed(IDS.astype("int32")))
    assert_close(embed(IDS.astype(dtype)), expected, atol=0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "int64"])
@pytest.mark.parametrize("encoding", quick(ENCODINGS, ["learned"]))
def test_masks_of_ids_of_every_whole_dtype_are_the_same(encoding, dtype):
    ids = np.array([[5, 100, 0, 0]])
    embed = kt.PositionalEmbedding(9, 200, 8, encoding=encoding)
    encoder = kt.TransformerEncoder(**block())
    expected = array(encoder(embed(ids.astype("int32"))))
    assert_close(encoder(embed(ids.astype(dtype))), expected, atol=0)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint16"])
def test_lists_and_symbolic_inputs_of_whole_numbers_work(dtype):
    embed = embedding("float32")
    inputs = keras.Input((None,), dtype=dtype)
    model = keras.Model(inputs, embed(inputs))
    expected = array(embed(IDS.astype("int32")))
    assert_close(model(IDS.astype(dtype)), expected, atol=0)
    assert_close(embed(keras.ops.convert_to_tensor(IDS.tolist())), expected, atol=0)


@pytest.mark.parametrize("policy", ["mixed_bfloat16"])
def test_a_text_classifier_of_float_inputs_predicts_what_whole_inputs_predict(policy):
    keras.config.set_dtype_policy(policy)
    embed = kt.PositionalEmbedding(9, VOCABULARY, 8)
    encoder = kt.TransformerEncoder(**block())
    expected = array(encoder(embed(IDS.astype("int32"))))

    def give():
        model = keras.Sequential([keras.Input((None,)), embed, encoder])
        return model.predict(IDS.astype("float32"), verbose=0).astype("float32")

    try:
        ours = give()
    except ValueError as error:
        assert "int32" in str(error)
    else:
        # Compiled and eager half-precision sums differ in the last place only.
        assert_close(ours, expected, atol=5e-2)


# Positions of 257 and more are no longer all different in bfloat16.
FAR = np.array([256, 257, 2909], "int32")
HEADS = np.random.default_rng(0).normal(size=(2, 3, 2, 4)).astype("float32")


ZEROS = np.zeros((2, 3, 8), "float32")
TOKENS = np.full((2, 3), 5, "int32")


def embeds(encoding):
    def make(policy):
        layer = kt.PositionalEmbedding(3000, 12, 4, encoding=encoding, dtype=policy)
        layer.build((2, 3))
        randomize(layer)
        return lambda p: layer(TOKENS, positions=p)

    return make


def relative(policy):
    layer = kt.RelativePositionBias(2, num_buckets=8, max_distance=12, dtype=policy)
    layer.build((3,), (3,))
    randomize(layer)
    return lambda p: layer(p, p)


def attention(policy):
    layer = kt.MultiHeadAttention(2, 4, rotary=kt.RotaryEmbedding(), dtype=policy)
    layer.build((2, 3, 8), (2, 3, 8))
    randomize(layer)
    x = HEADS.reshape(2, 3, 8)
    return lambda p: layer(x, x, positions=p)


def stack(policy):
    layer = kt.TransformerStack(
        **block(num_layers=1, rotary=kt.RotaryEmbedding()), dtype=policy
    )
    layer.build((2, 3, 8))
    randomize(layer)
    return lambda p: layer(HEADS.reshape(2, 3, 8), positions=p)


# name -> makes, for a policy, a function of positions
LAYERS = {
    "sinusoidal": lambda policy: (
        lambda p: kt.SinusoidalEncoding(dtype=policy)(ZEROS, positions=p)
    ),
    "rotary": lambda policy: (
        lambda p: kt.RotaryEmbedding(dtype=policy)(HEADS, positions=p)
    ),
    "learned": embeds("learned"),
    "fixed": embeds("sinusoidal"),
    "alibi": lambda policy: lambda p: kt.AlibiBias(2, dtype=policy)(p, p)["distances"],
    "relative": relative,
    "attention": attention,
    "stack": stack,
}


@pytest.mark.parametrize("policy", quick(POLICIES, POLICIES[2:]))
@pytest.mark.parametrize("layer", LAYERS)
def test_positions_are_not_rounded(layer, policy):
    call = LAYERS[layer](policy)
    expected = array(call(FAR))
    for dtype in ("int64", "uint16"):
        assert_close(call(FAR.astype(dtype)), expected, atol=0)
    equal_or_refused(lambda: call(FAR.astype("float32")), expected)


@pytest.mark.parametrize("policy", quick(POLICIES[1:], POLICIES[2:]))
@pytest.mark.parametrize("layer", ["sinusoidal", "rotary", "learned", "fixed"])
def test_neighbouring_high_positions_differ_in_half_precision(layer, policy):
    ours = array(LAYERS[layer](policy)(FAR))
    assert_close(ours, array(LAYERS[layer]("float32")(FAR)), atol=2e-2)
    if layer != "rotary":  # whose inputs differ anyway
        rows = ours[0]
        assert np.abs(rows[1:] - rows[:-1]).max(-1).min() > 1e-2


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_positions_counted_by_a_layer_are_not_rounded(encoding):
    ids = np.full((1, 300), 5, "int32")
    policy = "mixed_bfloat16"
    half = kt.PositionalEmbedding(300, 12, 4, encoding=encoding, dtype=policy)
    full = kt.PositionalEmbedding(300, 12, 4, encoding=encoding)
    half(ids)
    full(ids)
    copy_weights(randomize(full), half)
    assert_close(half(ids), array(full(ids)), atol=2e-2)


def test_distances_of_long_texts_are_not_rounded():
    policy = "mixed_bfloat16"
    positions = np.arange(300, dtype="int32")
    distances = kt.AlibiBias(2, dtype=policy)(positions, positions)["distances"]
    expected = np.abs(positions[:, None] - positions[None])
    assert np.array_equal(np.squeeze(array(distances)), expected)
    half = kt.RelativePositionBias(2, num_buckets=32, dtype=policy)
    full = kt.RelativePositionBias(2, num_buckets=32)
    for layer in (half, full):
        layer.build((300,), (300,))
    expected = array(copy_weights(randomize(half), full)(positions, positions))
    assert_close(half(positions, positions), expected, atol=1e-2)


def test_labels_of_every_dtype_give_the_same_loss():
    policy = "mixed_bfloat16"
    keras.config.set_dtype_policy(policy)
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            kt.PositionalEmbedding(9, VOCABULARY, 8),
            kt.TransformerDecoder(**block(cross_attention=False)),
            keras.layers.Dense(VOCABULARY, dtype="float32"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, run_eagerly=True)
    ids = IDS.astype("int32")
    losses = [
        float(model.test_on_batch(ids, IDS.astype(dtype)))
        for dtype in ("int32", "int64", "float32")
    ]
    assert losses[0] == losses[1] == losses[2]


@pytest.mark.parametrize("name", quick(READY, list(READY)[:2]))
def test_labels_of_every_dtype_give_a_classifier_the_same_loss(name):
    model = compiled(READY[name](), run_eagerly=True)
    ids, labels = batch(model)
    losses = [
        float(model.test_on_batch(ids, labels.astype(dtype)))
        for dtype in ("int32", "int64", "float32", "float64")
    ]
    assert losses == losses[:1] * 4
