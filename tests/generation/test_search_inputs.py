"""Bad settings and inputs are refused at once, by name, with the way out."""

import numpy as np
import pytest
from keras import ops

from cases.helpers import slow_on
from keras_transformer.generation import beam_search, generate, stream
from models.model_examples import translator
from stub_models import AligningModel, TableModel, counting, random_table, table_model

TABLE = random_table(5)
SEARCHES = [generate, stream, beam_search]

NO_NUMBER = ["2", None, [2], float("nan"), float("inf"), True, np.array([1.0])]
BAD_LIMITS = [
    *[("max_new_tokens", value) for value in (-1, 2.0, "3", None, True)],
    *[("min_new_tokens", value) for value in (-1, 0.5, None)],
    *[("no_repeat_ngram_size", value) for value in (-1, 1.5, None)],
    *[("repetition_penalty", value) for value in (0, -1.0, *NO_NUMBER)],
    *[("processors", value) for value in (None, len, ["no"], [None], "ab", {len})],
    *[("stop_ids", value) for value in (5, -1, [1, 5], 2.0, [1.0], "ab", [[1]], True)],
    *[("stop_ids", value) for value in (2**32 + 1, [None], [1, [2]])],
]
BAD_SAMPLING = [
    *[("temperature", value) for value in (-0.1, *NO_NUMBER) if value is not None],
    *[("top_p", value) for value in (0, 1.2, -1, *NO_NUMBER) if value is not None],
    *[("top_k", value) for value in (-1, 2.5, "3", False, 0.0, "")],
    *[("seed", value) for value in (-1, 1.5, "x", True)],
]
BAD_BEAMS = [
    *[("num_beams", value) for value in (0, -2, 1.5, None, True)],
    *[("length_penalty", value) for value in NO_NUMBER],
    *[("coverage_penalty", value) for value in (-0.1, *NO_NUMBER)],
    *[("early_stopping", value) for value in (1, 0, None, "always", np.array([1]))],
    *[("length_normalization", value) for value in (None, "wu", True)],
]


def refused(search, message, inputs=((1, 2),), model=None, **settings):
    model = model or TableModel(TABLE, stop_id=4)
    calls = dict(model.calls)
    with pytest.raises(ValueError, match=message):
        search(model, list(inputs) if type(inputs) is tuple else inputs, **settings)
    assert model.calls == calls


@pytest.mark.parametrize("search", SEARCHES)
def test_limits_out_of_range_are_refused_by_name(search):
    for name, value in BAD_LIMITS:
        refused(search, f"`{name}`", **{name: value})


@pytest.mark.parametrize("search", [generate, stream])
def test_sampling_out_of_range_is_refused_by_name(search):
    for name, value in BAD_SAMPLING:
        refused(search, f"`{name}`.*Received", **{name: value})


def test_a_coverage_of_a_model_without_a_source_is_refused():
    message = "`coverage_penalty` needs a model.*TableModel"
    refused(beam_search, message, coverage_penalty=0.2)


def test_beams_out_of_range_are_refused_by_name():
    for name, value in BAD_BEAMS:
        refused(beam_search, f"`{name}`.*Received", **{name: value})


@pytest.mark.parametrize("search", SEARCHES)
def test_an_unknown_setting_is_answered_with_the_known_ones(search):
    refused(search, "no setting 'max_length'. It has:.*max_new_tokens", max_length=3)


def test_a_setting_of_the_other_search_is_refused():
    refused(generate, "`generate` has no setting 'num_beams'.*top_k", num_beams=2)
    refused(stream, "`stream` has no setting 'num_beams'", num_beams=2)
    refused(beam_search, "has no setting 'top_k'.*num_beams", top_k=2)


def test_a_message_says_the_bounds():
    refused(beam_search, "must be a finite number. Received", length_penalty="x")
    refused(
        generate, "number above 0 and of at most 1 or None. Received: top_p=2", top_p=2
    )


def test_a_processor_that_cannot_be_told_apart_is_refused():
    class Unhashable:
        __hash__ = None

        def __call__(self, logits, history):
            return logits

    refused(generate, "`processors`.*hashable", processors=[Unhashable()])


@pytest.mark.parametrize("jit_compile", [True, False])
@pytest.mark.parametrize(
    "processor", [lambda logits, _: None, lambda logits, _: logits[:, :3]]
)
@pytest.mark.parametrize("search", [generate, beam_search])
def test_a_processor_must_return_logits(search, processor, jit_compile):
    model = table_model(TABLE, stop_id=4)
    settings = {"processors": [processor], "jit_compile": jit_compile}
    with pytest.raises(ValueError, match="`processors` must return logits of the sh"):
        search(model, [[1, 2]], max_new_tokens=3, **settings)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([[1, 5]], "holds the id 5.*0 to 4"),
        ([[1], [-1, 2]], "holds the id -1"),
        ([[1, 2**32 + 1]], "holds the id 4294967297"),
        (np.array([[1, 2**40]]), "holds the id 1099511627776"),
        (np.array([[2**64 - 1]], "uint64"), "holds the id -1"),
        ([[1, 2], []], "Row 1 of `inputs` is empty"),
        (np.array([[1, 2], [0, 0]]), "Row 1 of `inputs` is empty"),
        (np.zeros((1, 0), int), "Row 0 of `inputs` is empty"),
        ([], "at least one row"),
        (np.zeros((0, 3), int), "at least one row"),
        ([1, 2], "list of lists of integer ids. Row 0"),
        (3, "list of lists"),
        ("text", "list of lists"),
        (["text"], "list of lists of integer ids. Row 0"),
        (None, "list of lists"),
        ([None], "list of lists"),
        ([[1.0, 2.0]], "list of lists.*float"),
        ([[True, False]], "list of lists.*bool"),
        ([[1, [2]]], "list of lists"),
        ([[[1]]], "list of lists"),
        ([[1, None]], "list of lists"),
        (np.array([[1.0, 2.0]]), "integers of shape"),
        (np.array([1, 2]), "integers of shape.*shape .2,."),
        (np.array([[[1]]]), "integers of shape"),
        ({"token_ids": [[1, 2], [3]]}, "integers of shape"),
        ({"token_ids": [1, 2]}, "integers of shape"),
        ({"ids": [[1, 2]]}, "'token_ids' and perhaps 'padding_mask'.*ids"),
        ({}, "'token_ids'"),
        ({"token_ids": [[1]], "mask": [[1]]}, "perhaps 'padding_mask'.*mask"),
        (
            {"token_ids": [[1, 2]], "padding_mask": [[True]]},
            "shape of its 'token_ids', .1, 2.. Received shape .1, 1.",
        ),
        (
            {"token_ids": [[1, 2]], "padding_mask": [[0.0, -1e9]]},
            "`padding_mask` must be boolean, or 0 and 1",
        ),
    ],
    ids=range(31),
)
def test_bad_prompts_are_refused(search, inputs, message):
    refused(search, message, inputs)


@pytest.mark.parametrize("search", SEARCHES)
def test_texts_beyond_the_positions_are_refused(search):
    model = TableModel(TABLE, position_limit=6)
    message = "may reach 7 tokens.*positions for 6.*max_new_tokens"
    refused(search, message, [[1], [1, 2, 3]], model, max_new_tokens=4)
    list(search(model, [[1], [1, 2]], max_new_tokens=4))
    model = counting(translator("learned", num_layers=1, sequence_length=6))
    refused(search, message, [[1] * 7], model, max_new_tokens=1)
    refused(search, message, [[1]], model, max_new_tokens=7)


@pytest.mark.parametrize("search", SEARCHES)
def test_ids_are_checked_against_the_vocabulary_that_they_are_of(search):
    model = AligningModel(TABLE, np.zeros((5, 9)), stop_id=4)
    list(search(model, [[8]], max_new_tokens=1))
    refused(search, "holds the id 9.*0 to 8", [[9]], model)
    refused(search, "`stop_ids` holds the id 8.*0 to 4", [[8]], model, stop_ids=8)


@slow_on("tensorflow")
def test_empty_sources_are_translated_from_nothing():
    model = translator("sinusoidal", num_layers=1, stop_id=4)
    alone = generate(model, [[]], max_new_tokens=3)
    both = generate(model, [[], []], max_new_tokens=3)
    mixed = generate(model, [[], [3, 2]], max_new_tokens=3)
    assert both.tolist() == [alone[0].tolist()] * 2
    assert mixed[0, : alone.shape[1]].tolist() == alone[0].tolist()
    padding = generate(model, np.zeros((1, 4), int), max_new_tokens=3)
    assert padding.tolist() == alone.tolist()
    for row in beam_search(model, [[], [3, 2]], num_beams=2, max_new_tokens=3):
        assert np.isfinite([hypothesis.score for hypothesis in row]).all()


def test_numbers_of_numpy_are_settings():
    model = table_model(TABLE, stop_id=4)
    found = generate(
        model,
        [[1, 2]],
        max_new_tokens=np.int64(3),
        min_new_tokens=np.uint8(1),
        repetition_penalty=np.float64(1.5),
        no_repeat_ngram_size=np.int32(2),
        temperature=np.float32(0.5),
        top_k=np.int64(3),
        top_p=np.float64(0.9),
        seed=np.int64(3),
        stop_ids=np.int64(3),
    )
    again = generate(
        model,
        ops.convert_to_tensor([[1, 2]]),
        max_new_tokens=3,
        min_new_tokens=1,
        repetition_penalty=1.5,
        no_repeat_ngram_size=2,
        temperature=0.5,
        top_k=3,
        top_p=0.9,
        seed=3,
        stop_ids=3,
    )
    assert found.tolist() == again.tolist()
    beams = beam_search(model, [[1, 2]], num_beams=np.int64(2), length_penalty=1)
    assert beams == beam_search(model, [[1, 2]], num_beams=2, length_penalty=1.0)
