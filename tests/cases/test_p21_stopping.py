"""P21: each text stops at its own end, whatever the search.

Sources: lucidrains/h-transformer-1d#9; keras-team/keras-hub#749, #965, PR #769;
CyberZHG/keras-transformer#3; OpenNMT/OpenNMT-tf#188; google/tunix#592;
huggingface/transformers#23175; bytedance/lightseq PR #236.
"""

import numpy as np
import pytest

from keras_transformer.generation import beam_search, generate, stream
from stub_models import TableModel, table_model

from .examples import quick

A, B, C, STOP, FIRST, SECOND = 1, 2, 3, 4, 5, 6
# The next token of each: rows begin with FIRST or SECOND.
CHAINS = {FIRST: A, SECOND: B, A: STOP, B: C, C: A}


def chain(follows=CHAINS, size=8, make=table_model, **settings):
    """A model in which one token follows each, nearly for certain."""
    table = np.zeros((size, size))
    for token, following in follows.items():
        table[token, following] = 12.0
    return make(table, last_only=True, **{"stop_id": STOP, **settings})


def whole(model, inputs, **settings):
    return [[t for t in row if t] for row in generate(model, inputs, **settings)]


def streamed(model, inputs, **settings):
    steps = np.stack(list(stream(model, inputs, **settings)), axis=1)
    return [[t for t in row if t] for row in steps]


def sampled(model, inputs, **settings):
    return whole(model, inputs, top_k=2, top_p=0.9, seed=0, **settings)


def beams(number):
    def search(model, inputs, **settings):
        rows = beam_search(model, inputs, num_beams=number, **settings)
        return [row[0].token_ids for row in rows]

    return search


SEARCHES = {
    "greedy": whole,
    "stream": streamed,
    "sampled": sampled,
    "one-beam": beams(1),
    "beams": beams(3),
}


@pytest.fixture(params=SEARCHES)
def search(request):
    return SEARCHES[request.param]


@pytest.mark.parametrize("compiled", quick([True, False], [False]))
def test_each_row_ends_with_its_own_stop_id(search, compiled):
    found = search(
        chain(), [[FIRST], [SECOND]], max_new_tokens=10, jit_compile=compiled
    )
    assert found == [[A, STOP], [B, C, A, STOP]]


@pytest.mark.parametrize("pad", [0, STOP, 7, None])
def test_what_follows_the_end_is_padding(pad):
    found = generate(chain(pad_id=pad), [[FIRST], [SECOND]], max_new_tokens=10)
    fill = 0 if pad is None else pad
    assert found.tolist() == [[A, STOP, fill, fill], [B, C, A, STOP]]


def test_no_step_is_taken_after_the_last_end(search):
    if search is SEARCHES["beams"]:
        pytest.skip("beams go on while a better text may come")
    model = chain(make=TableModel)
    search(model, [[FIRST], [SECOND]], max_new_tokens=10, jit_compile=False)
    assert model.calls == {"start": 1, "step": 4}


def test_beams_stop_once_they_are_full_or_no_text_can_be_better():
    for early_stopping in (True, False):
        model = chain(make=TableModel)
        beam_search(
            model,
            [[FIRST], [SECOND]],
            num_beams=2,
            max_new_tokens=30,
            early_stopping=early_stopping,
            jit_compile=False,
        )
        assert model.calls["step"] <= 6


def test_a_text_may_end_at_once(search):
    assert search(chain(), [[A]], max_new_tokens=10) == [[STOP]]


def test_a_text_without_an_end_stops_at_the_limit_exactly(search):
    endless = chain({1: 2, 2: 1})
    for longest in (1, 7, 16, 17):
        (found,) = search(endless, [[1]], max_new_tokens=longest)
        assert found == ([2, 1] * 9)[:longest]
    (found,) = search(endless, [[1]], max_new_tokens=5, stop_ids=[])
    assert found == [2, 1, 2, 1, 2]


def test_there_is_a_limit_if_none_is_given(search):
    (found,) = search(chain({1: 2, 2: 1}, stop_id=None), [[1]])
    assert len(found) == 64


def test_a_stop_id_in_the_prompt_does_not_stop(search):
    model = chain({**CHAINS, STOP: B})
    for prompt in ([STOP, SECOND], [SECOND, STOP, SECOND], [STOP]):
        (found,) = search(model, [prompt], max_new_tokens=10)
        assert found == [B, C, A, STOP]


@pytest.mark.parametrize(
    ("stop_ids", "expected"),
    [
        ([STOP, C], [[A, STOP], [B, C]]),
        ((C, B, STOP), [[A, STOP], [B]]),
        (C, [[A, STOP, STOP, STOP], [B, C]]),
    ],
)
def test_several_stop_ids_end_a_text(search, stop_ids, expected):
    model = chain({**CHAINS, STOP: STOP})
    found = search(model, [[FIRST], [SECOND]], max_new_tokens=4, stop_ids=stop_ids)
    assert found == expected


def test_no_new_tokens_are_none(search):
    if search is streamed:
        assert list(stream(chain(), [[FIRST]], max_new_tokens=0)) == []
    else:
        assert search(chain(), [[FIRST]], max_new_tokens=0) == [[]]


def test_a_translation_stops_too(search):
    found = search(chain(start_id=SECOND), [[1], [1, 2]], max_new_tokens=10)
    assert found == [[B, C, A, STOP]] * 2
