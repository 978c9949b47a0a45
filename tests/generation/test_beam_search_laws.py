"""Beam search finds what an exhaustive search finds, and keeps what it found."""

import numpy as np
import pytest

from cases.helpers import array, slow_on
from keras_transformer.generation import Hypothesis, beam_search, generate
from keras_transformer.visualization import record_attention
from models.model_examples import translator
from models.recurrent_examples import make as recurrent
from stub_models import (
    AligningModel,
    TableModel,
    every_text,
    log_softmax,
    random_table,
    table_log_probs,
    table_model,
)

STOP = 4
TABLE = random_table(5, seed=3, number=997)  # so many that no two texts tie
PROMPTS = [[1, 2], [3], [2, 2, 1]]


def model(**settings):
    return table_model(TABLE, **{"stop_id": STOP, **settings})


def texts(rows):
    return [[h.token_ids for h in row] for row in rows]


def scores(rows):
    return [[h.score for h in row] for row in rows]


def assert_alike(ours, theirs):
    assert texts(ours) == texts(theirs)
    for one, other in zip(scores(ours), scores(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def normalized(score, length, penalty, gnmt=False):
    return score / (((5 + length) / 6) if gnmt else length) ** penalty


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("length_penalty", [0.6, 2.0])
def test_one_beam_is_greedy_search(length_penalty, early_stopping):
    settings = {"max_new_tokens": 6}
    greedy = generate(model(), PROMPTS, **settings)
    found = beam_search(
        model(),
        PROMPTS,
        num_beams=1,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        **settings,
    )
    for row, expected in zip(found, greedy.tolist(), strict=True):
        (best,) = row
        assert best.token_ids == expected[: len(best.token_ids)]
        assert best.token_ids[-1] == STOP or len(best.token_ids) == len(expected)


@pytest.mark.parametrize("gnmt", [False, True], ids=["length", "gnmt"])
@pytest.mark.parametrize("length_penalty", [0.6, 1.0, 2.0, 0.0, -1.0])
def test_beams_wide_enough_find_every_text(length_penalty, gnmt):
    prompt, longest = [1, 2], 3
    expected = every_text(TABLE, prompt, {STOP}, longest)
    expected = sorted(
        (
            (normalized(score, len(text), length_penalty, gnmt), list(text))
            for text, score in expected.items()
        ),
        reverse=True,
    )
    (found,) = beam_search(
        model(),
        [prompt],
        num_beams=len(expected),
        max_new_tokens=longest,
        length_penalty=length_penalty,
        length_normalization="gnmt" if gnmt else "length",
    )
    assert len(found) == len(expected) == 85
    np.testing.assert_allclose(
        [h.score for h in found], [score for score, _ in expected], rtol=1e-5
    )
    # All but those that rounding may swap.
    assert found[0].token_ids == expected[0][1]
    assert sorted(h.token_ids for h in found) == sorted(text for _, text in expected)


def coverage_of(text, source, affinity):
    read = [1, *text[:-1]]  # the start id first
    logits = np.asarray(affinity)[read][:, source]
    return np.exp(log_softmax(logits)).sum(axis=0)


@pytest.mark.parametrize("compiled", [True, False])
def test_the_coverage_penalty_is_that_of_the_paper(compiled):
    table, affinity = random_table(5, seed=5), random_table(5, seed=6, scale=3)
    sources, longest, beta = [[2, 3, 1], [4, 2]], 3, 0.7
    aligning = AligningModel(table, affinity, stop_id=STOP)
    found = beam_search(
        aligning,
        sources,
        num_beams=85,
        max_new_tokens=longest,
        length_penalty=0.8,
        length_normalization="gnmt",
        coverage_penalty=beta,
        jit_compile=compiled,
    )
    logs = log_softmax(table)
    for row, source in zip(found, sources, strict=True):
        expected = {}
        for hypothesis in row:
            text = hypothesis.token_ids
            score = sum(logs[a, b] for a, b in zip([1, *text], text, strict=False))
            covered = np.minimum(coverage_of(text, source, affinity), 1)
            score = normalized(score, len(text), 0.8, gnmt=True)
            expected[tuple(text)] = score + beta * np.log(covered).sum()
            assert hypothesis.score == pytest.approx(expected[tuple(text)], rel=1e-4)
        assert len(expected) == 85
        assert max(expected, key=expected.get) == tuple(row[0].token_ids)


def test_the_coverage_penalty_changes_the_order():
    table, affinity = random_table(5, seed=5), random_table(5, seed=6, scale=3)
    aligning = AligningModel(table, affinity, stop_id=STOP)
    best = [
        beam_search(
            aligning,
            [[2, 3, 1]],
            num_beams=85,
            max_new_tokens=3,
            coverage_penalty=beta,
        )[0][0].token_ids
        for beta in (0.0, 5.0)
    ]
    assert best[0] != best[1]


def by_teacher_forcing(searched, source, text):
    """The log-probability of a text, and the coverage of the source's tokens."""
    read = np.array([[searched.start_id, *text[:-1]]], "int32")
    inputs = {"encoder_token_ids": np.array([source]), "decoder_token_ids": read}
    inputs["decoder_padding_mask"] = np.ones(read.shape, bool)
    with record_attention(searched) as record:
        logs = log_softmax(array(searched(inputs))[0])
    alignments = record["decoder/attention"][0][0]
    return logs[np.arange(len(text)), text].sum(), alignments.sum(axis=0)


@slow_on("jax", "tensorflow")
def test_the_beams_of_a_recurrent_translator_are_scored_with_its_coverage():
    searched = recurrent("2015", stop_id=STOP)
    settings = dict(num_beams=3, max_new_tokens=5, length_penalty=0.8)
    found = beam_search(searched, PROMPTS, coverage_penalty=0.7, **settings)
    for row, source in zip(found, PROMPTS, strict=True):
        assert len(set(map(tuple, texts([row])[0]))) == 3
        assert scores([row])[0] == sorted(scores([row])[0], reverse=True)
        for text, score in row:
            total, coverage = by_teacher_forcing(searched, source, text)
            covered = 0.7 * np.log(np.minimum(coverage, 1)).sum()
            expected = normalized(total, len(text), 0.8) + covered
            assert score == pytest.approx(expected, rel=1e-4)
    greedy = generate(searched, PROMPTS, max_new_tokens=5).tolist()
    for row, expected in zip(
        beam_search(searched, PROMPTS, **{**settings, "num_beams": 1}),
        greedy,
        strict=True,
    ):
        (best,) = row
        assert best.token_ids == expected[: len(best.token_ids)]
        assert best.token_ids[-1] == STOP or len(best.token_ids) == len(expected)


def step_by_step(prompt, beams, longest, penalty, early_stopping):
    """The search in plain Python, as its documentation says it."""
    running, done = [((), 0.0)], []
    for length in range(1, longest + 1):
        longer = []
        for text, total in running:
            for token, log in enumerate(log_probs([*prompt, *text])):
                longer.append(((*text, token), total + float(log)))
        longer = sorted(longer, key=lambda pair: -pair[1])[: 2 * beams]
        for text, total in longer[:beams]:
            if text[-1] == STOP or length == longest:
                done.append((normalized(total, length, penalty), list(text)))
        done = sorted(done, reverse=True)[:beams]
        running = [pair for pair in longer if pair[0][-1] != STOP][:beams]
        if len(done) < beams:
            continue
        best = {True: -np.inf, False: length, "never": longest}[early_stopping]
        if early_stopping is not True:
            best = normalized(running[0][1], best, penalty)
        if best <= done[-1][0]:
            break
    return done


def log_probs(text):
    return table_log_probs(TABLE, text)


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("length_penalty", [0.6, 2.0])
@pytest.mark.parametrize("num_beams", [2, 3])
def test_a_search_is_what_its_documentation_says(
    num_beams, length_penalty, early_stopping
):
    settings = {
        "num_beams": num_beams,
        "length_penalty": length_penalty,
        "early_stopping": early_stopping,
    }
    found = beam_search(model(), PROMPTS, max_new_tokens=8, **settings)
    for row, prompt in zip(found, PROMPTS, strict=True):
        expected = step_by_step(prompt, num_beams, 8, length_penalty, early_stopping)
        assert [h.token_ids for h in row] == [text for _, text in expected]
        np.testing.assert_allclose(
            [h.score for h in row], [score for score, _ in expected], rtol=1e-5
        )


def test_the_ways_of_early_stopping_differ():
    found = {
        early_stopping: texts(
            beam_search(
                model(),
                [[a, b] for a in range(4) for b in range(4)],
                num_beams=2,
                max_new_tokens=8,
                length_penalty=2.0,
                early_stopping=early_stopping,
            )
        )
        for early_stopping in (True, False, "never")
    }
    assert found[True] != found[False] != found["never"]


def test_a_compiled_search_is_the_plain_loop():
    for settings in (
        {"num_beams": 3},
        {"num_beams": 2, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3},
        {"num_beams": 2, "min_new_tokens": 3, "stop_ids": [STOP, 2]},
    ):
        runs = [
            beam_search(
                model(), PROMPTS, max_new_tokens=5, jit_compile=compiled, **settings
            )
            for compiled in (True, False)
        ]
        assert_alike(*runs)


@pytest.mark.parametrize("kind", ["writer", "translator"])
def test_a_row_of_a_batch_is_searched_as_if_alone(kind):
    if kind == "writer":
        searched = model()
    else:
        searched = translator("learned", num_layers=1, stop_id=STOP)
    settings = {"num_beams": 3, "max_new_tokens": 7}
    together = beam_search(searched, PROMPTS, **settings)
    alone = [beam_search(searched, [row], **settings)[0] for row in PROMPTS]
    assert_alike(together, alone)


def test_the_side_of_padding_changes_nothing():
    left = np.array([[0, 1, 2], [0, 0, 3], [2, 2, 1]])
    right = np.array([[1, 2, 0], [3, 0, 0], [2, 2, 1]])
    settings = {"num_beams": 3, "max_new_tokens": 7}
    expected = beam_search(model(), PROMPTS, **settings)
    assert_alike(beam_search(model(), left, **settings), expected)
    assert_alike(beam_search(model(), right, **settings), expected)


def test_finished_texts_are_kept_while_others_go_on():
    # The best text ends at once; what goes on is worse at every length.
    table = np.full((5, 5), -9.0)
    table[:, STOP], table[:, 1] = 2.0, 0.0
    (row,) = beam_search(
        table_model(table, stop_id=STOP),
        [[1]],
        num_beams=2,
        max_new_tokens=6,
        length_penalty=0.0,
        early_stopping="never",
    )
    assert [h.token_ids for h in row] == [[STOP], [1, STOP]]


def test_no_more_steps_are_taken_than_needed():
    # Every text must end with its second token.
    table = np.full((5, 5), -np.inf)
    table[1, 2] = table[1, 3] = table[2, STOP] = table[3, STOP] = 0.0
    for beams in (1, 2, 4):
        stub = TableModel(table, stop_id=STOP, last_only=True)
        (row,) = beam_search(
            stub, [[1]], num_beams=beams, max_new_tokens=9, jit_compile=False
        )
        assert stub.calls["step"] == 2
        assert {tuple(h.token_ids) for h in row} <= {(2, STOP), (3, STOP)}
        assert len(row) == min(beams, 2)


def test_hypotheses_are_sorted_distinct_and_end_once():
    found = beam_search(model(), PROMPTS, num_beams=5, max_new_tokens=6)
    for row in found:
        assert 1 <= len(row) <= 5
        assert [h.score for h in row] == sorted((h.score for h in row), reverse=True)
        assert len({tuple(h.token_ids) for h in row}) == len(row)
        for hypothesis in row:
            assert isinstance(hypothesis, Hypothesis)
            assert all(type(token) is int for token in hypothesis.token_ids)
            assert STOP not in hypothesis.token_ids[:-1]
            assert hypothesis.token_ids[-1] == STOP or len(hypothesis.token_ids) == 6


def test_the_score_is_the_log_probability_of_the_text():
    found = beam_search(
        model(), PROMPTS, num_beams=3, max_new_tokens=6, length_penalty=0.0
    )
    for row, prompt in zip(found, PROMPTS, strict=True):
        for text, score in row:
            parts = [
                log_probs([*prompt, *text[:place]])[token]
                for place, token in enumerate(text)
            ]
            assert score == pytest.approx(sum(parts), rel=1e-5)


def test_no_new_tokens_is_one_empty_text():
    found = beam_search(model(), PROMPTS, num_beams=3, max_new_tokens=0)
    assert found == [[Hypothesis([], 0.0)]] * 3


def test_one_new_token_is_the_most_likely_ones():
    found = beam_search(model(), PROMPTS, num_beams=3, max_new_tokens=1)
    for row, prompt in zip(found, PROMPTS, strict=True):
        best = np.argsort(-log_probs(prompt))[:3]
        assert [h.token_ids for h in row] == [[token] for token in best]
