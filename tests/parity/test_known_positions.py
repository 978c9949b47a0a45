"""Positions are those of the papers and of Hugging Face's models."""

import math

import numpy as np
import pytest
from parity_tools import (
    BATCH,
    HEADS,
    TIME,
    assert_same,
    numbers,
    randomize,
    real,
    to_numpy,
)

import keras_transformer as kt
from keras_transformer.ops import positions

ROTARY = {
    "default": None,
    "linear": {"type": "linear", "factor": 4.0},
    "llama3": {
        "type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
}


def torch_or_skip():
    return pytest.importorskip("torch")


def llama_rotation(size, wavelength, scaling):
    """Return Llama's rotation of (B, T, N, H) at positions (B, T)."""
    torch = torch_or_skip()
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    parameters = {"rope_type": "default", "rope_theta": float(wavelength)}
    if scaling is not None:
        parameters |= {k: v for k, v in scaling.items() if k != "type"}
        parameters["rope_type"] = scaling["type"]
    config = llama.LlamaConfig(
        hidden_size=HEADS * size,
        num_attention_heads=HEADS,
        head_dim=size,
        max_position_embeddings=512,
        rope_parameters=parameters,
    )
    rotary = llama.LlamaRotaryEmbedding(config).cpu()

    def rotate(inputs, places):
        inputs = torch.tensor(inputs, device="cpu")
        places = torch.tensor(places, device="cpu")
        cosine, sine = rotary(inputs, places)
        rotated, _ = llama.apply_rotary_pos_emb(
            inputs, inputs, cosine, sine, unsqueeze_dim=2
        )
        return rotated.numpy()

    return rotate


@pytest.mark.parametrize("size", [4, 12])
@pytest.mark.parametrize("scaling", ROTARY)
def test_rotary_positions_equal_llama(scaling, size):
    rotate = llama_rotation(size, 10000, ROTARY[scaling])
    layer = kt.RotaryEmbedding(scaling=ROTARY[scaling])
    inputs = numbers(1, BATCH, TIME, HEADS, size)
    counted = np.broadcast_to(np.arange(TIME), (BATCH, TIME)).astype("int32")
    assert_same(layer(inputs), rotate(inputs, counted))
    given = np.random.default_rng(1).integers(0, 200, (BATCH, TIME)).astype("int32")
    assert_same(layer(inputs, positions=given), rotate(inputs, given))
    assert_same(layer(inputs, positions=given[0]), rotate(inputs, given[[0, 0]]))


@pytest.mark.parametrize("scaling", ["linear", "llama3"])
def test_scaling_changes_the_rotation(scaling):
    inputs = numbers(2, BATCH, TIME, HEADS, 12)
    scaled = to_numpy(kt.RotaryEmbedding(scaling=ROTARY[scaling])(inputs))
    plain = to_numpy(kt.RotaryEmbedding()(inputs))
    assert np.abs(scaled - plain).max() > 1e-2


def test_another_wavelength_equals_llama():
    rotate = llama_rotation(8, 500.0, None)
    inputs = numbers(3, BATCH, TIME, HEADS, 8)
    counted = np.broadcast_to(np.arange(TIME), (BATCH, TIME)).astype("int32")
    layer = kt.RotaryEmbedding(max_wavelength=500.0)
    assert_same(layer(inputs), rotate(inputs, counted))


def test_llama3_angles_equal_llama_in_all_three_bands():
    torch_or_skip()
    ropes = pytest.importorskip("transformers.modeling_rope_utils")
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    scaling = ROTARY["llama3"]
    parameters = {k: v for k, v in scaling.items() if k != "type"}
    config = llama.LlamaConfig(
        hidden_size=HEADS * 12,
        num_attention_heads=HEADS,
        head_dim=12,
        rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0} | parameters,
    )
    frequencies, _ = ropes.ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    frequencies = frequencies.numpy()
    plain = 10000.0 ** (-np.arange(0, 12, 2) / 12)
    ratios = frequencies / plain
    assert np.isclose(ratios, 1.0).any()
    assert np.isclose(ratios, 1 / 8.0).any()
    assert ((ratios > 0.13) & (ratios < 0.99)).any()
    places = np.arange(9)
    angles = positions.rotary_angles(places, 12, scaling=scaling)
    assert_same(angles, places[:, None] * frequencies[None])


@pytest.mark.parametrize("scaling", ["default", "linear"])
def test_interleaved_rotary_positions_turn_complex_numbers(scaling):
    """Pair (2i, 2i + 1), read as a complex number, is turned by its angle."""
    inputs = numbers(4, BATCH, TIME, HEADS, 8)
    factor = 1.0 if scaling == "default" else ROTARY[scaling]["factor"]
    expected = np.zeros_like(inputs)
    for place in range(TIME):
        for pair in range(4):
            angle = place / factor / 10000 ** (2 * pair / 8)
            turn = complex(math.cos(angle), math.sin(angle))
            first, second = 2 * pair, 2 * pair + 1
            read = inputs[:, place, :, first] + 1j * inputs[:, place, :, second]
            expected[:, place, :, first] = (read * turn).real
            expected[:, place, :, second] = (read * turn).imag
    layer = kt.RotaryEmbedding(layout="interleaved", scaling=ROTARY[scaling])
    assert_same(layer(inputs), expected)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20), (16, 100)])
def test_relative_buckets_equal_t5(buckets, distance, bidirectional):
    torch = torch_or_skip()
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    relative = np.arange(-300, 301, dtype="int32")
    expected = t5.T5Attention._relative_position_bucket(
        torch.tensor(relative, dtype=torch.long, device="cpu"),
        bidirectional=bidirectional,
        num_buckets=buckets,
        max_distance=distance,
    )
    mine = positions.relative_buckets(
        relative,
        bidirectional=bidirectional,
        num_buckets=buckets,
        max_distance=distance,
    )
    np.testing.assert_array_equal(to_numpy(mine), expected.numpy())


@pytest.mark.parametrize("decoder", [False, True])
def test_the_relative_position_bias_equals_t5(decoder):
    torch_or_skip()
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    config = t5.T5Config(
        d_model=8,
        d_kv=4,
        num_heads=HEADS,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=12,
        is_decoder=decoder,
    )
    attention = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    expected = attention.cpu().compute_bias(5, 9).detach().numpy()
    layer = kt.RelativePositionBias(
        HEADS, num_buckets=8, max_distance=12, bidirectional=not decoder
    )
    query_positions = np.arange(5, dtype="int32")
    key_positions = np.arange(9, dtype="int32")
    layer(query_positions, key_positions)
    table = attention.relative_attention_bias.weight.detach().numpy()
    layer.set_weights([table])
    assert_same(layer(query_positions, key_positions), expected)


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16])
def test_alibi_slopes_of_powers_of_two_are_the_papers_closed_form(heads):
    expected = [2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)]
    np.testing.assert_allclose(positions.alibi_slopes(heads), expected, rtol=1e-6)


@pytest.mark.parametrize("heads", [3, 5, 6, 7, 12, 14])
def test_alibi_slopes_of_other_counts_equal_bloom(heads):
    torch = torch_or_skip()
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    mask = torch.ones((1, 2), dtype=torch.int64, device="cpu")
    # At distance one Bloom's bias is the slope itself.
    expected = bloom.build_alibi_tensor(mask, heads, torch.float32)[:, 0, 1].numpy()
    np.testing.assert_allclose(positions.alibi_slopes(heads), expected, rtol=1e-6)


@pytest.mark.parametrize("heads", [4, 6])
def test_a_causal_softmax_under_alibi_equals_bloom(heads):
    torch = torch_or_skip()
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    mask = torch.tensor(real([TIME], TIME).astype("int64"), device="cpu")
    theirs = bloom.build_alibi_tensor(mask, heads, torch.float32).numpy()
    plug = kt.AlibiBias(heads)(np.arange(TIME), np.arange(TIME))
    bias = to_numpy(positions.alibi_bias(plug["slopes"], plug["distances"]))
    assert bias.shape == (1, heads, TIME, TIME)
    scores = numbers(5, heads, TIME, TIME)

    def rows(added):
        """Return the softmax over the past of each query."""
        for head in range(heads):
            for query in range(TIME):
                past = np.exp((scores + added)[head, query, : query + 1])
                yield from past / past.sum()

    np.testing.assert_allclose(
        list(rows(bias[0])), list(rows(theirs)), rtol=1e-5, atol=1e-6
    )


def test_alibi_falls_with_the_distance_on_both_sides():
    plug = kt.AlibiBias(HEADS)(np.arange(4), np.arange(6))
    bias = to_numpy(positions.alibi_bias(plug["slopes"], plug["distances"]))
    slopes = np.asarray(positions.alibi_slopes(HEADS))
    for query in range(4):
        for key in range(6):
            np.testing.assert_allclose(
                bias[0, :, query, key], -slopes * abs(query - key), rtol=1e-6
            )


def sinusoids_by_hand(places, width):
    """Return PE[p, 2i] = sin(p / 10000^(2i / d)), PE[p, 2i + 1] = cos(the same)."""
    table = np.zeros((len(places), width))
    for row, place in enumerate(places):
        for column in range(width):
            angle = place / 10000 ** (2 * (column // 2) / width)
            table[row, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


@pytest.mark.parametrize("width", [1, 8, 13])
def test_sinusoids_equal_the_papers_formula(width):
    places = np.array([0, 1, 2, 5, 11, 60])
    expected = sinusoids_by_hand(places, width)
    assert_same(positions.sinusoids(places, width), expected)


@pytest.mark.parametrize("width", [2, 13])
def test_concatenated_sinusoids_are_all_sines_and_then_all_cosines(width):
    places = np.arange(12)
    interleaved = sinusoids_by_hand(places, width)
    expected = np.concatenate([interleaved[:, 0::2], interleaved[:, 1::2]], axis=-1)
    assert_same(positions.sinusoids(places, width, layout="concatenated"), expected)


@pytest.mark.parametrize("width", [8, 7])
def test_concatenated_sinusoids_equal_marian(width):
    torch_or_skip()
    marian = pytest.importorskip("transformers.models.marian.modeling_marian")
    embedding = marian.MarianSinusoidalPositionalEmbedding(12, width)
    table = embedding.create_weight().cpu().numpy()
    mine = positions.sinusoids(np.arange(12), width, layout="concatenated")
    assert_same(mine, table)


@pytest.mark.parametrize("width", [8, 7])
def test_the_sinusoidal_encoding_adds_the_papers_table(width):
    inputs = numbers(6, BATCH, TIME, width)
    table = sinusoids_by_hand(np.arange(TIME), width)
    assert_same(kt.SinusoidalEncoding()(inputs), inputs + table)
    moved = sinusoids_by_hand(np.arange(3, 3 + TIME), width)
    assert_same(kt.SinusoidalEncoding()(inputs, start_index=3), inputs + moved)
    assert_same(
        kt.SinusoidalEncoding()(inputs, positions=np.arange(3, 3 + TIME)),
        inputs + moved,
    )


def test_the_sinusoidal_embedding_adds_the_papers_table_to_the_tokens():
    ids = np.array([[3, 1, 4, 1, 5], [2, 6, 5, 0, 0]], dtype="int32")
    layer = kt.PositionalEmbedding(9, 7, 6, encoding="sinusoidal")
    layer.build(ids.shape)
    (tokens,) = randomize(layer)
    assert_same(layer(ids), tokens[ids] + sinusoids_by_hand(np.arange(5), 6))


def test_the_learned_embedding_adds_its_own_table_to_the_tokens():
    ids = np.array([[3, 1, 4, 1, 5], [2, 6, 5, 0, 0]], dtype="int32")
    layer = kt.PositionalEmbedding(9, 7, 6)
    layer.build(ids.shape)
    tokens, table = randomize(layer)
    assert_same(layer(ids), tokens[ids] + table[:5])
