"""What changes the logits of a step before a token is chosen.

A processor is a function `(logits, history) -> logits` of float32 logits (B, V)
(log-probabilities in a search of several beams). Processors are applied one after the
other; `-inf` forbids a token.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

_FORBIDDEN = float("-inf")


class History(NamedTuple):
    """What is known when a token is chosen.

    Attributes:
        tokens: int32 (B, L): the prompts on the left, then the new tokens.
        mask: Boolean (B, L), `True` for the tokens that are there already.
        length: Index in `tokens` of the token to be chosen, an int32 scalar.
        new_tokens: Number of tokens chosen so far, an int32 scalar.
    """

    tokens: object
    mask: object
    length: object
    new_tokens: object


def penalize_repetition(logits, history: History, penalty):
    """Make tokens that stand in the history less likely.

    `logit / penalty` where it is positive, `logit * penalty` where negative.

    Source: Keskar et al. 2019, https://arxiv.org/abs/1909.05858
    """
    seen = _marked(logits, history.tokens, history.mask)
    penalized = ops.where(logits > 0, logits / penalty, logits * penalty)
    return ops.where(seen, penalized, logits)


def forbid_repeated_ngrams(logits, history: History, size: int):
    """Forbid each token that would repeat an n-gram of the history."""
    tokens, length = history.tokens, history.length
    rows, total = tokens.shape
    windows = total - size + 1
    if windows < 1:
        return logits
    repeats = history.mask[:, size - 1 :]
    for offset in range(size - 1):
        # The token at this place of the n-gram that is being written.
        place = ops.cast(ops.maximum(length - (size - 1) + offset, 0), "int32")
        current = ops.take(tokens, ops.reshape(place, (1,)), axis=1)  # (B, 1)
        there = ops.take(history.mask, ops.reshape(place, (1,)), axis=1)
        same = ops.equal(tokens[:, offset : offset + windows], current)
        same = ops.logical_and(same, history.mask[:, offset : offset + windows])
        repeats = ops.logical_and(repeats, ops.logical_and(same, there))
    repeats = ops.logical_and(repeats, length >= size - 1)
    banned = _marked(logits, tokens[:, size - 1 :], repeats)
    return ops.where(banned, _FORBIDDEN, logits)


def forbid_early_stop(logits, history: History, min_new_tokens, stop_ids):
    """Forbid the stop ids until there are `min_new_tokens` tokens."""
    vocabulary = ops.arange(logits.shape[-1], dtype="int32")
    stops = ops.any(ops.equal(vocabulary[:, None], stop_ids[None]), axis=-1)  # (V,)
    early = history.new_tokens < min_new_tokens
    return ops.where(ops.logical_and(stops[None], early), _FORBIDDEN, logits)


def forbid_tokens(logits, ids):
    """Forbid these ids, a tuple of integers."""
    forbidden = np.isin(np.arange(logits.shape[-1]), ids)
    return ops.where(forbidden[None], _FORBIDDEN, logits)


def force_token(logits, id: int, now):
    """Forbid all ids but one where `now` is `True`, a boolean scalar."""
    forced = np.where(np.arange(logits.shape[-1]) == id, 0.0, _FORBIDDEN)
    return ops.where(now, forced[None].astype("float32"), logits)


def log_probabilities(logits):
    """Return the logarithm of the softmax; a forbidden token stays so, even if all are.

    Args:
        logits: (B, V).
    """
    logs = ops.log_softmax(logits, axis=-1)
    return ops.where(ops.equal(logits, _FORBIDDEN), _FORBIDDEN, logs)


def keep_top_k(logits, k: int):
    """Forbid all but the `k` most likely tokens (and those as likely as the last)."""
    k = min(k, logits.shape[-1])
    least = ops.top_k(logits, k)[0][:, -1:]
    return ops.where(logits < least, _FORBIDDEN, logits)


def keep_top_p(logits, p):
    """Keep the fewest tokens whose probabilities sum to `p`; at least one.

    Tokens as likely as the last of them are kept as well; all are with `p` = 1.

    Source: Holtzman et al. 2020, https://arxiv.org/abs/1904.09751
    """
    probabilities = ops.softmax(logits, axis=-1)
    falling = -ops.sort(-probabilities, axis=-1)
    before = ops.cumsum(falling, axis=-1) - falling
    kept = ops.logical_or(before < p, ops.arange(falling.shape[-1], dtype="int32") == 0)
    least = ops.min(ops.where(kept, falling, 2.0), axis=-1, keepdims=True)
    # The rounded sum may reach 1 before the last tokens.
    dropped = ops.logical_and(probabilities < least, p < 1)
    return ops.where(dropped, _FORBIDDEN, logits)


def draw(logits, uniforms):
    """Choose a token of each row by a number in [0, 1): the inverse distribution.

    Randomness comes in as a value, so that a compiled search draws the same on
    every backend, and leaves every global seed alone.

    Args:
        logits: (B, V).
        uniforms: (B,).
    """
    probabilities = ops.softmax(logits, axis=-1)
    mass = ops.cumsum(probabilities, axis=-1)
    # A sum in parallel is rounded everywhere: it may rise, and fall, where the
    # probability is 0, and it may never pass the last bound.
    possible = probabilities > 0
    above = ops.logical_and(possible, mass > uniforms[:, None] * mass[:, -1:])
    places = ops.arange(logits.shape[-1], dtype="int32")[None]
    last = ops.max(ops.where(possible, places, 0), axis=-1)
    first = ops.min(ops.where(above, places, logits.shape[-1]), axis=-1)
    return ops.minimum(first, last)


def _marked(logits, tokens, mask):
    """Return (B, V): which token ids stand where `mask` is `True`."""
    rows, vocabulary = logits.shape
    # One column more, cut off again. Keras mixes int32 and Python's integers to
    # float32 on JAX where floats are bfloat16.
    spare = ops.cast(ops.where(mask, tokens, vocabulary), "int32")
    marks = ops.zeros((rows, vocabulary + 1), "int32")
    index = ops.broadcast_to(ops.arange(rows, dtype="int32")[:, None], spare.shape)
    pairs = ops.reshape(ops.stack([index, spare], axis=-1), (-1, 2))
    ones = ops.ones((pairs.shape[0],), "int32")
    marks = ops.scatter_update(marks, pairs, ones)
    return marks[:, :-1] > 0
