import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from cases.examples import quick
from cases.helpers import array, assert_close, randomize
from keras_transformer.ops.backend import compiled
from keras_transformer.ops.cache import (
    check_heads,
    create_cache,
    write_keys,
    write_tokens,
)

POSITIONS = {
    "none": {},
    "rotary": dict(rotary=kt.RotaryEmbedding()),
    "interleaved": dict(rotary=kt.RotaryEmbedding(layout="interleaved")),
    "alibi": dict(position_bias=kt.AlibiBias(4, name="bias")),
    "relative": dict(
        position_bias=kt.RelativePositionBias(4, bidirectional=False, name="bias")
    ),
    "window": dict(sliding_window=3),
    "grouped": dict(num_key_value_heads=2),
    "single": dict(num_key_value_heads=1, normalize_first=True),
}


def make_stack(position, cross_attention):
    settings = POSITIONS[position]
    stack = kt.TransformerStack(
        2, 8, 4, 12, causal=True, cross_attention=cross_attention, **settings
    )
    stack.build((None, None, 8))
    return randomize(stack)


@pytest.mark.parametrize(
    "position, cross_attention",
    quick(
        [*[(position, False) for position in POSITIONS], ("relative", True)],
        [("rotary", False), ("window", False), ("grouped", False), ("relative", True)],
    ),
)
def test_cached_steps_equal_the_full_pass(position, cross_attention):
    stack = make_stack(position, cross_attention)
    inputs = ops.convert_to_tensor(np.random.normal(size=(2, 7, 8)).astype("float32"))
    encoder, padding = (), {}
    if cross_attention:
        source = np.random.normal(size=(2, 5, 8)).astype("float32")
        mask = ops.convert_to_tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], "bool")
        encoder, padding = (
            (ops.convert_to_tensor(source),),
            {"encoder_padding_mask": mask},
        )
    full = stack(inputs, *encoder, **padding)
    cache = stack.create_cache(2, 10, *encoder, **padding)
    step = compiled(lambda x, cache: stack(x, cache=cache), stack)
    outputs, start = [], 0
    for length in (4, 1, 1, 1):
        output, cache = step(inputs[:, start : start + length], cache)
        outputs.append(array(output))
        start += length
    assert_close(np.concatenate(outputs, 1), full)
    assert array(cache["slot"]) == 7 and array(cache["mask"]).sum() == 14


@pytest.mark.parametrize("position", ["rotary", "alibi", "relative", "window"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_of_a_prompt_changes_no_step(position, side):
    stack = make_stack(position, False)
    tokens = np.random.normal(size=(1, 6, 8)).astype("float32")
    padding = np.full((1, 2, 8), 9.0, "float32")
    parts, mask = [padding, tokens[:, :4]], [[0, 0, 1, 1, 1, 1]]
    if side == "right":
        parts, mask = parts[::-1], [[1, 1, 1, 1, 0, 0]]
    prompt = ops.convert_to_tensor(np.concatenate(parts, 1))
    mask = ops.convert_to_tensor(mask, "bool")
    _, cache = stack(prompt, padding_mask=mask, cache=stack.create_cache(1, 9))
    steps = []
    for i in (4, 5):
        step, cache = stack(ops.convert_to_tensor(tokens[:, i : i + 1]), cache=cache)
        steps.append(array(step))
    expected = array(stack(ops.convert_to_tensor(tokens)))[:, 4:]
    assert_close(np.concatenate(steps, 1), expected)


def test_positions_may_be_given():
    stack = make_stack("rotary", False)
    inputs = np.random.normal(size=(1, 5, 8)).astype("float32")
    padded = ops.convert_to_tensor(np.concatenate([np.full((1, 2, 8), 9.0), inputs], 1))
    padded = ops.cast(padded, "float32")
    mask = ops.convert_to_tensor([[0, 0, 1, 1, 1, 1, 1]], "bool")
    positions = ops.convert_to_tensor([[0, 0, 0, 1, 2, 3, 4]])
    cache = stack.create_cache(1, 8)
    first, cache = stack(
        padded[:, :5], padding_mask=mask[:, :5], positions=positions[:, :5], cache=cache
    )
    second, cache = stack(padded[:, 5:], positions=positions[:, 5:], cache=cache)
    together = np.concatenate([array(first)[:, 2:], array(second)], 1)
    assert_close(together, stack(ops.convert_to_tensor(inputs)))


def test_positions_of_another_length_are_refused_before_anything_is_written():
    stack = make_stack("none", False)
    x = ops.ones((1, 3, 8))
    cache = stack.create_cache(1, 8)
    block = stack.blocks[0].self_attention
    for positions in (np.array([0]), np.array([[0, 1]])):
        with pytest.raises(ValueError, match="`positions` must have the shape"):
            stack(x, positions=positions, cache=cache)
        with pytest.raises(ValueError, match="`positions` must have the shape"):
            block(x, x, positions=positions, cache=block.create_cache(1, 8))
    assert array(cache["mask"]).sum() == 0


def test_the_old_cache_is_still_good():
    stack = make_stack("none", False)
    tokens = ops.convert_to_tensor(np.random.normal(size=(1, 3, 8)).astype("float32"))
    _, start = stack(tokens[:, :1], cache=stack.create_cache(1, 4))
    first, branch = stack(tokens[:, 1:2], cache=start)
    stack(tokens[:, 2:3], cache=start)  # another branch from the same state
    again, _ = stack(tokens[:, 1:2], cache=start)
    after, _ = stack(tokens[:, 2:3], cache=branch)
    assert_close(again, first)
    assert_close(after, stack(tokens)[:, 2:3])


def test_a_full_cache_and_one_of_another_layer_are_refused():
    cache = create_cache(2, 3, 2, 4, dtype="float32")
    heads = ops.ones((2, 2, 2, 4))
    cache = write_keys(write_tokens(cache, ops.arange(2)), heads, heads)
    with pytest.raises(ValueError, match="3 slots, 2 of them used.*`max_length`"):
        write_tokens(cache, ops.arange(2))
    one = ops.ones((2, 1, 1, 4))
    with pytest.raises(ValueError, match="num_key_value_heads"):
        check_heads(cache, one, one)


@pytest.mark.parametrize("sizes", [(2, -1), (2, 8.0), ("2", 8), (True, 8), (-1, 8)])
def test_sizes_of_a_cache_are_checked(sizes):
    stack = make_stack("none", False)
    for layer in (stack, stack.blocks[0], stack.blocks[0].self_attention):
        with pytest.raises(ValueError, match="must be an integer of at least 0"):
            layer.create_cache(*sizes)


def test_compiled_sees_new_weights():
    stack = make_stack("none", False)
    run = compiled(lambda x: stack(x), stack)
    inputs = ops.ones((1, 2, 8))
    before = array(run(inputs))
    stack.weights[-1].assign(stack.weights[-1] * 2.0)
    assert_close(run(inputs), stack(inputs))
    assert np.abs(array(run(inputs)) - before).max() > 1e-4
    with pytest.raises(ValueError, match="must be built"):
        compiled(lambda x: x, kt.TransformerEncoder(8, 2, 4))


def test_a_cache_keeps_the_mask_that_the_source_carries():
    ids = np.array([[5, 6, 7, 0, 0], [3, 4, 5, 6, 7]])
    source = kt.PositionalEmbedding(9, 12, 8)(ids)
    targets = ops.convert_to_tensor(np.random.normal(size=(2, 3, 8)).astype("float32"))
    for layer in (make_stack("none", True), kt.TransformerDecoder(8, 2, 12)):
        full = layer(targets, source)
        outputs, _ = layer(targets, cache=layer.create_cache(2, 4, source))
        assert_close(outputs, full)


def test_a_mask_of_one_row_is_written_for_all_rows():
    layer = kt.MultiHeadAttention(2, 4)
    x = ops.convert_to_tensor(np.random.normal(size=(2, 3, 8)).astype("float32"))
    layer(x, x)
    mask = ops.convert_to_tensor([[True, True, False]])
    expected = layer(x, x, value_mask=mask)
    outputs, cache = layer(x, x, value_mask=mask, cache=layer.create_cache(2, 4))
    assert_close(outputs, expected)
    assert array(cache["mask"]).astype(int).tolist() == [[1, 1, 0, 0]] * 2


def test_caches_of_other_layers_are_refused():
    stack = make_stack("none", False)
    x = ops.ones((1, 1, 8))
    with pytest.raises(ValueError, match="must come from its own `create_cache`"):
        stack.blocks[0](x, cache=stack.create_cache(1, 4))
    with pytest.raises(ValueError, match="for 2 blocks"):
        stack(x, cache=stack.blocks[0].create_cache(1, 4))
    with pytest.raises(ValueError, match="must be built before"):
        kt.TransformerDecoder(8, 2, 12).create_cache(1, 4, ops.ones((1, 2, 8)))
    rotary = kt.MultiHeadAttention(2, 4, rotary=kt.RotaryEmbedding())
    rotary(x, x)
    with pytest.raises(ValueError, match="attends to itself"):
        rotary.precompute(x)


def test_a_cache_of_another_batch_and_another_sequences_keys_are_refused():
    stack = make_stack("none", False)
    cache = stack.create_cache(2, 4)
    with pytest.raises(ValueError, match="for 2 sequences, but the inputs are 1"):
        stack(ops.ones((1, 1, 8)), cache=cache)
    layer = stack.blocks[0].self_attention
    own = layer.create_cache(2, 4)
    with pytest.raises(ValueError, match="Received: 1 queries, 3 keys"):
        layer(ops.ones((2, 1, 8)), ops.ones((2, 3, 8)), cache=own)
    assert array(cache["mask"]).sum() == array(own["mask"]).sum() == 0


def test_compiled_follows_variables_that_were_replaced():
    stack = make_stack("none", False)
    run = compiled(lambda x: stack(x), stack)
    inputs = ops.convert_to_tensor(np.random.normal(size=(1, 3, 8)).astype("float32"))
    run(inputs)
    query = stack.blocks[0].self_attention.query
    query.enable_lora(2)
    query.lora_kernel_b.assign(np.ones(query.lora_kernel_b.shape))
    assert_close(run(inputs), stack(inputs))
