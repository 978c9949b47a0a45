"""P12: a length beyond a table is refused by number; an unknown length just works.

Sources: keras-team/keras-hub#2190, #1061; bojone/bert4keras#229.
"""

import functools

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.ops.cache import create_cache, write_keys, write_tokens
from keras_transformer.ops.positions import sinusoids

from .examples import CORE, EXAMPLES, quick, shape
from .helpers import array, arrays, assert_close, randomize

LIMIT = 8
ENCODINGS = ["learned", "sinusoidal"]
POSITIONAL = ["positional", "sinusoidal", "rotary", "alibi", "relative"]


def ids(length, batch=1):
    return np.full((batch, length), 5, "int32")


def table(encoding="learned"):
    embed = kt.PositionalEmbedding(LIMIT, 12, 6, encoding=encoding)
    embed(ids(2))
    return randomize(embed)


def positions_of(embed, tokens, **more):
    """Return what was added to the token vectors."""
    return array(embed(tokens, **more)) - array(embed.token_embedding(tokens))


def test_a_text_longer_than_the_table_is_refused_with_both_numbers():
    embed = table()
    with pytest.raises(ValueError, match=r"(?s)(8.*9|9.*8)"):
        embed(ids(9))
    with pytest.raises(ValueError, match=r"(?s)(8.*9|9.*8)"):
        kt.PositionalEmbedding(LIMIT, 12, 6)(keras.Input((9,), dtype="int32"))
    with pytest.raises(ValueError, match=r"(?s)(8.*9|9.*8)"):
        layers = [
            keras.Input((9,), dtype="int32"),
            kt.PositionalEmbedding(LIMIT, 12, 6),
        ]
        keras.Sequential(layers)


def test_a_text_longer_than_the_table_is_refused_in_predict():
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, table()(inputs))
    assert model.predict(ids(5), verbose=0).shape == (1, 5, 6)
    assert model.predict(ids(LIMIT), verbose=0).shape == (1, LIMIT, 6)
    try:
        model.predict(ids(9), verbose=0)
    except Exception as error:  # each backend has its own kind once it is compiled
        assert str(error)
    else:
        pytest.fail("nine tokens were looked up in a table of eight positions")


@pytest.mark.parametrize("length", [1, 2, 3, 8])
def test_position_p_is_row_p_of_the_table(length):
    embed = table()
    (rows,) = [
        array(w) for w in embed.trainable_variables if "position_embedding" in w.path
    ]
    assert_close(positions_of(embed, ids(length))[0], rows[:length])


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("start", [0, 1, 5])
def test_the_first_token_takes_row_start_index(encoding, start):
    embed = table(encoding)
    full = array(embed(ids(LIMIT)))
    for index in (start, np.int32(start), keras.ops.convert_to_tensor(start, "int32")):
        ours = embed(ids(3), start_index=index)
        assert_close(ours, full[:, start : start + 3])


@pytest.mark.parametrize(("start", "length"), [(7, 2), (8, 1), (1, 8)])
def test_a_start_beyond_the_table_is_refused(start, length):
    embed = table()
    end = start + length
    with pytest.raises(ValueError, match=rf"(?s)({LIMIT}.*{end}|{end}.*{LIMIT})"):
        embed(ids(length), start_index=start)


def test_a_negative_start_is_refused():
    with pytest.raises(ValueError, match="-1"):
        table()(ids(2), start_index=-1)


@pytest.mark.parametrize("wrong", [8, 100, -1])
def test_a_position_outside_the_table_is_refused(wrong):
    positions = np.array([[0, wrong]], "int32")
    with pytest.raises(ValueError, match=str(wrong)):
        table()(ids(2), positions=positions)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("batched", [False, True])
def test_given_positions_choose_the_rows(encoding, batched):
    embed = table(encoding)
    full = array(embed(ids(LIMIT)))[0]
    chosen = np.array([3, 0, 7], "int32")
    positions = np.stack([chosen, chosen[::-1]]) if batched else chosen
    ours = array(embed(ids(3, batch=2), positions=positions))
    assert_close(ours[0], full[chosen])
    assert_close(ours[1], full[chosen[::-1] if batched else chosen])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_position_has_one_vector_whatever_the_length_and_batch(encoding):
    embed = table(encoding)
    longest = array(embed(ids(LIMIT)))
    for length in (1, 2, 5):
        for batch in (1, 3):
            ours = array(embed(ids(length, batch)))
            assert_close(ours, np.repeat(longest[:, :length], batch, 0), atol=1e-6)


def test_sinusoids_accept_any_length():
    layer = kt.SinusoidalEncoding()
    zeros = np.zeros((1, 600, 6), "float32")
    longest = array(layer(zeros))
    assert_close(layer(zeros[:, :1]), longest[:, :1])
    assert_close(layer(zeros[:, :7]), longest[:, :7])
    assert_close(layer(zeros[:, :2], start_index=500), longest[:, 500:502])
    positions = np.array([599, 0], "int32")
    assert_close(layer(zeros[:, :2], positions=positions), longest[:, positions])


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_sinusoids_equal_the_formula_at_any_width(layout, width):
    positions = np.array([0, 1, 9, 300])
    expected = np.zeros((4, width))
    for row, p in enumerate(positions):
        sines, cosines = [], []
        for i in range(0, width, 2):
            angle = p / 10000 ** (i / width)
            sines.append(np.sin(angle))
            cosines.append(np.cos(angle))
        if layout == "interleaved":
            pairs = [v for pair in zip(sines, cosines, strict=True) for v in pair]
            expected[row] = pairs[:width]
        else:
            expected[row] = (sines + cosines)[:width]
    ours = sinusoids(positions.astype("int32"), width, layout=layout)
    assert_close(ours, expected.astype("float32"), atol=5e-5)
    if width > 1:
        zeros = np.zeros((1, 4, width), "float32")
        layer = kt.SinusoidalEncoding(layout=layout)
        added = layer(zeros, positions=positions.astype("int32"))
        assert_close(array(added)[0], expected.astype("float32"), atol=5e-5)


@pytest.mark.parametrize("length", quick([1, 2, 5, 8], [1]))
@pytest.mark.parametrize("name", quick(CORE, POSITIONAL))
def test_one_build_serves_every_length(name, length):
    example = EXAMPLES[name]
    layer = built(name)
    sizes = {"T": length, "S": length}
    result = layer(*example.arrays(**sizes))
    if isinstance(example.output, str):
        assert tuple(result.shape) == shape(example.output, **sizes)
    else:
        assert tuple(result["distances"].shape) == (2, length, length)


@functools.cache
def built(name):
    layer = EXAMPLES[name].make()
    layer.build(*[tuple(x.shape) for x in EXAMPLES[name].symbolic()])
    return layer


@pytest.mark.parametrize("name", POSITIONAL[1:])
def test_positions_have_no_largest_length(name):
    example = EXAMPLES[name]
    sizes = {"B": 1, "T": 600, "S": 600}
    for values in arrays(example.make()(*example.arrays(**sizes))):
        assert np.isfinite(values).all()
    embed = kt.PositionalEmbedding(LIMIT, 12, 6, encoding="sinusoidal")
    assert tuple(embed(ids(600)).shape) == (1, 600, 6)


def test_a_model_of_unknown_length_predicts_every_length():
    inputs = keras.Input((None,), dtype="int32")
    x = kt.PositionalEmbedding(LIMIT, 12, 8)(inputs)
    x = kt.MultiHeadAttention(2, 4, rotary=kt.RotaryEmbedding())(x, x)
    model = keras.Model(inputs, x)
    for length in (3, 5):
        tokens = ids(length, batch=2)
        assert_close(model.predict(tokens, verbose=0), model(tokens))


def test_a_fixed_length_input_works_too():
    for name in ("encoder", "stack-alibi"):
        inputs = keras.Input((3, 8))
        model = keras.Model(inputs, EXAMPLES[name].make()(inputs))
        (x,) = EXAMPLES[name].arrays()
        assert tuple(model(x).shape) == (2, 3, 8)


def test_a_batch_of_fixed_size_works():
    inputs = keras.Input(batch_shape=(2, None, 8))
    model = keras.Model(inputs, EXAMPLES["encoder"].make()(inputs))
    assert tuple(model.output.shape) == (2, None, 8)


def test_relative_distances_beyond_the_largest_share_one_bucket():
    layer = kt.RelativePositionBias(2, num_buckets=8, max_distance=12)
    layer(np.arange(2, dtype="int32"), np.arange(2, dtype="int32"))
    randomize(layer)
    far = np.array([0, 500, 501, 5000], "int32")
    bias = array(layer(np.array([0], "int32"), far))[0, :, 0]
    assert_close(bias[:, 1], bias[:, 2])
    assert_close(bias[:, 1], bias[:, 3])
    assert np.abs(bias[:, 0] - bias[:, 1]).min() > 1e-4


@pytest.mark.parametrize(("used", "more"), [(0, 5), (2, 3), (4, 1)])
def test_a_full_cache_refuses_a_further_token(used, more):
    cache = create_cache(1, 4, 2, 3)
    x = keras.ops.ones((1, 5, 2, 3))
    if used:
        cache = write_tokens(cache, keras.ops.arange(used))
        cache = write_keys(cache, x[:, :used], x[:, :used])
    with pytest.raises(ValueError, match="4"):
        write_tokens(cache, keras.ops.arange(more))


def test_a_cache_is_filled_in_order_and_never_wraps():
    x = np.random.default_rng(0).normal(size=(1, 4, 2, 3))
    x = keras.ops.convert_to_tensor(x, "float32")
    cache = create_cache(1, 4, 2, 3)
    for start, stop in ((0, 2), (2, 3), (3, 4)):
        before = array(cache["key"]).copy()
        new = x[:, start:stop]
        after = write_keys(write_tokens(cache, keras.ops.arange(start, stop)), new, new)
        assert_close(cache["key"], before, atol=0)  # values are never changed
        cache = after
        assert int(array(cache["slot"])) == stop
        assert array(cache["mask"]).sum() == stop
    assert_close(cache["key"], array(x).transpose(0, 2, 1, 3), atol=0)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_empty_text_gives_an_empty_result(encoding):
    assert tuple(table(encoding)(ids(0)).shape) == (1, 0, 6)
