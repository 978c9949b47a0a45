"""P3: every mask means the same: True or 1 where attention is allowed.

Sources: tensorflow/text#894, #938; tensorflow/tensorflow#45854.
"""

import functools
import re

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.ops import attention, masks

from .examples import EXAMPLES, public_layers, quick, shape
from .helpers import array, assert_close, first, randomize

HIDDEN = 1
# Every mask argument of every class; of what the classes share, one class is enough.
CASES = [
    (name, mask)
    for name, masks_of in {
        "attention": None,
        "attention-values": ["value_mask"],
        "bahdanau": None,
        "luong-dot": ["attention_mask"],
        "luong-general": ["value_mask"],
        "luong-concat": ["key_mask"],
        "self-attentive": None,
        "pooling": None,
        "pooling-max": ["mask"],
        "block": None,
        "block-cross": None,
        "block-llama": ["padding_mask"],
        "encoder": ["padding_mask"],
        "decoder": ["padding_mask", "encoder_padding_mask"],
        "stack": ["padding_mask", "attention_mask"],
        "stack-alibi": ["mask"],
        "stack-cross": ["encoder_padding_mask", "cross_attention_mask"],
    }.items()
    for mask in masks_of or EXAMPLES[name].masks
]


QUICK = [
    (name, argument)
    for name, argument in CASES
    if name in ("attention", "bahdanau", "self-attentive", "pooling", "block-llama")
    or argument in ("encoder_padding_mask", "cross_attention_mask", "padding_mask")
]


@functools.cache
def layer_and_inputs(name):
    example = EXAMPLES[name]
    layer, inputs = example.make(), example.arrays()
    layer.build(*[x.shape for x in inputs])
    return randomize(layer), inputs


def hiding(name, argument):
    """Return a mask that hides position 1, and which input it belongs to."""
    text, index = EXAMPLES[name].masks[argument]
    mask = np.ones(shape(text), bool)
    mask[..., HIDDEN] = False
    return mask, index


def seen(result, name, index):
    """Return the output at the positions that are not themselves the hidden one."""
    result = array(result)
    pools = EXAMPLES[name].layer in ("SelfAttentiveEmbedding", "SequencePooling")
    attends_to_itself = index == 0 and not pools
    return np.delete(result, HIDDEN, axis=1) if attends_to_itself else result


def test_every_class_with_a_mask_is_tried():
    tried = {EXAMPLES[name].layer for name, _ in CASES}
    assert tried == {example.layer for example in EXAMPLES.values() if example.masks}


@pytest.mark.parametrize(("name", "argument"), quick(CASES, QUICK))
def test_a_position_masked_false_has_no_influence(name, argument):
    layer, inputs = layer_and_inputs(name)
    mask, index = hiding(name, argument)
    changed = [x.copy() for x in inputs]
    for other in range(index, len(inputs)):
        if inputs[other].shape[1] == inputs[index].shape[1]:
            # Not one constant: a norm would remove it.
            noise = np.random.default_rng(1).normal(size=inputs[other].shape)
            changed[other][:, HIDDEN] += 10 * noise[:, HIDDEN]
    before = layer(*inputs, **{argument: mask})
    after = layer(*changed, **{argument: mask})
    assert_close(seen(after, name, index), seen(before, name, index))
    # Without the mask the same change is felt.
    free = seen(layer(*changed), name, index) - seen(layer(*inputs), name, index)
    assert np.abs(free).max() > 1e-3
    opposite = array(layer(*inputs, **{argument: ~mask}))
    assert np.abs(opposite - array(before)).max() > 1e-3
    # Booleans, and zeros and ones of any dtype, are one mask.
    for dtype in ("int32", "float32"):
        ours = layer(*inputs, **{argument: mask.astype(dtype)})
        assert_close(ours, before, atol=0)


@pytest.mark.parametrize(("name", "argument"), quick(CASES, QUICK))
def test_an_additive_mask_is_refused(name, argument):
    layer, inputs = layer_and_inputs(name)
    mask, _ = hiding(name, argument)
    for low in (-1e9, -np.inf, 0.5):
        additive = np.where(mask, 0.0, low).astype("float32")
        with pytest.raises(ValueError, match=f"{named(argument)} .* Received {low}"):
            layer(*inputs, **{argument: additive})


def named(argument):
    """Return how a message names a mask, which may have several names."""
    whole = {"mask": "padding_mask", "inputs_mask": "padding_mask"}
    whole["encoder_outputs_mask"] = "encoder_padding_mask"
    return f"`{whole.get(argument, argument)}`"


@pytest.mark.parametrize(("name", "argument"), quick(CASES, QUICK))
def test_a_mask_of_another_rank_is_refused_by_name(name, argument):
    layer, inputs = layer_and_inputs(name)
    mask, _ = hiding(name, argument)
    for wrong in (mask[0], mask[None, None], mask[..., :-1]):
        with pytest.raises(ValueError, match=f"{named(argument)} must"):
            layer(*inputs, **{argument: wrong})
    symbols = [keras.Input(batch_shape=x.shape) for x in inputs]
    wrong = keras.Input(batch_shape=mask[None, None].shape, dtype="bool")
    with pytest.raises(ValueError, match=f"{named(argument)} must"):
        layer(*symbols, **{argument: wrong})


@pytest.mark.parametrize("name", ["attention", "bahdanau", "encoder", "stack"])
def test_an_additive_mask_of_integers_is_refused(name):
    layer, inputs = layer_and_inputs(name)
    mask, _ = hiding(name, "attention_mask")
    with pytest.raises(ValueError, match="attention_mask"):
        layer(*inputs, attention_mask=np.where(mask, 0, -10000).astype("int32"))


@pytest.mark.parametrize("name", sorted(public_layers()))
def test_docstrings_say_what_true_means(name):
    if not any(e.layer == name and e.masks for e in EXAMPLES.values()):
        pytest.skip("takes no mask")
    text = re.sub(r"\s+", " ", public_layers()[name].__doc__)
    assert re.search(r"`?True`?[^.]*(may|can|attend|allow|token|word)", text)


@pytest.mark.parametrize(
    "name", ["attention", "attention-grouped", "bahdanau", "luong-general"]
)
def test_the_mask_of_the_queries_hides_nothing(name):
    layer, inputs = layer_and_inputs(name)
    mask = np.array([[True, False, True]] * 2)
    for argument in ("query_mask", "mask"):
        assert_close(layer(*inputs, **{argument: mask}), layer(*inputs))


def test_masks_mean_what_they_mean_in_keras():
    query, value = EXAMPLES["attention"].arrays()
    rng = np.random.default_rng(1)
    ours, theirs = kt.MultiHeadAttention(2, 4), keras.layers.MultiHeadAttention(2, 4)
    theirs(query, value)
    randomize(theirs)
    ours(query, value)
    ours.set_weights(theirs.get_weights())
    mask = rng.random((2, 3, 5)) < 0.6
    mask[..., 0] = True
    padding = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], bool)
    for arguments in (
        {"attention_mask": mask},
        {"value_mask": padding},
        {"key_mask": padding},
        {"attention_mask": mask, "value_mask": padding},
        {"use_causal_mask": True},
        {"use_causal_mask": True, "attention_mask": mask, "value_mask": padding},
    ):
        result = ours(query, value, return_attention_scores=True, **arguments)
        expected = theirs(query, value, return_attention_scores=True, **arguments)
        assert_close(result, expected)


def test_two_masks_of_one_call_hide_what_either_hides():
    layer, inputs = layer_and_inputs("attention")
    padding = np.array([[1, 1, 1, 0, 1]] * 2, bool)
    mask, _ = hiding("attention", "attention_mask")
    together = layer(*inputs, attention_mask=mask, value_mask=padding)
    folded = layer(*inputs, attention_mask=mask & padding[:, None])
    assert_close(together, folded)


@pytest.mark.parametrize("name", ["attention", "encoder"])
def test_a_mask_over_the_heads_is_obeyed_head_by_head(name):
    layer, inputs = layer_and_inputs(name)
    mask, _ = hiding(name, "attention_mask")
    heads = np.stack([mask, np.ones_like(mask)], axis=1)  # (B, N, T, S)
    _, scores = layer(*inputs, attention_mask=heads, return_attention_scores=True)
    scores = array(scores)
    assert np.all(scores[:, 0, :, HIDDEN] == 0)
    assert np.all(scores[:, 1] > 0)


@pytest.mark.parametrize("name", ["attention", "bahdanau", "encoder", "stack"])
def test_a_mask_without_batch_axis_is_refused(name):
    # (T, S) and (B, S) look alike when batch and time are the same number.
    layer, inputs = layer_and_inputs(name)
    mask, _ = hiding(name, "attention_mask")
    with pytest.raises(ValueError, match="attention_mask"):
        layer(*inputs, attention_mask=mask[0])


@pytest.mark.parametrize("rank", [3, 4])
def test_attend_never_looks_at_false(rank):
    rng = np.random.default_rng(0)
    shapes = ((2, 3, 2, 4), (2, 5, 2, 4)) if rank == 4 else ((2, 3, 6), (2, 5, 6))
    query, key = (ops.convert_to_tensor(rng.normal(size=s), "float32") for s in shapes)
    mask = np.ones((2, 1, 3, 5) if rank == 4 else (2, 3, 5), bool)
    mask[..., HIDDEN] = False
    changed = array(key).copy()
    changed[:, HIDDEN] += 10.0
    changed = ops.convert_to_tensor(changed)
    for want in (False, True):
        ours, expected = (
            first(
                attention.attend(
                    query, k, k, mask=ops.convert_to_tensor(mask), return_weights=want
                )
            )
            for k in (changed, key)
        )
        assert_close(ours, expected)


def test_the_makers_of_masks_say_true_for_what_is_seen():
    assert array(masks.padding_mask(np.array([[5, 0]]))).tolist() == [[True, False]]
    assert array(masks.padding_mask(np.array([[3, 0]]), 3)).tolist() == [[False, True]]
    lower = np.tril(np.ones((3, 3), bool))
    assert array(masks.causal_mask(3))[0, 0].tolist() == lower.tolist()
    window = array(masks.sliding_window_mask(4, 2))[0, 0]
    positions = np.arange(4)
    near = np.abs(positions[:, None] - positions[None]) < 2
    assert window.tolist() == near.tolist()
    both = masks.combine_masks(None, lower[None, None], near[None, None, :3, :3])
    assert array(both)[0, 0].tolist() == (lower & near[:3, :3]).tolist()
    assert masks.combine_masks(None, None) is None


def test_the_mask_of_an_embedding_is_true_for_tokens():
    embed = kt.PositionalEmbedding(9, 12, 8)
    mask = array(embed.compute_mask(np.array([[5, 6, 0]], "int32")))
    assert mask.dtype == bool
    assert mask.tolist() == [[True, True, False]]
