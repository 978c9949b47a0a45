"""Splits that keep equal texts together."""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd


def split(
    texts: Iterable[str],
    labels: Iterable | None = None,
    parts: Sequence[float] = (0.8, 0.1, 0.1),
    *,
    seed: int = 0,
) -> tuple[np.ndarray, ...]:
    """Split rows at random so that equal texts fall into one part only.

    Texts are equal when they differ in nothing but whitespace and Unicode form
    (NFC, NFD). Each part has the same share of each label as the whole, as near
    as whole rows and equal texts allow. The same arguments give the same parts.

    Args:
        texts: The n texts.
        labels: Their labels; `None` if the parts need not be alike in them.
        parts: The parts' sizes: fractions that add up to 1, or numbers of rows
            that add up to n, where one may be -1 for all the rest.
        seed: Another seed gives another split.

    Returns:
        For each part its row numbers, ascending, as an int64 array.

    Raises:
        TypeError: A text is not a string.
        ValueError: Sizes that do not add up, labels more or fewer than texts, or
            a part that would stay empty.

    Example:

    >>> train, test = split(frame["document"], frame["label"], (0.9, 0.1))
    >>> train_texts = frame["document"].iloc[train].tolist()
    """
    keys = [_key(text, index) for index, text in enumerate(texts)]
    sizes = _sizes(parts, len(keys))
    codes = _codes(labels, len(keys))
    rng = np.random.default_rng(seed)
    room = _quotas(np.bincount(codes, minlength=1), sizes)  # (labels, parts)
    groups = defaultdict(list)
    for index, key in enumerate(keys):
        groups[key].append(index)

    part_of = np.full(len(keys), -1)
    together = [rows for rows in groups.values() if len(rows) > 1]
    for index in sorted(
        rng.permutation(len(together)), key=lambda i: -len(together[i])
    ):
        rows = together[index]
        need = np.bincount(codes[rows], minlength=len(room))[:, None]
        free = np.where((room >= need).all(axis=0), room.sum(axis=0), 0)
        if free.sum():
            part = rng.choice(len(sizes), p=free / free.sum())
        else:
            part = room.sum(axis=0).argmax()
        part_of[rows] = part
        room[:, part] -= need[:, 0]

    single = rng.permutation(np.flatnonzero(part_of < 0))
    for code, free in enumerate(room):
        rows = single[codes[single] == code]
        free = np.maximum(free, 0)
        while free.sum() > len(rows):  # a group took more than this label's room
            free[free.argmax()] -= 1
        part_of[rows] = np.repeat(np.arange(len(sizes)), free)
    found = tuple(np.flatnonzero(part_of == part) for part in range(len(sizes)))
    for part, rows in enumerate(found):
        if not len(rows):
            raise ValueError(
                f"Part {part} of {parts} would be empty: {len(keys)} texts, of which "
                f"{len(groups)} differ. Give more texts or fewer parts."
            )
    return found


def _key(text, index):
    if not isinstance(text, str):
        raise TypeError(
            f"Expected texts. Received {text!r} ({type(text).__name__}) at index "
            f"{index}: leave such rows out, or make them texts."
        )
    return " ".join(unicodedata.normalize("NFC", text).split())


def _codes(labels, count):
    """Numbers the labels from 0 in order of appearance."""
    if labels is None:
        return np.zeros(count, "int64")
    codes, _ = pd.factorize(np.asarray(list(labels)))
    if len(codes) != count:
        raise ValueError(
            f"Expected a label for each text. Received {count} texts and {len(codes)} "
            "labels."
        )
    if (codes < 0).any():
        raise ValueError(
            f"The label at index {int(np.argmin(codes))} is missing. Leave such rows "
            "out."
        )
    return codes


def _sizes(parts, count):
    """The number of rows of each part."""
    parts = list(parts)
    whole = all(isinstance(p, (int, np.integer)) for p in parts)
    if whole and parts.count(-1) == 1:
        rest = count - sum(p for p in parts if p != -1)
        parts = [rest if p == -1 else p for p in parts]
    total = count if whole else 1
    if not parts or min(parts) <= 0 or abs(sum(parts) - total) > 1e-6:
        raise ValueError(
            "`parts` must be positive fractions that add up to 1, or positive numbers "
            f"of rows that add up to the number of texts, {count} (one may be -1: all "
            f"the rest). Received: parts={tuple(parts)}."
        )
    return _quotas(np.array([count]), np.array(parts, float) * count / total)[0]


def _quotas(rows, columns):
    """Whole numbers near `rows[i] * columns[j] / total` with the same sums.

    The columns' sums are kept where they are whole numbers.
    """
    exact = np.outer(rows, columns) / max(rows.sum(), 1)
    quotas = np.floor(exact + 1e-9).astype("int64")
    row_rest = rows - quotas.sum(axis=1)
    column_rest = np.ceil(columns - 1e-9) - quotas.sum(axis=0)
    order = np.argsort(-(exact - quotas), axis=None, kind="stable")
    while row_rest.any():
        before = row_rest.sum()
        for i, j in zip(*np.unravel_index(order, quotas.shape), strict=True):
            if row_rest[i] > 0 and column_rest[j] > 0:
                quotas[i, j] += 1
                row_rest[i] -= 1
                column_rest[j] -= 1
        if row_rest.sum() == before:
            column_rest += 1
    return quotas
