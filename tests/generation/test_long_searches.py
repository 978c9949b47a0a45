"""Searches long enough to run compiled steps on every backend, as on PyTorch.

There a step is written down once it has been taken often enough.
"""

import numpy as np
import pytest

from cases.examples import quick
from cases.helpers import randomize
from keras_transformer.generation import beam_search, generate
from models.model_examples import (
    LANGUAGE_MODELS,
    TRANSLATORS,
    language_model,
    translator,
)
from models.recurrent_examples import KINDS as RECURRENT
from models.recurrent_examples import make as recurrent

LENGTH = 20
PROMPTS = [[5, 9, 4], [7]]
KINDS = {
    **{f"language-{name}": (language_model, name) for name in LANGUAGE_MODELS},
    **{f"translator-{name}": (translator, name) for name in TRANSLATORS},
    **{f"recurrent-{name}": (recurrent, name) for name in RECURRENT},
}


def texts(model, compiled):
    """Greedy texts and those of beams, compiled or by the plain loop."""
    settings = {"max_new_tokens": LENGTH, "jit_compile": compiled}
    greedy = generate(model, PROMPTS, **settings)
    beams = beam_search(model, PROMPTS, num_beams=2, **settings)
    return greedy.tolist(), [[text.token_ids for text in row] for row in beams]


@pytest.mark.parametrize("kind", quick(KINDS, ["language-relative"]))
def test_a_long_compiled_search_is_the_plain_loop(kind):
    make, name = KINDS[kind]
    model = make(name, stop_id=None)
    assert texts(model, True) == texts(model, False)


def test_weights_that_change_after_many_steps_are_seen():
    model = language_model("rotary", stop_id=None)
    before = generate(model, PROMPTS, max_new_tokens=LENGTH).tolist()
    randomize(model, seed=1)
    changed = generate(model, PROMPTS, max_new_tokens=LENGTH).tolist()
    plain = generate(model, PROMPTS, max_new_tokens=LENGTH, jit_compile=False)
    assert changed == plain.tolist()
    assert changed != before


@pytest.mark.slow
def test_variables_that_are_replaced_after_many_steps_are_seen():
    model = language_model("rotary", stop_id=None)
    texts(model, True)
    model.quantize("int8")
    assert texts(model, True) == texts(model, False)


@pytest.mark.slow
def test_another_batch_after_many_steps_is_searched_on_its_own():
    model = language_model("rotary", stop_id=None)
    both = generate(model, PROMPTS, max_new_tokens=LENGTH)
    for row, prompt in zip(both, PROMPTS, strict=True):
        alone = generate(model, [prompt], max_new_tokens=LENGTH)
        np.testing.assert_array_equal(alone[0], row)
