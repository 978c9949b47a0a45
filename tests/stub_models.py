"""Small models with `start` and `step`, and the same in NumPy, for tests of search."""

import functools

import keras
import numpy as np
from keras import ops


class Stub(keras.Model):
    """What a search asks of a model; `calls` counts runs of the Python code."""

    def __init__(
        self,
        vocabulary_size,
        *,
        stop_id=None,
        pad_id=0,
        start_id=None,
        position_limit=None,
    ):
        super().__init__()
        self.vocabulary_size, self.position_limit = vocabulary_size, position_limit
        self.stop_id, self.pad_id, self.start_id = stop_id, pad_id, start_id
        self.calls = {"start": 0, "step": 0}


class TableModel(Stub):
    """A table of logits, whose row is chosen by all tokens so far, or by the last.

    `row = (1 * (token_1 + 1) + 2 * (token_2 + 1) + ...) mod R`, the prompt included.
    """

    def __init__(self, table, *, last_only=False, dtype="float32", **settings):
        super().__init__(np.shape(table)[1], **settings)
        self.rows = keras.layers.Embedding(*np.shape(table), name="rows")
        self.rows.build(None)
        self.rows.embeddings.assign(np.asarray(table, "float32"))
        self.last_only, self.logits_dtype = last_only, dtype
        self.number = len(table)
        self.built = True

    def start(self, inputs, max_length):
        self.calls["start"] += 1
        mask = ops.cast(inputs["padding_mask"], "int32")
        places = ops.cumsum(mask, axis=1) * mask
        sums = ops.sum(places * (inputs["token_ids"] + 1), axis=1)
        return {"count": ops.sum(mask, axis=1), "sum": sums}

    def step(self, tokens, state):
        self.calls["step"] += 1
        count = state["count"] + 1
        sums = state["sum"] + count * (tokens + 1)
        row = tokens if self.last_only else sums % self.number
        logits = ops.cast(self.rows(row), self.logits_dtype)
        return logits, {"count": count, "sum": sums}


def table_model(table, **settings):
    """Return the one `TableModel` of these settings, with this table.

    Searches of it are compiled once a process, whatever the tables. Two tables at a
    time need two `TableModel`s, and so does a test of `calls`: what is compiled
    already runs no Python code.
    """
    policy = keras.config.dtype_policy().name
    model = _table_model(np.shape(table), tuple(settings.items()), policy)
    model.rows.embeddings.assign(np.asarray(table, "float32"))
    return model


@functools.cache
def _table_model(shape, settings, policy):
    return TableModel(np.zeros(shape), **dict(settings))


class AligningModel(Stub):
    """A translator of tables: `logits = table[token]`, alignment by affinity.

    Each step reads source token s with the weight softmax(affinity[token, s]).
    """

    def __init__(self, table, affinity, **settings):
        super().__init__(len(table), start_id=1, **settings)
        self.rows = keras.layers.Embedding(*np.shape(table), name="rows")
        self.affinity = keras.layers.Embedding(*np.shape(affinity), name="affinity")
        for layer, values in ((self.rows, table), (self.affinity, affinity)):
            layer.build(None)
            layer.embeddings.assign(np.asarray(values, "float32"))
        self.source_vocabulary_size = np.shape(affinity)[1]
        self.built = True

    def start(self, inputs, max_length):
        self.calls["start"] += 1
        return dict(inputs)

    def step(self, tokens, state, return_alignment=False):
        self.calls["step"] += 1
        logits = self.rows(tokens)
        if not return_alignment:
            return logits, state
        scores = ops.take_along_axis(self.affinity(tokens), state["token_ids"], axis=1)
        scores = ops.where(state["padding_mask"], scores, -1e9)
        return logits, state, ops.softmax(scores, axis=-1)


class Recomputed(Stub):
    """The same model without a cache: each step is a full call on all tokens."""

    def __init__(self, model):
        super().__init__(
            model.vocabulary_size,
            stop_id=model.stop_id,
            pad_id=model.pad_id,
            start_id=model.start_id,
            position_limit=model.position_limit,
        )
        self.model = model
        self.built = True

    def start(self, inputs, max_length):
        ids, mask = inputs["token_ids"], inputs["padding_mask"]
        batch = ids.shape[0]
        state = {"source": ids, "source_mask": mask}
        if self.start_id is None:
            room = max_length - ids.shape[1]
        else:
            room, ids, mask = max_length, ids[:, :0], mask[:, :0]
        state["ids"] = ops.concatenate([ids, ops.zeros((batch, room), "int32")], 1)
        empty = ops.zeros((batch, room), "bool")
        state["mask"] = ops.concatenate([mask, empty], axis=1)
        state["slot"] = ops.zeros((), "int32") + ids.shape[1]
        return state

    def step(self, tokens, state):
        here = ops.arange(state["ids"].shape[1], dtype="int32")[None] == state["slot"]
        ids = ops.where(here, tokens[:, None], state["ids"])
        mask = ops.logical_or(state["mask"], here)
        if self.start_id is None:
            logits = self.model({"token_ids": ids, "padding_mask": mask})
        else:
            logits = self.model(
                {
                    "encoder_token_ids": state["source"],
                    "encoder_padding_mask": state["source_mask"],
                    "decoder_token_ids": ids,
                    "decoder_padding_mask": mask,
                }
            )
        logits = ops.take(logits, ops.reshape(state["slot"], (1,)), axis=1)[:, 0]
        return logits, {**state, "ids": ids, "mask": mask, "slot": state["slot"] + 1}


def counting(model):
    """Return the model with `calls`, which counts runs of its start and step."""
    model.calls = {"start": 0, "step": 0}
    start, step = model.start, model.step

    def counted_start(inputs, max_length):
        model.calls["start"] += 1
        return start(inputs, max_length)

    def counted_step(tokens, state, **settings):
        model.calls["step"] += 1
        return step(tokens, state, **settings)

    model.start, model.step = counted_start, counted_step
    return model


def random_table(size, seed=0, scale=1.5, number=None):
    """Return logits (R, V) of the next token, for `number` rows R or V of them."""
    shape = (number or size, size)
    return np.random.default_rng(seed).normal(scale=scale, size=shape)


def counting_table(size):
    """Return logits after which the token i + 1 follows each i."""
    return np.where(np.eye(size, k=1), 5.0, 0.0)


def log_softmax(logits):
    """Return log-probabilities in float64."""
    logits = np.asarray(logits, "float64")
    highest = logits.max(axis=-1, keepdims=True)
    return logits - highest - np.log(np.exp(logits - highest).sum(-1, keepdims=True))


def table_logits(table, text):
    """Return the logits of `TableModel` after a text."""
    row = sum(place * (token + 1) for place, token in enumerate(text, 1))
    return table[row % len(table)]


def table_log_probs(table, text):
    """Return what `TableModel` predicts after a text, in float64."""
    return log_softmax(table_logits(table, text))


def every_text(table, prompt, stop_ids, max_new_tokens):
    """Return `{text: log-probability}` of all texts that may follow a prompt.

    They end with a stop id, or have `max_new_tokens`.
    """
    found, open_texts = {}, {(): 0.0}
    while open_texts:
        text, total = open_texts.popitem()
        logs = table_log_probs(table, [*prompt, *text])
        for token, log in enumerate(logs):
            longer = (*text, token)
            ends = token in stop_ids or len(longer) == max_new_tokens
            (found if ends else open_texts)[longer] = total + float(log)
    return found
