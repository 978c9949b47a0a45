"""Batches of near lengths, padded to a few edges."""

from collections.abc import Callable, Sequence

import keras
import numpy as np

from keras_transformer.datasets.buckets import cut_into_sizes, least_padding, make_runs
from keras_transformer.datasets.ragged import Ragged, is_ragged, per_row
from keras_transformer.ops.checks import check_integer


class BucketedDataset(keras.utils.PyDataset):
    """Serve sequences of token ids in batches of near lengths, for Keras's `fit`.

    Sequences of near lengths form a bucket; its batches are padded to one length,
    its edge. Few edges mean few shapes to compile, near lengths little padding.
    Every row comes once an epoch. Rows that do not fill a batch go up into the
    next bucket, and the last bucket's batches share what is left evenly, so that
    none is tiny. With several inputs a bucket has an edge for each of them.

    The batches have at most `len(edges)` shapes, or one more where `edges` were
    given or many rows have the longest length.

    Masks: none is made. Padding is `pad_id`, at the end; embeddings mask it.

    Args:
        sequences: A list of sequences of integer ids, one a row; or a tuple or a
            dict of such lists for a model of several inputs, e.g. `(sources,
            targets)`.
        labels: An array with a number or a vector for each row; or a list of
            sequences of ids as long as those of one input (of the last such
            input), padded like them, e.g. the targets shifted by one.
        batch_size: Rows a batch; by default 64, or with `max_tokens` as many as
            it allows.
        max_tokens: Rows times longest edge of a batch are at most this, so that
            batches of short rows have more of them.
        edges: Ascending lengths to pad to; for several inputs the same for all,
            or a tuple of them for each. Where rows are longer than the last, the
            longest row's length is added. By default up to 6 edges, those that
            need least padding.
        max_length: Cuts off what is longer (for several inputs one length, or one
            for each). By default nothing is cut.
        pad_id: The id that is padding.
        shuffle: Whether each epoch has other batches in another order.
        seed: Equal seeds give equal batches in each epoch. (`fit` also shuffles
            the order of the batches, by `keras.utils.set_random_seed`'s seed.)
        sample_weight: An array with a number for each row; a list of sequences
            with a weight for each label; or `"tokens"`: 1 for each label of a
            sequence, 0 for padding.
        redraw: Function of an epoch's number, from 1 on, that returns other sequences
            for the same rows (subword regularization); `sequences` are those of epoch
            0. Each epoch's rows are sorted anew into batches of the same sizes, at
            least two, so that their number stays; what is longer than the last edge
            gets further edges, each a quarter longer. For one input of at least two
            rows, with labels a row, and batches by `batch_size`.
        drop_remainder: Whether to leave out rows that fill no batch, in each epoch
            others of the longest bucket.
        workers: Must be 1. A batch takes a tenth of a millisecond to make, and with
            more workers Keras 3.15 serves some batches twice and others not, on JAX
            and PyTorch.

    Attributes:
        edges: The edges in use: integers, or tuples of them for several inputs. With
            `redraw` those of the first epoch.
        epoch: The number of the epoch whose batches are served.
        order: The row number behind each row of the epoch's batches, in order.

    Raises:
        TypeError: A row that is no sequence of integers, labels that are no
            numbers.
        ValueError: Lengths that do not agree, a setting out of range.

    Example:

    >>> data = BucketedDataset([[5, 6, 7], [8], [9, 4]], [1, 0, 1], batch_size=2)
    >>> model.fit(data, epochs=3)

    `predict` gives its outputs in the order of the batches. With `shuffle=False`
    that order stays, and `restore` puts them back into the order of the rows:

    >>> data = BucketedDataset(sequences, shuffle=False)
    >>> outputs = data.restore(model.predict(data))

    Keras joins the batches' outputs, so outputs with a time axis need one edge:
    `edges` is then a single length, no shorter than the longest row.
    """

    def __init__(
        self,
        sequences: Sequence,
        labels: Sequence | None = None,
        *,
        batch_size: int | None = None,
        max_tokens: int | None = None,
        edges: Sequence | None = None,
        max_length: int | Sequence[int] | None = None,
        pad_id: int = 0,
        shuffle: bool = True,
        seed: int = 0,
        sample_weight: Sequence | str | None = None,
        drop_remainder: bool = False,
        redraw: Callable[[int], Sequence] | None = None,
        workers: int = 1,
    ):
        if workers != 1:
            raise ValueError(
                "`workers` must be 1: batches are made faster than workers hand them "
                f"over. Received: workers={workers!r}. Leave it out."
            )
        super().__init__()
        batch_size = check_integer("batch_size", batch_size, optional=True)
        max_tokens = check_integer("max_tokens", max_tokens, optional=True)
        if not isinstance(pad_id, (int, np.integer)):
            raise ValueError(
                f"`pad_id` must be an integer. Received: pad_id={pad_id!r}."
            )
        self.batch_size, self.max_tokens = batch_size, max_tokens
        self.shuffle, self.seed, self.drop_remainder = shuffle, seed, drop_remainder
        self._redraw, self._pad_id = redraw, pad_id
        self._names = list(sequences) if isinstance(sequences, dict) else None
        inputs = sequences if self._names is None else tuple(sequences.values())
        self._several = isinstance(inputs, tuple)
        inputs = inputs if self._several else (inputs,)
        self._inputs = [Ragged("sequences", rows, pad_id) for rows in inputs]
        counts = sorted({len(stream) for stream in self._inputs})
        if len(counts) != 1 or counts == [0]:
            raise ValueError(
                "`sequences` must have at least one row, and as many for each input. "
                f"Received: {' and '.join(map(str, counts)) or 'no'} rows."
            )
        self._labels, self._label_input = self._as_labels(labels, pad_id)
        self._weights = self._as_weights(sample_weight)
        if redraw is not None and (
            self._several
            or self._label_input is not None
            or counts == [1]
            or max_tokens is not None
        ):
            raise ValueError(
                "`redraw` needs one input of at least two rows, labels that are a "
                "number a row, and `batch_size` in the place of `max_tokens`."
            )
        limits = self._for_each_input("max_length", max_length)
        for stream, limit in zip(self._inputs, limits, strict=True):
            check_integer("max_length", limit, optional=True)
            stream.cut(limit)
        for stream in (self._labels, self._weights):
            if isinstance(stream, Ragged):
                stream.cut(limits[self._label_input])
        lengths = np.stack([stream.lengths for stream in self._inputs])
        edges = self._as_edges(edges, lengths.max(axis=1))
        if redraw is not None and edges is None:
            edges = np.unique(np.maximum(least_padding(lengths[0]), 1))[None]
        self._rows, self._runs = make_runs(
            lengths, edges, self._capacity, drop_remainder
        )
        if not self._runs:
            raise ValueError(
                f"`drop_remainder` leaves no batch of {counts[0]} rows. Use a smaller "
                "batch, or drop_remainder=False."
            )
        used = dict.fromkeys(run.edges for run in self._runs)
        self.edges = tuple(used) if self._several else tuple(edge for (edge,) in used)
        self._sizes = np.repeat(*np.transpose([run[2:4] for run in self._runs]))
        self._limit = limits[0]
        self.epoch, self._planned = 0, None

    def __len__(self):
        return len(self._sizes)

    def __getitem__(self, index):
        """Return `(inputs,)`, `(inputs, labels)` or `(inputs, labels, weights)`."""
        inputs, batches = self._served()
        rows, edges = batches[index]
        streams = zip(inputs, edges, strict=True)
        inputs = tuple(stream.batch(rows, edge) for stream, edge in streams)
        if self._names is not None:
            inputs = dict(zip(self._names, inputs, strict=True))
        batch = [inputs if self._several else inputs[0]]
        for stream in (self._labels, self._weights):
            if isinstance(stream, Ragged):
                batch.append(stream.batch(rows, edges[self._label_input]))
            elif stream is not None:
                batch.append(stream[rows])
        return tuple(batch)

    def on_epoch_end(self):
        """Go on to the next epoch, which has batches of its own."""
        self.set_epoch(self.epoch + 1)

    def set_epoch(self, epoch: int):
        """Serve the batches of an epoch, as where a training goes on from there.

        Args:
            epoch: Its number, from 0 on.
        """
        self.epoch = check_integer("epoch", epoch, 0)

    @property
    def order(self) -> np.ndarray:
        return np.concatenate([rows for rows, _ in self._served()[1]])

    def restore(self, outputs):
        """Put `predict`'s outputs (an array, or a nest of them) in the rows' order."""
        if self.shuffle or self.drop_remainder or self._redraw is not None:
            raise ValueError(
                "Outputs can be put in the rows' order only with shuffle=False and "
                "drop_remainder=False, and without `redraw`. Received: shuffle="
                f"{self.shuffle}, drop_remainder={self.drop_remainder}, redraw="
                f"{self._redraw}."
            )
        places = np.argsort(self.order)
        return keras.tree.map_structure(lambda x: np.asarray(x)[places], outputs)

    def _as_labels(self, labels, pad_id):
        """The labels, and the input that they are padded like."""
        if labels is None:
            return None, None
        if not is_ragged(labels):
            return per_row("labels", labels, len(self._inputs[0])), None
        labels = Ragged("labels", labels, pad_id)
        for place in reversed(range(len(self._inputs))):
            if np.array_equal(labels.lengths, self._inputs[place].lengths):
                return labels, place
        raise ValueError(
            "`labels` that are sequences must be as long, row by row, as the sequences "
            "of an input. If they are one vector a row, pass an array (rows, size)."
        )

    def _as_weights(self, weights):
        if weights is None:
            return None
        if self._labels is None:
            raise ValueError("`sample_weight` needs `labels`. Received: labels=None.")
        ragged = isinstance(self._labels, Ragged)
        if isinstance(weights, str):
            if weights != "tokens" or not ragged:
                raise ValueError(
                    "`sample_weight` must be numbers, or 'tokens' where labels are "
                    f"sequences. Received: sample_weight={weights!r}."
                )
            weights = [np.ones(length) for length in self._labels.lengths]
        if not is_ragged(weights):
            count = len(self._inputs[0])
            return per_row("sample_weight", weights, count, "float32")
        weights = Ragged("sample_weight", weights, 0, "float32")
        if not ragged or not np.array_equal(weights.lengths, self._labels.lengths):
            raise ValueError(
                "`sample_weight` that is sequences needs `labels` that are sequences "
                "of the same lengths. Pass a weight for each label, or one a row."
            )
        return weights

    def _for_each_input(self, name, value):
        if value is None or isinstance(value, (int, np.integer)):
            return [value] * len(self._inputs)
        if len(value) != len(self._inputs):
            raise ValueError(
                f"`{name}` must be one for all inputs, or one for each of the "
                f"{len(self._inputs)}. Received: {name}={value!r}."
            )
        return list(value)

    def _as_edges(self, edges, longest):
        """`edges` as a table (inputs, edges), the longest lengths added if needed."""
        if edges is None:
            return None
        each = [edges] if isinstance(edges, (int, np.integer)) else list(edges)
        if not any(np.ndim(edge) for edge in each):
            each = [each] * len(longest)
        each = [list(e) for e in self._for_each_input("edges", each)]
        same = len({len(e) for e in each}) == 1 and each[0]
        table = np.array(each if same else [[0]])
        whole = table.dtype.kind in "iu" and table.min() > 0
        if not whole or (np.diff(table, axis=1) < 1).any():
            raise ValueError(
                "`edges` must be ascending positive lengths, as many for each input. "
                f"Received: edges={edges!r}."
            )
        if (longest > table[:, -1]).any():
            further = np.maximum(longest, table[:, -1])
            table = np.concatenate([table, further[:, None]], axis=1)
        return table

    def _capacity(self, edge):
        """The rows of a batch whose longest edge is `edge`."""
        if self._redraw is not None:
            # Two batches: TensorFlow would take the edge of one for constant.
            rows = len(self._inputs[0]) + (not self.drop_remainder)
            return min(self.batch_size or 64, rows // 2)
        if self.max_tokens is None:
            return self.batch_size or 64
        if edge > self.max_tokens:
            raise ValueError(
                f"`max_tokens` must hold the longest row, padded to {edge}. Received: "
                f"max_tokens={self.max_tokens}. Raise it, or cut with max_length."
            )
        return min(self.max_tokens // edge, self.batch_size or self.max_tokens)

    def _served(self):
        """The inputs and the batches of the epoch, made when first asked for."""
        planned = self._planned
        epoch = self.epoch if self.shuffle or self._redraw is not None else 0
        if planned is None or planned[0] != epoch:
            planned = self._planned = (epoch, *self._plan(epoch))
        return planned[1:]

    def _drawn(self, epoch):
        """The inputs of an epoch, its rows in order, and their runs."""
        if self._redraw is None:
            return self._inputs, self._rows, self._runs
        inputs = self._inputs[0]
        if epoch > 0:
            inputs = Ragged("redraw", self._redraw(epoch), self._pad_id)
            inputs.cut(self._limit)
        if len(inputs) != len(self._inputs[0]):
            raise ValueError(
                f"`redraw` must return {len(self._inputs[0])} sequences. It returned "
                f"{len(inputs)}."
            )
        runs = cut_into_sizes(inputs.lengths, self.edges, self._sizes, self._limit)
        return [inputs], *runs

    def _plan(self, epoch):
        """The inputs of an epoch; its batches in order: row numbers and edges."""
        rng = np.random.default_rng([self.seed, epoch])
        inputs, order, runs = self._drawn(epoch)
        batches = []
        for place, run in enumerate(runs):
            rows = order[run.start : run.stop]
            rows = rng.permutation(rows) if self.shuffle else rows
            rows = rows[: run.size * run.batches].reshape(run.batches, run.size)
            batches += [(place, batch) for batch in rows]
        if self.shuffle:
            batches = [batches[index] for index in rng.permutation(len(batches))]
        # The first two of the first and the last run: see `make_runs`.
        for index, wanted in enumerate(dict.fromkeys((0, len(runs) - 1))):
            found = next(i for i, (place, _) in enumerate(batches) if place == wanted)
            batches[index], batches[found] = batches[found], batches[index]
        return inputs, [(rows, runs[place].edges) for place, rows in batches]
