"""P6: every layer builds, calls and trains under every dtype policy.

Sources: tensorflow/tensorflow#46064, #48961; keras-team/keras#21558.
"""

import functools

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt

from .examples import CORE, EXAMPLES, block, public_layers, quick, shape
from .helpers import (
    array,
    arrays,
    assert_close,
    copy_weights,
    randomize,
    skip_without_float64,
)

POLICIES = ["float32", "mixed_float16", "mixed_bfloat16", "float64"]
HALF = {"mixed_float16": 2e-2, "mixed_bfloat16": 1e-1}
COMPUTE = {"mixed_float16": "float16", "mixed_bfloat16": "bfloat16"}
FLOATS = ("float16", "bfloat16", "float32", "float64")


@pytest.fixture
def policy(request):
    skip_without_float64(request.param)
    return request.param


def assert_dtypes(layer, result, policy):
    for variable in layer.trainable_variables:
        plug = "relative_attention_bias" in variable.path and len(layer.weights) > 1
        if plug or "/table/" in variable.path:
            continue  # What the user made keeps the dtype that it was given.
        expected = "float32" if policy.startswith("mixed") else policy
        assert keras.backend.standardize_dtype(variable.dtype) == expected
    if isinstance(result, dict):  # integers and slopes, kept in full
        assert keras.backend.standardize_dtype(result["distances"].dtype) == "int32"
        return
    dtype = keras.backend.standardize_dtype(result.dtype)
    full = isinstance(layer, kt.TokenHead) and policy in COMPUTE
    # Logits are float32 under every policy of half precision.
    assert dtype == ("float32" if full else COMPUTE.get(policy, policy))
    assert np.isfinite(array(result)).all()


def sublayers(layer, plugs=False):
    """Return the layers among a layer's attributes, for any backend."""
    attributes = {**vars(layer), **(vars(layer).get("_modules") or {})}
    found = [v for v in attributes.values() if isinstance(v, keras.layers.Layer)]
    lists = [v for v in attributes.values() if isinstance(v, (list, tuple))]
    found += [v for vs in lists for v in vs if isinstance(v, keras.layers.Layer)]
    found = [v for v in found if plugs or not isinstance(v, PLUGS)]
    return found + [deeper for inner in found for deeper in sublayers(inner, plugs)]


PLUGS = (kt.RotaryEmbedding, kt.AlibiBias, kt.RelativePositionBias)


QUICK = [(name, "mixed_bfloat16") for name in CORE]
QUICK += [
    (name, policy)
    for name in ("attention-grouped", "bahdanau", "luong-general", "positional")
    for policy in ("mixed_float16", "float64")
]


@functools.cache
def full(name):
    """Return a layer in float32 with random weights, its inputs and its output."""
    example = EXAMPLES[name]
    layer, inputs = example.make(), example.arrays()
    layer.build(*[x.shape for x in inputs])
    return randomize(layer), inputs, layer(*inputs)


@pytest.mark.parametrize(
    ("name", "policy"),
    quick([(name, policy) for name in EXAMPLES for policy in POLICIES], QUICK),
    indirect=["policy"],
)
def test_a_layer_of_its_own_dtype_computes_in_it(name, policy):
    reference, inputs, expected = full(name)
    layer = EXAMPLES[name].make(dtype=policy)
    layer.build(*[x.shape for x in inputs])
    copy_weights(reference, layer)
    result = layer(*inputs)
    assert_dtypes(layer, result, policy)
    for inner in sublayers(layer):
        # A table that the user shares keeps the dtype that it was given.
        if inner.name != "table":
            assert inner.compute_dtype == layer.compute_dtype, inner.path
    # And what it computes is near to the result in full precision.
    for ours, theirs in zip(arrays(result), arrays(expected), strict=True):
        atol = HALF.get(policy, 2e-5)
        np.testing.assert_allclose(ours, theirs, atol=atol, rtol=atol)


@pytest.mark.parametrize("name", CORE)
def test_a_layer_takes_a_policy_object_as_its_dtype(name):
    policy = keras.DTypePolicy("mixed_bfloat16")
    layer = EXAMPLES[name].make(dtype=policy)
    layer.build(*[x.shape for x in EXAMPLES[name].arrays()])
    assert layer.compute_dtype == "bfloat16"
    for variable in layer.trainable_variables:
        assert keras.backend.standardize_dtype(variable.dtype) == "float32"


@pytest.mark.parametrize("policy", POLICIES[1:], indirect=True)
@pytest.mark.parametrize(
    "name", quick(["attention", "bahdanau", "encoder", "decoder"], ["attention"])
)
def test_masks_of_every_dtype_and_scores_go_with_every_policy(name, policy):
    example = EXAMPLES[name]
    layer, inputs = example.make(dtype=policy), example.arrays()
    layer.build(*[x.shape for x in inputs])
    argument, text = {
        "encoder": ("padding_mask", "B T"),
        "decoder": ("encoder_padding_mask", "B S"),
    }.get(name, ("attention_mask", "B T S"))
    mask = np.ones(shape(text), bool)
    mask[..., 1] = False
    expected = layer(*inputs, **{argument: mask})
    assert_dtypes(layer, expected, policy)
    for dtype in ("int32", "float32"):
        ours = layer(*inputs, **{argument: mask.astype(dtype)})
        assert_close(ours, expected, atol=0)
    more = {argument: mask, "return_attention_scores": True}
    result, scores = layer(*inputs, **more)
    assert_dtypes(layer, result, policy)
    for score in keras.tree.flatten(scores):
        assert keras.backend.standardize_dtype(score.dtype) in FLOATS
        np.testing.assert_allclose(array(score).sum(-1), 1, atol=2e-2)


def all_layers():
    """Return a model in which every public layer has a part in the result."""
    source = keras.Input((None,), dtype="int32")
    target = keras.Input((None,), dtype="int32")
    places = keras.Input((None,), dtype="int32")
    embed = kt.PositionalEmbedding(9, 12, 8, encoding="sinusoidal")
    memory = kt.TransformerEncoder(**block(dropout=0.1))(embed(source))
    hops = kt.SelfAttentiveEmbedding(3, attention_dim=4, penalty=0.1)(memory)
    x = kt.SinusoidalEncoding()(keras.layers.Embedding(12, 8)(target))
    x = kt.TransformerBlock(
        **block(causal=True, norm="rms", gated=True, rotary=kt.RotaryEmbedding())
    )(x)
    x = kt.TransformerStack(
        **block(num_layers=1, causal=True, position_bias=kt.AlibiBias(2))
    )(x)
    bias = kt.RelativePositionBias(2, num_buckets=8, max_distance=12)(places, places)
    x = kt.MultiHeadAttention(2, 4, dropout=0.1)(x, x, position_bias=bias)
    x = kt.TransformerDecoder(**block(dropout=0.1))(x, memory)
    x = kt.TokenHead(8)(kt.FeedForward(8, 12)(x))
    x = kt.BahdanauAttention(4)(x, memory) + kt.LuongAttention("general")(x, memory)
    flat = [kt.SequencePooling()(x), keras.layers.Flatten()(hops)]
    x = keras.layers.Dense(1, dtype="float32")(keras.layers.Concatenate()(flat))
    return keras.Model([source, target, places], x)


def test_the_model_of_all_layers_has_all_layers():
    parts = [
        deeper
        for layer in all_layers().layers
        for deeper in [layer, *sublayers(layer, plugs=True)]
    ]
    assert {type(part).__name__ for part in parts} >= set(public_layers())


@pytest.mark.parametrize(
    "policy", quick(POLICIES[1:], ["mixed_float16"]), indirect=True
)
def test_every_layer_trains_one_step_under_a_global_policy(policy):
    keras.config.set_dtype_policy(policy)
    if policy == "float64":  # Keras adds up losses in floatx
        keras.config.set_floatx(policy)
    model = randomize(all_layers())
    optimizer = keras.optimizers.SGD(0.1)
    if policy == "mixed_float16":  # else the first steps only search for a scale
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=64.0)
    # The first failed in JAX's compiler, and JAX is quick only when compiled.
    compiled = policy == "mixed_float16" or keras.backend.backend() == "jax"
    model.compile(optimizer, "mse", run_eagerly=not compiled)
    source = np.array([[5, 6, 7, 2, 0], [5, 4, 0, 0, 0]], "int32")
    target = np.array([[5, 6, 7], [5, 4, 0]], "int32")
    inputs = [source, target, np.array([[0, 1, 2]] * 2, "int32")]
    before = [array(weight).copy() for weight in model.trainable_variables]
    loss = model.train_on_batch(inputs, np.ones((2, 1), "float32"))
    assert np.isfinite(loss)
    unmoved = []
    for weight, old in zip(model.trainable_variables, before, strict=True):
        assert np.isfinite(array(weight)).all()
        if np.all(array(weight) == old):
            unmoved.append(weight.path)
    # Adding one number to all keys of a softmax changes nothing: no gradient.
    assert all("key/bias" in path for path in unmoved), unmoved
    output = model(inputs)
    assert keras.backend.standardize_dtype(output.dtype) == "float32"


@pytest.mark.parametrize("policy", quick(HALF, ["mixed_bfloat16"]), indirect=True)
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
    mask = np.tril(np.ones((2, 3, 5), bool))
    assert np.isfinite(array(layer(*inputs, attention_mask=mask))).all()


@pytest.mark.parametrize("policy", quick(HALF, ["mixed_bfloat16"]), indirect=True)
@pytest.mark.parametrize("name", ["block-llama"])
def test_a_cache_of_the_compute_dtype_decodes_in_half_precision(name, policy):
    layer = EXAMPLES[name].make(dtype=policy)
    (x,) = EXAMPLES[name].arrays()
    layer(x)
    cache = layer.create_cache(2, 6)
    outputs = []
    for t in range(3):
        output, cache = layer(
            x[:, t : t + 1], cache=cache, positions=np.array([t], "int32")
        )
        outputs.append(array(output))
        kept = cache["self_attention"]
        assert keras.backend.standardize_dtype(kept["key"].dtype) == COMPUTE[policy]
        assert keras.backend.standardize_dtype(kept["mask"].dtype) == "bool"
    assert_close(np.concatenate(outputs, 1), array(layer(x)), atol=HALF[policy])


@pytest.mark.parametrize("policy", ["mixed_bfloat16"], indirect=True)
def test_a_projected_source_is_kept_in_the_compute_dtype(policy):
    layer = EXAMPLES["attention"].make(dtype=policy)
    query, value = EXAMPLES["attention"].arrays()
    full = layer(query, value)
    static = layer.precompute(ops.cast(value, COMPUTE[policy]))
    for name in ("key", "value"):
        dtype = keras.backend.standardize_dtype(static[name].dtype)
        assert dtype == COMPUTE[policy]
    output, _ = layer(query, None, cache=static)
    assert_close(output, full, atol=HALF[policy])


@pytest.mark.parametrize(
    "policy", quick(POLICIES, ["mixed_bfloat16", "float64"]), indirect=True
)
def test_a_half_precision_layer_accepts_the_output_of_another_dtype(policy):
    # A float32 embedding before a layer of its own dtype, and the reverse.
    x = EXAMPLES["encoder"].arrays()[0]
    inner = kt.TransformerEncoder(**block(), dtype=policy)
    outer = kt.TransformerEncoder(**block())
    result = outer(inner(outer(x)))
    assert keras.backend.standardize_dtype(result.dtype) == "float32"
    assert np.isfinite(array(result)).all()
