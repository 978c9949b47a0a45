"""P6: every layer builds, calls and trains under every dtype policy.

Sources: tensorflow/tensorflow#46064, #48961; keras-team/keras#21558.
"""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt

from .examples import EXAMPLES, block
from .helpers import array, assert_close, copy_weights, randomize

POLICIES = ["float32", "mixed_float16", "mixed_bfloat16", "float64"]
HALF = {"mixed_float16": 2e-2, "mixed_bfloat16": 1e-1}
COMPUTE = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}
FLOATS = ("float16", "bfloat16", "float32", "float64")


@pytest.fixture
def policy(request):
    if request.param == "float64" and keras.backend.backend() == "jax":
        pytest.skip("JAX has float64 only when asked for at its start")
    return request.param


def assert_dtypes(layer, result, policy, example):
    for variable in layer.trainable_variables:
        expected = "float32" if policy.startswith("mixed") else policy
        assert keras.backend.standardize_dtype(variable.dtype) == expected
    if example.layer == "AlibiBias":  # integers and slopes, kept in full
        assert "int32" in str(result["distances"].dtype)
        return
    dtype = keras.backend.standardize_dtype(result.dtype)
    assert dtype == COMPUTE.get(policy, policy)
    assert np.isfinite(array(result)).all()


@pytest.mark.parametrize("policy", POLICIES, indirect=True)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_layer_of_its_own_dtype_computes_in_it(name, policy):
    example = EXAMPLES[name]
    layer = example.make(dtype=policy)
    result = layer(*example.arrays())
    assert_dtypes(layer, result, policy, example)
    for inner in sublayers(layer):
        assert inner.compute_dtype == layer.compute_dtype, inner.path


def sublayers(layer):
    """Return the layers among a layer's attributes, for any backend."""
    attributes = {**vars(layer), **vars(layer).get("_modules", {})}
    found = [v for v in attributes.values() if isinstance(v, keras.layers.Layer)]
    # A plug made by the user keeps the dtype that the user gave it.
    found = [v for v in found if not isinstance(v, PLUGS)]
    return found + [deeper for inner in found for deeper in sublayers(inner)]


PLUGS = (kt.RotaryEmbedding, kt.AlibiBias, kt.RelativePositionBias)


@pytest.mark.parametrize("policy", ["mixed_bfloat16"], indirect=True)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_layer_takes_a_policy_object_as_its_dtype(name, policy):
    example = EXAMPLES[name]
    layer = example.make(dtype=keras.DTypePolicy(policy))
    assert_dtypes(layer, layer(*example.arrays()), policy, example)


@pytest.mark.parametrize("policy", POLICIES, indirect=True)
@pytest.mark.parametrize("name", [n for n, e in EXAMPLES.items() if e.masks])
def test_masks_of_every_dtype_go_with_every_policy(name, policy):
    example = EXAMPLES[name]
    layer, inputs = example.make(dtype=policy), example.arrays()
    layer(*inputs)
    for argument, (text, _) in example.masks.items():
        sizes = {"B": 2, "T": 4, "S": 5}
        mask = np.ones([sizes[axis] for axis in text.split()], bool)
        mask[..., 1] = False
        expected = array(layer(*inputs, **{argument: mask}))
        assert np.isfinite(expected).all()
        for dtype in ("int32", "float32"):
            ours = layer(*inputs, **{argument: mask.astype(dtype)})
            assert_close(ours, expected, atol=0)


@pytest.mark.parametrize("policy", POLICIES, indirect=True)
@pytest.mark.parametrize("name", [n for n, e in EXAMPLES.items() if e.scores])
def test_scores_come_under_every_policy(name, policy):
    example = EXAMPLES[name]
    layer = example.make(dtype=policy)
    result, scores = layer(*example.arrays(), return_attention_scores=True)
    assert_dtypes(layer, result, policy, example)
    for score in keras.tree.flatten(scores):
        assert keras.backend.standardize_dtype(score.dtype) in FLOATS
        np.testing.assert_allclose(array(score).sum(-1), 1, atol=2e-2)


@pytest.mark.parametrize("policy", POLICIES, indirect=True)
@pytest.mark.parametrize("name", [n for n in EXAMPLES if n != "alibi"])
def test_a_layer_trains_one_step_under_a_global_policy(name, policy):
    keras.config.set_dtype_policy(policy)
    example = EXAMPLES[name]
    inputs, targets = example.arrays(), np.ones((2, 1), "float32")
    model = _trainee(example)
    model.compile("sgd", "mse", run_eagerly=True)
    before = [array(w) for w in model.trainable_variables]
    assert np.isfinite(model.train_on_batch(inputs, targets))
    after = [array(w) for w in model.trainable_variables]
    assert any(np.any(one != two) for one, two in zip(before, after, strict=True))
    for weight in after:
        assert np.isfinite(weight).all()


def _trainee(example):
    """Return inputs -> number with trainable layers before and after."""
    inputs = example.symbolic()
    scaled = [
        keras.layers.LayerNormalization()(x) if text.startswith("float") else x
        for x, text in zip(inputs, example.inputs, strict=True)
    ]
    x = example.make()(*scaled)
    x = keras.layers.Dense(1, dtype="float32")(x)
    axes = tuple(range(1, len(x.shape) - 1))
    return keras.Model(inputs, ops.mean(x, axis=axes))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"], indirect=True)
def test_a_translator_of_layers_trains_compiled_in_half_precision(policy):
    keras.config.set_dtype_policy(policy)
    source = keras.Input((None,), dtype="int32")
    target = keras.Input((None,), dtype="int32")
    embed = kt.PositionalEmbedding(9, 12, 8, encoding="sinusoidal")
    encoded = kt.TransformerEncoder(**block(dropout=0.1))(embed(source))
    decoder = kt.TransformerStack(
        **block(
            num_layers=1,
            causal=True,
            cross_attention=True,
            position_bias=kt.AlibiBias(2),
        )
    )
    decoded = decoder(kt.PositionalEmbedding(9, 12, 8)(target), encoded)
    context = kt.BahdanauAttention(4)(decoded, encoded)
    logits = keras.layers.Dense(12, dtype="float32")(context)
    model = keras.Model([source, target], logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    ids = np.array([[5, 6, 7, 0], [5, 0, 0, 0]], "int32")
    assert np.isfinite(model.train_on_batch([ids, ids[:, :3]], ids[:, :3]))
    assert keras.backend.standardize_dtype(model([ids, ids]).dtype) == "float32"


@pytest.mark.parametrize("policy", [*HALF], indirect=True)
@pytest.mark.parametrize("name", [n for n in EXAMPLES if n != "alibi"])
def test_half_precision_is_close_to_full_precision(name, policy):
    example = EXAMPLES[name]
    full, half = example.make(), example.make(dtype=policy)
    inputs = example.arrays()
    full(*inputs)
    half(*inputs)
    copy_weights(randomize(full), half)
    assert_close(half(*inputs), array(full(*inputs)), atol=HALF[policy])


@pytest.mark.parametrize("policy", ["float64"], indirect=True)
@pytest.mark.parametrize("name", [n for n in EXAMPLES if n != "alibi"])
def test_double_precision_is_close_to_single_precision(name, policy):
    example = EXAMPLES[name]
    full, double = example.make(), example.make(dtype=policy)
    inputs = example.arrays()
    full(*inputs)
    double(*inputs)
    copy_weights(randomize(full), double)
    assert_close(np.float32(array(double(*inputs))), array(full(*inputs)), atol=2e-5)


@pytest.mark.parametrize("policy", [*HALF], indirect=True)
def test_scores_are_softmaxed_in_full_precision(policy):
    # 300 equal keys: sums of 1/300 in half precision drift.
    x = np.ones((1, 300, 8), "float32")
    layer = kt.MultiHeadAttention(1, 4, dtype=policy)
    _, scores = layer(x, x, return_attention_scores=True)
    np.testing.assert_allclose(array(scores).sum(-1), 1, atol=5e-3)


@pytest.mark.parametrize("policy", [*HALF], indirect=True)
def test_large_scores_do_not_overflow_half_precision(policy):
    example = EXAMPLES["attention"]
    layer = example.make(dtype=policy)
    inputs = [100 * x for x in example.arrays()]
    assert np.isfinite(array(layer(*inputs))).all()
    mask = np.tril(np.ones((2, 4, 5), bool))
    assert np.isfinite(array(layer(*inputs, attention_mask=mask))).all()


@pytest.mark.parametrize("policy", [*HALF], indirect=True)
@pytest.mark.parametrize("name", ["decoder-only", "block-llama"])
def test_a_cache_of_the_compute_dtype_decodes_in_half_precision(name, policy):
    layer = EXAMPLES[name].make(dtype=policy)
    (x,) = EXAMPLES[name].arrays()
    layer(x)
    cache = layer.create_cache(2, 6)
    outputs = []
    for t in range(4):
        output, cache = layer(
            x[:, t : t + 1], cache=cache, positions=np.array([t], "int32")
        )
        outputs.append(array(output))
        kept = cache["self_attention"]
        assert keras.backend.standardize_dtype(kept["key"].dtype) == COMPUTE[policy]
        assert keras.backend.standardize_dtype(kept["mask"].dtype) == "bool"
    assert_close(np.concatenate(outputs, 1), array(layer(x)), atol=HALF[policy])


@pytest.mark.parametrize("policy", [*HALF], indirect=True)
def test_cached_cross_attention_works_in_half_precision(policy):
    example = EXAMPLES["attention"]
    layer = example.make(dtype=policy)
    query, value = example.arrays()
    full = layer(query, value)
    static = layer.precompute(value)
    for name in ("key", "value"):
        dtype = keras.backend.standardize_dtype(static[name].dtype)
        assert dtype == COMPUTE[policy]
    assert np.isfinite(array(full)).all()


@pytest.mark.parametrize("policy", POLICIES, indirect=True)
def test_a_half_precision_layer_accepts_the_output_of_another_dtype(policy):
    # A float32 embedding before a layer of its own dtype, and the reverse.
    x = EXAMPLES["encoder"].arrays()[0]
    inner = kt.TransformerEncoder(**block(), dtype=policy)
    outer = kt.TransformerEncoder(**block())
    result = outer(inner(outer(x)))
    assert keras.backend.standardize_dtype(result.dtype) == "float32"
    assert np.isfinite(array(result)).all()
