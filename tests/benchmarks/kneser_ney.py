"""Interpolated modified Kneser-Ney: the n-gram model that a neural one has to beat.

`p(w | c) = max(k(c w) - D(k(c w)), 0) / k(c .) + g(c) p(w | c without its first)`

`k` of an n-gram of the highest order is how often it stands in the texts; of a shorter
one, behind how many different tokens, unless a text begins with it, where nothing can
stand before it. Each order has three discounts `D`, for k = 1, 2 and more; `g(c)` is
the share that they took. A context that was never seen leaves all to the shorter one,
and below the single tokens all tokens are alike. The start id is context, and never
predicted: `p` sums to one over the other ids.

Source: Chen and Goodman 1999, "An empirical study of smoothing techniques for language
modeling"
"""

from collections.abc import Sequence

import numpy as np

FALLBACK = (0.5, 1.0, 1.5)  # discounts where there is too little to count


class KneserNey:
    """An n-gram model.

    Args:
        sequences: Token ids of each text: the start id, the text, its end.
        vocabulary_size: Number of token ids V, the start id among them.
        order: Length n of the longest n-grams.

    Attributes:
        discounts: The three discounts of each order, from 1 on.
        parameters: Number of n-grams of all orders.
    """

    def __init__(self, sequences: Sequence, vocabulary_size: int, order: int = 5):
        self.vocabulary_size, self.order = vocabulary_size, order
        # An n-gram's number is its place among the keys of its order, which are
        # (number of the n-gram without its last token) * V + (its last token).
        self.keys, counts = _count(*_join(sequences), vocabulary_size, order)
        self.counts, self.discounts, self.totals, self.shares = counts, [], [], []
        for n, (keys, count) in enumerate(zip(self.keys, counts, strict=True)):
            discounts = _discounts(count)
            context = keys // vocabulary_size
            size = len(self.keys[n - 1]) if n else 1
            total = np.bincount(context, count, size)
            taken = np.bincount(context, _of_count(discounts, count), size)
            self.discounts.append(discounts)
            self.totals.append(total)
            self.shares.append(taken / np.maximum(total, 1))
        self.parameters = sum(int((count > 0).sum()) for count in counts)

    def log2_probabilities(self, sequences: Sequence) -> np.ndarray:
        """Return log2 p of each token but the first of each text, in one row.

        Args:
            sequences: As in the constructor.
        """
        ids, places = _join(sequences)
        context = np.zeros(len(ids), "int64")  # its number; -1 if it is unknown
        chance = np.full(len(ids), 1 / (self.vocabulary_size - 1))
        for n, keys in enumerate(self.keys, start=1):
            wanted = context * self.vocabulary_size + ids
            number = _find(keys, np.where(context < 0, -1, wanted))
            k = np.where(number < 0, 0, self.counts[n - 1][number])
            total = np.where(context < 0, 0, self.totals[n - 1][context])
            kept = np.maximum(k - _of_count(self.discounts[n - 1], k), 0)
            longer = kept / np.maximum(total, 1) + self.shares[n - 1][context] * chance
            chance = np.where(total > 0, longer, chance)
            # Order n + 1 sees the n-gram that ends one token earlier.
            context = np.where(places >= n, np.roll(number, 1), -1)
        return np.log2(chance[places > 0])


def _join(sequences):
    """Return all ids in one row, and each one's place in its text."""
    lengths = np.array([len(sequence) for sequence in sequences])
    ids = np.concatenate([np.asarray(sequence, "int64") for sequence in sequences])
    return ids, np.arange(len(ids)) - np.repeat(lengths.cumsum() - lengths, lengths)


def _count(ids, places, vocabulary_size, order):
    """Return the keys of each order's n-grams, and `k` of each."""
    keys, counts = [np.arange(vocabulary_size)], []
    times = np.bincount(ids[places > 0], minlength=vocabulary_size)
    number, begins = ids, np.zeros(vocabulary_size, bool)
    for n in range(2, order + 1):
        ends = np.flatnonzero(places >= n - 1)
        found, first, of_end, next_times = np.unique(
            number[ends - 1] * vocabulary_size + ids[ends],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        shorter = number[ends[first]]  # the n-gram without its first token
        before = np.bincount(shorter, minlength=len(keys[-1]))
        counts.append(np.where(begins, times, before))
        keys.append(found)
        times, begins = next_times, places[ends[first]] == n - 1
        number = np.full(len(ids), -1)
        number[ends] = of_end
    return keys, [*counts, times]


def _find(keys, wanted):
    """Return the place of each wanted key, -1 if it is not there."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1)


def _discounts(count) -> tuple[float, float, float]:
    """`D_k = k - (k + 1) Y n_(k+1) / n_k`, `Y = n_1 / (n_1 + 2 n_2)`.

    Args:
        count: `k` of each n-gram; `n_k` of them have it.
    """
    n1, n2, n3, n4 = (int((count == k).sum()) for k in (1, 2, 3, 4))
    if not n1 * n2 * n3:
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if min(found) >= 0 else FALLBACK


def _of_count(discounts, count):
    """Return the discount of each count; none of 0."""
    return np.array([0.0, *discounts])[np.minimum(count, 3)]
