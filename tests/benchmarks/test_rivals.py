"""The benchmark of decoding: rivals do the same work."""

import re

import numpy as np
import pytest

import generation
from cases.helpers import slow_on


@slow_on("jax", "tensorflow")
def test_ours_and_the_rivals_write_the_same_tokens_with_the_same_weights(monkeypatch):
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    greedy, written = generation.greedy_tokens, set()

    def note(case):
        found = greedy(case)
        written.update(found["ours"].ravel().tolist())
        return found

    monkeypatch.setattr(generation, "greedy_tokens", note)
    assert "transformers" in generation.check_tokens()
    assert len(written) > 4, "tokens that tell"


def test_other_tokens_are_refused(monkeypatch):
    found = {"ours": np.array([[1, 2]]), "transformers": np.array([[1, 3]])}
    monkeypatch.setattr(generation, "greedy_tokens", lambda case: found)
    with pytest.raises(ValueError, match="of transformers and ours write other tokens"):
        generation.check_tokens()


def test_another_form_of_the_activation_is_refused(monkeypatch):
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    make = generation.LanguageModel
    monkeypatch.setattr(
        generation,
        "LanguageModel",
        lambda *a, **k: make(*a, **{**k, "activation": "gelu"}),
    )
    with pytest.raises(ValueError, match="The logits of ours and transformers differ"):
        generation.greedy_tokens(generation.CHECKED[1])


def test_the_section_says_what_ran_and_what_agreed():
    case = generation.CHECKED[1]
    times = {"ours": [1.0, 1.0], "transformers": [2.0, 2.0]}
    text = generation.report({case: times}, "generation.py", ["transformers"])
    assert "| language model | 2 | 1 | 16 | 2.00 (2.00-2.00) |" in text
    assert "the same greedy tokens as transformers (keras-hub was not asked)." in text
    installed = generation.importlib.util.find_spec("ctranslate2") is not None
    named = re.search(r"ctranslate2 \d", text)  # with its version, beside the others
    assert bool(named) == installed
