"""What the test suite of Keras's attention layers checks of masks.

README.md in this folder says which of their tests each of these answers.
"""

import warnings

import keras
import numpy as np
import pytest
from keras import ops
from parity_layers import (
    LAYERS,
    TWO,
    attention,
    built,
    every_attention,
    every_layer,
    grouped,
    symbolic,
)
from parity_tools import (
    BATCH,
    HEADS,
    SOURCE,
    TIME,
    WIDTH,
    assert_same,
    carrying,
    lower_triangle,
    mask_of,
    numbers,
    randomize,
    real,
    to_numpy,
)

import keras_transformer as kt
from keras_transformer.ops.attention import attend


@every_attention
def test_attention_hands_on_the_querys_mask_and_no_other(name):
    layer, (query, value) = built(name)
    query_mask, value_mask = real([TIME, 3], TIME), real([SOURCE, 2], SOURCE)
    outputs = layer(carrying(query, query_mask), carrying(value, value_mask))
    np.testing.assert_array_equal(mask_of(outputs), query_mask)
    assert mask_of(layer(query, carrying(value, value_mask))) is None
    assert mask_of(layer(query, value)) is None


@every_attention
def test_attention_hands_on_a_query_mask_given_as_an_argument(name):
    layer, (query, value) = built(name)
    query_mask = real([TIME, 3], TIME)
    outputs = layer(query, value, query_mask=query_mask)
    np.testing.assert_array_equal(mask_of(outputs), query_mask)


def embedded(ids, seed):
    """Return token vectors that carry the mask of their padding."""
    layer = keras.layers.Embedding(6, WIDTH, mask_zero=True)
    layer.build((None,))
    randomize(layer, seed)
    return layer(ids)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("make", [attention, grouped])
def test_carried_masks_and_causality_equal_one_written_mask(make, causal):
    query_ids = np.array([[1, 2, 3, 0, 0], [1, 0, 0, 0, 0]])
    value_ids = np.array([[5, 4, 1, 3, 0, 0], [3, 0, 0, 0, 0, 0]])
    query, value = embedded(query_ids, 0), embedded(value_ids, 1)
    layer = make()
    layer.build(*TWO)
    outputs = layer(query, value, use_causal_mask=causal)
    written = np.zeros((BATCH, TIME, SOURCE), dtype=bool)
    for batch in range(BATCH):
        for time in range(TIME):
            for place in range(SOURCE):
                written[batch, time, place] = value_ids[batch, place] != 0 and (
                    not causal or place <= time
                )
    expected = layer(to_numpy(query), to_numpy(value), attention_mask=written)
    # Ours hides keys only, so that the padded queries agree as well.
    assert_same(outputs, expected)


def test_masks_of_three_and_of_four_axes_say_the_same():
    layer, (query, value) = built("attention")
    mask = np.random.default_rng(3).random((BATCH, TIME, SOURCE)) < 0.5
    mask[..., 0] = True
    expected = layer(query, value, attention_mask=mask)
    by_head = np.repeat(mask[:, None], HEADS, axis=1)
    assert_same(layer(query, value, attention_mask=by_head), expected)
    assert_same(layer(query, value, attention_mask=mask[:, None]), expected)
    as_integers = mask.astype("int32")
    assert_same(layer(query, value, attention_mask=as_integers), expected)
    as_floats = mask.astype("float32")
    assert_same(layer(query, value, attention_mask=as_floats), expected)


def test_a_mask_of_two_axes_is_refused():
    layer, (query, value) = built("attention")
    with pytest.raises(ValueError, match="attention_mask"):
        layer(query, value, attention_mask=np.ones((TIME, SOURCE), dtype=bool))


@every_layer
def test_carried_masks_raise_no_warning(name):
    layer, inputs = built(name)
    _, shapes, _ = LAYERS[name]
    masked = [carrying(x, real([x.shape[1], 3], x.shape[1])) for x in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(*masked)
        entrances = symbolic(shapes)
        masking = keras.layers.Masking()
        keras.Model(entrances, layer(*(masking(x) for x in entrances)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("make", [attention, grouped])
def test_a_window_gives_weight_to_the_near_keys_and_to_no_others(make, causal):
    layer = make(sliding_window=3)
    inputs = numbers(4, BATCH, TIME, WIDTH)
    _, scores = layer(
        inputs, inputs, use_causal_mask=causal, return_attention_scores=True
    )
    scores = to_numpy(scores)[0]
    for query in range(TIME):
        for key in range(TIME):
            seen = abs(query - key) < 3 and (key <= query or not causal)
            assert np.all((scores[:, query, key] > 0.0) == seen)


def test_a_window_is_kept_in_the_config():
    config = attention(sliding_window=5).get_config()
    assert config["sliding_window"] == 5
    assert kt.MultiHeadAttention.from_config(config).sliding_window == 5


causal_settings = pytest.mark.parametrize(
    ("dropout", "scores"), [(0.0, False), (0.0, True), (0.1, False), (0.1, True)]
)


@causal_settings
@pytest.mark.parametrize("make", [attention, grouped])
def test_causality_equals_a_written_triangle_on_every_path(make, dropout, scores):
    layer = make(dropout=dropout)
    inputs = numbers(5, BATCH, TIME, WIDTH)
    layer.build(inputs.shape, inputs.shape)
    arguments = {"training": False, "return_attention_scores": scores}
    given = layer(inputs, inputs, use_causal_mask=True, **arguments)
    triangle = lower_triangle(TIME)[None]
    expected = layer(inputs, inputs, attention_mask=triangle, **arguments)
    if scores:
        assert np.all(to_numpy(given[1])[..., ~triangle[0]] == 0.0)
        assert_same(given[1], expected[1])
        given, expected = given[0], expected[0]
    assert_same(given, expected)


@causal_settings
@pytest.mark.parametrize("make", [attention, grouped])
def test_causality_and_another_mask_both_hold_on_every_path(make, dropout, scores):
    layer = make(dropout=dropout)
    inputs = numbers(6, BATCH, TIME, WIDTH)
    layer.build(inputs.shape, inputs.shape)
    extra = np.ones((BATCH, TIME, TIME), dtype=bool)
    extra[:, 3, 1] = False
    arguments = {"return_attention_scores": scores}
    given = layer(
        inputs, inputs, attention_mask=extra, use_causal_mask=True, **arguments
    )
    merged = extra & lower_triangle(TIME)
    expected = layer(inputs, inputs, attention_mask=merged, **arguments)
    only_causal = layer(inputs, inputs, use_causal_mask=True, **arguments)
    if scores:
        assert np.all(to_numpy(given[1])[:, :, 3, 1] == 0.0)
        given, expected, only_causal = given[0], expected[0], only_causal[0]
    assert_same(given, expected)
    assert np.abs(to_numpy(given) - to_numpy(only_causal)).max() > 1e-3


@pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
def test_the_attention_function_itself_joins_causality_and_mask(explicit):
    query, key, value = (numbers(seed, BATCH, TIME, HEADS, 4) for seed in (7, 8, 9))
    extra = np.ones((1, 1, TIME, TIME), dtype=bool)
    extra[..., 3, 1] = False
    query, key, value, extra, merged = (
        ops.convert_to_tensor(x)
        for x in (query, key, value, extra, extra & lower_triangle(TIME))
    )
    given, _ = attend(
        query, key, value, mask=extra, causal=True, return_weights=explicit
    )
    expected, _ = attend(query, key, value, mask=merged, return_weights=explicit)
    assert_same(given, expected)
