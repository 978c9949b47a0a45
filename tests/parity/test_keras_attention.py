"""MultiHeadAttention is Keras's layer of that name, and its grouped sibling."""

import keras
import numpy as np
import pytest
from parity_tools import (
    BATCH,
    HEADS,
    SOURCE,
    TIME,
    WIDTH,
    assert_same,
    assert_same_gradients,
    carrying,
    lower_triangle,
    numbers,
    real,
    share_weights,
)

import keras_transformer as kt

SIZE = WIDTH // HEADS
VALUE_WIDTH, KEY_WIDTH = 7, 9

SETTINGS = {
    "plain": {},
    "no_bias": {"use_bias": False},
    "value_dim": {"value_dim": 3},
    "output_width": {"output_shape": 5},
    "window": {"sliding_window": 3},
    "unused_dropout": {"dropout": 0.4},
    "three": {"use_bias": False, "value_dim": 3, "sliding_window": 4},
}


def random_mask(seed, *shape):
    """Return a random mask in which every row may attend to the first key."""
    mask = np.random.default_rng(seed).random(shape) < 0.6
    mask[..., 0] = True
    return mask


def masks(kind, time, source):
    """Return the call arguments of one kind of mask, and the real query rows."""
    query_mask = real([time, time - 2], time)
    value_mask = real([source - 1, source - 2], source)
    key_mask = real([source, source - 3], source)
    everywhere = np.ones((BATCH, time), dtype=bool)
    arguments, rows = {
        "none": ({}, everywhere),
        "query": ({"query_mask": query_mask}, query_mask),
        "value": ({"value_mask": value_mask}, everywhere),
        "key": ({"key_mask": key_mask}, everywhere),
        "three": (
            {"query_mask": query_mask, "value_mask": value_mask, "key_mask": key_mask},
            query_mask,
        ),
        "attention": (
            {"attention_mask": random_mask(1, BATCH, time, source)},
            everywhere,
        ),
        "attention_one_row": (
            {"attention_mask": random_mask(2, BATCH, 1, source)},
            everywhere,
        ),
        "attention_integer": (
            {"attention_mask": random_mask(3, BATCH, time, source).astype("int32")},
            everywhere,
        ),
        "attention_each_head": (
            {"attention_mask": random_mask(4, BATCH, HEADS, time, source)},
            everywhere,
        ),
        "causal": ({"use_causal_mask": True}, everywhere),
        "value_causal": (
            {"value_mask": value_mask, "use_causal_mask": True},
            everywhere,
        ),
        "everything": (
            {
                "query_mask": query_mask,
                "value_mask": value_mask,
                "attention_mask": random_mask(5, BATCH, time, source),
                "use_causal_mask": True,
            },
            query_mask,
        ),
    }[kind]
    return arguments, rows


MASKS = [
    "none",
    "query",
    "value",
    "key",
    "three",
    "attention",
    "attention_one_row",
    "attention_integer",
    "attention_each_head",
    "causal",
    "value_causal",
    "everything",
]


def pair(settings, *shapes, heads=HEADS):
    """Return (ours, Keras's), built for these shapes with the same weights."""
    theirs = keras.layers.MultiHeadAttention(heads, SIZE, **settings)
    ours = kt.MultiHeadAttention(heads, SIZE, **settings)
    theirs.build(*shapes)
    ours.build(*shapes)
    share_weights(theirs, ours)
    return ours, theirs


def self_inputs():
    return (numbers(11, BATCH, TIME, WIDTH),) * 2


def cross_inputs():
    query = numbers(12, BATCH, TIME, WIDTH)
    value = numbers(13, BATCH, SOURCE, VALUE_WIDTH)
    key = numbers(14, BATCH, SOURCE, KEY_WIDTH)
    return query, value, key


def call_theirs(theirs, *inputs, **arguments):
    """Call Keras's layer by the path that it has on every backend.

    On JAX its fused path fails where value_dim is not key_dim; asking for the
    scores takes the other path.
    """
    if isinstance(theirs, keras.layers.MultiHeadAttention):
        if theirs.value_dim != theirs.key_dim:
            arguments["return_attention_scores"] = True
            return theirs(*inputs, **arguments)[0]
    return theirs(*inputs, **arguments)


def assert_same_calls(ours, theirs, inputs, kind):
    """Compare outputs alone, and outputs with scores, at the real query rows."""
    time, source = inputs[0].shape[1], inputs[1].shape[1]
    arguments, rows = masks(kind, time, source)
    expected = call_theirs(theirs, *inputs, **arguments)
    assert_same(ours(*inputs, **arguments), expected, where=rows)
    arguments["return_attention_scores"] = True
    our_output, our_scores = ours(*inputs, **arguments)
    their_output, their_scores = theirs(*inputs, **arguments)
    assert_same(our_output, their_output, where=rows)
    assert_same(
        np.moveaxis(keras.ops.convert_to_numpy(our_scores), 1, 2),
        np.moveaxis(keras.ops.convert_to_numpy(their_scores), 1, 2),
        where=rows,
    )


@pytest.mark.parametrize("kind", MASKS)
def test_self_attention_equals_keras_under_every_mask(kind):
    inputs = self_inputs()
    ours, theirs = pair({}, *(x.shape for x in inputs))
    assert_same_calls(ours, theirs, inputs, kind)


@pytest.mark.parametrize("kind", MASKS)
def test_cross_attention_equals_keras_under_every_mask(kind):
    inputs = cross_inputs()
    ours, theirs = pair({}, *(x.shape for x in inputs))
    assert_same_calls(ours, theirs, inputs, kind)


@pytest.mark.parametrize("kind", ["none", "everything"])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_equals_keras_in_self_attention(name, kind):
    inputs = self_inputs()
    ours, theirs = pair(SETTINGS[name], *(x.shape for x in inputs))
    assert_same_calls(ours, theirs, inputs, kind)


@pytest.mark.parametrize("kind", ["none", "value_causal"])
@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_equals_keras_in_cross_attention(name, kind):
    inputs = cross_inputs()
    ours, theirs = pair(SETTINGS[name], *(x.shape for x in inputs))
    assert_same_calls(ours, theirs, inputs, kind)


def test_an_output_of_two_axes_equals_keras():
    inputs = self_inputs()
    ours, theirs = pair({"output_shape": (3, 2)}, *(x.shape for x in inputs))
    assert_same_calls(ours, theirs, inputs, "none")


@pytest.mark.parametrize("window", [1, 2, 9])
@pytest.mark.parametrize("kind", ["none", "causal", "value_causal"])
def test_every_window_equals_keras(window, kind):
    inputs = self_inputs()
    ours, theirs = pair({"sliding_window": window}, *(x.shape for x in inputs))
    arguments, _ = masks(kind, TIME, TIME)
    near = np.abs(np.arange(TIME)[:, None] - np.arange(TIME)) < window
    if "causal" in kind:
        near = near & lower_triangle(TIME)
    keys = arguments.get("value_mask", np.ones((BATCH, TIME), dtype=bool))
    # Rows with nothing to attend to are defined otherwise: zeros here.
    rows = (near[None] & keys[:, None]).any(-1)
    assert_same(ours(*inputs, **arguments), theirs(*inputs, **arguments), where=rows)


@pytest.mark.parametrize("causal", [False, True])
def test_masks_carried_by_the_tensors_equal_keras(causal):
    query, value, key = cross_inputs()
    query_mask = real([TIME, 3], TIME)
    value_mask = real([SOURCE, 4], SOURCE)
    key_mask = real([SOURCE - 1, SOURCE], SOURCE)
    ours, theirs = pair({}, query.shape, value.shape, key.shape)

    def call(layer):
        return layer(
            carrying(query, query_mask),
            carrying(value, value_mask),
            carrying(key, key_mask),
            use_causal_mask=causal,
        )

    assert_same(call(ours), call(theirs), where=query_mask)


@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_carried_in_self_attention_equals_keras(causal):
    inputs, _ = self_inputs()
    mask = real([TIME, 3], TIME)
    ours, theirs = pair({}, inputs.shape, inputs.shape)
    masked = carrying(inputs, mask)
    mine = ours(masked, masked, use_causal_mask=causal)
    other = theirs(
        carrying(inputs, mask), carrying(inputs, mask), None, use_causal_mask=causal
    )
    assert_same(mine, other, where=mask)


def test_padded_keys_get_no_weight_and_padded_queries_change_no_real_row():
    query, value, key = cross_inputs()
    ours, _ = pair({}, query.shape, value.shape, key.shape)
    value_mask = real([SOURCE, 4], SOURCE)
    query_mask = real([TIME, 3], TIME)
    _, scores = ours(
        query, value, key, value_mask=value_mask, return_attention_scores=True
    )
    assert np.all(keras.ops.convert_to_numpy(scores)[1, ..., 4:] == 0.0)
    masked = ours(query, value, key, query_mask=query_mask, value_mask=value_mask)
    free = ours(query, value, key, value_mask=value_mask)
    assert_same(masked, free, where=query_mask)


def test_a_symbolic_model_equals_keras():
    query, value, key = cross_inputs()

    def model(layer):
        inputs = [
            keras.Input((None, width)) for width in (WIDTH, VALUE_WIDTH, KEY_WIDTH)
        ]
        outputs, scores = layer(*inputs, return_attention_scores=True)
        return keras.Model(inputs, [outputs, scores])

    theirs = model(keras.layers.MultiHeadAttention(HEADS, SIZE))
    ours = model(kt.MultiHeadAttention(HEADS, SIZE))
    share_weights(theirs, ours)
    feed = [query, value, key]
    for mine, other in zip(
        ours.predict(feed, verbose=0), theirs.predict(feed, verbose=0), strict=True
    ):
        assert_same(mine, other)


def gradient_model(layer, self_attention, **arguments):
    """Return a model whose first layers carry the gradients of the inputs too."""
    query_in = keras.Input((TIME, WIDTH))
    query = keras.layers.Dense(WIDTH)(query_in)
    if self_attention:
        mask = keras.Input((TIME, TIME), dtype="bool")
        outputs = call_theirs(layer, query, query, attention_mask=mask, **arguments)
        return keras.Model([query_in, mask], outputs)
    value_in = keras.Input((SOURCE, VALUE_WIDTH))
    value = keras.layers.Dense(WIDTH)(value_in)
    mask = keras.Input((TIME, SOURCE), dtype="bool")
    outputs = call_theirs(layer, query, value, attention_mask=mask, **arguments)
    return keras.Model([query_in, value_in, mask], outputs)


def assert_layers_have_the_same_gradients(our_layer, their_layer, self_attention):
    arguments = {"use_causal_mask": self_attention}
    theirs = gradient_model(their_layer, self_attention, **arguments)
    ours = gradient_model(our_layer, self_attention, **arguments)
    share_weights(theirs, ours)
    query, value, _ = cross_inputs()
    if self_attention:
        inputs = [query, random_mask(6, BATCH, TIME, TIME)]
    else:
        inputs = [query, value, random_mask(7, BATCH, TIME, SOURCE)]
    targets = numbers(15, BATCH, TIME, WIDTH)
    assert_same_gradients(ours, theirs, inputs, targets)


def test_gradients_equal_keras():
    assert_layers_have_the_same_gradients(
        kt.MultiHeadAttention(HEADS, SIZE),
        keras.layers.MultiHeadAttention(HEADS, SIZE),
        self_attention=False,
    )


def test_gradients_of_the_explicit_path_equal_keras():
    settings = {"value_dim": 3, "sliding_window": 4}
    assert_layers_have_the_same_gradients(
        kt.MultiHeadAttention(HEADS, SIZE, **settings),
        keras.layers.MultiHeadAttention(HEADS, SIZE, **settings),
        self_attention=True,
    )


def grouped_pair(key_value_heads, *shapes, **settings):
    """Return (ours, Keras's grouped layer) with four query heads."""
    theirs = keras.layers.GroupQueryAttention(
        head_dim=SIZE,
        num_query_heads=4,
        num_key_value_heads=key_value_heads,
        **settings,
    )
    ours = kt.MultiHeadAttention(
        4, SIZE, num_key_value_heads=key_value_heads, **settings
    )
    theirs.build(*shapes)
    ours.build(*shapes)
    share_weights(theirs, ours)
    return ours, theirs


@pytest.mark.parametrize(
    "kind", ["none", "query", "value", "attention", "causal", "everything"]
)
@pytest.mark.parametrize("key_value_heads", [1, 2])
def test_grouped_heads_equal_keras_in_self_attention(key_value_heads, kind):
    inputs = self_inputs()
    ours, theirs = grouped_pair(key_value_heads, *(x.shape for x in inputs))
    assert_same_calls(ours, theirs, inputs, kind)


def test_grouped_heads_equal_keras_in_cross_attention():
    query = numbers(16, BATCH, TIME, WIDTH)
    value = numbers(17, BATCH, SOURCE, WIDTH)
    key = numbers(18, BATCH, SOURCE, KEY_WIDTH)
    inputs = (query, value, key)
    ours, theirs = grouped_pair(2, *(x.shape for x in inputs), use_bias=False)
    for kind in ("none", "three", "everything"):
        assert_same_calls(ours, theirs, inputs, kind)


def test_grouped_heads_with_a_window_equal_keras():
    inputs = self_inputs()
    ours, theirs = grouped_pair(2, *(x.shape for x in inputs), sliding_window=3)
    for kind in ("none", "causal"):
        assert_same_calls(ours, theirs, inputs, kind)


def test_grouped_heads_have_the_gradients_of_keras():
    assert_layers_have_the_same_gradients(
        kt.MultiHeadAttention(4, SIZE, num_key_value_heads=2),
        keras.layers.GroupQueryAttention(SIZE, 4, 2),
        self_attention=True,
    )
