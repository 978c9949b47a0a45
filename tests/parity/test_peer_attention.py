"""What the test suite of Keras's multi-head and grouped attention checks.

README.md in this folder says which of their tests each of these answers.
"""

import warnings

import keras
import numpy as np
import pytest
from keras import ops
from parity_layers import (
    TWO,
    attention,
    built,
    grouped,
    symbolic,
)
from parity_tools import (
    BATCH,
    SOURCE,
    TIME,
    WIDTH,
    assert_same,
    numbers,
    randomize,
    to_numpy,
)

import keras_transformer as kt
from cases.helpers import slow_on


@pytest.mark.parametrize(
    ("heads", "output_width", "key_width"),
    [((2, 2), None, None), ((2, 2), 5, 9), ((4, 2), None, 9), ((4, 1), None, None)],
)
def test_the_computed_output_shape_is_that_of_the_outputs(
    heads, output_width, key_width
):
    layer = kt.MultiHeadAttention(
        heads[0], 4, num_key_value_heads=heads[1], output_shape=output_width
    )
    query, value = TWO
    key = None if key_width is None else (BATCH, SOURCE, key_width)
    outputs = layer(
        np.ones(query, "float32"),
        np.ones(value, "float32"),
        None if key is None else np.ones(key, "float32"),
    )
    expected = (BATCH, TIME, output_width or WIDTH)
    assert tuple(outputs.shape) == expected
    assert tuple(layer.compute_output_shape(query, value, key)) == expected
    as_lists = [None if shape is None else list(shape) for shape in (query, value, key)]
    assert tuple(layer.compute_output_shape(*as_lists)) == expected


def test_keys_and_values_of_different_lengths_are_refused():
    value, key = numbers(1, BATCH, SOURCE, WIDTH), numbers(2, BATCH, 3, WIDTH)
    query = numbers(0, BATCH, TIME, WIDTH)
    for layer in (attention(), grouped(), kt.BahdanauAttention(WIDTH)):
        with pytest.raises(ValueError, match="key"):
            layer(query, value, key)


@pytest.mark.parametrize("bad", [0, -2, 1.5])
@pytest.mark.parametrize(
    "argument", ["num_heads", "key_dim", "value_dim", "num_key_value_heads"]
)
def test_sizes_that_are_no_positive_integers_are_refused(argument, bad):
    sizes = {"num_heads": 4, "key_dim": 4} | {argument: bad}
    with pytest.raises(ValueError, match=argument):
        kt.MultiHeadAttention(**sizes)


@pytest.mark.parametrize("bad", [0, -3, 2.5])
def test_a_window_that_is_no_positive_integer_is_refused(bad):
    with pytest.raises(ValueError, match="sliding_window"):
        attention(sliding_window=bad)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="num_key_value_heads"):
        kt.MultiHeadAttention(4, 4, num_key_value_heads=3)


@pytest.mark.parametrize("bad", [8.0, "8"])
def test_an_output_shape_that_is_no_size_is_refused(bad):
    with pytest.raises(ValueError, match="output_shape"):
        attention(output_shape=bad)


def test_an_unknown_initializer_is_refused():
    with pytest.raises(ValueError, match="Invalid"):
        attention(kernel_initializer="Invalid")


@pytest.mark.parametrize("make", [attention, grouped])
def test_one_initializer_gives_each_projection_its_own_values(make):
    layer = make(kernel_initializer=keras.initializers.GlorotUniform())
    layer.build(*TWO)
    kernels = [
        to_numpy(projection.kernel).reshape(-1)[:20]
        for projection in (
            layer.query,
            layer.key,
            layer.value,
            layer.attention_output,
        )
    ]
    for index, kernel in enumerate(kernels):
        for other in kernels[:index]:
            assert np.abs(kernel - other).max() > 1e-3


def test_identity_projections_in_half_precision_give_the_softmax_by_hand():
    """With one-hot queries and keys each query prefers its own key by e^(1/2)."""
    size = 4
    layer = grouped(dtype="float16")
    one_hot = np.eye(size, dtype="float32")[None]
    value = np.arange(size * size, dtype="float32").reshape(1, size, size) / 20.0
    layer.build(one_hot.shape, value.shape, one_hot.shape)
    for projection in (layer.query, layer.key, layer.value):
        heads = projection.kernel.shape[1]
        projection.kernel.assign(np.repeat(np.eye(size)[:, None], heads, axis=1))
    # Each head hands on a quarter: the output is the mean of the equal heads.
    layer.attention_output.kernel.assign(np.repeat(np.eye(size)[None], 4, axis=0) / 4)
    own, other = np.exp(0.5), 1.0
    weights = (other + (own - other) * np.eye(size)) / (own + (size - 1) * other)
    outputs, scores = layer(one_hot, value, one_hot, return_attention_scores=True)
    expected_scores = np.broadcast_to(weights, (1, 4, size, size))
    assert_same(ops.cast(scores, "float32"), expected_scores, tolerance=1e-2)
    expected = weights[None] @ value
    assert_same(ops.cast(outputs, "float32"), expected, tolerance=1e-2)
    fused = layer(one_hot, value, one_hot)
    assert_same(ops.cast(fused, "float32"), expected, tolerance=1e-2)


def test_constraints_and_regularizers_reach_every_projection():
    layer = attention(
        kernel_constraint="non_neg",
        bias_constraint="unit_norm",
        kernel_regularizer="l2",
        bias_regularizer="l1",
    )
    layer.build(*TWO)
    for part in (layer.query, layer.key, layer.value, layer.attention_output):
        assert isinstance(part.kernel.constraint, keras.constraints.NonNeg)
        assert isinstance(part.bias.constraint, keras.constraints.UnitNorm)
        assert isinstance(part.kernel.regularizer, keras.regularizers.L2)
        assert isinstance(part.bias.regularizer, keras.regularizers.L1)
    assert len(layer.losses) == 8


def test_low_rank_adapters_train_save_and_load(tmp_path):
    layer = attention(use_bias=False)
    entrances = symbolic(TWO)
    model = keras.Model(entrances, layer(*entrances))
    for part in (layer.query, layer.key, layer.value):
        part.enable_lora(2)
    assert len(layer.trainable_weights) == 2 * 3 + 1
    assert len(layer.non_trainable_weights) == 3
    feed = [numbers(1, *TWO[0]), numbers(2, *TWO[1])]
    frozen = [to_numpy(weight) for weight in layer.non_trainable_weights]
    before = to_numpy(model(feed))
    model.compile("sgd", loss="mse")
    model.train_on_batch(feed, numbers(3, BATCH, TIME, WIDTH))
    for start, weight in zip(frozen, layer.non_trainable_weights, strict=True):
        np.testing.assert_array_equal(start, to_numpy(weight))
    assert np.abs(to_numpy(model(feed)) - before).max() > 1e-5

    # Saving merges the adapters, so that the optimizer's state does not fit.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save(tmp_path / "model.keras")
        loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_same(loaded(feed), model(feed))

    plain_layer = attention(use_bias=False)
    plain = keras.Model(entrances, plain_layer(*entrances))
    model.save_weights(tmp_path / "model.weights.h5")
    plain.load_weights(tmp_path / "model.weights.h5")
    assert_same(plain(feed), model(feed))

    randomize(plain_layer, 4)
    plain.save_weights(tmp_path / "plain.weights.h5")
    model.load_weights(tmp_path / "plain.weights.h5")
    assert_same(model(feed), plain(feed))


@pytest.mark.parametrize("make", [attention, grouped])
def test_symbolic_scores_have_the_shapes_of_real_ones(make):
    layer = make()
    entrances = [keras.Input(batch_shape=shape) for shape in TWO]
    thought = layer(*entrances, return_attention_scores=True)
    inputs = [numbers(index, *shape) for index, shape in enumerate(TWO)]
    real_ones = layer(*inputs, return_attention_scores=True)
    assert len(thought) == len(real_ones) == 2
    for one, other in zip(thought, real_ones, strict=True):
        assert tuple(one.shape) == tuple(other.shape)


@pytest.mark.parametrize("make", [attention, grouped])
def test_symbolic_scores_know_both_lengths(make):
    layer = make()
    heads = layer.num_heads
    query, value = keras.Input((10, WIDTH)), keras.Input((15, WIDTH))
    outputs, scores = layer(query, value, return_attention_scores=True)
    assert outputs.shape == (None, 10, WIDTH)
    assert scores.shape == (None, heads, 10, 15)


def test_a_policy_map_gives_each_projection_its_own_dtype():
    policies = keras.dtype_policies.DTypePolicyMap()
    quantized = keras.dtype_policies.QuantizedDTypePolicy("int8", "float32")
    for part in ("query", "key", "value"):
        policies[f"mha/{part}"] = quantized
    layer = attention(use_bias=False, dtype=policies, name="mha")
    layer.build(*TWO)
    for part in (layer.query, layer.key, layer.value):
        assert part.quantization_mode == "int8"
        assert "int8" in {str(weight.dtype).split(".")[-1] for weight in part.variables}
    assert layer.attention_output.quantization_mode is None


@slow_on("jax")
@pytest.mark.usefixtures("quick_quantizing")
def test_eight_bit_projections_stay_close():
    layer = attention(use_bias=False)
    inputs = numbers(1, *TWO[0]), numbers(2, *TWO[1])
    before = to_numpy(layer(*inputs))
    for part in (layer.query, layer.key, layer.value, layer.attention_output):
        part.quantize("int8")
        assert "int8" in {str(weight.dtype).split(".")[-1] for weight in part.variables}
    assert np.mean((to_numpy(layer(*inputs)) - before) ** 2) < 1e-2


def test_refusing_flash_attention_changes_no_number():
    layer, inputs = built("attention")
    without, _ = built("attention", flash_attention=False)
    assert_same(without(*inputs), layer(*inputs))
    assert without.get_config()["flash_attention"] is False
