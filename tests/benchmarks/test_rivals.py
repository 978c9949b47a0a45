"""The benchmark of decoding: rivals do the same work."""

import numpy as np
import pytest

import generation
from cases.helpers import slow_on


@slow_on("jax", "tensorflow")
def test_ours_and_the_rivals_write_the_same_tokens_with_the_same_weights():
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    written = set()
    for case in generation.CHECKED:
        found = generation.greedy_tokens(case)
        assert "transformers" in found
        for name, tokens in found.items():
            np.testing.assert_array_equal(tokens, found["ours"], err_msg=name)
        written |= set(found["ours"].ravel().tolist())
    assert len(written) > 4, "tokens that tell"


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
    assert "the same greedy tokens as transformers." in text
    installed = generation.importlib.util.find_spec("ctranslate2") is not None
    assert ("ctranslate2 4." in text) == installed
