"""Searches long enough to run compiled steps on every backend, as on PyTorch.

There a step is written down once it has been taken often enough.
"""

import threading

import keras
import numpy as np
import pytest
from keras import ops

from cases.helpers import randomize, slow_on
from keras_transformer.generation import beam_search, generate
from keras_transformer.ops import backend
from models.model_examples import (
    LANGUAGE_MODELS,
    TRANSLATORS,
    language_model,
    translator,
)
from models.recurrent_examples import KINDS as RECURRENT
from models.recurrent_examples import make as recurrent
from stub_models import TableModel, random_table

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


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_compiled_search_is_the_plain_loop(kind):
    make, name = KINDS[kind]
    model = make(name, stop_id=None)
    assert texts(model, True) == texts(model, False)


only_in_python = pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="compiled as a whole elsewhere"
)
SETTINGS = {
    "sampled": {"temperature": 0.9, "top_k": 6, "top_p": 0.9, "seed": 3},
    "penalized": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3},
    "stopped": {"stop_ids": [4], "min_new_tokens": 18, "forced_eos_token_id": 2},
}


@slow_on("jax", "tensorflow")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_long_search_with_settings_is_the_plain_loop(name):
    model = TableModel(random_table(12, number=5), stop_id=None)
    settings = {"max_new_tokens": 2 * LENGTH, **SETTINGS[name]}
    for _ in range(2):
        one, other = (
            generate(model, [[1, 2], [5]], jit_compile=compiled, **settings).tolist()
            for compiled in (True, False)
        )
        assert one == other
    if name != "sampled":
        one, other = (
            beam_search(model, [[1, 2]], jit_compile=compiled, num_beams=3, **settings)
            for compiled in (True, False)
        )
        assert [h.token_ids for h in one[0]] == [h.token_ids for h in other[0]]


@slow_on("jax", "tensorflow")
def test_weights_that_change_after_many_steps_are_seen():
    model = language_model("rotary", num_layers=1, stop_id=None)
    before = generate(model, PROMPTS, max_new_tokens=LENGTH).tolist()
    randomize(model, seed=1)
    changed = generate(model, PROMPTS, max_new_tokens=LENGTH).tolist()
    plain = generate(model, PROMPTS, max_new_tokens=LENGTH, jit_compile=False)
    assert changed == plain.tolist()
    assert changed != before


@pytest.mark.slow
@pytest.mark.usefixtures("quick_quantizing")
def test_variables_that_are_replaced_after_many_steps_are_seen():
    model = language_model("rotary", num_layers=1, stop_id=None)
    texts(model, True)
    model.quantize("int8")
    assert texts(model, True) == texts(model, False)


@pytest.mark.slow
def test_another_batch_after_many_steps_is_searched_on_its_own():
    model = language_model("rotary", num_layers=1, stop_id=None)
    both = generate(model, PROMPTS, max_new_tokens=LENGTH)
    for row, prompt in zip(both, PROMPTS, strict=True):
        alone = generate(model, [prompt], max_new_tokens=LENGTH)
        np.testing.assert_array_equal(alone[0], row)


def in_numpy(logits, history):
    """Forbid the best token, with NumPy: no backend can write this down."""
    logits = ops.convert_to_numpy(logits)
    best = logits.max(-1, keepdims=True)
    return ops.convert_to_tensor(np.where(logits == best, -1e9, logits))


def of_odd_lengths(logits, history):
    """Turn the logits around at every second token."""
    return ops.flip(logits, -1) if int(history.length) % 2 else logits


@only_in_python
def test_a_new_prompt_length_temperature_or_seed_writes_no_step_down_again(monkeypatch):
    written, trace = [], backend._trace
    monkeypatch.setattr(backend, "_trace", lambda *a: written.append(a) or trace(*a))
    model = language_model("rotary", num_layers=1, stop_id=None)

    def search(prompts, temperature, seed):
        drawn = {"temperature": temperature, "seed": seed}
        generate(model, prompts, max_new_tokens=LENGTH, **drawn)

    search(PROMPTS, 0.9, 1)
    first = len(written)
    assert first
    search([[5, 9, 4, 7], [7, 4]], 0.9, 1)
    search(PROMPTS, 0.5, 1)
    search(PROMPTS, 0.9, 2)
    assert len(written) == first


@only_in_python
@pytest.mark.parametrize("processor", [in_numpy, of_odd_lengths])
def test_what_cannot_be_traced_runs_as_it_is(processor):
    model = TableModel(random_table(9, number=3), stop_id=None)
    settings = {"max_new_tokens": 3 * LENGTH, "processors": [processor]}
    plain = generate(model, [[1, 2], [5]], jit_compile=False, **settings)
    for _ in range(2):
        found = generate(model, [[1, 2], [5]], **settings)
        assert found.tolist() == plain.tolist()


@only_in_python
def test_threads_that_search_at_once_write_what_each_writes_alone():
    import torch

    before = torch.nn.Module.__call__, torch.nn.Module.__getattr__
    models = [
        TableModel(random_table(9, number=number), stop_id=None) for number in range(3)
    ]
    settings = {"max_new_tokens": 2 * LENGTH}
    alone = [
        generate(model, [[1, 2]], jit_compile=False, **settings).tolist()
        for model in models
    ]
    found, errors = [None] * 6, []

    def search(place):
        try:
            model = models[place % 3]
            found[place] = generate(model, [[1, 2]], **settings).tolist()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=search, args=(place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert found == alone * 2
    assert (torch.nn.Module.__call__, torch.nn.Module.__getattr__) == before
