"""The attention of a search: the chosen texts are read once more, and recorded."""

from collections import Counter

import numpy as np
from keras import ops

from keras_transformer.generation.inputs import prepare
from keras_transformer.generation.limits import Limits
from keras_transformer.ops.attention import recording
from keras_transformer.ops.backend import without_gradients


class Rereading:
    """Fill a record with the attention of texts that a search has written.

    A search is compiled, follows beams that lose, and pads; its record would hold all
    of that. Here `start` and `step` read each text that was chosen, in the steps in
    which it was written, outside any compiled function. The weights are those of a
    single call of the model with the whole text.

    A record holds for each layer one array (B, N, T, S) or (B, T, S), the texts in the
    order of the inputs. Row t is where the model looked when it wrote token t, the
    rows of a prompt's tokens before them; the columns are the tokens that it had read.
    Padding is cut off, zeros fill up shorter texts at the end.

    Args:
        record: An empty `AttentionRecord` of the model, or None: nothing is done.
        model: A model with `start` and `step`.
        names: Functions from an id to what `record.tokens` shows of it, for ids of the
            inputs and for new ones.

    Raises:
        TypeError: `record` is no record.
        ValueError: A record of another model, or one that holds something; a model
            whose steps attend to nothing.
    """

    def __init__(self, record, model, names=(int, int)):
        if record is not None and not hasattr(record, "check_unused"):
            raise TypeError(
                "`record` must be an AttentionRecord(model), to be filled. Received: "
                f"{type(record).__name__}."
            )
        if record is not None:
            record.check_unused(model)
            _check_attending(model)
        self._record, self._model, self._names = record, model, names
        self._layers = {}  # key of a series -> layer, and what its queries are
        self._parts = {}  # key of a series -> {place: (weights, tokens)}

    def read(self, inputs, written, places=None):
        """Read one batch.

        Args:
            inputs: Lists of ids: the prompts, or the sources.
            written: The new ids of each, the stop id included.
            places: The number of each text in the record.
        """
        if self._record is None:
            return
        inputs = [[int(id) for id in row] for row in inputs]
        written = [[int(id) for id in row] for row in written]
        places = range(len(inputs)) if places is None else places
        try:
            batch = _Batch(self._model, inputs, written)
        except BaseException as error:
            self._record.fail(error)
            raise
        for key, series in batch.series.items():
            self._layers.setdefault(key, (series.layer, series.queries))
            parts = self._parts.setdefault(key, {})
            for row, place in enumerate(places):
                parts[place] = batch.cut(series, row, *self._names)

    def finish(self, count: int):
        """Fill the record with `count` texts; those not read are empty."""
        if self._record is None:
            return
        if not self._parts:
            raise ValueError(
                f"No attention of {self._model.name!r} was recorded: no token was "
                "written, or it has no attention layer of this library. Leave out "
                "`record`."
            )
        for key, parts in self._parts.items():
            arrays = [weights for weights, _ in parts.values()]
            rows, columns = (max(a.shape[axis] for a in arrays) for axis in (-2, -1))
            shape = (count, *arrays[0].shape[:-2], rows, columns)
            joined, tokens = np.zeros(shape, "float32"), [([], [])] * count
            for place, (weights, pair) in parts.items():
                rows, columns = weights.shape[-2:]
                joined[place, ..., :rows, :columns] = weights
                tokens[place] = pair
            layer, queries = self._layers[key]
            self._record.add(layer, joined, tokens=tokens, queries=queries)


def until_stop(tokens, stop_ids) -> list[int]:
    """Return the ids up to the first stop id, which is included."""
    tokens = [int(id) for id in tokens]
    stop_ids = {int(id) for id in stop_ids}
    ends = [place + 1 for place, id in enumerate(tokens) if id in stop_ids]
    return tokens[: ends[0]] if ends else tokens


def _check_attending(model):
    """Refuse a model without attention before a search, by reading one token."""
    if model.built and not _Batch(model, [[0]], [[0]]).series:
        raise ValueError(
            f"`record` cannot be filled: the steps of {model.name!r} use no attention "
            "layer of this library. Leave out `record`."
        )


class _Series:
    """What one use of a layer gave, in the order of time.

    The same use has the same key in every batch: its layer, whether it reads the
    source, and which call of the layer within one step it is. Lengths are none of it,
    for they are padded to those of the batch.
    """

    def __init__(self, layer, queries):
        self.layer, self.queries = layer, queries
        self.weights, self.allowed = [], []  # (B, N, t, S) or (B, t, S); (B, t, S)
        self.start_rows = 0


class _Batch:
    """One batch that is read: `start`, then one step for each new token."""

    def __init__(self, model, inputs, written):
        self.inputs, self.written, self.start_id = inputs, written, model.start_id
        self.series: dict[tuple, _Series] = {}
        steps = max(map(len, written))
        if steps and self.start_id is not None:
            steps = max(steps, 2)  # the second tells own tokens from a source of one id
        task = prepare(model, inputs, Limits(max_new_tokens=steps))
        self._mask = np.asarray(task.inputs["padding_mask"])
        read = np.full((len(inputs), steps), model.pad_id or 0, "int32")
        for row, ids in zip(read, written, strict=True):
            row[1 : len(ids)] = ids[:-1]
        if steps:
            read[:, 0] = task.prompts["token_ids"][:, -1]
        tensors = {
            "token_ids": ops.convert_to_tensor(task.inputs["token_ids"], "int32"),
            "padding_mask": ops.convert_to_tensor(self._mask, "bool"),
        }
        self._counts, self._starting = Counter(), True
        with recording(self._note):
            state = without_gradients(model.start)(tensors, task.slots)
            self._starting = False
            for column in read.T:
                self._counts = Counter()
                tokens = ops.convert_to_tensor(column, "int32")
                _, state = without_gradients(model.step)(tokens, state)

    def cut(self, series, row, input_name, new_name):
        """Return the weights of one text without padding, and its pair of tokens."""
        weights, allowed = self._joined(series)
        rows = np.flatnonzero(self._real_rows(series, row, allowed.shape[1]))
        columns = np.flatnonzero(allowed[row, rows].any(0))
        pair = self._tokens(series, row, allowed, input_name, new_name)
        pair = tuple(
            names if len(names) == len(real) else None
            for names, real in zip(pair, (rows, columns), strict=True)
        )
        return weights[row][..., rows, :][..., columns], pair

    def _note(self, layer, weights, mask, queries):
        if weights is None:  # in a trace
            return
        # What `start` reads is a source of its own, or the beginning of the text.
        source = self._starting and self.start_id is not None
        weights = ops.convert_to_numpy(ops.cast(weights, "float32"))
        batch, *_, time, length = weights.shape
        allowed = np.ones((batch, time, length), bool)
        if mask is not None:
            mask = np.asarray(ops.convert_to_numpy(mask)).any(1)
            allowed = np.broadcast_to(mask, allowed.shape)
        number = self._counts[id(layer)]
        self._counts[id(layer)] += 1
        key = id(layer), source, number
        series = self.series.setdefault(key, _Series(layer, queries))
        series.weights.append(np.array(weights))
        series.allowed.append(allowed)
        series.start_rows += time if self._starting else 0

    def _joined(self, series):
        if len(series.weights) > 1:
            series.weights = [_stacked(series.weights)]
            series.allowed = [_stacked(series.allowed)]
        return series.weights[0], series.allowed[0]

    def _real_rows(self, series, row, count):
        begun = np.ones(series.start_rows, bool)
        if series.start_rows == self._mask.shape[1]:
            begun = self._mask[row].astype(bool)
        steps = np.arange(count - series.start_rows) < len(self.written[row])
        return np.concatenate([begun, steps])

    def _tokens(self, series, row, allowed, input_name, new_name):
        given = list(map(input_name, self.inputs[row]))
        new = list(map(new_name, self.written[row]))
        if self.start_id is None:  # all tokens but the first were foreseen
            before = given[1:] if series.start_rows else []
            return before + new, [*given, *new][:-1]
        if series.start_rows:
            return given, given
        # A decoder sees one token of its own at its first step, two at its second.
        seen = allowed[:, :2].sum(-1)
        if (seen == np.arange(1, seen.shape[1] + 1)).all():
            return new, [new_name(self.start_id), *new][: len(new)]
        return new, given


def _stacked(steps):
    """Join the rows (..., t, S) of all steps; columns that come later are zeros."""
    most = max(rows.shape[-1] for rows in steps)
    wide = [
        np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, most - rows.shape[-1])])
        for rows in steps
    ]
    return np.concatenate(wide, axis=-2)
