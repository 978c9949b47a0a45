import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from cases.helpers import assert_close, randomize
from support import check_layer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 4, 8)).astype("float32")
SOURCE = RNG.normal(size=(2, 5, 8)).astype("float32")
PADDING = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "bool")
BIAS = RNG.normal(size=(1, 2, 4, 5)).astype("float32")


def test_it_keeps_the_laws_of_every_layer():
    check_layer("MultiHeadAttention")


@pytest.mark.parametrize(
    "settings",
    [
        dict(value_mask=PADDING),
        dict(use_causal_mask=True),
        dict(position_bias=BIAS),
        dict(value_mask=PADDING, use_causal_mask=True, position_bias=BIAS),
    ],
    ids=["padding", "causal", "bias", "all"],
)
def test_the_kernel_is_taken_at_inference_though_dropout_is_configured(
    settings, monkeypatch
):
    layer = kt.MultiHeadAttention(2, 4, dropout=0.5)
    layer.build(X.shape, SOURCE.shape)
    randomize(layer)
    calls = kernel_calls(monkeypatch)
    fused = layer(X, SOURCE, **settings)
    assert len(calls) == 1
    explicit, _ = layer(X, SOURCE, return_attention_scores=True, **settings)
    layer(X, SOURCE, training=True, **settings)
    assert len(calls) == 1
    assert_close(fused, explicit)


def kernel_calls(monkeypatch):
    """Return a list that grows with each call of the fused kernel."""
    calls, kernel = [], ops.dot_product_attention
    monkeypatch.setattr(
        ops,
        "dot_product_attention",
        lambda *args, **kwargs: calls.append(1) or kernel(*args, **kwargs),
    )
    return calls


@pytest.mark.parametrize("causal", [False, True])
def test_predict_takes_the_kernel_though_dropout_is_configured(causal, monkeypatch):
    inputs = keras.Input(X.shape[1:])
    layer = kt.TransformerBlock(8, 2, 12, dropout=0.5, causal=causal)
    model = randomize(keras.Model(inputs, layer(inputs)))
    calls = kernel_calls(monkeypatch)
    fused = model.predict(X, verbose=0)
    assert calls
    count = len(calls)
    explicit, _ = layer(X, return_attention_scores=True)
    assert len(calls) == count
    assert_close(fused, explicit)


def test_a_position_bias_as_slopes_equals_it_as_numbers():
    layer = randomize_attention()
    slopes = kt.AlibiBias(2)(ops.arange(4), ops.arange(5))
    numbers = -np.array([0.0625, 0.00390625])[:, None, None] * np.abs(
        np.subtract.outer(np.arange(4), np.arange(5))
    )
    expected = layer(X, SOURCE, position_bias=numbers[None].astype("float32"))
    assert_close(layer(X, SOURCE, position_bias=slopes), expected)


def test_far_distances_stay_apart_in_bfloat16():
    slopes = kt.AlibiBias(8, dtype="mixed_bfloat16")(ops.arange(1), ops.arange(2000))
    assert keras.backend.standardize_dtype(slopes["distances"].dtype) == "int32"
    assert len(np.unique(ops.convert_to_numpy(slopes["distances"]))) == 2000


def test_a_precomputed_source_equals_the_source():
    layer = randomize_attention()
    expected = layer(X, SOURCE, value_mask=PADDING)
    outputs, cache = layer(
        X,
        None,
        value_mask=PADDING,
        cache=layer.precompute(ops.convert_to_tensor(SOURCE)),
    )
    assert_close(outputs, expected)
    assert set(cache) == {"key", "value", "mask"}
    one = layer.precompute(ops.convert_to_tensor(SOURCE[:1]))
    with pytest.raises(ValueError, match="must have the same batch"):
        layer(X, None, cache=one)
    with pytest.raises(ValueError, match="Received: `value` beside it"):
        layer(X, 2 * SOURCE, cache=cache)
    with pytest.raises(ValueError, match="Received: `key` beside it"):
        layer(X, None, 2 * SOURCE, cache=cache)


@pytest.mark.parametrize("settings", [(2, 3), (4, 4), (2, 4, 3)])
def test_a_source_precomputed_by_another_layer_is_refused(settings):
    layer, other = kt.MultiHeadAttention(4, 4), kt.MultiHeadAttention(*settings)
    if settings == (4, 4):
        other = kt.MultiHeadAttention(4, 4, num_key_value_heads=2)
    for each in (layer, other):
        each.build(X.shape, SOURCE.shape)
    cache = other.precompute(ops.convert_to_tensor(SOURCE))
    with pytest.raises(ValueError, match="has 4 key/value heads of sizes 4 and 4, but"):
        layer(X, None, cache=cache)
    with pytest.raises(ValueError, match="must come from this layer's `precompute`"):
        layer(X, None, cache={"self_attention": cache})


def test_a_block_refuses_a_cache_whose_source_is_another_layers():
    block = kt.TransformerDecoder(8, 2, 12)
    block.build(X.shape, SOURCE.shape)
    cache = block.create_cache(len(X), 4, ops.convert_to_tensor(SOURCE))
    own = cache["self_attention"]
    one = X[:, :1]
    wrong = {key: value for key, value in own.items() if key != "mask"}
    with pytest.raises(ValueError, match="must come from its own `create_cache`"):
        block(one, cache={"self_attention": own, "cross_attention": wrong})
    other = kt.MultiHeadAttention(4, 2)
    other.build(X.shape, SOURCE.shape)
    source = other.precompute(ops.convert_to_tensor(SOURCE))
    with pytest.raises(ValueError, match="has 2 key/value heads of sizes 4 and 4"):
        block(one, cache={"self_attention": own, "cross_attention": source})


def test_a_source_is_precomputed_with_the_masks_that_key_and_value_carry():
    layer = randomize_attention()
    value = keras.layers.Masking()(np.where(PADDING[..., None], SOURCE, 0.0))
    masked = np.array([[True, False, True, True, True]] * len(SOURCE))
    key = keras.layers.Masking()(np.where(masked[..., None], SOURCE + 1, 0.0))
    for arguments in ({}, {"value_mask": PADDING, "key_mask": masked}):
        cache = layer.precompute(value, key, **arguments)
        outputs, _ = layer(X, None, cache=cache)
        assert_close(outputs, layer(X, value, key))


def test_what_depends_on_positions_has_no_precomputed_source():
    layer = kt.MultiHeadAttention(2, 4, sliding_window=2)
    layer(X, X)
    with pytest.raises(ValueError, match="has `sliding_window`, .* attends to itself"):
        layer.precompute(ops.convert_to_tensor(SOURCE))


@pytest.mark.parametrize("width", [1, 2])
def test_a_mask_beside_a_cache_is_as_wide_as_its_slots(width):
    one, mask = X[:, :1], np.ones((len(X), 1, width), bool)
    attention, stack = kt.MultiHeadAttention(2, 4), kt.TransformerStack(1, 8, 2, 12)
    attention(one, one)
    stack.build(one.shape)
    caches = attention.create_cache(len(X), 4), stack.create_cache(len(X), 4)
    with pytest.raises(ValueError, match="attention_mask"):
        attention(one, one, attention_mask=mask, cache=caches[0])
    with pytest.raises(ValueError, match="attention_mask"):
        stack(one, attention_mask=mask, cache=caches[1])


def randomize_attention():
    layer = kt.MultiHeadAttention(2, 4)
    layer.build(X.shape, SOURCE.shape)
    return randomize(layer)


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(num_heads=0), "`num_heads` must be a positive integer.*num_heads=0"),
        (dict(key_dim=2.0), "`key_dim` must be a positive integer.*key_dim=2.0"),
        (
            dict(dropout=1.0),
            "`dropout` must be a finite number.*dropout=1.0",
        ),
        (
            dict(dropout=-0.1),
            "`dropout` must be a finite number.*dropout=-0.1",
        ),
        (dict(num_key_value_heads=3), "multiple.*num_heads=4, num_key_value_heads=3"),
        (dict(key_dim=3, rotary=kt.RotaryEmbedding()), "even `key_dim`.*key_dim=3"),
        (dict(sliding_window=0), "`sliding_window` must be a positive integer or None"),
    ],
)
def test_wrong_settings_are_refused_in_the_constructor(settings, message):
    with pytest.raises(ValueError, match=message):
        kt.MultiHeadAttention(**{"num_heads": 4, "key_dim": 2, **settings})


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(attention_mask=np.ones((4, 5))), r"`attention_mask` must have the shape"),
        (
            dict(attention_mask=np.ones((2, 4, 4))),
            r"\(batch, query, key\) = .2, 4, 5.,",
        ),
        (
            dict(attention_mask=np.ones((3, 4, 5))),
            r"`attention_mask`.*shape \(3, 4, 5\)",
        ),
        (dict(attention_mask=np.ones((2, 3, 4, 5))), r"`attention_mask` .*broadcast"),
        (dict(position_bias=np.ones((3, 2, 4, 5))), r"`position_bias`.*\(3, 2, 4, 5\)"),
        (dict(position_bias=np.ones((4, 5))), r"`position_bias`.*these axes.*\(4, 5\)"),
        (dict(position_bias=np.ones((1, 2, 5, 5))), r"`position_bias`.*\(1, 2, 5, 5\)"),
        (dict(value_mask=np.ones((2, 1, 5))), r"`value_mask` must have the shape"),
        (dict(value_mask=np.where(PADDING, 0.0, -1e9)), "`value_mask` must be boolean"),
    ],
)
def test_wrong_masks_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        kt.MultiHeadAttention(2, 4)(X, SOURCE, **settings)


def test_masks_and_biases_of_another_batch_are_refused_for_one_text_too():
    layer, one = kt.MultiHeadAttention(2, 4), X[:1]
    for name in ("attention_mask", "position_bias"):
        with pytest.raises(ValueError, match=f"`{name}` must be broadcastable"):
            layer(one, one, **{name: np.ones((3, 2, 4, 4), "float32")})
    with pytest.raises(ValueError, match=r"to \(batch, query, key\) = \(1, 4, 4\),"):
        kt.BahdanauAttention(4)(one, one, attention_mask=np.ones((3, 4, 4)))


def test_a_cache_of_another_layer_is_refused():
    cache = kt.MultiHeadAttention(2, 4).create_cache(2, 6)
    with pytest.raises(ValueError, match="`num_key_value_heads` and head sizes"):
        kt.MultiHeadAttention(4, 4)(X, X, cache=cache)
