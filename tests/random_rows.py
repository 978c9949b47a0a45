"""Sequences of token ids for the tests of batches."""

import numpy as np

VOCABULARY = 40


def random_rows(count=70, longest=14, seed=0, shortest=1):
    """Rows whose first id tells them apart, and a label each."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(shortest, longest + 1, count)
    rows = [rng.integers(1, VOCABULARY, n).tolist() for n in lengths]
    return rows, rng.integers(0, 2, count)


def pairs(count=70, seed=0):
    """Sources, targets about as long, and targets shifted by one."""
    sources, _ = random_rows(count, seed=seed)
    rng = np.random.default_rng(seed)
    lengths = [max(1, int(len(s) * rng.uniform(0.5, 1.6))) for s in sources]
    whole = [rng.integers(1, VOCABULARY, n + 1).tolist() for n in lengths]
    return (sources, [t[:-1] for t in whole]), [t[1:] for t in whole]
