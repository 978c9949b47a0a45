"""P23: corner cases of the samplers.

Sources: google-deepmind/gemma#562; kingoflolz/mesh-transformer-jax#69;
huggingface/transformers#2302; ml-explore/mlx-lm PR #388; keras-team/keras-hub PR
#952; abetlen/llama-cpp-python#1154.
"""

import numpy as np
import pytest
from keras import ops

from keras_transformer.generation import generate
from keras_transformer.generation.processors import History, penalize_repetition
from stub_models import random_table, table_model

from .helpers import array

SHARES = np.array([0.5, 0.3, 0.15, 0.05])
DRAWS = 20_000


def draws(logits, count=DRAWS, seed=0, **settings):
    """Return tokens drawn from the same logits, many in each of some rows."""
    model = table_model(np.tile(logits, (len(logits), 1)), last_only=True)
    rows = min(count, 2000)
    found = generate(
        model,
        [[0]] * rows,
        max_new_tokens=count // rows,
        seed=seed,
        **{"temperature": 1.0, **settings},
    )
    return found.ravel()


def frequencies(**settings):
    return np.bincount(draws(np.log(SHARES), **settings), minlength=4) / DRAWS


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0},
        {"temperature": 0.0, "top_k": 3},
        {"top_k": 1},
        {"top_k": 1, "top_p": 0.8},
        {"top_k": 1, "temperature": 5.0},
        {"top_p": 1e-9},
        {"temperature": 1e-9},
    ],
    ids=str,
)
def test_what_leaves_one_token_is_greedy(settings):
    model = table_model(random_table(7, seed=1, number=997))
    prompts = [[1, 2], [3]]
    greedy = generate(model, prompts, max_new_tokens=12)
    found = generate(model, prompts, max_new_tokens=12, seed=4, **settings)
    assert found.tolist() == greedy.tolist()


@pytest.mark.parametrize("settings", [{"top_k": 1}, {"top_k": 1, "top_p": 0.8}])
def test_one_of_equally_likely_tokens_is_the_first(settings):
    assert set(draws(np.zeros(4), 200, **settings)) == {0}


@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        ({}, SHARES),
        ({"top_p": 1.0}, SHARES),
        ({"top_p": 1}, SHARES),
        ({"top_k": 0}, SHARES),
        ({"top_k": None}, SHARES),
        ({"top_k": 4}, SHARES),
        ({"top_k": 99}, SHARES),
        ({"top_k": 2}, [0.625, 0.375, 0, 0]),
        ({"top_p": 0.7}, [0.625, 0.375, 0, 0]),
        ({"top_k": 3, "top_p": 0.9}, [0.526, 0.316, 0.158, 0]),
        ({"top_k": 2, "top_p": 0.6}, [1, 0, 0, 0]),  # .625 of what top_k left
        ({"top_p": 0.5}, [1, 0, 0, 0]),
        ({"top_p": 1e-9}, [1, 0, 0, 0]),
        ({"temperature": 2.0}, SHARES**0.5 / (SHARES**0.5).sum()),
        ({"temperature": 0.5}, SHARES**2 / (SHARES**2).sum()),
    ],
    ids=str,
)
def test_tokens_are_drawn_as_often_as_they_should(settings, shares):
    found = frequencies(**settings)
    np.testing.assert_allclose(found, shares, atol=0.02)
    assert (found[np.equal(shares, 0)] == 0).all()


def test_ties_and_infinite_logits_are_safe():
    logits = np.array([-np.inf, 2.0, 2.0, -np.inf, 2.0])
    for settings in ({}, {"top_k": 2}, {"top_k": 5}, {"top_p": 0.5}, {"top_p": 1.0}):
        found = np.bincount(draws(logits, **settings), minlength=5) / DRAWS
        np.testing.assert_allclose(found, [0, 1 / 3, 1 / 3, 0, 1 / 3], atol=0.02)
    alone = np.array([-np.inf, -np.inf, -40.0])
    for settings in ({}, {"top_k": 2}, {"top_p": 0.1}, {"temperature": 9.0}):
        assert set(draws(alone, 200, **settings)) == {2}


def test_large_logits_are_safe():
    logits = np.array([3e4, 3e4 - 1, -3e4])
    for temperature in (1e-9, 0.01, 1.0, 100.0):
        found = draws(logits, 2000, temperature=temperature)
        assert set(found) <= {0, 1, 2}
        share = (found == 0).mean()
        expected = 1 / (1 + np.exp(-1 / temperature)) if temperature >= 0.01 else 1.0
        assert share == pytest.approx(expected, abs=0.05)


def test_rows_with_equal_logits_are_drawn_apart():
    rows = draws(np.zeros(5), 2000 * 50).reshape(2000, 50)
    assert len(set(map(tuple, rows))) == 2000
    assert all(len(set(column)) > 1 for column in rows.T)
    assert abs(np.corrcoef(rows[:1000].ravel(), rows[1000:].ravel())[0, 1]) < 0.05


def test_rows_are_drawn_from_their_own_logits():
    table = np.full((4, 4), -np.inf)
    table[[0, 1, 2, 3], [1, 0, 3, 2]] = 0.0
    model = table_model(table, last_only=True)
    for settings in ({}, {"top_k": 2}, {"top_p": 0.9}):
        found = generate(
            model, [[0], [1], [2], [3]], max_new_tokens=1, temperature=1.0, **settings
        )
        assert found.tolist() == [[1], [0], [3], [2]]


def test_a_penalty_takes_from_positive_and_negative_logits():
    tokens = ops.convert_to_tensor(np.array([[0, 1]], "int32"))
    history = History(tokens, ops.ones((1, 2), "bool"), 2, 0)
    logits = ops.convert_to_tensor(np.array([[-2.0, 3.0, 1.0]], "float32"))
    found = array(penalize_repetition(logits, history, 1.5))
    np.testing.assert_allclose(found, [[-3.0, 2.0, 1.0]])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_p", 0),
        ("top_p", 1.2),
        ("top_p", -0.1),
        ("temperature", -1.0),
        ("repetition_penalty", 0),
        ("repetition_penalty", -1.0),
        ("top_k", -1),
        ("top_k", 1.5),
    ],
)
def test_settings_out_of_range_are_refused(name, value):
    model = table_model(np.zeros((3, 3)))
    with pytest.raises(ValueError, match=f"`{name}`.*Received"):
        generate(model, [[1]], max_new_tokens=1, **{name: value})
