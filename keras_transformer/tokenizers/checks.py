"""What tokenizers take: texts and ids, checked; and ids filled up to one length."""

import unicodedata

import numpy as np

from keras_transformer.ops.checks import check_integer


def check_texts(texts, compose: bool) -> list[str]:
    """Return texts as a list, composed to NFC if asked; refuse all but strings."""
    if texts is None or isinstance(texts, bytes):
        raise TypeError(f"Texts must be strings. Received: {type(texts).__name__}.")
    checked = []
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"Texts must be strings. Item {index} is {text!r} of type "
                f"{type(text).__name__}. Remove it, or put a text in its place."
            )
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"Item {index} has half of a surrogate pair, which is no "
                    f"character: {text!r}. Decode the text with its own encoding."
                ) from error
            text = unicodedata.normalize("NFC", text) if compose else text
        checked.append(text)
    return checked


def id_rows(ids, vocabulary_size: int) -> tuple[list[list[int]], bool]:
    """Return ids as rows of checked Python integers, and whether rows came in."""
    if hasattr(ids, "__array__"):
        ids = np.atleast_1d(np.asarray(ids))
        several, ids = ids.ndim > 1, ids.tolist()
    else:
        ids = [ids] if isinstance(ids, int) else ids
        ids = [np.asarray(i).tolist() if hasattr(i, "__array__") else i for i in ids]
        several = bool(ids) and all(isinstance(row, (list, tuple)) for row in ids)
    rows = ids if several else [ids]
    for row in rows:
        if not set(map(type, row)) <= {int}:
            wrong = next(id for id in row if type(id) is not int)
            raise TypeError(f"Ids must be integers. Received: {wrong!r}.")
        if row and not 0 <= min(row) <= max(row) < vocabulary_size:
            wrong = min(row) if min(row) < 0 else max(row)
            raise ValueError(
                f"Id {wrong} is outside the vocabulary of {vocabulary_size} ids. It "
                "comes from another tokenizer or model."
            )
    return rows, several


def pad_rows(rows: list[list[int]], pad_id: int, length: int | None, side: str):
    """Return rows of ids as an int32 array (B, T), filled up with `pad_id`."""
    if side not in ("right", "left"):
        raise ValueError(f"`side` must be 'right' or 'left'. Received: {side!r}.")
    longest = max(map(len, rows), default=0)
    if length is None:
        length = longest
    elif check_integer("length", length) < longest:
        raise ValueError(
            f"A row of {longest} ids does not fit length={length}. Cut it with "
            f"encode(..., max_length={length})."
        )
    padded = np.full((len(rows), length), pad_id, "int32")
    for target, row in zip(padded, rows, strict=True):
        start = 0 if side == "right" else length - len(row)
        target[start : start + len(row)] = row
    return padded
