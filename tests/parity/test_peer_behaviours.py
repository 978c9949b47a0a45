"""What Keras's and KerasHub's test suites check of every layer and of the blocks.

README.md in this folder says which of their tests each of these answers.
"""

import keras
import numpy as np
import pytest
from keras import ops
from parity_layers import (
    LAYERS,
    ONE,
    TWO,
    built,
    decoder,
    encoder,
    every_attention,
    every_layer,
    one_of_each_kind,
    symbolic,
)
from parity_tools import (
    BATCH,
    HEADS,
    HIDDEN,
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

orders = pytest.mark.parametrize(
    "normalize_first", [False, True], ids=["post_norm", "pre_norm"]
)


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


@one_of_each_kind
def test_a_saved_model_gives_the_same_outputs_when_loaded(name, tmp_path):
    layer, inputs = built(name)
    _, shapes, _ = LAYERS[name]
    entrances = symbolic(shapes)
    model = keras.Model(entrances, layer(*entrances))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_same(loaded(inputs), model(inputs))


@pytest.mark.parametrize("name", ["encoder_pre_norm", "grouped", "bahdanau"])
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


# KerasHub: transformer_encoder_test.py and transformer_decoder_test.py.


@orders
def test_an_encoder_works_inside_a_sequential_model(normalize_first):
    layer = encoder(normalize_first=normalize_first)
    model = keras.Sequential([keras.Input((TIME, WIDTH)), layer])
    inputs = numbers(1, BATCH, TIME, WIDTH)
    assert_same(model(inputs), layer(inputs))


@orders
@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_dropping_nearly_everything_leaves_only_residuals_and_norms(
    name, normalize_first
):
    settings = {"dropout": 0.99999, "normalize_first": normalize_first, "seed": 3}
    if name == "encoder":
        layer, shapes = encoder(**settings), ONE
    else:
        layer, shapes = decoder(**settings), TWO
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


# Keras: attention_test.py and additive_attention_test.py.


@every_attention
def test_the_seed_is_kept_in_the_config(name):
    layer = LAYERS[name][0](dropout=0.5, seed=1337)
    config = layer.get_config()
    assert config["seed"] == 1337
    assert type(layer).from_config(config).seed == 1337


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
    query, value = numbers(1, BATCH, TIME, WIDTH), numbers(2, BATCH, SOURCE, 7)
    key = numbers(3, BATCH, SOURCE, 9)
    outputs = layer(query, value, key)
    assert tuple(outputs.shape) == (BATCH, TIME, 7)
    computed = layer.compute_output_shape(query.shape, value.shape, key.shape)
    assert tuple(computed) == (BATCH, TIME, 7)
