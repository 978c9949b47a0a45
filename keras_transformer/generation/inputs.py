"""What comes into a search: ids of any form, checked and padded to few lengths."""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer.ops.masks import as_boolean


def bucket(length: int, most: int | None = None) -> int:
    """Return the padded length of a text: 16, 24, 32, 48, 64, 96, 128, ...

    Each padded length is compiled once; half steps waste at most a third. None is
    above `most`, the number of the model's positions.
    """
    size = 16
    while size < length:
        size += size // 2 if size & (size - 1) == 0 else size // 3
    return size if most is None else min(size, most)


def as_rows(inputs, pad_id: int | None, name: str = "inputs") -> list[np.ndarray]:
    """Return the real token ids of each row.

    Args:
        inputs: A list of lists of ids; an array (B, S), with padding on any side;
            or `{"token_ids": (B, S), "padding_mask": (B, S)}`.
        pad_id: The id that is padding where there is no mask; `None` if none is.
        name: Name of the argument, for the messages.

    Raises:
        ValueError: The ids are no integers, or in another form; a mask of another
            shape or with values other than 0 and 1.
    """
    mask = None
    if isinstance(inputs, dict):
        unknown = set(inputs) - {"token_ids", "padding_mask"}
        if unknown or "token_ids" not in inputs:
            raise ValueError(
                f"`{name}` as a dict has 'token_ids' and perhaps 'padding_mask'. "
                f"Received: {sorted(inputs)}."
            )
        inputs, mask = inputs["token_ids"], inputs.get("padding_mask")
    elif isinstance(inputs, (list, tuple)):
        return [
            _integers(
                ids,
                (1,),
                f"`{name}` must be a list of lists of integer ids. Row {index}",
            )
            for index, ids in enumerate(inputs)
        ]
    ids = _integers(
        inputs,
        (2,),
        f"`{name}` must be integers of shape (batch, time), or a list of lists of "
        "integer ids. It",
    )
    if mask is None:
        mask = np.ones(ids.shape, bool) if pad_id is None else ids != pad_id
    mask = ops.convert_to_numpy(as_boolean(mask, "padding_mask", ranks=(2,)))
    if mask.shape != ids.shape:
        raise ValueError(
            f"The 'padding_mask' of `{name}` must have the shape of its 'token_ids', "
            f"{ids.shape}. Received shape {mask.shape}."
        )
    return [row[keep] for row, keep in zip(ids, mask, strict=True)]


def pad_rows(rows, length: int, side: str = "right") -> dict:
    """Return `{"token_ids", "padding_mask"}` of rows padded with 0 on one side."""
    ids = np.zeros((len(rows), length), "int32")
    mask = np.zeros((len(rows), length), bool)
    for index, row in enumerate(rows):
        place = slice(length - len(row), None) if side == "left" else slice(len(row))
        ids[index, place], mask[index, place] = row, True
    return {"token_ids": ids, "padding_mask": mask}


class Task(NamedTuple):
    """Where a search begins, as arrays of padded lengths.

    Attributes:
        inputs: What `model.start` reads.
        prompts: The tokens that stand before the new ones (B, P), padded on the
            left, so that the last column is what `model.step` reads first.
        stop_ids: int32 (n,); -1, which is no token, if there is none.
        new_slots: Room for new tokens, a padded length.
        slots: What `model.start` takes as `max_length`.
    """

    inputs: dict
    prompts: dict
    stop_ids: np.ndarray
    new_slots: int
    slots: int


def prepare(model, inputs, limits) -> Task:
    """Check the inputs of a search, and pad them to few lengths."""
    rows = as_rows(inputs, model.pad_id)
    if not rows:
        raise ValueError("`inputs` must have at least one row. Received none.")
    length, room = max(map(len, rows)), model.position_limit
    if model.start_id is None:
        for index, row in enumerate(rows):
            if not len(row):
                raise ValueError(
                    f"Row {index} of `inputs` is empty. A language model writes on "
                    "from at least one token, such as its bos id."
                )
        check_ids("inputs", np.concatenate(rows), model.vocabulary_size)
        _check_room(room, length + limits.max_new_tokens)
        prompts = pad_rows(rows, bucket(length, room), "left")
        inputs = {name: array[:, :-1] for name, array in prompts.items()}
        new_slots = bucket(limits.max_new_tokens, room and room - length)
        slots = inputs["token_ids"].shape[1] + new_slots
    else:
        size = getattr(model, "source_vocabulary_size", None)
        check_ids("inputs", np.concatenate(rows), size or model.vocabulary_size)
        _check_room(room, max(length, limits.max_new_tokens))
        inputs = pad_rows(rows, bucket(length, room))
        prompts = pad_rows([[model.start_id]] * len(rows), 1)
        slots = new_slots = bucket(limits.max_new_tokens, room)
    for name in ("suppress_tokens", "forced_bos_token_id", "forced_eos_token_id"):
        ids = getattr(limits, name)
        check_ids(name, [] if ids is None else ids, model.vocabulary_size)
    return Task(inputs, prompts, _stop_ids(model, limits.stop_ids), new_slots, slots)


def check_ids(name: str, ids, vocabulary_size: int | None):
    """Refuse ids outside the vocabulary, before an embedding reads rubbish."""
    ids = np.asarray(ids)
    if vocabulary_size is None or not ids.size:
        return
    wrong = ids[(ids < 0) | (ids >= vocabulary_size)]
    if wrong.size:
        raise ValueError(
            f"`{name}` holds the id {wrong[0]}, but the model knows the ids 0 to "
            f"{vocabulary_size - 1}. Use the tokenizer with which it was trained."
        )


def _check_room(room, length):
    if room is not None and length > room:
        raise ValueError(
            f"The texts may reach {length} tokens, but the model has positions for "
            f"{room}. Shorten the inputs, or lower `max_new_tokens`."
        )


def _stop_ids(model, stop_ids):
    stop_ids = model.stop_id if stop_ids is None else stop_ids
    stop_ids = [] if stop_ids is None else stop_ids
    message = "`stop_ids` must be an id or a list of ids. It"
    stop_ids = np.atleast_1d(_integers(stop_ids, (0, 1), message))
    check_ids("stop_ids", stop_ids, model.vocabulary_size)
    return stop_ids.astype("int32") if stop_ids.size else np.array([-1], "int32")


def _integers(ids, ranks, message):
    """Return ids as wide integers, which still show what is no id."""
    try:
        # JAX would cut integers of 64 bits down to 32.
        plain = isinstance(ids, np.ndarray)
        array = ids if plain else np.asarray(ops.convert_to_numpy(ids))
    except (TypeError, ValueError) as error:  # ragged, or no numbers at all
        raise ValueError(f"{message} is {ids!r}.") from error
    whole = np.issubdtype(array.dtype, np.integer) or not array.size
    if array.ndim not in ranks or not whole:
        raise ValueError(f"{message} is {array.dtype.name} of shape {array.shape}.")
    return array.astype("int64")
