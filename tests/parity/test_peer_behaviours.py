"""What Keras's and KerasHub's own test suites check, asked of our layers.

README.md in this folder says which of their tests each of these answers.
"""

import warnings

import keras
import numpy as np
import pytest
from keras import ops
from parity_tools import (
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

BATCH, TIME, SOURCE, WIDTH, HEADS, HIDDEN = 2, 5, 6, 8, 2, 12

ONE = [(BATCH, TIME, WIDTH)]
TWO = [(BATCH, TIME, WIDTH), (BATCH, SOURCE, WIDTH)]

orders = pytest.mark.parametrize(
    "normalize_first", [False, True], ids=["post_norm", "pre_norm"]
)


def encoder(**settings):
    return kt.TransformerEncoder(WIDTH, HEADS, HIDDEN, **settings)


def decoder(**settings):
    return kt.TransformerDecoder(WIDTH, HEADS, HIDDEN, **settings)


def attention(**settings):
    return kt.MultiHeadAttention(HEADS, 4, **settings)


def grouped(key_value_heads=2, **settings):
    return kt.MultiHeadAttention(4, 4, num_key_value_heads=key_value_heads, **settings)


# name -> (constructor, shapes of its inputs, number of trainable weights)
LAYERS = {
    "encoder_post_norm": (encoder, ONE, 16),
    "encoder_pre_norm": (lambda **s: encoder(normalize_first=True, **s), ONE, 16),
    "decoder_post_norm": (decoder, TWO, 26),
    "decoder_pre_norm": (lambda **s: decoder(normalize_first=True, **s), TWO, 26),
    "decoder_alone": (lambda **s: decoder(cross_attention=False, **s), ONE, 16),
    "attention": (attention, TWO, 8),
    "attention_no_bias": (
        lambda **s: attention(value_dim=3, use_bias=False, **s),
        TWO,
        4,
    ),
    "grouped": (grouped, TWO, 8),
    "grouped_no_bias": (lambda **s: grouped(1, use_bias=False, **s), TWO, 4),
    "bahdanau": (lambda **s: kt.BahdanauAttention(6, **s), TWO, 3),
    "luong_dot": (lambda **s: kt.LuongAttention("dot", **s), TWO, 0),
    "luong_general": (lambda **s: kt.LuongAttention("general", **s), TWO, 1),
    "luong_concat": (lambda **s: kt.LuongAttention("concat", units=6, **s), TWO, 2),
}

every_layer = pytest.mark.parametrize("name", LAYERS)

ATTENTIONS = [name for name, (_, shapes, _) in LAYERS.items() if "coder" not in name]

every_attention = pytest.mark.parametrize("name", ATTENTIONS)


def built(name, **settings):
    """Return (a built layer with random weights, its inputs)."""
    make, shapes, _ = LAYERS[name]
    layer = make(**settings)
    layer.build(*shapes)
    randomize(layer)
    return layer, [numbers(index, *shape) for index, shape in enumerate(shapes)]


def symbolic(shapes):
    return [keras.Input((None, shape[-1])) for shape in shapes]


# What their `run_layer_test` asks of every layer.


@every_layer
def test_building_alone_makes_every_weight(name):
    make, shapes, count = LAYERS[name]
    layer = make(dropout=0.1)
    layer.build(*shapes)
    assert len(layer.trainable_weights) == count
    assert not layer.non_trainable_weights
    assert not layer.losses
    layer(*(numbers(0, *shape) for shape in shapes))
    assert len(layer.trainable_weights) == count


@every_layer
def test_output_shape_is_the_same_computed_symbolic_and_real(name):
    layer, inputs = built(name)
    _, shapes, _ = LAYERS[name]
    outputs = layer(*inputs)
    assert tuple(outputs.shape) == (BATCH, TIME, WIDTH)
    assert tuple(layer.compute_output_shape(*shapes)) == (BATCH, TIME, WIDTH)
    assert layer(*symbolic(shapes)).shape == (None, None, WIDTH)
    assert layer(*inputs).shape == outputs.shape


@every_layer
def test_a_layer_made_again_from_its_config_gives_the_same_outputs(name):
    layer, inputs = built(name, dropout=0.1)
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    _, shapes, _ = LAYERS[name]
    again.build(*shapes)
    again.set_weights(layer.get_weights())
    assert_same(again(*inputs), layer(*inputs))


@every_layer
def test_a_saved_model_gives_the_same_outputs_when_loaded(name, tmp_path):
    layer, inputs = built(name)
    _, shapes, _ = LAYERS[name]
    entrances = symbolic(shapes)
    model = keras.Model(entrances, layer(*entrances))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_same(loaded(inputs), model(inputs))


@every_layer
def test_mixed_precision_gives_half_outputs_from_full_weights(name):
    layer, inputs = built(name, dtype="mixed_bfloat16")
    full, _ = built(name)
    outputs = layer(*inputs)
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    for weight in layer.trainable_weights:
        assert keras.backend.standardize_dtype(weight.dtype) == "float32"
    difference = to_numpy(ops.cast(outputs, "float32")) - to_numpy(full(*inputs))
    assert np.sqrt(np.mean(difference**2)) < 0.05


@every_layer
def test_every_layer_supports_masking(name):
    assert LAYERS[name][0]().supports_masking


@pytest.mark.parametrize("name", ["encoder_post_norm", "decoder_pre_norm", "grouped"])
def test_training_a_layer_lowers_its_loss(name):
    layer, inputs = built(name, dropout=0.1)
    entrances = [keras.Input(x.shape[1:]) for x in inputs]
    model = keras.Model(entrances, layer(*entrances))
    model.compile(keras.optimizers.SGD(0.05), loss="mse")
    feed = inputs if len(inputs) > 1 else inputs[0]
    goal = numbers(9, BATCH, TIME, WIDTH)
    before = float(model.evaluate(feed, goal, verbose=0))
    for _ in range(5):
        model.train_on_batch(feed, goal)
    assert float(model.evaluate(feed, goal, verbose=0)) < before


# KerasHub: transformer_encoder_test.py and transformer_decoder_test.py.


@orders
def test_an_encoder_works_inside_a_sequential_model(normalize_first):
    layer = encoder(normalize_first=normalize_first)
    model = keras.Sequential([keras.Input((TIME, WIDTH)), layer])
    inputs = numbers(1, BATCH, TIME, WIDTH)
    assert_same(model(inputs), layer(inputs))


@orders
@pytest.mark.parametrize("name", ["encoder", "decoder", "decoder_alone"])
def test_dropping_nearly_everything_leaves_only_residuals_and_norms(
    name, normalize_first
):
    settings = {"dropout": 0.99999, "normalize_first": normalize_first, "seed": 3}
    if name == "encoder":
        layer, shapes = encoder(**settings), ONE
    else:
        cross = name == "decoder"
        layer = decoder(cross_attention=cross, **settings)
        shapes = TWO if cross else ONE
    layer.build(*shapes)
    randomize(layer)
    inputs = [numbers(2 + i, *shape) for i, shape in enumerate(shapes)]
    expected = inputs[0]
    if not normalize_first:
        expected = layer.self_attention_norm(expected)
        if name == "decoder":
            expected = layer.cross_attention_norm(expected)
        expected = layer.feed_forward_norm(expected)
    assert_same(layer(*inputs, training=True), expected)


@pytest.mark.parametrize("name", ["encoder_post_norm", "decoder_alone"])
def test_a_block_hands_its_mask_on(name):
    layer, (inputs,) = built(name)
    mask = real([TIME, 3], TIME)
    np.testing.assert_array_equal(mask_of(layer(carrying(inputs, mask))), mask)
    np.testing.assert_array_equal(mask_of(layer(inputs, padding_mask=mask)), mask)
    assert mask_of(layer(inputs)) is None


def test_a_decoder_hands_on_the_targets_mask_and_not_the_sources():
    layer, (targets, memory) = built("decoder_post_norm")
    target_mask, source_mask = real([TIME, 3], TIME), real([4, SOURCE], SOURCE)
    outputs = layer(carrying(targets, target_mask), carrying(memory, source_mask))
    np.testing.assert_array_equal(mask_of(outputs), target_mask)
    np.testing.assert_array_equal(
        mask_of(layer(carrying(targets, target_mask), memory)), target_mask
    )
    assert mask_of(layer(targets, carrying(memory, source_mask))) is None


@pytest.mark.parametrize(
    "name", ["encoder_post_norm", "encoder_pre_norm", "decoder_alone"]
)
def test_a_block_returns_its_scores_and_the_same_outputs(name):
    layer, (inputs,) = built(name)
    outputs, scores = layer(inputs, return_attention_scores=True)
    assert tuple(scores.shape) == (BATCH, HEADS, TIME, TIME)
    np.testing.assert_allclose(to_numpy(scores).sum(-1), 1.0, rtol=1e-5)
    assert_same(outputs, layer(inputs))


def test_a_decoder_returns_the_scores_of_both_its_attentions():
    layer, inputs = built("decoder_post_norm")
    outputs, (own, cross) = layer(*inputs, return_attention_scores=True)
    assert tuple(own.shape) == (BATCH, HEADS, TIME, TIME)
    assert tuple(cross.shape) == (BATCH, HEADS, TIME, SOURCE)
    assert np.all(to_numpy(own)[..., ~lower_triangle(TIME)] == 0.0)
    assert np.all(to_numpy(cross) > 0.0)
    assert_same(outputs, layer(*inputs))


def test_a_decoder_refuses_to_lack_or_to_get_a_source_against_its_setting():
    layer, (targets, memory) = built("decoder_post_norm")
    with pytest.raises(ValueError, match="encoder_outputs"):
        layer(targets)
    alone, _ = built("decoder_alone")
    with pytest.raises(ValueError, match="encoder_outputs"):
        alone(targets, memory)


def stack_and_inputs(cross_attention, normalize_first):
    """Return a decoder stack, targets, and the memory with its mask (or None)."""
    stack = kt.TransformerStack(
        2,
        WIDTH,
        HEADS,
        HIDDEN,
        causal=True,
        cross_attention=cross_attention,
        normalize_first=normalize_first,
    )
    stack.build(*(TWO if cross_attention else ONE))
    randomize(stack)
    memory = numbers(5, BATCH, SOURCE, WIDTH) if cross_attention else None
    mask = real([SOURCE, 4], SOURCE) if cross_attention else None
    return stack, numbers(4, BATCH, TIME, WIDTH), memory, mask


@orders
@pytest.mark.parametrize("cross_attention", [False, True], ids=["alone", "cross"])
def test_decoding_token_by_token_equals_decoding_at_once(
    cross_attention, normalize_first
):
    stack, targets, memory, mask = stack_and_inputs(cross_attention, normalize_first)
    inputs = (targets, memory) if cross_attention else (targets,)
    masks = {"encoder_padding_mask": mask} if cross_attention else {}
    expected = stack(*inputs, **masks)

    start = {"encoder_outputs": memory, **masks} if cross_attention else {}
    at_once, full = stack(targets, cache=stack.create_cache(BATCH, TIME, **start))
    assert_same(at_once, expected)

    state, steps = stack.create_cache(BATCH, TIME, **start), []
    for time in range(TIME):
        outputs, state = stack(targets[:, time : time + 1], cache=state)
        steps.append(to_numpy(outputs))
    assert_same(np.concatenate(steps, axis=1), expected)
    for mine, other in zip(
        keras.tree.flatten(state), keras.tree.flatten(full), strict=True
    ):
        if other is not None:
            assert_same(ops.cast(mine, "float32"), ops.cast(other, "float32"))


@pytest.mark.parametrize("cross_attention", [False, True], ids=["alone", "cross"])
def test_decoding_in_a_loop_of_the_backend_equals_decoding_at_once(cross_attention):
    stack, targets, memory, mask = stack_and_inputs(cross_attention, False)
    inputs = (targets, memory) if cross_attention else (targets,)
    masks = {"encoder_padding_mask": mask} if cross_attention else {}
    start = {"encoder_outputs": memory, **masks} if cross_attention else {}
    tokens = ops.convert_to_tensor(targets)

    def step(time, outputs, state):
        token = ops.slice(tokens, (0, time, 0), (BATCH, 1, WIDTH))
        output, state = stack(token, cache=state)
        return time + 1, ops.slice_update(outputs, (0, time, 0), output), state

    _, outputs, _ = ops.while_loop(
        lambda time, outputs, state: time < TIME,
        step,
        (
            ops.zeros((), "int32"),
            ops.zeros_like(tokens),
            stack.create_cache(BATCH, TIME, **start),
        ),
    )
    assert_same(outputs, stack(*inputs, **masks))


# Keras: multi_head_attention_test.py and grouped_query_attention_test.py.


@pytest.mark.parametrize("key_width", [None, 3])
@pytest.mark.parametrize("output_width", [None, 5])
@pytest.mark.parametrize("heads", [(2, 2), (4, 2), (4, 1)])
def test_the_computed_output_shape_is_that_of_the_outputs(
    heads, output_width, key_width
):
    layer = kt.MultiHeadAttention(
        heads[0], 4, num_key_value_heads=heads[1], output_shape=output_width
    )
    query, value = (7, 4, WIDTH), (7, 2, WIDTH)
    key = None if key_width is None else (7, 2, key_width)
    outputs = layer(
        np.ones(query, "float32"),
        np.ones(value, "float32"),
        None if key is None else np.ones(key, "float32"),
    )
    expected = (7, 4, output_width or WIDTH)
    assert tuple(outputs.shape) == expected
    assert tuple(layer.compute_output_shape(query, value, key)) == expected
    as_lists = [None if shape is None else list(shape) for shape in (query, value, key)]
    assert tuple(layer.compute_output_shape(*as_lists)) == expected


def test_keys_and_values_of_different_lengths_are_refused():
    value, key = numbers(1, BATCH, SOURCE, WIDTH), numbers(2, BATCH, 3, WIDTH)
    query = numbers(0, BATCH, TIME, WIDTH)
    for layer in (attention(), grouped(), kt.BahdanauAttention(4)):
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
    layer = make(kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.02))
    layer.build((2, 4, WIDTH), (2, 4, WIDTH))
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


def embedded(ids, size):
    """Return token vectors that carry the mask of their padding."""
    layer = keras.layers.Embedding(size, WIDTH, mask_zero=True)
    layer.build((None,))
    randomize(layer, size)
    return layer(ids)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("make", [attention, grouped])
def test_carried_masks_and_causality_equal_one_written_mask(make, causal):
    query_ids = np.array([[1, 2, 3, 0, 0], [3, 3, 1, 1, 2], [1, 0, 0, 0, 0]])
    value_ids = np.array([[5, 4, 0], [3, 0, 0], [2, 1, 1]])
    query, value = embedded(query_ids, 4), embedded(value_ids, 6)
    layer = make()
    layer.build((3, 5, WIDTH), (3, 3, WIDTH))
    outputs = layer(query, value, use_causal_mask=causal)
    written = np.zeros((3, 5, 3), dtype=bool)
    for batch in range(3):
        for time in range(5):
            for place in range(3):
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
    inputs = numbers(4, 1, 6, WIDTH)
    _, scores = layer(
        inputs, inputs, use_causal_mask=causal, return_attention_scores=True
    )
    scores = to_numpy(scores)[0]
    for query in range(6):
        for key in range(6):
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
    query, key, value = (numbers(seed, 1, TIME, HEADS, 4) for seed in (7, 8, 9))
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


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-5), ("float16", 1e-2), ("bfloat16", 4e-2)]
)
@pytest.mark.parametrize("key_value_heads", [4, 2, 1])
def test_identity_projections_give_the_softmax_computed_by_hand(
    key_value_heads, dtype, tolerance
):
    """With one-hot queries and keys each query prefers its own key by e^(1/2)."""
    size = 4
    layer = kt.MultiHeadAttention(
        4, size, num_key_value_heads=key_value_heads, dtype=dtype
    )
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
    assert_same(ops.cast(scores, "float32"), expected_scores, tolerance=tolerance)
    expected = weights[None] @ value
    assert_same(ops.cast(outputs, "float32"), expected, tolerance=tolerance)
    fused = layer(one_hot, value, one_hot)
    assert_same(ops.cast(fused, "float32"), expected, tolerance=tolerance)


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
@pytest.mark.parametrize("shape", [(1, 2, 3), (2, 3, 5)])
def test_symbolic_scores_have_the_shapes_of_real_ones(make, shape):
    layer = make()
    entrances = [keras.Input(batch_shape=shape), keras.Input(batch_shape=shape)]
    thought = layer(*entrances, return_attention_scores=True)
    real_ones = layer(
        numbers(1, *shape), numbers(2, *shape), return_attention_scores=True
    )
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


@pytest.mark.parametrize("make", [attention, grouped])
def test_eight_bit_projections_stay_close(make):
    layer = make(use_bias=False)
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


# Keras: attention_test.py and additive_attention_test.py.


@every_attention
def test_the_seed_is_kept_in_the_config(name):
    layer = LAYERS[name][0](dropout=0.5, seed=1337)
    config = layer.get_config()
    assert config["seed"] == 1337
    assert type(layer).from_config(config).seed == 1337


def test_the_2015_attentions_give_the_numbers_worked_out_by_hand():
    """Two one-hot queries and keys in reverse order: each prefers the other."""
    query = np.array([[[1.0, 0.0], [0.0, 1.0]]], dtype="float32")
    key = np.array([[[0.0, 1.0], [1.0, 0.0]]], dtype="float32")
    value = np.array([[[1.0, 2.0], [3.0, 4.0]]], dtype="float32")

    def expected(matching, different):
        far = np.exp(matching) / (np.exp(matching) + np.exp(different))
        weights = np.array([[[1 - far, far], [far, 1 - far]]])
        return weights @ value, weights

    additive = kt.BahdanauAttention(2)
    additive.build(query.shape, value.shape, key.shape)
    additive.query.kernel.assign(np.eye(2))
    additive.key.kernel.assign(np.eye(2))
    additive.score_weight.assign(np.ones(2))
    concat = kt.LuongAttention("concat", units=2)
    concat.build(query.shape, value.shape, key.shape)
    concat.kernel.assign(np.concatenate([np.eye(2), np.eye(2)]))
    concat.score_weight.assign(np.ones(2))
    general = kt.LuongAttention("general")
    general.build(query.shape, value.shape, key.shape)
    general.kernel.assign(2 * np.eye(2))
    tanh = (np.tanh(2.0), 2 * np.tanh(1.0))
    for layer, scores in (
        (additive, tanh),
        (concat, tanh),
        (kt.LuongAttention("dot"), (1.0, 0.0)),
        (general, (2.0, 0.0)),
    ):
        outputs, weights = layer(query, value, key, return_attention_scores=True)
        contexts, alignments = expected(*scores)
        assert_same(outputs, contexts)
        assert_same(weights, alignments)


@every_attention
def test_a_single_real_key_gets_all_the_weight_of_every_query(name):
    layer, (query, value) = built(name)
    _, scores = layer(
        query,
        value,
        query_mask=real([2, 2], TIME),
        value_mask=real([1, 1], SOURCE),
        return_attention_scores=True,
    )
    scores = to_numpy(scores)
    assert scores.shape[-2:] == (TIME, SOURCE)
    np.testing.assert_allclose(scores[..., 0], 1.0, rtol=1e-6)
    assert np.all(scores[..., 1:] == 0.0)


@every_attention
def test_dropout_acts_in_training_only(name):
    layer, inputs = built(name, dropout=0.5, seed=5)
    without, _ = built(name)
    expected = to_numpy(without(*inputs))
    assert_same(layer(*inputs), expected)
    assert_same(layer(*inputs, training=False), expected)
    assert np.abs(to_numpy(layer(*inputs, training=True)) - expected).max() > 1e-3


def test_an_unknown_score_is_refused():
    with pytest.raises(ValueError, match="score"):
        kt.LuongAttention("cosine")


@every_attention
def test_scores_come_as_the_second_of_two(name):
    layer, inputs = built(name)
    answer = layer(*inputs, return_attention_scores=True)
    assert isinstance(answer, tuple)
    outputs, scores = answer
    assert tuple(outputs.shape) == (BATCH, TIME, WIDTH)
    assert tuple(scores.shape)[-2:] == (TIME, SOURCE)
    assert_same(outputs, layer(*inputs))


@every_attention
def test_asking_for_scores_once_leaves_no_trace(name):
    layer, inputs = built(name)
    layer(*inputs, return_attention_scores=True)
    entrances = symbolic(TWO)
    outputs, scores = layer(*entrances, return_attention_scores=True)
    assert len(scores.shape) in (3, 4)
    again = layer(*entrances)
    assert not isinstance(again, (tuple, list))
    assert again.shape == outputs.shape == (None, None, WIDTH)
    assert tuple(layer.compute_output_shape(*TWO)) == (BATCH, TIME, WIDTH)


@pytest.mark.parametrize("name", ["bahdanau", "luong_general", "luong_concat"])
def test_the_output_has_the_values_width_whatever_the_querys(name):
    layer = LAYERS[name][0]()
    query, value = numbers(1, BATCH, TIME, 4), numbers(2, BATCH, SOURCE, 7)
    key = numbers(3, BATCH, SOURCE, 5)
    outputs = layer(query, value, key)
    assert tuple(outputs.shape) == (BATCH, TIME, 7)
    computed = layer.compute_output_shape(query.shape, value.shape, key.shape)
    assert tuple(computed) == (BATCH, TIME, 7)
