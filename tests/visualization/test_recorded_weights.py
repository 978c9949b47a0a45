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


def multi_head(layer, query, key, mask):
    """`softmax(q k / sqrt(H))` of every head, (B, N, T, S); `mask` is (B, T, S)."""
    q = np.einsum("bte,enh->bnth", query, array(layer.query.kernel))
    k = np.einsum("bse,enh->bnsh", key, array(layer.key.kernel))
    q = q + array(layer.query.bias)[:, None]
    k = k + array(layer.key.bias)[:, None]
    scores = np.einsum("bnth,bnsh->bnts", q, k) / np.sqrt(q.shape[-1])
    return softmax(scores, mask[:, None])


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


def test_multiplicative_attention_equals_the_formula(states):
    target, source = states
    layer = kt.LuongAttention("general", name="general")
    layer.build(target.shape, source.shape)
    record = record_of(layer, target, source, value_mask=IDS != 0)
    scores = target @ array(layer.kernel) @ source.transpose(0, 2, 1)
    expected = softmax(scores, visible(IDS))
    np.testing.assert_allclose(record["general"], expected, atol=1e-5)


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
