"""Rows of different lengths in one flat array."""

import numpy as np


class Ragged:
    """Sequences of numbers, checked once and padded batch by batch.

    Args:
        name: What error messages call them.
        rows: One-dimensional sequences.
        padding: The number to pad with.
        dtype: `"int32"`, which takes integers only, or `"float32"`.
    """

    def __init__(self, name: str, rows, padding, dtype: str = "int32"):
        self.name, self.padding = name, padding
        arrays = [_as_row(name, index, row, dtype) for index, row in enumerate(rows)]
        self.lengths = np.array([len(a) for a in arrays], "int64")
        self.starts = np.cumsum(self.lengths) - self.lengths
        # A last element that rows without any may point to.
        flat = np.concatenate([*arrays, [padding]])
        limits = np.iinfo("int32")
        if (
            dtype == "int32"
            and not limits.min <= flat.min() <= flat.max() <= limits.max
        ):
            raise ValueError(
                f"`{name}` must be ids within int32. Received ids from {flat.min()} to "
                f"{flat.max()}."
            )
        self.flat = flat.astype(dtype)

    def __len__(self):
        return len(self.lengths)

    def cut(self, limit: int | None):
        """Shorten longer rows to their first `limit` numbers."""
        if limit is not None:
            self.lengths = np.minimum(self.lengths, limit)

    def batch(self, rows: np.ndarray, length: int) -> np.ndarray:
        """Return some rows, padded at the end: (len(rows), length)."""
        steps = np.arange(length)
        places = np.minimum(self.starts[rows, None] + steps, len(self.flat) - 1)
        real = steps < self.lengths[rows, None]
        return np.where(real, self.flat[places], self.flat.dtype.type(self.padding))


def is_ragged(values) -> bool:
    """Whether each row is a sequence of its own, rather than rows of an array."""
    if not isinstance(values, (list, tuple)):
        values = np.asarray(values)
        if values.dtype != object:
            return False
    return len(values) > 0 and np.ndim(values[0]) > 0


def per_row(name: str, values, count: int, dtype: str | None = None) -> np.ndarray:
    """Check an array with one number or vector a row."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"`{name}` must be numbers, or sequences of them. Received "
            f"{array.reshape(-1)[0]!r} first. Number the classes from 0."
        )
    if array.ndim == 0 or len(array) != count:
        raise ValueError(
            f"`{name}` must have a value for each of the {count} rows. Received shape "
            f"{array.shape}."
        )
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))[0, 0]
        raise ValueError(
            f"`{name}` must be finite. Received {array[bad]} in row {bad}."
        )
    return array.astype(dtype or ("float32" if array.dtype.kind == "f" else "int32"))


def _as_row(name, index, row, dtype):
    try:
        array = np.asarray(row)
    except ValueError:
        array = np.asarray(None)  # of nested rows of different lengths
    kinds = "iu" if dtype == "int32" else "iuf"
    if array.ndim == 1 and (array.dtype.kind in kinds or not array.size):
        return array.astype("int64" if dtype == "int32" else dtype)
    raise TypeError(
        f"Each row of `{name}` must be a sequence of "
        f"{'integer ids' if dtype == 'int32' else 'numbers'}. Received {row!r:.60} as "
        f"row {index}. Encode texts with a tokenizer first; pass rows in a list, since "
        "a tuple means several inputs."
    )
