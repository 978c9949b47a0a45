"""Recorded weights beside those computed by hand from the layers' kernels."""

import numpy as np
import pytest

import keras_transformer as kt
from cases.helpers import array, randomize

IDS = np.array([[5, 6, 7, 0], [3, 4, 0, 0]])
TARGET = IDS[:, :3]


def softmax(scores, mask):
    exponentials = np.where(mask, np.exp(scores), 0.0)
    return exponentials / exponentials.sum(-1, keepdims=True)


def multi_head(layer, query, key, mask, turn=lambda heads: heads, bias=0.0):
    """`softmax(q k / sqrt(H) + bias)` of every head, (B, N, T, S); `mask` (B, T, S)."""
    q = np.einsum("bte,enh->bnth", query, array(layer.query.kernel))
    k = np.einsum("bse,enh->bnsh", key, array(layer.key.kernel))
    q = turn(q + array(layer.query.bias)[:, None])
    k = turn(k + array(layer.key.bias)[:, None])
    k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    scores = np.einsum("bnth,bnsh->bnts", q, k) / np.sqrt(q.shape[-1]) + bias
    return softmax(scores, mask[:, None])


def turned(heads):
    """Turn pairs (i, i + H/2) of (B, N, T, H) by t / 10000**(2 i / H)."""
    half = heads.shape[-1] // 2
    angles = np.arange(heads.shape[2])[:, None] / 10000 ** (np.arange(half) / half)
    first, second = heads[..., :half], heads[..., half:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate(
        [first * cos - second * sin, second * cos + first * sin], axis=-1
    )


def record_of(layer, *inputs, **arguments):
    randomize(layer)
    with kt.record_attention(layer) as record:
        layer(*inputs, **arguments)
    return {path: weights for path, (weights,) in record.items()}


def visible(ids):
    return (ids != 0)[:, None]  # (B, 1, S)


@pytest.fixture
def states():
    """Vectors of a target and of a source, which has padding."""
    rng = np.random.default_rng(0)
    shapes = (*TARGET.shape, 8), (*IDS.shape, 8)
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def test_self_attention_of_an_encoder_equals_the_formula(states):
    _, source = states
    encoder = kt.TransformerEncoder(8, 2, 12)
    encoder.build(source.shape)
    record = record_of(encoder, source, padding_mask=IDS != 0)
    weights = record["self_attention"]
    layer = encoder.self_attention
    expected = multi_head(layer, source, source, visible(IDS))
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)


def test_self_attention_of_a_decoder_sees_no_future(states):
    target, source = states
    decoder = kt.TransformerDecoder(8, 2, 12)
    decoder.build(target.shape, source.shape)
    record = record_of(decoder, target, source, padding_mask=TARGET != 0)
    mask = np.tri(3, dtype=bool) & visible(TARGET)
    expected = multi_head(decoder.self_attention, target, target, mask)
    np.testing.assert_allclose(record["self_attention"], expected, atol=1e-5)


def test_cross_attention_equals_the_formula(states):
    target, source = states
    layer = kt.MultiHeadAttention(2, 4, name="cross_attention")
    layer.build(target.shape, source.shape)
    record = record_of(layer, target, source, value_mask=IDS != 0)
    expected = multi_head(layer, target, source, visible(IDS))
    np.testing.assert_allclose(record["cross_attention"], expected, atol=1e-5)


def test_additive_attention_equals_the_formula(states):
    target, source = states
    layer = kt.BahdanauAttention(4, name="additive")
    layer.build(target.shape, source.shape)
    record = record_of(layer, target, source, value_mask=IDS != 0)
    query, key = target @ array(layer.query.kernel), source @ array(layer.key.kernel)
    scores = np.tanh(query[:, :, None] + key[:, None]) @ array(layer.score_weight)
    expected = softmax(scores, visible(IDS))
    np.testing.assert_allclose(record["additive"], expected, atol=1e-5)


def test_grouped_rotary_attention_in_a_window_equals_the_formula(states):
    _, source = states
    layer = kt.MultiHeadAttention(
        4,
        4,
        num_key_value_heads=2,
        rotary=kt.RotaryEmbedding(),
        sliding_window=2,
        name="heads",
    )
    layer.build(source.shape, source.shape)
    record = record_of(layer, source, source, value_mask=IDS != 0)
    distances = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    mask = (distances < 2) & visible(IDS)
    allowed = mask.any(-1)  # a query of which all keys are hidden has no weights
    with np.errstate(invalid="ignore"):
        expected = multi_head(layer, source, source, mask, turned)
    weights = record["heads"].transpose(0, 2, 1, 3)
    np.testing.assert_allclose(
        weights[allowed], expected.transpose(0, 2, 1, 3)[allowed], atol=1e-5
    )
    assert not weights[~allowed].any()


def test_attention_with_alibi_equals_the_formula(states):
    _, source = states
    stack = kt.TransformerStack(1, 8, 2, 12, position_bias=kt.AlibiBias(2))
    stack.build(source.shape)
    record = record_of(stack, source, padding_mask=IDS != 0)
    distances = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    bias = -np.array([2.0**-4, 2.0**-8])[:, None, None] * distances
    layer = stack.blocks[0].self_attention
    expected = multi_head(layer, source, source, visible(IDS), bias=bias)
    (weights,) = record.values()
    np.testing.assert_allclose(weights, expected, atol=1e-5)


def test_attention_with_learned_distances_equals_the_formula(states):
    _, source = states
    bias = kt.RelativePositionBias(2, num_buckets=8, max_distance=16)
    stack = kt.TransformerStack(1, 8, 2, 12, position_bias=bias)
    stack.build(source.shape)
    record = record_of(stack, source, padding_mask=IDS != 0)
    # Two-way: keys behind come in the second half; under 2 each distance has its own.
    distances = np.subtract.outer(np.arange(4), np.arange(4))  # query - key
    buckets = np.minimum(np.abs(distances), 2) + 4 * (distances < 0)
    table = array(bias.weights[0])  # (buckets, heads)
    layer = stack.blocks[0].self_attention
    learned = table[buckets].transpose(2, 0, 1)
    expected = multi_head(layer, source, source, visible(IDS), bias=learned)
    (weights,) = record.values()
    np.testing.assert_allclose(weights, expected, atol=1e-5)


@pytest.mark.parametrize("score", ["dot", "general", "concat"])
def test_multiplicative_attention_equals_the_formula(score, states):
    target, source = states
    layer = kt.LuongAttention(score, units=4 if score == "concat" else None, name="a")
    layer.build(target.shape, source.shape)
    record = record_of(layer, target, source, value_mask=IDS != 0)
    if score == "concat":
        both = np.concatenate(
            np.broadcast_arrays(target[:, :, None], source[:, None]), axis=-1
        )
        scores = np.tanh(both @ array(layer.kernel)) @ array(layer.score_weight)
    else:
        kernel = array(layer.kernel) if score == "general" else np.eye(8)
        scores = target @ kernel @ source.transpose(0, 2, 1)
    expected = softmax(scores, visible(IDS))
    np.testing.assert_allclose(record["a"], expected, atol=1e-5)


def test_the_annotation_matrix_equals_the_formula(states):
    _, source = states
    layer = kt.SelfAttentiveEmbedding(3, 4, name="views")
    layer.build(source.shape)
    record = record_of(layer, source, mask=IDS != 0)
    hidden = np.tanh(source @ array(layer.attention.kernel))
    scores = (hidden @ array(layer.annotation.kernel)).transpose(0, 2, 1)
    np.testing.assert_allclose(
        record["views"], softmax(scores, visible(IDS)), atol=1e-5
    )
