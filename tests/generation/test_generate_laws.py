"""`generate` and `stream`: one text a row, the same in every way of asking."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.generation import generate, stream
from models.model_examples import language_model, translator
from models.recurrent_examples import make as recurrent
from stub_models import TableModel, random_table, table_log_probs, table_model

STOP = 4
TABLE = random_table(5, seed=2, number=997)
PROMPTS = [[1, 2], [3], [2, 2, 1], [4, 1]]


def model(**settings):
    return table_model(TABLE, **{"stop_id": STOP, **settings})


def by_hand(prompt, longest, least=0, stop_ids=(STOP,)):
    """Greedy search in plain Python."""
    text = []
    while len(text) < longest and not (text and text[-1] in stop_ids):
        logs = table_log_probs(TABLE, [*prompt, *text]).copy()
        if len(text) < least:
            logs[list(stop_ids)] = -np.inf
        text.append(int(logs.argmax()))
    return text


def padded(rows, width, pad=0):
    return [[*row, *[pad] * (width - len(row))] for row in rows]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("least", [0, 4])
def test_greedy_search_takes_the_most_likely_token(compiled, least):
    found = generate(
        model(), PROMPTS, max_new_tokens=9, min_new_tokens=least, jit_compile=compiled
    )
    expected = [by_hand(prompt, 9, least) for prompt in PROMPTS]
    assert len({len(row) for row in expected}) > 1
    assert found.tolist() == padded(expected, max(map(len, expected)))
    assert found.dtype == "int32"
    found[0, 0] = 3  # the caller's own


def test_rows_are_padded_with_the_pad_id():
    found = generate(model(pad_id=3), PROMPTS, max_new_tokens=9)
    expected = [by_hand(prompt, 9) for prompt in PROMPTS]
    assert found.tolist() == padded(expected, found.shape[1], pad=3)
    found = generate(model(pad_id=None), PROMPTS, max_new_tokens=9)
    assert found.tolist() == padded(expected, found.shape[1])


@pytest.mark.parametrize("kind", ["table", "language", "translator", "recurrent"])
def test_a_row_of_a_batch_gets_what_it_gets_alone(kind):
    searched = {
        "table": model,
        "language": lambda: language_model("rotary", num_layers=1, stop_id=STOP),
        "translator": lambda: translator("learned", num_layers=1, stop_id=STOP),
        "recurrent": lambda: recurrent("2015", stop_id=STOP),
    }[kind]()
    together = generate(searched, PROMPTS, max_new_tokens=5).tolist()
    for row, prompt in zip(together, PROMPTS, strict=True):
        (alone,) = generate(searched, [prompt], max_new_tokens=5).tolist()
        assert row == padded([alone], len(row))[0]


LEFT = np.array([[0, 1, 2], [0, 0, 3], [2, 2, 1], [0, 4, 1]])
RIGHT = np.array([[1, 2, 0], [3, 0, 0], [2, 2, 1], [4, 1, 0]])
BETWEEN = np.array([[1, 9, 2, 9], [9, 3, 9, 9], [2, 2, 9, 1], [9, 4, 9, 1]])


@pytest.mark.parametrize(
    "inputs",
    [
        LEFT,
        RIGHT,
        RIGHT.astype("uint8"),
        np.pad(RIGHT, ((0, 0), (0, 30))),
        {"token_ids": LEFT},
        {"token_ids": RIGHT.tolist()},
        {"token_ids": BETWEEN, "padding_mask": BETWEEN != 9},
        {"token_ids": BETWEEN.tolist(), "padding_mask": (BETWEEN != 9).tolist()},
        [np.array(row) for row in PROMPTS],
        tuple(map(tuple, PROMPTS)),
        [[np.int64(token) for token in row] for row in PROMPTS],
    ],
    ids=range(11),
)
def test_any_form_of_prompts_gives_the_same(inputs):
    expected = generate(model(), PROMPTS, max_new_tokens=4).tolist()
    assert generate(model(), inputs, max_new_tokens=4).tolist() == expected


def test_tensors_are_prompts():
    expected = generate(model(), PROMPTS, max_new_tokens=4).tolist()
    tensor = ops.convert_to_tensor(LEFT)
    rows = [ops.convert_to_tensor(np.array(row)) for row in PROMPTS]
    mask = ops.not_equal(tensor, 0)
    for inputs in (tensor, rows, {"token_ids": tensor, "padding_mask": mask}):
        assert generate(model(), inputs, max_new_tokens=4).tolist() == expected


def test_the_pad_id_is_a_token_where_the_mask_says_so():
    ids, mask = np.array([[0, 1, 0, 2, 0]]), np.array([[0, 1, 1, 1, 0]], bool)
    found = generate(
        model(), {"token_ids": ids, "padding_mask": mask}, max_new_tokens=6
    )
    assert found[0].tolist() == by_hand([1, 0, 2], 6)
    # A list of lists has no padding.
    assert generate(model(), [[1, 0, 2]], max_new_tokens=6).tolist() == found.tolist()
    # Without a pad id nothing is padding.
    found = generate(model(pad_id=None), ids, max_new_tokens=6)
    assert found[0].tolist() == by_hand([0, 1, 0, 2, 0], 6)


@pytest.mark.parametrize(
    "settings",
    [{}, {"temperature": 1.0, "seed": 5}, {"min_new_tokens": 3}],
    ids=["greedy", "sampled", "min"],
)
@pytest.mark.parametrize("compiled", [True, False])
def test_a_stream_yields_what_generate_returns(settings, compiled):
    settings = {"max_new_tokens": 7, "jit_compile": compiled, **settings}
    whole = generate(model(), PROMPTS, **settings)
    steps = list(stream(model(), PROMPTS, **settings))
    assert all(step.shape == (4,) and step.dtype == "int32" for step in steps)
    assert np.stack(steps, axis=1).tolist() == whole.tolist()


def test_a_stream_is_lazy_and_may_be_left():
    stub = model(stop_id=None)
    tokens = stream(stub, PROMPTS, max_new_tokens=30, jit_compile=False)
    for _ in range(3):
        next(tokens)
    tokens.close()
    assert stub.calls["step"] == 3


@pytest.mark.parametrize("search", [generate, stream])
def test_no_new_tokens_is_an_empty_text(search):
    found = search(model(), PROMPTS, max_new_tokens=0)
    if search is generate:
        assert found.shape == (4, 0) and found.dtype == "int32"
    else:
        assert list(found) == []


def test_one_new_token_is_one():
    found = generate(model(), PROMPTS, max_new_tokens=1)
    assert found.tolist() == [by_hand(prompt, 1) for prompt in PROMPTS]
    assert len(list(stream(model(), PROMPTS, max_new_tokens=1))) == 1


@pytest.mark.parametrize("longest", [16, 17, 40])
def test_the_text_is_as_long_as_asked_for_at_every_padded_length(longest):
    found = generate(model(stop_id=None), [[1, 2]], max_new_tokens=longest)
    assert found[0].tolist() == by_hand([1, 2], longest, stop_ids=())


@pytest.mark.slow
@pytest.mark.parametrize("longest", [3, 17])
def test_positions_may_be_used_up_exactly(longest):
    # A padded length above the positions would be refused by the embedding.
    searched = language_model("learned", sequence_length=longest)
    prompt = [1 + place % 9 for place in range(longest - 2)]
    for compiled in (True, False):
        found = generate(searched, [prompt], max_new_tokens=2, jit_compile=compiled)
        assert found.shape == (1, 2)
    searched = translator("learned", sequence_length=longest, stop_id=None)
    assert generate(searched, [[5] * longest], max_new_tokens=2).shape == (1, 2)
    found = generate(searched, [[5]], max_new_tokens=longest)
    assert found.shape == (1, longest)


def test_several_stop_ids_end_a_row():
    expected = [by_hand(prompt, 9, stop_ids=(3, 4)) for prompt in PROMPTS]
    assert {row[-1] for row in expected} == {3, 4}
    for stop_ids in ([3, 4], (4, 3), np.array([3, 4]), ops.convert_to_tensor([3, 4])):
        found = generate(model(), PROMPTS, max_new_tokens=9, stop_ids=stop_ids)
        assert found.tolist() == padded(expected, found.shape[1])


def test_no_stop_id_writes_to_the_end():
    expected = [by_hand(prompt, 9, stop_ids=()) for prompt in PROMPTS]
    for searched, settings in ((model(), {"stop_ids": []}), (model(stop_id=None), {})):
        found = generate(searched, PROMPTS, max_new_tokens=9, **settings)
        assert found.tolist() == expected


def test_new_weights_are_seen_without_compiling():
    searched = model()
    before = generate(searched, PROMPTS, max_new_tokens=9)
    calls = dict(searched.calls)
    searched.rows.embeddings.assign(-np.asarray(TABLE, "float32"))
    after = generate(searched, PROMPTS, max_new_tokens=9)
    assert before.tolist() != after.tolist()
    if keras.backend.backend() != "torch":
        assert searched.calls == calls


def test_equally_likely_tokens_give_the_first():
    stub = TableModel(np.zeros((5, 5)))
    assert generate(stub, [[1]], max_new_tokens=3).tolist() == [[0, 0, 0]]
