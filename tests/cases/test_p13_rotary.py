"""P13: the two layouts of rotary embedding are kept apart, and both are right.

Sources: huggingface/transformers#25199; keras-team/keras-hub#1416.
"""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.ops.cache import create_cache
from keras_transformer.ops.positions import rotary_angles, rotate

from .examples import block, quick
from .helpers import array, assert_close, copy_weights, randomize

LAYOUTS = ["half", "interleaved"]
LINEAR = {"type": "linear", "factor": 4.0}
LLAMA3 = {
    "type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def plain(x, positions, layout, base=10000.0, scaling=None):
    """Turn pairs one by one, as complex numbers."""
    batch, time, heads, size = x.shape
    positions = np.broadcast_to(positions, (batch, time))
    result = np.zeros(x.shape)
    for i in range(size // 2):
        one, two = (i, i + size // 2) if layout == "half" else (2 * i, 2 * i + 1)
        frequency = scaled(base ** (-2 * i / size), scaling)
        turn = np.exp(1j * positions * frequency)[:, :, None]
        pair = (x[..., one] + 1j * x[..., two]) * turn
        result[..., one], result[..., two] = pair.real, pair.imag
    return result.astype("float32")


def scaled(frequency, scaling):
    if scaling is None:
        return frequency
    if scaling["type"] == "linear":
        return frequency / scaling["factor"]
    length = scaling["original_max_position_embeddings"]
    wavelength = 2 * np.pi / frequency
    if wavelength < length / scaling["high_freq_factor"]:
        return frequency
    if wavelength > length / scaling["low_freq_factor"]:
        return frequency / scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    smooth = (length / wavelength - low) / (high - low)
    return (1 - smooth) * frequency / scaling["factor"] + smooth * frequency


def heads(time=4, size=6, batch=2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(batch, time, 2, size)).astype("float32")


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("half", [0.540302, 0, 0.841471, 0]),
        ("interleaved", [0.540302, 0.841471, 0, 0]),
    ],
)
def test_one_turned_vector_is_known(layout, expected):
    x = np.array([1, 0, 0, 0], "float32").reshape(1, 1, 1, 4)
    layer = kt.RotaryEmbedding(layout=layout)
    ours = array(layer(x, positions=np.array([1], "int32"))).ravel()
    np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize("size", quick([2, 4, 6], [4]))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scaling", [None, LINEAR, LLAMA3])
def test_turning_equals_multiplying_complex_numbers(size, layout, scaling):
    x = heads(size=size)
    base = 500.0
    positions = np.array([0, 1, 7, 60], "int32")
    layer = kt.RotaryEmbedding(max_wavelength=base, layout=layout, scaling=scaling)
    expected = plain(x, positions, layout, base, scaling)
    assert_close(layer(x, positions=positions), expected, atol=3e-5)
    angles = rotary_angles(positions, size, max_wavelength=base, scaling=scaling)
    assert_close(
        rotate(keras.ops.convert_to_tensor(x), angles, layout), expected, atol=3e-5
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_positions_may_differ_from_row_to_row(layout):
    x = heads()
    positions = np.array([[0, 1, 2, 3], [5, 3, 1, 9]], "int32")
    layer = kt.RotaryEmbedding(layout=layout)
    assert_close(layer(x, positions=positions), plain(x, positions, layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_positions_count_from_zero_when_not_given(layout):
    x = heads()
    assert_close(kt.RotaryEmbedding(layout=layout)(x), plain(x, np.arange(4), layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scaling", [None, LINEAR, LLAMA3])
def test_a_score_depends_only_on_the_distance(layout, scaling):
    layer = kt.RotaryEmbedding(layout=layout, scaling=scaling)
    query, key = heads(time=1), heads(time=1, seed=1)

    def score(m, n):
        q = array(layer(query, positions=np.array([m], "int32")))
        k = array(layer(key, positions=np.array([n], "int32")))
        return (q * k).sum(-1)

    assert_close(score(3, 1), score(12, 10))
    assert_close(score(1, 3), score(10, 12))
    assert np.abs(score(3, 1) - score(1, 3)).max() > 1e-3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_norms_are_kept_and_position_zero_is_the_identity(layout):
    x, layer = heads(), kt.RotaryEmbedding(layout=layout)
    turned = array(layer(x, positions=np.array([0, 3, 500, 4000], "int32")))
    norms = [np.linalg.norm(y, axis=-1) for y in (turned, x)]
    assert_close(norms[0], norms[1])
    assert_close(turned[:, 0], x[:, 0], atol=1e-6)


def test_the_layouts_are_one_rotation_of_permuted_features():
    x = heads(size=6)
    order = [0, 2, 4, 1, 3, 5]  # even features first: interleaved -> half
    half = array(kt.RotaryEmbedding(layout="half")(x[..., order]))
    interleaved = array(kt.RotaryEmbedding(layout="interleaved")(x))
    assert_close(half, interleaved[..., order])
    assert np.abs(array(kt.RotaryEmbedding()(x)) - interleaved).max() > 1e-2


def test_the_default_layout_is_half():
    assert_close(
        kt.RotaryEmbedding()(heads()), kt.RotaryEmbedding(layout="half")(heads())
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_odd_head_is_refused(layout):
    layer = kt.RotaryEmbedding(layout=layout)
    with pytest.raises(ValueError, match="5"):
        layer(heads(size=5))
    with pytest.raises(ValueError, match="5"):
        kt.RotaryEmbedding(layout=layout)(keras.Input((None, 2, 5)))


@pytest.mark.parametrize(
    "make",
    [
        lambda plug: kt.MultiHeadAttention(2, 5, rotary=plug),
        lambda plug: kt.TransformerEncoder(10, 2, 12, rotary=plug),
        lambda plug: kt.TransformerDecoder(10, 2, 12, rotary=plug),
        lambda plug: kt.TransformerStack(1, 8, 2, 12, key_dim=5, rotary=plug),
    ],
)
def test_an_odd_head_in_a_layer_is_refused_before_it_is_built(make):
    with pytest.raises(ValueError, match="5"):
        make(kt.RotaryEmbedding())


@pytest.mark.parametrize("layout", ["HALF", "split", None, 1])
def test_an_unknown_layout_is_refused(layout):
    with pytest.raises(ValueError, match="layout"):
        kt.RotaryEmbedding(layout=layout)


@pytest.mark.parametrize(
    "scaling",
    [
        {"type": "yarn", "factor": 2.0},
        {"factor": 2.0},
        {"type": "linear"},
        {"type": "linear", "factor": 0.0},
        {"type": "linear", "factor": 2.0, "unheard_of": 1},
        {**LLAMA3, "factor": -1.0},
        {**LLAMA3, "low_freq_factor": 4.0, "high_freq_factor": 1.0},
        {**LLAMA3, "low_freq_factor": 4.0, "high_freq_factor": 4.0},
        {k: v for k, v in LLAMA3.items() if k != "low_freq_factor"},
        "linear",
    ],
)
def test_an_unknown_or_incomplete_scaling_is_refused(scaling):
    with pytest.raises(ValueError, match="scaling"):
        kt.RotaryEmbedding(scaling=scaling)


@pytest.mark.parametrize("wavelength", [0, -1.0])
def test_a_wavelength_that_is_not_positive_is_refused(wavelength):
    with pytest.raises(ValueError, match="max_wavelength"):
        kt.RotaryEmbedding(max_wavelength=wavelength)


@pytest.mark.parametrize(
    ("layout", "groups"),
    quick([("half", None), ("interleaved", 2), ("half", 1)], [("interleaved", 2)]),
)
def test_attention_turns_queries_and_keys_and_not_values(layout, groups):
    plug = kt.RotaryEmbedding(layout=layout)
    layer = kt.MultiHeadAttention(4, 4, rotary=plug, num_key_value_heads=groups)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    layer(x, x)
    randomize(layer)
    output, scores = layer(x, x, return_attention_scores=True)
    query, key, value = (array(getattr(layer, n)(x)) for n in ("query", "key", "value"))
    positions = np.arange(5)
    repeat = 4 // (groups or 4)
    query, key = (plain(y, positions, layout) for y in (query, key))
    key, value = np.repeat(key, repeat, 2), np.repeat(value, repeat, 2)
    logits = np.einsum("btnh,bsnh->bnts", query, key) / 2
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    assert_close(scores, weights.astype("float32"))
    mixed = np.einsum("bnts,bsnh->btnh", weights, value).astype("float32")
    assert_close(output, array(layer.attention_output(mixed)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_single_key_leaves_no_trace_of_the_position(layout):
    # Its weight is 1 wherever it stands; a turned value would show.
    layer = kt.MultiHeadAttention(2, 4, rotary=kt.RotaryEmbedding(layout=layout))
    x = np.random.default_rng(0).normal(size=(1, 1, 8)).astype("float32")
    here, there = (array(layer(x, x, positions=np.array([p], "int32"))) for p in (0, 7))
    assert_close(here, there)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shift", [1, 9])
def test_shifting_all_positions_changes_no_output(layout, shift):
    layer = kt.TransformerBlock(**block(rotary=kt.RotaryEmbedding(layout=layout)))
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    layer(x)
    randomize(layer)
    positions = np.arange(5, dtype="int32")
    assert_close(layer(x, positions=positions), layer(x))
    assert_close(layer(x, positions=positions + shift), layer(x))
    spread = layer(x, positions=2 * positions)
    assert np.abs(array(spread) - array(layer(x))).max() > 1e-4


@pytest.mark.parametrize(
    ("kind", "layout", "given"),
    quick(
        [
            ("attention", "half", False),
            ("attention", "interleaved", True),
            ("block", "interleaved", False),
            ("stack", "half", True),
        ],
        [("attention", "half", False), ("attention", "interleaved", True)],
    ),
)
def test_a_cached_step_at_position_p_is_row_p_of_the_full_pass(kind, layout, given):
    plug = kt.RotaryEmbedding(layout=layout, scaling=LLAMA3)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    cache = create_cache(2, 6, 2, 4)
    if kind == "attention":
        layer = kt.MultiHeadAttention(2, 4, rotary=plug)

        def call(x, **more):
            return layer(x, x, use_causal_mask=True, **more)
    elif kind == "block":
        layer = call = kt.TransformerBlock(**block(causal=True, rotary=plug))
    else:
        layer = call = kt.TransformerStack(
            **block(num_layers=1, causal=True, rotary=plug)
        )
    layer.build(*[x.shape] * (2 if kind == "attention" else 1))
    randomize(layer)
    full = array(call(x))
    if kind != "attention":
        cache = layer.create_cache(2, 6)
    outputs = []
    for start, stop in ((0, 3), (3, 4), (4, 5)):
        more = {"positions": np.arange(start, stop, dtype="int32")} if given else {}
        output, cache = call(x[:, start:stop], cache=cache, **more)
        outputs.append(array(output))
    assert_close(np.concatenate(outputs, 1), full)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["mixed_bfloat16"])
def test_angles_are_exact_at_high_positions_in_half_precision(layout, dtype):
    x = heads(time=3)
    positions = np.array([257, 1025, 4001], "int32")
    layer = kt.RotaryEmbedding(layout=layout, dtype=dtype)
    ours = layer(x, positions=positions)
    assert_close(ours, plain(x, positions, layout), atol=3e-2)


def test_one_plug_serves_several_layers_without_a_memory():
    plug = kt.RotaryEmbedding()
    one = kt.TransformerBlock(**block(rotary=plug))
    two = kt.TransformerBlock(**block(rotary=kt.RotaryEmbedding()))
    other = kt.MultiHeadAttention(2, 6, rotary=plug)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    before = array(one(x))
    other(x[:, :2], x[:, :2], positions=np.array([8, 9], "int32"))
    assert_close(one(x), before, atol=0)
    two(x)
    assert_close(copy_weights(one, two)(x), before)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_queries_and_a_longer_source_count_their_own_positions(layout):
    layer = kt.MultiHeadAttention(2, 4, rotary=kt.RotaryEmbedding(layout=layout))
    rng = np.random.default_rng(0)
    query = rng.normal(size=(2, 3, 8)).astype("float32")
    value = rng.normal(size=(2, 5, 8)).astype("float32")
    _, scores = layer(query, value, return_attention_scores=True)
    q = plain(array(layer.query(query)), np.arange(3), layout)
    k = plain(array(layer.key(value)), np.arange(5), layout)
    logits = np.einsum("btnh,bsnh->bnts", q, k) / 2
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    assert_close(scores, weights.astype("float32"))
