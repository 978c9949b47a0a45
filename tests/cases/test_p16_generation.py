"""P16 in generation: a new length, temperature or seed is no new trace.

Sources: keras-team/keras-hub#779, PR #804; huggingface/transformers PR #18265.
"""

import keras
import pytest

from cases.helpers import slow_on
from keras_transformer.generation import beam_search, generate, stream
from models.model_examples import language_model, translator
from stub_models import counting

from .examples import quick

pytestmark = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch runs eagerly: no traces"
)
MODELS = {
    "language": lambda: language_model("rotary", num_layers=1, stop_id=2),
    "translator": lambda: translator("sinusoidal", num_layers=1),
}


def prompt(length):
    return [[3 + place % 8 for place in range(length)]]


def search(name, model, inputs, **settings):
    settings = {"max_new_tokens": 3, **settings}
    if name == "beam_search":
        return beam_search(model, inputs, num_beams=2, **settings)
    if name == "stream":
        return list(stream(model, inputs, **settings))
    return generate(model, inputs, **settings)


def traces(model):
    return sum(model.calls.values())


@pytest.mark.parametrize(
    "name", quick(["generate", "stream", "beam_search"], ["beam_search"])
)
@pytest.mark.parametrize("kind", MODELS)
def test_prompts_of_ten_lengths_are_traced_once(kind, name):
    model = counting(MODELS[kind]())
    search(name, model, prompt(3))
    first = traces(model)
    assert first >= 2
    for length in range(3, 13):
        search(name, model, prompt(length))
    assert traces(model) == first


def test_other_values_of_settings_are_no_new_traces():
    model = counting(MODELS["language"]())
    settings = dict(top_k=5, top_p=0.9, repetition_penalty=1.2, min_new_tokens=1)
    generate(model, prompt(4), max_new_tokens=3, temperature=0.5, seed=1, **settings)
    first = traces(model)
    for more in (
        {"temperature": 0.7},
        {"temperature": 2},
        {"seed": 7},
        {"seed": None},
        {"top_p": 0.3},
        {"repetition_penalty": 1.9},
        {"min_new_tokens": 2},
        {"max_new_tokens": 5},
        {"max_new_tokens": 16},
        {"stop_ids": 5},
    ):
        more = {"max_new_tokens": 3, "temperature": 0.5, **settings, **more}
        generate(model, prompt(4), **more)
    assert traces(model) == first


def test_other_values_of_a_beam_search_are_no_new_traces():
    model = counting(MODELS["translator"]())
    settings = {"num_beams": 2, "max_new_tokens": 3}
    beam_search(model, prompt(4), **settings)
    first = traces(model)
    for more in ({"length_penalty": 0.6}, {"length_penalty": 2}, {"max_new_tokens": 9}):
        beam_search(model, prompt(4), **{**settings, **more})
    assert traces(model) == first


def check_second_is_new(counts):
    """The second search traces at most as much as the first, and no later one does."""
    first, second, *later = counts
    assert first < second <= 2 * first
    assert later == [second] * len(later)


def test_a_longer_text_is_one_new_trace():
    model = counting(MODELS["language"]())
    counts = []
    for longest in (3, 17, 20, 24):  # the last three are padded to one length
        generate(model, prompt(4), max_new_tokens=longest)
        counts.append(traces(model))
    check_second_is_new(counts)


def test_a_longer_prompt_is_one_new_trace():
    model = counting(MODELS["translator"]())
    counts = []
    for length in (4, 17, 20, 24):
        generate(model, prompt(length), max_new_tokens=3)
        counts.append(traces(model))
    check_second_is_new(counts)


@slow_on("tensorflow")
def test_each_way_of_searching_is_traced_on_its_own():
    model = counting(MODELS["language"]())
    once = {}
    for settings in (
        {},
        {"temperature": 1.0},
        {"top_k": 3},
        {"top_k": 4},
        {"no_repeat_ngram_size": 2},
        {"no_repeat_ngram_size": 3},
    ):
        before = traces(model)
        generate(model, prompt(4), max_new_tokens=3, **settings)
        assert traces(model) > before
        once[str(settings)] = traces(model)
        generate(model, prompt(5), max_new_tokens=3, **settings)
        assert traces(model) == once[str(settings)]
