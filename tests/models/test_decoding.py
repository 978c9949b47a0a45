"""P22 and its whole kind: steps with a cache equal the full forward pass."""

import numpy as np
import pytest
from keras import ops
from model_examples import (
    LANGUAGE_MODELS,
    TRANSLATORS,
    language_model,
    padded,
    random_ids,
    translator,
)

from cases.examples import quick
from cases.helpers import array, arrays, assert_close, run
from keras_transformer.ops.backend import compiled

# Steps equal the full pass for every kind of position; further laws, quickly for some.
SOME_LANGUAGE_MODELS = quick(LANGUAGE_MODELS, ["learned", "rotary", "window"])
SOME_TRANSLATORS = quick(TRANSLATORS, ["learned", "relative"])


def write(model, state, tokens):
    """Feed tokens (B, T) one by one; return the logits (B, T, V)."""
    logits = []
    for index in range(tokens.shape[1]):
        step, state = run(model, "step", tokens[:, index], state)
        logits.append(array(step))
    return np.stack(logits, 1)


@pytest.mark.parametrize(
    "prompt, buffer", quick([(1, 10), (3, 32), (7, 10)], [(3, 32)])
)
@pytest.mark.parametrize("position", LANGUAGE_MODELS)
def test_cached_steps_of_a_language_model_equal_the_full_pass(position, prompt, buffer):
    model = language_model(position)
    ids = random_ids(2, 10)
    full = array(run(model, "__call__", ids))
    state = run(model, "start", {"token_ids": ids[:, : prompt - 1]}, max_length=buffer)
    assert_close(write(model, state, ids[:, prompt - 1 :]), full[:, prompt - 1 :])
    assert_close(run(model, "__call__", ids), full)


@pytest.mark.parametrize("side", quick(["left", "right"], ["left"]))
@pytest.mark.parametrize("position", SOME_LANGUAGE_MODELS)
def test_padding_of_a_prompt_changes_no_step(position, side):
    model = language_model(position)
    ids = random_ids(3, 9)
    lengths = (0, 2, 5)  # of the prompts without their last tokens
    prompts, mask = padded([ids[i, :n] for i, n in enumerate(lengths)], side, 6)
    state = run(
        model, "start", {"token_ids": prompts, "padding_mask": mask}, max_length=12
    )
    tokens = np.stack([ids[i, n : n + 4] for i, n in enumerate(lengths)])
    logits = write(model, state, tokens)
    for row, n in enumerate(lengths):
        alone = array(run(model, "__call__", ids[row : row + 1, : n + 4]))
        assert_close(logits[row], alone[0, n:])


@pytest.mark.parametrize("position", SOME_LANGUAGE_MODELS)
def test_padding_of_a_text_changes_no_logits(position):
    model = language_model(position, pad_id=0)
    ids = random_ids(1, 4)
    alone = array(run(model, "__call__", ids))
    for side in ("left", "right"):
        batch, mask = padded([ids[0], random_ids(7, seed=1)], side)
        assert_close(array(run(model, "__call__", batch))[0][mask[0]], alone[0])
    gaps = np.array([[*ids[0, :2], 0, 0, ids[0, 2], 0, ids[0, 3]]])
    assert_close(array(run(model, "__call__", gaps))[0][gaps[0] > 0], alone[0])
    everything = {"token_ids": batch, "padding_mask": np.zeros_like(mask)}
    assert np.isfinite(array(run(model, "__call__", everything))).all()


@pytest.mark.parametrize("position", TRANSLATORS)
def test_cached_steps_of_a_translator_equal_the_full_pass(position):
    model = translator(position)
    source, mask = padded([random_ids(5), random_ids(3)], "right")
    targets = random_ids(2, 8)
    targets[:, 0] = model.start_id
    full = array(run(model, "__call__", both(source, mask, targets)))
    state = run(
        model, "start", {"token_ids": source, "padding_mask": mask}, max_length=32
    )
    assert_close(write(model, state, targets), full)
    from_pad_id = {"encoder_token_ids": source, "decoder_token_ids": targets}
    assert_close(run(model, "__call__", from_pad_id), full)


@pytest.mark.parametrize("position", SOME_TRANSLATORS)
def test_padding_of_a_source_changes_no_logits(position):
    model = translator(position)
    rows, targets = [random_ids(3), random_ids(6, seed=1)], random_ids(2, 4)
    targets[:, 0] = model.start_id
    expected = [
        array(run(model, "__call__", both(row[None], None, targets[index : index + 1])))
        for index, row in enumerate(rows)
    ]
    for side in ("left", "right"):
        source, mask = padded(rows, side, 8)
        logits = array(run(model, "__call__", both(source, mask, targets)))
        assert_close(logits, np.concatenate(expected))
        state = run(model, "start", {"token_ids": source}, max_length=4)
        assert_close(write(model, state, targets), logits)


@pytest.mark.parametrize("position", SOME_TRANSLATORS)
def test_padding_of_targets_changes_no_logits(position):
    model = translator(position)
    source, targets = random_ids(2, 5), random_ids(2, 4)
    targets[:, 0] = model.start_id
    expected = array(run(model, "__call__", both(source, None, targets)))
    longer = np.concatenate([targets, np.zeros((2, 3), "int32")], 1)
    assert_close(
        array(run(model, "__call__", both(source, None, longer)))[:, :4], expected
    )


@pytest.mark.parametrize("position", ["learned", "relative"])
def test_a_whole_batch_of_padding_is_finite(position):
    model = translator(position)
    source = np.zeros((2, 3), "int32")
    state = run(model, "start", {"token_ids": source}, max_length=4)
    assert np.isfinite(write(model, state, random_ids(2, 3))).all()


@pytest.mark.parametrize("position", SOME_LANGUAGE_MODELS)
def test_prefilling_at_once_equals_step_by_step(position):
    model = language_model(position)
    ids = random_ids(2, 7)
    at_once = run(model, "start", {"token_ids": ids[:, :6]}, max_length=8)
    state = run(model, "start", {"token_ids": ids[:, :3]}, max_length=8)
    for index in (3, 4, 5):
        _, state = run(model, "step", ids[:, index], state)
    assert_close(arrays(state), arrays(at_once), atol=2e-5)
    last = ids[:, 6:]
    assert_close(write(model, state, last), write(model, at_once, last))


@pytest.mark.parametrize(
    "position", quick(["learned", "rotary", "relative"], ["rotary"])
)
def test_compiled_start_and_step_equal_the_eager_ones(position):
    for model, prompt in (
        (language_model(position), {"padding_mask": np.array([[0, 0, 1], [1, 1, 1]])}),
        (translator(position), {"padding_mask": np.array([[1, 1, 0], [1, 1, 1]])}),
    ):
        inputs = {"token_ids": random_ids(2, 3), **prompt}
        inputs = {name: ops.convert_to_tensor(x) for name, x in inputs.items()}
        start = compiled(lambda inputs, m=model: m.start(inputs, 8), model)
        step = compiled(lambda tokens, state, m=model: m.step(tokens, state), model)
        eager, quick = model.start(inputs, 8), start(inputs)
        for tokens in random_ids(3, 2):
            tokens = ops.convert_to_tensor(tokens)
            expected, eager = model.step(tokens, eager)
            logits, quick = step(tokens, quick)
            assert_close(logits, expected)


def test_rows_of_a_state_may_be_taken_in_another_order():
    model = translator("sinusoidal")
    source, targets = random_ids(2, 5), random_ids(2, 4)
    state = run(model, "start", {"token_ids": source}, max_length=6)
    first, state = run(model, "step", targets[:, 0], state)
    rows = np.array([1, 0])

    def take(leaf):
        return ops.take(leaf, rows, axis=0) if len(leaf.shape) else leaf

    def step(state, rows):
        return array(run(model, "step", targets[rows, 1], state)[0])

    from keras import tree

    swapped = step(tree.map_structure(take, state), rows)
    assert_close(swapped, step(state, np.arange(2))[rows])


def test_steps_hand_the_keys_of_the_source_back_as_they_are():
    model = translator("learned")
    state = model.start({"token_ids": random_ids(2, 5)}, 6)
    _, new = model.step(ops.convert_to_tensor(random_ids(2)), state)
    for old, block in zip(state["blocks"], new["blocks"], strict=True):
        for name, leaf in old["cross_attention"].items():
            assert block["cross_attention"][name] is leaf


def both(source, mask, targets):
    inputs = {"encoder_token_ids": source, "decoder_token_ids": targets}
    return inputs if mask is None else {**inputs, "encoder_padding_mask": mask}
