"""Texts of any length as rows that a language model reads, and its losses on them."""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.generation.inputs import pad_rows
from keras_transformer.ops.backend import compiled
from keras_transformer.tasks.encoding import length_batches
from keras_transformer.training import shift_right, token_losses


class Windows(NamedTuple):
    """Pieces of texts; each token of a text is a label in one of them.

    Attributes:
        inputs: The ids that are read.
        labels: The ids that follow them.
        owners: The number of the text that each piece is from.
    """

    inputs: list[list[int]]
    labels: list[list[int]]
    owners: list[int]


def make_windows(ids: Sequence, start_id, stop_id, size: int) -> Windows:
    """Put start and stop ids around texts, and cut them into pieces.

    Without a start id nothing foresees the end of an empty text: it has no piece.

    Args:
        ids: Token ids of each text.
        start_id: As in `shift_right`.
        stop_id: As in `shift_right`.
        size: Most tokens of a piece.
    """
    owners = [n for n, row in enumerate(ids) if len(row) or start_id is not None]
    inputs, labels = shift_right([ids[n] for n in owners], start_id, stop_id)
    places = [
        (text, slice(first, first + size))
        for text, row in enumerate(inputs)
        for first in range(0, len(row), size)
    ]
    return Windows(
        [inputs[text][part] for text, part in places],
        [labels[text][part] for text, part in places],
        [owners[text] for text, _ in places],
    )


def text_losses(model, windows: Windows, texts: int, batch_size: int):
    """Return the sum of the losses of each text's tokens in nats, and their number.

    Args:
        model: A `LanguageModel`.
        windows: From `make_windows`.
        texts: The number of texts.
        batch_size: Most rows that are read at a time.
    """

    def row_losses(inputs, labels):
        losses = token_losses(labels, model(inputs, training=False))
        return ops.sum(ops.where(inputs["padding_mask"], losses, 0.0), axis=-1)

    measure = compiled(row_losses, model, key="row_losses")
    losses, counts = np.zeros(texts), np.zeros(texts, "int64")
    for length, numbers, batch in length_batches(windows.inputs, batch_size):
        if model.position_limit is not None:
            length = min(length, model.position_limit)
        wanted = [windows.labels[number] for number in numbers]
        wanted += wanted[:1] * (len(batch) - len(wanted))
        arrays = pad_rows(batch, length), pad_rows(wanted, length)["token_ids"]
        arrays = keras.tree.map_structure(ops.convert_to_tensor, arrays)
        found = ops.convert_to_numpy(measure(*arrays))[: len(numbers)]
        owners = [windows.owners[number] for number in numbers]
        np.add.at(losses, owners, found)
        np.add.at(counts, owners, [len(windows.inputs[number]) for number in numbers])
    return losses, counts
