"""Processors: each against plain Python, and what they see of the history."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.generation import beam_search, generate
from keras_transformer.generation.processors import (
    History,
    forbid_early_stop,
    forbid_repeated_ngrams,
    keep_top_k,
    keep_top_p,
    penalize_repetition,
)
from stub_models import (
    AligningModel,
    log_softmax,
    random_table,
    table_log_probs,
    table_logits,
    table_model,
)

STOP = 4
TABLE = random_table(6, seed=8, number=997)
PROMPTS = [[1, 2, 1], [3], [2, 5, 2, 5, 1]]


def history(rows, room=3, side="left"):
    """Return the history of texts, with room for more tokens."""
    width = max(map(len, rows))
    tokens = np.zeros((len(rows), width + room), "int32")
    mask = np.zeros(tokens.shape, bool)
    for row, text in enumerate(rows):
        tokens[row, width - len(text) : width] = text
        mask[row, width - len(text) : width] = True
    return History(*map(tensor, (tokens, mask, np.int32(width), np.int32(0))))


def tensor(array):
    return ops.convert_to_tensor(array)


def values(result):
    return ops.convert_to_numpy(result)


def logits_of(rows, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, 6)).astype("float32")


def test_a_penalty_makes_seen_tokens_less_likely_whatever_their_sign():
    logits = np.array([[-2.0, 3.0, 1.0, -np.inf, 0.0, -1.0]], "float32")
    found = values(penalize_repetition(tensor(logits), history([[0, 1, 1, 3, 4]]), 1.5))
    np.testing.assert_allclose(found, [[-3.0, 2.0, 1.0, -np.inf, 0.0, -1.0]])


def test_a_penalty_does_not_see_padding():
    # The padding holds token 0.
    logits = logits_of(2)
    found = values(penalize_repetition(tensor(logits), history([[1], [2, 3]]), 2.0))
    np.testing.assert_array_equal(found[:, 0], logits[:, 0])
    assert (found[0, 2:] == logits[0, 2:]).all() and found[0, 1] != logits[0, 1]


def banned_by_hand(text, size):
    grams = [tuple(text[i : i + size]) for i in range(len(text) - size + 1)]
    head = tuple(text[len(text) - size + 1 :]) if size > 1 else ()
    if len(text) < size - 1:
        return set()
    return {gram[-1] for gram in grams if gram[:-1] == head}


@pytest.mark.parametrize("size", [1, 2, 3, 4, 12])
def test_no_ngram_comes_twice(size):
    rng = np.random.default_rng(size)
    texts = [rng.integers(0, 3, length).tolist() for length in range(1, 11)]
    logits = logits_of(len(texts))
    found = values(forbid_repeated_ngrams(tensor(logits), history(texts), size))
    for row, text in enumerate(texts):
        banned = banned_by_hand(text, size)
        assert set(np.flatnonzero(np.isinf(found[row]))) == banned
        free = [token for token in range(6) if token not in banned]
        np.testing.assert_array_equal(found[row, free], logits[row, free])


def test_stop_ids_are_forbidden_until_there_are_enough_tokens():
    logits, stops = logits_of(2), np.array([STOP, 1], "int32")
    for count in range(4):
        past = history([[1], [2]])._replace(new_tokens=tensor(np.int32(count)))
        found = values(forbid_early_stop(tensor(logits), past, 2, tensor(stops)))
        assert set(np.flatnonzero(np.isinf(found[0]))) == (
            {1, STOP} if count < 2 else set()
        )


@pytest.mark.parametrize("k", [1, 2, 5, 6, 99])
def test_the_k_most_likely_tokens_are_kept(k):
    logits = logits_of(3)
    found = values(keep_top_k(tensor(logits), k))
    for row, kept in zip(logits, found, strict=True):
        best = set(np.argsort(-row)[:k])
        assert set(np.flatnonzero(np.isfinite(kept))) == best


@pytest.mark.parametrize("p", [1e-9, 0.3, 0.5, 0.9, 0.999, 1.0])
def test_the_fewest_tokens_that_sum_to_p_are_kept(p):
    logits = logits_of(3) * 3
    found = values(keep_top_p(tensor(logits), np.float32(p)))
    for row, kept in zip(logits, found, strict=True):
        probabilities = np.exp(row) / np.exp(row).sum()
        order = np.argsort(-row)
        count = 1
        while probabilities[order[:count]].sum() < p and count < 6:
            count += 1
        assert set(np.flatnonzero(np.isfinite(kept))) == set(order[:count])


def test_all_tokens_are_kept_when_p_is_one():
    logits = np.linspace(0, -60, 5000, dtype="float32")[None]
    assert np.isfinite(values(keep_top_p(tensor(logits), np.float32(1.0)))).all()


def test_equally_likely_tokens_are_kept_together():
    logits = tensor(np.array([[1.0, 1.0, 1.0, 0.0, -np.inf, -np.inf]], "float32"))
    for found in (keep_top_k(logits, 2), keep_top_p(logits, 0.4)):
        kept = np.isfinite(values(found))[0]
        assert kept.tolist() == [True, True, True, False, False, False]


def processed_by_hand(logits, seen, count, settings):
    """What the processors leave of logits after `seen`, of which `count` are new."""
    logits = logits.copy()
    penalty = settings.get("repetition_penalty", 1.0)
    for token in set(seen):
        logits[token] *= penalty if logits[token] < 0 else 1 / penalty
    size = settings.get("no_repeat_ngram_size", 0)
    if size:
        logits[list(banned_by_hand(seen, size))] = -np.inf
    if count < settings.get("min_new_tokens", 0):
        logits[STOP] = -np.inf
    return logits


SETTINGS = [
    {"repetition_penalty": 1.7},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2, "min_new_tokens": 4},
    {"repetition_penalty": 0.5, "no_repeat_ngram_size": 3, "min_new_tokens": 2},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=range(4))
def test_processors_compose_in_greedy_search_which_is_that_of_one_beam(settings):
    model = table_model(TABLE, stop_id=STOP)
    settings = {"max_new_tokens": 5, **settings}
    greedy = generate(model, PROMPTS, **settings).tolist()
    found = beam_search(model, PROMPTS, num_beams=1, length_penalty=0.0, **settings)
    for (row,), tokens, prompt in zip(found, greedy, PROMPTS, strict=True):
        text, score = [], 0.0
        while len(text) < 5 and STOP not in text:
            seen = [*prompt, *text]
            logits = table_logits(TABLE, seen)
            logits = processed_by_hand(logits, seen, len(text), settings)
            text.append(int(logits.argmax()))
            score += log_softmax(logits)[text[-1]]
        assert row.token_ids == text == tokens[: len(text)]
        assert row.score == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize("settings", SETTINGS, ids=range(4))
def test_several_beams_sum_what_processors_leave_of_log_probabilities(settings):
    model, every = table_model(TABLE, stop_id=STOP), 36  # 6 * 6, more than there are
    wide = {"num_beams": every, "max_new_tokens": 2, "length_penalty": 0.0}
    for prompt in PROMPTS:
        ((*found,),) = beam_search(model, [prompt], **wide, **settings)
        for text, score in found:
            expected = 0.0
            for place, token in enumerate(text):
                seen = [*prompt, *text[:place]]
                logs = table_log_probs(TABLE, seen)
                expected += processed_by_hand(logs, seen, place, settings)[token]
            assert np.isfinite(expected)
            assert score == pytest.approx(expected, rel=1e-5)
        assert len({tuple(text) for text, _ in found}) == len(found) > 4


def test_a_penalty_of_one_beam_is_of_logits_whose_sign_counts():
    # As log-probabilities, which are negative, both would become less likely.
    table = np.full((5, 5), -9.0)
    table[:, 1], table[:, 2] = 3.0, 2.5
    model = table_model(table, last_only=True, stop_id=STOP)
    settings = {"repetition_penalty": 1.5, "max_new_tokens": 1}
    assert generate(model, [[1]], **settings).tolist() == [[2]]
    ((best,),) = beam_search(model, [[1]], num_beams=1, **settings)
    assert best.token_ids == [2]
    assert best.score == pytest.approx(log_softmax([-9, 2, 2.5, -9, -9])[2])


def next_is_sum_of_last_two(logits, history):
    """Allow one token: the sum of the two before it, by what the history says."""
    places = ops.stack([history.length - 2, history.length - 1])
    last = ops.take(history.tokens, places, axis=1)
    there = ops.take(history.mask, places, axis=1)
    total = ops.sum(ops.where(there, last, 0), axis=1) % logits.shape[-1]
    wanted = ops.arange(logits.shape[-1], dtype="int32") == total[:, None]
    return ops.where(wanted, logits, float("-inf"))


def forbid_after(logits, history):
    """Forbid token 0 from the third new token on."""
    zero = ops.arange(logits.shape[-1]) == 0
    late = ops.logical_and(history.new_tokens >= 2, zero)
    return ops.where(late, float("-inf"), logits)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_processor_of_ones_own_sees_the_history(compiled):
    settings = {
        "max_new_tokens": 6,
        "processors": [next_is_sum_of_last_two],
        "jit_compile": compiled,
    }
    model = table_model(TABLE)
    expected = []
    for prompt in PROMPTS:
        text = [0, *prompt]
        for _ in range(6):
            text.append((text[-1] + text[-2]) % 6)
        expected.append(text[-6:])
    assert generate(model, PROMPTS, **settings).tolist() == expected
    beams = beam_search(model, PROMPTS, num_beams=2, **settings)
    assert [[h.token_ids for h in row] for row in beams] == [[t] for t in expected]
    translator = AligningModel(random_table(6), random_table(6))
    (found,) = generate(translator, [[2, 3]], **settings).tolist()
    assert found == [1, 2, 3, 5, 2, 1]  # from the start id, 1, on


def test_processors_of_ones_own_come_last_and_in_order():
    seen = []

    def note(logits, history):
        seen.append(values(logits))
        return logits

    generate(
        table_model(TABLE, stop_id=STOP),
        [[1]],
        max_new_tokens=3,
        min_new_tokens=3,
        processors=[note, forbid_after, note],
        jit_compile=False,
    )
    before, after = seen[::2], seen[1::2]
    assert all(np.isinf(logits[0, STOP]) for logits in seen)
    assert [np.isinf(logits[0, 0]) for logits in after] == [False, False, True]
    assert np.isfinite(np.array(before)[:, 0, 0]).all()


def test_a_stop_id_is_reached_by_the_last_token_that_may_be():
    found = generate(
        table_model(TABLE, stop_id=STOP), PROMPTS, max_new_tokens=4, min_new_tokens=9
    )
    assert STOP not in found


def test_where_every_token_is_forbidden_the_search_still_ends():
    settings = {"no_repeat_ngram_size": 1, "max_new_tokens": 9}
    stub = table_model(TABLE[:, :3])
    (found,) = generate(stub, [[1]], **settings).tolist()
    assert sorted(found[:2]) == [0, 2] and len(found) == 9
    (sampled,) = generate(stub, [[1]], temperature=1.0, seed=0, **settings).tolist()
    assert sorted(sampled[:2]) == [0, 2]
    # Beams find no text of nine tokens, and say so.
    for more in ({"num_beams": 1}, {"num_beams": 2}, {"renormalize_logits": True}):
        assert beam_search(stub, [[1]], **more, **settings) == [[]]
