"""Has a word one sense in two sentences? Asked of the cosine of its two vectors."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from keras_transformer.tasks.words.word_senses import unit


def evaluate_word_in_context(
    encode: Callable, choose: pd.DataFrame, test: pd.DataFrame
) -> dict[str, float]:
    """Measure how well a cosine tells whether a word has one sense in two sentences.

    `same = cos(h_1, h_2) >= threshold`, with the threshold that is right most often
    on other pairs.

    Args:
        encode: As in `WordSenses`: function of texts and spans that returns vectors.
        choose: Pairs that the threshold is chosen on (`read_word_in_context`).
        test: Pairs that are measured.

    Returns:
        `accuracy` on `test`; `majority`, that of the answer that is more frequent in
        `choose`; `threshold`; `chosen`, the accuracy on `choose`.

    Raises:
        ValueError: No pairs, or a column `same` that is not of truth values.

    Example:

    >>> pairs = [read_word_in_context(f"{part}.tsv") for part in ("train", "test")]
    >>> evaluate_word_in_context(partial(word_vectors, model, tokenizer), *pairs)

    Source: Pilehvar and Camacho-Collados 2019, https://arxiv.org/abs/1808.09121
    """
    if not len(choose) or not len(test):
        raise ValueError(
            "There must be pairs to choose the threshold on and pairs to measure. "
            f"Received: {len(choose)} and {len(test)}."
        )
    for name, pairs in (("choose", choose), ("test", test)):
        if pairs["same"].dtype != bool:  # any text would count as true
            raise ValueError(
                f"The column 'same' of `{name}` must hold truth values (dtype bool). "
                f"Received: {pairs['same'].dtype}."
            )
    same, cosines = choose["same"].to_numpy(bool), _cosines(encode, choose)
    threshold, chosen = best_threshold(cosines, same)
    answers = test["same"].to_numpy(bool)
    right = (_cosines(encode, test) >= threshold) == answers
    return {
        "accuracy": float(right.mean()),
        "majority": float(np.mean(answers == (same.mean() >= 0.5))),
        "threshold": threshold,
        "chosen": chosen,
    }


def best_threshold(values, same) -> tuple[float, float]:
    """Return the threshold t for which `values >= t` is `same` most often.

    Args:
        values: Numbers (pairs,).
        same: Truth values (pairs,).

    Returns:
        The threshold, in the middle between two values, and its accuracy. It is a
        float64: float32 values are to be compared as float64 too.
    """
    order = np.argsort(values, kind="stable")
    values = np.asarray(values, "float64")[order]
    same = np.asarray(same, bool)[order]
    # The first k are called different, the others the same.
    right = np.concatenate([[0], np.cumsum(~same)])
    right = right + same.sum() - np.concatenate([[0], np.cumsum(same)])
    edges = np.concatenate([[values[0] - 1], values, [values[-1] + 1]])
    cuts = edges[:-1] < edges[1:]  # none between two that are equal
    best = int(np.argmax(np.where(cuts, right, -1)))
    low, high = map(float, edges[best : best + 2])
    middle = (low + high) / 2
    threshold = middle if low < middle else high  # of neighbours it is one of them
    return threshold, float(right[best] / len(same))


def _cosines(encode, pairs):
    sides = (
        unit(encode(pairs[side].tolist(), pairs[f"{side}_span"].tolist()))
        for side in ("first", "second")
    )
    first, second = sides
    return (first * second).sum(axis=-1).astype("float64")  # as the threshold
