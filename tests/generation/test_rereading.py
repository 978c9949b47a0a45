"""Where each token looked when it was written: `record=` of every search."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from cases.examples import quick
from cases.helpers import assert_close, slow_on
from keras_transformer.generation.loop import Search
from keras_transformer.generation.rereading import Rereading
from keras_transformer.ops.attention import is_recording
from keras_transformer.visualization.view_data import view_data
from models import model_examples, recurrent_examples
from stub_models import Stub, TableModel

PROMPTS = [[5, 6, 7, 8], [3], [4, 9]]
NEW = 5


def language_model(position, **more):
    return model_examples.language_model(position, pad_id=0, **more)


def translator(name):
    if name == "learned":
        return model_examples.translator(name, sequence_length=16)
    if name == "relative":
        return model_examples.translator(name)
    return recurrent_examples.make(name)


def teacher_forced(model, given, written):
    """The record of one call with one text, without any padding."""
    if model.start_id is None:
        ids = np.array([[*given, *written][:-1]], "int32")
        # What was written is no padding, whatever its id.
        inputs = {"token_ids": ids, "padding_mask": ids >= 0}
    else:
        ids = np.array([[model.start_id, *written[:-1]]], "int32")
        inputs = {
            "encoder_token_ids": np.array([given], "int32"),
            "decoder_token_ids": ids,
            "decoder_padding_mask": ids >= 0,
        }
    with kt.record_attention(model) as record:
        model(inputs)
    return record


def assert_as_teacher_forced(record, model, inputs, written):
    """Each text's weights are those of the whole text, and zeros follow them."""
    for place, (given, new) in enumerate(zip(inputs, written, strict=True)):
        expected = teacher_forced(model, given, [int(id) for id in new])
        assert list(record) == list(expected)
        for path, (weights,) in expected.items():
            (ours,) = record[path]
            rows, columns = weights.shape[-2:]
            assert_close(ours[place, ..., :rows, :columns], weights[0])
            ours = ours[place].copy()
            ours[..., :rows, :columns] = 0
            assert not ours.any()
            queries, keys = record.tokens[place][path]
            assert (len(queries), len(keys)) == (rows, columns)


@slow_on("jax")
@pytest.mark.parametrize(
    "position", quick(["learned", "rotary", "window"], ["learned"])
)
def test_a_language_models_record_is_that_of_the_whole_texts(position):
    model = language_model(position)
    expected = kt.generate(model, PROMPTS, max_new_tokens=NEW)
    record = kt.AttentionRecord(model)
    tokens = kt.generate(model, PROMPTS, max_new_tokens=NEW, record=record)
    np.testing.assert_array_equal(tokens, expected)
    assert_as_teacher_forced(record, model, PROMPTS, tokens)
    text = [*PROMPTS[2], *map(int, tokens[2])]
    pair = record.tokens[2]["decoder/block_1/self_attention"]
    assert pair == (text[1:], text[:-1])


@slow_on("jax")
@pytest.mark.parametrize(
    "name",
    quick(
        ["learned", "relative", "2015", "luong-general", "luong-dot-unfed"],
        ["learned"],
    ),
)
def test_a_translators_record_is_that_of_the_whole_texts(name):
    model = translator(name)
    expected = kt.generate(model, PROMPTS, max_new_tokens=NEW)
    record = kt.AttentionRecord(model)
    tokens = kt.generate(model, PROMPTS, max_new_tokens=NEW, record=record)
    np.testing.assert_array_equal(tokens, expected)
    written = [row_until(row, model.stop_id) for row in tokens]
    assert_as_teacher_forced(record, model, PROMPTS, written)
    new, source = written[0], PROMPTS[0]
    for path, pair in record.tokens[0].items():
        if path.startswith("encoder"):
            assert pair == (source, source)
        elif path.endswith("self_attention"):
            assert pair == (new, [model.start_id, *new[:-1]])
        else:
            assert pair == (new, source)


@pytest.mark.parametrize("new", [1, 3])
def test_a_source_of_one_token_is_no_beginning_of_the_target(new):
    model = model_examples.translator("learned", sequence_length=16, stop_id=None)
    record = kt.AttentionRecord(model)
    (tokens,) = kt.generate(model, [[7]], max_new_tokens=new, record=record).tolist()
    pairs = record.tokens[0]
    assert pairs["decoder/block_0/cross_attention"] == (tokens, [7])
    start = [model.start_id, *tokens[:-1]]
    assert pairs["decoder/block_0/self_attention"] == (tokens, start)


def row_until(row, stop_id):
    row = row.tolist()
    return row[: row.index(stop_id) + 1] if stop_id in row else row


@slow_on("jax")
def test_it_is_what_the_search_itself_looked_at():
    model = language_model("learned")
    with kt.record_attention(model) as steps:
        kt.generate(model, PROMPTS[:1], max_new_tokens=NEW)
    record = kt.AttentionRecord(model)
    kt.generate(model, PROMPTS[:1], max_new_tokens=NEW, record=record)
    size = len(PROMPTS[0]) - 1 + NEW
    for path, (weights,) in record.items():
        assert weights.shape == (1, 2, size, size)
        start, *later = steps[path]
        # The search pads a prompt on the left, and keeps room on the right.
        pad = start.shape[2] - (len(PROMPTS[0]) - 1)
        rows = np.concatenate([start[:, :, pad:], *later], axis=2)
        assert_close(weights, rows[..., pad : pad + size])


@slow_on("jax")
def test_a_text_that_ends_earlier_has_fewer_rows():
    model = language_model("learned")
    free = kt.generate(model, PROMPTS, max_new_tokens=NEW)
    stop = int(free[1, 1])
    record = kt.AttentionRecord(model)
    tokens = kt.generate(
        model, PROMPTS, max_new_tokens=NEW, stop_ids=stop, record=record
    )
    written = [row_until(row, stop) for row in tokens]
    assert len({len(row) for row in written}) > 1
    assert_as_teacher_forced(record, model, PROMPTS, written)


@slow_on("jax")
@pytest.mark.parametrize(
    "settings",
    quick([dict(top_k=3, seed=1), dict(jit_compile=False)], [dict(top_k=3, seed=1)]),
)
def test_every_way_of_choosing_is_recorded(settings):
    model = language_model("rotary")
    expected = kt.generate(model, PROMPTS, max_new_tokens=NEW, **settings)
    record = kt.AttentionRecord(model)
    tokens = kt.generate(model, PROMPTS, max_new_tokens=NEW, record=record, **settings)
    np.testing.assert_array_equal(tokens, expected)
    assert_as_teacher_forced(record, model, PROMPTS, tokens)


def read_apart(model):
    """Read two texts in two batches, whose padded lengths all differ."""
    ids = model_examples.random_ids(58).tolist()
    inputs, written = [ids[:3], ids[3:33]], [ids[33:53], ids[53:]]
    record = kt.AttentionRecord(model)
    reading = Rereading(record, model)
    for place in (1, 0):
        reading.read(inputs[place : place + 1], written[place : place + 1], [place])
    reading.finish(2)
    return record, inputs, written


@slow_on("jax")
@pytest.mark.parametrize(
    "make",
    [
        lambda: model_examples.language_model("rotary", num_layers=1),
        lambda: model_examples.translator("relative", num_layers=1),
    ],
    ids=["language model", "translator"],
)
def test_batches_of_all_lengths_fill_one_array_a_layer(make):
    model = make()
    record, inputs, written = read_apart(model)
    assert_as_teacher_forced(record, model, inputs, written)
    for path in record:
        mean = kt.average_attention(record, layers=path)
        assert mean.shape == record[path][0][:, 0].shape
    for place, pairs in enumerate(record.tokens):
        data = view_data(record, batch=place)
        assert [layer["name"] for layer in data["layers"]] == list(record)
        for layer, (queries, keys) in zip(data["layers"], pairs.values(), strict=True):
            # The page leaves out what no token looked at; here each is looked at.
            assert data["sequences"][layer["query"]] == list(map(str, queries))
            assert data["sequences"][layer["key"]] == list(map(str, keys))


class SharedAttention(Stub):
    """One layer serves encoder and decoder; the decoder's keys grow step by step."""

    def __init__(self):
        super().__init__(model_examples.VOCABULARY, start_id=1)
        self.embedding = keras.layers.Embedding(self.vocabulary_size, 8)
        self.attention = kt.MultiHeadAttention(num_heads=2, key_dim=4, name="shared")

    def start(self, inputs, max_length):
        x = self.embedding(inputs["token_ids"])
        self.attention(x, x, value_mask=inputs["padding_mask"])
        return x[:, :0]

    def step(self, tokens, state):
        x = self.embedding(tokens[:, None])
        state = ops.concatenate([state, x], axis=1)
        return self.attention(x, state)[:, 0], state


@slow_on("jax")
def test_two_uses_of_one_layer_are_told_apart_at_any_length():
    record, inputs, written = read_apart(SharedAttention())
    (path,) = record
    encoder, decoder = record[path]
    for place in range(2):
        for weights, ids in ((encoder, inputs[place]), (decoder, written[place])):
            size = len(ids)
            sums = weights[place, :, :size, :size].sum(-1)
            np.testing.assert_allclose(sums, 1.0, atol=1e-5)
            assert not weights[place, :, size:].any()
            assert not weights[place, ..., size:].any()
    assert record.tokens == [{}, {}]
    with pytest.raises(ValueError, match="positions"):
        kt.attention_view(record)


def test_calls_of_a_layer_with_the_same_tokens_have_one_pair():
    model = language_model("rotary", num_layers=1)
    record, pair = kt.AttentionRecord(model), ([5, 6], [4, 5])
    for _ in range(2):
        record.add(model, np.ones((1, 2, 2, 2)), tokens=[pair])
    assert [list(pairs.values()) for pairs in record.tokens] == [[pair]]
    record.add(model, np.ones((1, 2, 2, 2)), tokens=[([7, 8], [4, 5])])
    assert record.tokens == [{}]


@slow_on("jax")
@pytest.mark.filterwarnings("ignore:The corpus is too small")
def test_prompts_short_and_long_are_recorded_together():
    keras.utils.set_random_seed(0)
    sizes = dict(num_layers=1, embed_dim=8, num_heads=2, dense_dim=8)
    prompts = ["나는", "너는 집에서 잔다 " * 6]
    generator = kt.TextGenerator.from_texts(
        prompts, max_length=64, vocabulary_size=40, **sizes
    )
    record = kt.AttentionRecord(generator.model)
    generator.generate(prompts, record=record, max_new_tokens=2, stop_ids=[])
    ((weights,),) = record.values()
    lengths = [len(keys) for ((_, keys),) in map(dict.values, record.tokens)]
    assert lengths[0] < 15 < 16 < lengths[1] == weights.shape[-1]
    for row, length in zip(weights, lengths, strict=True):
        np.testing.assert_allclose(row[:, :length].sum(-1), 1.0, atol=1e-5)
        assert not row[:, length:].any()
    assert kt.average_attention(record).shape == weights[:, 0].shape


@slow_on("jax")
def test_of_beams_the_winner_is_recorded():
    model = model_examples.translator("learned", sequence_length=16)
    settings = dict(num_beams=3, max_new_tokens=NEW)
    expected = kt.beam_search(model, PROMPTS, **settings)
    record = kt.AttentionRecord(model)
    found = kt.beam_search(model, PROMPTS, record=record, **settings)
    best = [hypotheses[0].token_ids for hypotheses in found]
    assert best == [hypotheses[0].token_ids for hypotheses in expected]
    assert_as_teacher_forced(record, model, PROMPTS, best)


def test_tables_plots_and_pages_take_it():
    pytest.importorskip("matplotlib")
    model = language_model("learned")
    record = kt.AttentionRecord(model)
    tokens = kt.generate(model, PROMPTS, max_new_tokens=NEW, record=record)
    path = "decoder/block_0/self_attention"
    for place, prompt in enumerate(PROMPTS):
        pair = record.tokens[place][path]
        table = kt.attention_table(record[path][0], *pair, batch=place, head="mean")
        size = len(prompt) + NEW - 1
        assert table.shape == (size, size)
        np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-5)
        assert list(table.index[-NEW:]) == tokens[place].tolist()
        assert kt.plot_attention(record[path][0], *pair, batch=place) is not None
        page = kt.attention_view(record, batch=place)
        assert page.html.count(path) == 1
    rollout = kt.attention_rollout(record)
    size = len(PROMPTS[1]) + NEW - 1
    assert rollout.shape[1:] == (8, 8)
    np.testing.assert_allclose(rollout[1, :size, :size].sum(-1), 1.0, atol=1e-5)
    assert kt.average_attention(record).shape == rollout.shape


def test_a_wrong_record_is_refused_before_anything_is_written():
    model, other = language_model("learned"), language_model("rotary")
    record = kt.AttentionRecord(model)
    with pytest.raises(ValueError, match="of the model .*Make a new Att"):
        kt.generate(other, PROMPTS, max_new_tokens=1, record=record)
    with pytest.raises(TypeError, match="AttentionRecord.*Received: list"):
        kt.generate(model, PROMPTS, max_new_tokens=1, record=[])
    with pytest.raises(TypeError, match="needs a Keras model"):
        kt.AttentionRecord("model")
    kt.generate(model, PROMPTS, max_new_tokens=1, record=record)
    with pytest.raises(ValueError, match="used before"):
        kt.beam_search(model, PROMPTS, max_new_tokens=1, record=record)


@pytest.mark.parametrize("search", [kt.generate, kt.beam_search])
def test_a_model_without_attention_is_refused_before_anything_is_written(
    search, monkeypatch
):
    monkeypatch.setattr(Search, "run", None)
    for model in (
        recurrent_examples.make("2014"),
        TableModel(np.eye(5), last_only=True),
    ):
        with pytest.raises(ValueError, match="no attention layer of this library"):
            search(model, [[3, 4]], max_new_tokens=2, record=kt.AttentionRecord(model))


def test_a_record_of_nothing_written_is_refused():
    model = recurrent_examples.make("2015")
    with pytest.raises(ValueError, match="no token was written"):
        kt.generate(model, [[3]], max_new_tokens=0, record=kt.AttentionRecord(model))


def test_a_failed_reading_leaves_an_empty_record():
    model = language_model("learned")
    record = kt.AttentionRecord(model)
    reading, step = Rereading(record, model), model.step

    def fail_later(tokens, state):
        model.step = lambda tokens, state: 1 / 0
        return step(tokens, state)

    model.step = fail_later
    with pytest.raises(ZeroDivisionError):
        reading.read([[5, 6]], [[7, 8]])
    assert not record and not is_recording()
    with pytest.raises(KeyError, match="failed with ZeroDivisionError"):
        record["decoder/block_0/self_attention"]
    with pytest.raises(ValueError, match="failed with ZeroDivisionError"):
        kt.attention_view(record)
    with pytest.raises(ValueError, match="used before"):
        Rereading(record, model)
