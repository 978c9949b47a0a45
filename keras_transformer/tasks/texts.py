"""Check texts and labels before anything is made of them."""

import reprlib
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from keras_transformer.datasets import split


def plain(label):
    """Return a label as a plain Python value, so that JSON keeps it."""
    return label.item() if isinstance(label, np.generic) else label


def check_texts(texts: Sequence[str], labels: Sequence | None = None):
    """Return texts and labels as lists.

    Raises:
        TypeError: One string in place of several, a text that is no string, a label
            that is no string, integer or truth value; with its index.
        ValueError: More or fewer labels than texts, or no texts to train on.
    """
    if isinstance(texts, str):
        raise TypeError("`texts` must be several texts. Put a single one into a list.")
    if not isinstance(texts, Iterable):
        raise TypeError(f"`texts` must be a list of strings. Received: {texts!r}.")
    texts = list(texts)
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"`texts` must be strings. Text {index} is {text!r} "
                f"({type(text).__name__}). Leave out rows without a text."
            )
    if labels is None:
        return texts, None
    labels = [plain(label) for label in labels]
    if len(texts) != len(labels):
        raise ValueError(
            f"There must be one label for each text. Received: {len(texts)} texts, "
            f"{len(labels)} labels."
        )
    if not texts:
        raise ValueError("`texts` is empty. Pass texts, and a label for each.")
    for index, label in enumerate(labels):
        if not isinstance(label, (str, int)):
            raise TypeError(
                f"`labels` must be integers or strings. Label {index} is {label!r} "
                f"({type(label).__name__})."
            )
    return texts, labels


def check_pairs(pairs) -> tuple[list[str], list[str]]:
    """Return sources and targets as lists.

    Args:
        pairs: Pairs `(source, target)`, or a table with these two columns.

    Raises:
        TypeError: An item that is no pair of strings, with its index.
        ValueError: No pairs, a table without these columns, or a text that is no
            valid Unicode, with its index.
    """
    if isinstance(pairs, pd.DataFrame):
        lacking = {"source", "target"} - set(pairs.columns)
        if lacking:
            raise ValueError(
                "`pairs` as a table needs the columns 'source' and 'target'. Received: "
                f"{', '.join(map(repr, pairs.columns))}."
            )
        pairs = zip(pairs["source"], pairs["target"], strict=True)
    pairs = list(pairs)
    if not pairs:
        raise ValueError("`pairs` is empty. Pass pairs of a source and a target.")
    for index, pair in enumerate(pairs):
        whole = isinstance(pair, (tuple, list)) and len(pair) == 2
        if not whole or not all(isinstance(text, str) for text in pair):
            raise TypeError(
                "`pairs` must be pairs of two strings, (source, target). Pair "
                f"{index} is {pair!r}."
            )
        if not all(text.isascii() or _is_unicode(text) for text in pair):
            raise ValueError(
                f"Pair {index} of `pairs` has half of a surrogate pair, which is no "
                f"character: {pair!r}. Decode the texts with their own encoding."
            )
    return [source for source, _ in pairs], [target for _, target in pairs]


def _is_unicode(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def hold_back(texts, labels, validation_data, seed):
    """Return the pairs of training and validation texts and labels."""
    texts, labels = check_texts(texts, labels)
    if validation_data is not None:
        if not isinstance(validation_data, (tuple, list)) or len(validation_data) != 2:
            raise TypeError(
                "`validation_data` must be a pair (texts, labels). Received: "
                f"{reprlib.repr(validation_data)}."
            )
        return (texts, labels), check_texts(*validation_data)
    parts = split(texts, labels, (0.9, 0.1), seed=seed)
    return tuple(
        ([texts[i] for i in rows], [labels[i] for i in rows]) for rows in parts
    )


def hold_back_pairs(pairs, validation_data, seed):
    """Return training and validation pairs, each as sources and targets."""
    sources, targets = check_pairs(pairs)
    if validation_data is not None:
        return (sources, targets), check_pairs(validation_data)
    parts = split(sources, None, (0.95, 0.05), seed=seed)
    return tuple(
        ([sources[i] for i in rows], [targets[i] for i in rows]) for rows in parts
    )


def hold_back_texts(texts, validation_data, seed):
    """Return training and validation texts; those without a character are left out.

    Raises:
        TypeError: A text that is no string, with its index.
        ValueError: No text is left.
    """
    texts = _filled("texts", texts)
    if validation_data is not None:
        return texts, _filled("validation_data", validation_data)
    parts = split(texts, None, (0.95, 0.05), seed=seed)
    return tuple([texts[i] for i in rows] for rows in parts)


def _filled(name, texts):
    texts, _ = check_texts(texts)
    filled = [text for text in texts if text.strip()]
    if not filled:
        raise ValueError(
            f"`{name}` must have at least one text that is not empty. Received: "
            f"{len(texts)} texts."
        )
    return filled
