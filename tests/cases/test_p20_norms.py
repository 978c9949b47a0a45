"""P20: norms stand where they should, and deep pre-norm stacks train.

Sources: pytorch/pytorch#55270; lucidrains/x-transformers#37; marian-nmt#699.
"""

import re

import keras
import numpy as np
import pytest

import keras_transformer as kt

from .examples import block, quick
from .helpers import array, assert_close, gradients_of, randomize

NORMS = ["layer", "rms"]
LAYERS = {
    "block": (kt.TransformerBlock, {}),
    "encoder": (kt.TransformerEncoder, {}),
    "decoder-only": (kt.TransformerDecoder, {"cross_attention": False}),
    "decoder": (kt.TransformerDecoder, {}),
}


def sentences(offset=3.0, width=8):
    """Return inputs that are far from normalized."""
    rng = np.random.default_rng(0)
    return (offset + 5 * rng.normal(size=(2, 3, width))).astype("float32")


def gains(layer):
    """Return the paths of all gains of norms."""
    found = [weight.path for weight in layer.trainable_variables]
    return [p for p in found if p.endswith(("_norm/gamma", "_norm/scale"))]


def silence(layer):
    """Make every sublayer put out zeros: what is left are norms and residuals."""
    for weight in layer.trainable_variables:
        if weight.path.split("/")[-2] in ("attention_output", "feed_forward_output"):
            weight.assign(np.zeros(weight.shape, "float32"))
    return layer


def normalized(x, norm="layer", epsilon=1e-3):
    if norm == "layer":
        x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)


def call(name, layer, x):
    return layer(x, x) if name in ("decoder", "cross") else layer(x)


def make_stack(kind, count=3, **more):
    if kind == "cross":
        more = {"causal": True, "cross_attention": True, **more}
    return kt.TransformerStack(count, **block(**more))


@pytest.mark.parametrize("kind", ["self", "cross"])
def test_a_prenorm_stack_puts_out_normalized_vectors(kind):
    stack = make_stack(kind, normalize_first=True, layer_norm_epsilon=1e-6)
    output = array(call(kind, stack, sentences()))
    np.testing.assert_allclose(output.mean(-1), 0, atol=1e-4)
    np.testing.assert_allclose(output.var(-1), 1, atol=1e-3)
    (final,) = [p for p in gains(stack) if "final_norm" in p]
    weights = {w.path: array(w) for w in stack.trainable_variables}
    assert np.all(weights[final] == 1)
    assert np.all(weights[final.replace("gamma", "beta")] == 0)


@pytest.mark.parametrize("kind", ["self", "cross"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("norm", NORMS)
def test_the_number_of_norms_is_that_of_the_papers(kind, first, count, norm):
    stack = make_stack(kind, count, normalize_first=first, norm=norm)
    stack.build(*[(None, None, 8)] * (2 if kind == "cross" else 1))
    each = 3 if kind == "cross" else 2
    assert len(gains(stack)) == each * count + first
    assert any("final_norm" in path for path in gains(stack)) is first


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("final", [False, True])
def test_the_final_norm_can_be_chosen(first, final):
    stack = make_stack("self", 2, normalize_first=first, final_norm=final)
    stack.build((None, None, 8))
    assert any("final_norm" in path for path in gains(stack)) is final


@pytest.mark.parametrize("name", LAYERS)
def test_a_prenorm_block_leaves_the_residual_stream_alone(name):
    cls, more = LAYERS[name]
    layer = cls(**block(normalize_first=True, **more))
    x = sentences()
    call(name, layer, x)
    silence(randomize(layer))
    assert_close(call(name, layer, x), x, atol=0)


@pytest.mark.parametrize("kind", ["self", "cross"])
def test_a_prenorm_stack_normalizes_its_stream_once_at_the_end(kind):
    stack = make_stack(kind, normalize_first=True)
    x = sentences()
    call(kind, stack, x)
    silence(stack)
    assert_close(call(kind, stack, x), normalized(x))
    bare = make_stack(kind, normalize_first=True, final_norm=False)
    call(kind, bare, x)
    silence(bare)
    assert_close(call(kind, bare, x), x, atol=0)


@pytest.mark.parametrize("name", LAYERS)
def test_a_postnorm_block_puts_out_normalized_vectors(name):
    cls, more = LAYERS[name]
    layer = cls(**block(layer_norm_epsilon=1e-6, **more))
    output = array(call(name, layer, sentences()))
    np.testing.assert_allclose(output.mean(-1), 0, atol=1e-4)
    np.testing.assert_allclose(output.var(-1), 1, atol=1e-3)
    silence(layer)
    x = sentences()
    assert_close(call(name, layer, x), normalized(x, epsilon=1e-6))


@pytest.mark.parametrize("kind", ["self", "cross"])
def test_every_block_of_a_postnorm_stack_normalizes_and_nothing_else_does(kind):
    stack = make_stack(kind, 2)
    x = sentences()
    call(kind, stack, x)
    silence(stack)
    expected = x
    for _ in range(2 * (3 if kind == "cross" else 2)):
        expected = normalized(expected)
    assert_close(call(kind, stack, x), expected)


@pytest.mark.parametrize("first", [False, True])
def test_rms_norms_take_no_mean_and_no_bias(first):
    layer = kt.TransformerBlock(**block(norm="rms", normalize_first=first))
    layer(sentences())
    assert not any(w.path.endswith("_norm/beta") for w in layer.trainable_variables)
    silence(layer)
    x = sentences()
    expected = x if first else normalized(normalized(x, "rms"), "rms")
    assert_close(layer(x), expected)


@pytest.mark.parametrize("epsilon", quick([1e-12, 1e-5, 1e-3], [1e-12]))
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("norm", NORMS)
def test_the_epsilon_reaches_every_norm(epsilon, first, norm):
    # Small inputs, where the epsilon decides.
    stack = make_stack(
        "cross", 1, norm=norm, normalize_first=first, layer_norm_epsilon=epsilon
    )
    x = np.tile(np.array([0.001, -0.001], "float32"), (2, 3, 4))
    call("cross", stack, x)
    silence(stack)
    steps = 1 if first else 3
    expected = x.astype("float64")
    for _ in range(steps):
        expected = normalized(expected, norm, epsilon)
    assert_close(call("cross", stack, x), expected.astype("float32"))


@pytest.mark.parametrize(
    ("epsilon", "value"), [(1e-12, 0.9999995), (1e-5, 0.301511), (1e-3, 0.031607)]
)
def test_a_small_vector_is_normalized_as_its_epsilon_says(epsilon, value):
    stack = make_stack("self", 1, normalize_first=True, layer_norm_epsilon=epsilon)
    x = np.tile(np.array([0.001, -0.001], "float32"), (2, 3, 4))
    stack(x)
    silence(stack)
    np.testing.assert_allclose(array(stack(x))[0, 0, 0], value, atol=1e-6)


def test_a_decoder_reads_a_normalized_memory():
    # The 2014 to 2017 fault: a pre-norm encoder without its last norm.
    encoder = make_stack("self", 3, normalize_first=True, layer_norm_epsilon=1e-6)
    memory = array(encoder(100 * sentences()))
    np.testing.assert_allclose(memory.var(-1), 1, atol=1e-3)


@pytest.mark.parametrize(
    "cls",
    [
        kt.TransformerBlock,
        kt.TransformerEncoder,
        kt.TransformerDecoder,
        kt.TransformerStack,
    ],
)
def test_docstrings_say_the_default_and_what_follows_from_it(cls):
    text = re.sub(r"\s+", " ", cls.__doc__)
    assert "normalize_first" in text
    if cls is kt.TransformerStack:
        assert "final_norm" in text
    assert re.search("warm", text), "post-norm needs a warm-up: say so"


@pytest.mark.slow
def test_a_deep_prenorm_stack_learns_to_copy_without_warm_up():
    inputs = keras.Input((None,), dtype="int32")
    x = kt.PositionalEmbedding(8, 12, 8)(inputs)
    stack = kt.TransformerStack(12, **block(normalize_first=True), name="stack")
    model = keras.Model(inputs, keras.layers.Dense(12)(stack(x)))
    rng = np.random.default_rng(0)
    ids = rng.integers(1, 12, (16, 8)).astype("int32")

    gradients = gradients_of(model)(ids, np.ones((16, 8, 12), "float32"))
    norms = {"block_0": 0.0, "block_11": 0.0}
    for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
        for name in norms:
            if f"/{name}/" in weight.path:
                norms[name] += float((gradient**2).sum())
    ratio = np.sqrt(norms["block_0"] / norms["block_11"])
    assert 0.01 < ratio < 100

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss)
    start = float(model.test_on_batch(ids, ids))
    for _ in range(200):
        model.train_on_batch(ids, ids)
    assert float(model.test_on_batch(ids, ids)) < 0.5 * start
