"""Dtypes, tiny vocabularies, infinite logits, ties, long texts and many calls."""

import ctypes
import gc
import resource

import keras
import numpy as np
import pytest

from cases.examples import quick
from keras_transformer.generation import beam_search, generate, stream
from models.model_examples import language_model, translator
from stub_models import TableModel, random_table, table_model

STOP = 4
TABLE = random_table(5, seed=3, number=997)
PROMPTS = [[1, 2], [3]]


def as_pairs(rows):
    return [[tuple(h.token_ids) for h in row] for row in rows]


@pytest.mark.parametrize(
    "dtype", quick(["float16", "bfloat16", "float64"], ["bfloat16"])
)
def test_logits_of_another_dtype_are_searched_in_float32(dtype):
    table = np.round(TABLE * 16) / 16  # exact in every dtype
    plain = table_model(table, stop_id=STOP)
    other = TableModel(table, stop_id=STOP, dtype=dtype)
    for settings in ({}, {"temperature": 0.7, "top_k": 4, "top_p": 0.9, "seed": 1}):
        settings = {"max_new_tokens": 5, "repetition_penalty": 1.2, **settings}
        expected = generate(plain, PROMPTS, **settings)
        assert generate(other, PROMPTS, **settings).tolist() == expected.tolist()
    settings = {"num_beams": 3, "max_new_tokens": 5, "repetition_penalty": 1.2}
    expected, found = (beam_search(m, PROMPTS, **settings) for m in (plain, other))
    assert as_pairs(found) == as_pairs(expected)
    np.testing.assert_allclose(
        [h.score for h in found[0]], [h.score for h in expected[0]], rtol=1e-6
    )


@pytest.mark.parametrize(
    "floatx", quick(["float16", "bfloat16", "float64"], ["bfloat16"])
)
def test_the_default_dtype_changes_no_search(floatx):
    model = table_model(TABLE, stop_id=STOP)
    settings = {"max_new_tokens": 5, "no_repeat_ngram_size": 2}
    sampling = {"temperature": 0.7, "top_p": 0.9, "seed": 1}
    expected = (
        beam_search(model, PROMPTS, num_beams=3, **settings),
        generate(model, PROMPTS, **settings, **sampling).tolist(),
    )
    keras.config.set_floatx(floatx)
    model = TableModel(TABLE, stop_id=STOP)
    model.rows = keras.layers.Embedding(997, 5, dtype="float32")
    model.rows.build(None)
    model.rows.embeddings.assign(TABLE)
    found = beam_search(model, PROMPTS, num_beams=3, **settings)
    assert as_pairs(found) == as_pairs(expected[0])
    np.testing.assert_allclose(found[0][0].score, expected[0][0][0].score, rtol=1e-6)
    assert generate(model, PROMPTS, **settings, **sampling).tolist() == expected[1]


@pytest.mark.slow
@pytest.mark.parametrize("make", [language_model, translator])
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_a_cache_in_half_precision_is_carried_on(policy, make):
    model, full = (
        make("rotary", stop_id=STOP, dtype=dtype) for dtype in (policy, "float32")
    )
    full.set_weights(model.get_weights())
    settings = {"max_new_tokens": 4}
    one, other = (
        generate(model, PROMPTS, jit_compile=compiled, **settings)
        for compiled in (True, False)
    )
    assert one.shape[0] == other.shape[0] == 2
    found, expected = (
        beam_search(each, PROMPTS, num_beams=2, **settings) for each in (model, full)
    )
    for row, wanted in zip(found, expected, strict=True):
        assert len(row) == 2 and row[0].score >= row[1].score
        assert row[0].score == pytest.approx(wanted[0].score, abs=0.05)


@pytest.mark.parametrize("vocabulary", quick([1, 2, 3], [1, 3]))
@pytest.mark.parametrize("num_beams", quick([1, 2, 5], [5]))
def test_beams_may_be_more_than_tokens(vocabulary, num_beams):
    table = random_table(vocabulary, number=997)
    model = table_model(table, stop_id=vocabulary - 1)
    (row,) = beam_search(
        model, [[0]], num_beams=num_beams, max_new_tokens=4, length_penalty=0.0
    )
    assert 1 <= len(row) <= num_beams
    assert len({tuple(h.token_ids) for h in row}) == len(row)
    greedy = generate(model, [[0]], max_new_tokens=4)[0].tolist()
    if num_beams == 1 or vocabulary == 1:
        assert row[0].token_ids == greedy[: len(row[0].token_ids)]
    if vocabulary == 1:
        assert as_pairs([row]) == [[(0,)]] and row[0].score == 0.0
        assert generate(model, [[0]], top_p=0.5, seed=0).tolist() == [[0]]


def test_one_possible_token_is_the_text_of_every_search():
    table = np.full((5, 5), -np.inf)
    table[np.arange(5), (np.arange(5) + 1) % 5] = 3.0
    model = table_model(table, last_only=True, stop_id=STOP)
    settings = {"max_new_tokens": 9}
    expected = [[2, 3, 4]]
    assert generate(model, [[1]], **settings).tolist() == expected
    for more in ({"temperature": 2.0}, {"top_k": 3}, {"top_p": 0.5}):
        assert generate(model, [[1]], seed=0, **more, **settings).tolist() == expected
    for beams in (1, 2, 4):
        found = beam_search(model, [[1]], num_beams=beams, **settings)
        assert found == [[(expected[0], 0.0)]]


def test_ties_give_valid_distinct_texts():
    model = table_model(np.zeros((5, 5)), stop_id=STOP)
    for beams in (1, 2, 3):
        (row,) = beam_search(model, [[1]], num_beams=beams, max_new_tokens=3)
        assert len({tuple(h.token_ids) for h in row}) == len(row) == beams
        np.testing.assert_allclose([h.score for h in row], -np.log(5), rtol=1e-5)


def test_a_long_text_is_written_to_its_end():
    model = table_model(TABLE, stop_id=None)
    found = generate(model, [[1, 2]], max_new_tokens=700)
    assert found.shape == (1, 700)
    start = generate(model, [[1, 2]], max_new_tokens=9)
    assert found[:, :9].tolist() == start.tolist()


def in_use():
    """Return the bytes that the process holds; what C has set free is given back."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


class Large(TableModel):
    """A table whose state holds 4 MB for each row."""

    def start(self, inputs, max_length):
        rows = inputs["token_ids"].shape[0]
        large = keras.ops.zeros((rows, 1_000_000))
        return {**super().start(inputs, max_length), "large": large}

    def step(self, tokens, state):
        logits, new = super().step(tokens, state)
        return logits, {**new, "large": state["large"] + logits[:, :1]}


WIDE = dict(num_layers=1, embed_dim=512, num_heads=2, dense_dim=8)
KINDS = {
    "table": lambda: Large(TABLE),
    "language": lambda: language_model("sinusoidal", **WIDE),
    "translator": lambda: translator("learned", **WIDE),
}


@pytest.mark.filterwarnings("ignore")  # pytest keeps each, some kilobytes a warning
@pytest.mark.parametrize(
    "search", quick(["generate", "stream", "beam_search"], ["beam_search"])
)
@pytest.mark.parametrize("kind", quick(list(KINDS), ["translator"]))
def test_memory_stays_flat_over_200_calls(kind, search):
    model, rows = KINDS[kind](), 1 if kind == "table" else 8
    ids = np.ones((rows, 16), "int32")
    state = model.start({"token_ids": ids, "padding_mask": ids > 0}, 32)
    sizes = [4 * np.prod(leaf.shape) for leaf in keras.tree.flatten(state)]
    assert sum(sizes) > 1_000_000  # what a call leaves behind cannot be overlooked

    def call(number):
        prompts = [[1 + number % 4] * (1 + number % 15)] * rows
        if search == "beam_search":
            beam_search(model, prompts, num_beams=2, max_new_tokens=1 + number % 3)
        elif search == "stream":
            list(stream(model, prompts, max_new_tokens=1 + number % 3))
        else:
            settings = {"temperature": 1.0 + number / 100, "seed": number}
            generate(model, prompts, max_new_tokens=1 + number % 3, **settings)

    for number in range(20):
        call(number)
    gc.collect()
    before = in_use()
    counted = len(vars(model).get("_compiled_functions", ()))
    for number in range(200):
        call(number)
    assert len(vars(model).get("_compiled_functions", ())) == counted
    gc.collect()
    assert in_use() - before < 8_000_000


def test_the_plain_loop_keeps_no_state_that_is_past():
    # A loop that kept all 40 states would hold 160 MB.
    model = Large(TABLE)
    generate(model, [[1]], max_new_tokens=2, jit_compile=False)
    before, highest = in_use(), 0

    def note(logits, history):
        nonlocal highest
        highest = max(highest, in_use())
        return logits

    generate(model, [[1]], max_new_tokens=40, jit_compile=False, processors=[note])
    assert highest - before < 60_000_000
