"""Masks: boolean, `True` = may attend. The only convention in this library.

A padding mask is (B, S). A mask of scores has the scores' four axes,
broadcastable to (B, N, T, S).
"""

import keras
from keras import ops

from keras_transformer.ops.backend import is_traced, static_size


def padding_mask(ids, pad_id: int = 0):
    """Return the (B, S) mask that hides the padding of token ids (B, S)."""
    return ops.not_equal(ids, pad_id)


def position_mask(query_positions, key_positions, *, causal=True, window=None):
    """Compare positions: the one rule behind causal and sliding-window masks.

    `mask[b, 0, t, s] = (key[s] <= query[t]) and (|query[t] - key[s]| < window)`

    Args:
        query_positions: Integers (T,) or (B, T).
        key_positions: Integers (S,) or (B, S).
        causal: Whether a query sees only keys at its own or earlier positions.
        window: Number of positions that a query sees on each side, its own
            included; `None` for all.

    Returns:
        Boolean mask (1 or B, 1, T, S).
    """
    query_positions = ops.expand_dims(_batched(query_positions), -1)  # (B, T, 1)
    key_positions = ops.expand_dims(_batched(key_positions), -2)  # (B, 1, S)
    distance = query_positions - key_positions
    if causal:
        mask = distance >= 0
    else:
        mask = ops.ones_like(distance, dtype="bool")
    if window is not None:
        mask = ops.logical_and(mask, ops.abs(distance) < window)
    return ops.expand_dims(mask, 1)


def causal_mask(query_length, key_length=None):
    """Return the mask (1, 1, T, S) that hides the future."""
    key_length = query_length if key_length is None else key_length
    return position_mask(_count(query_length), _count(key_length))


def sliding_window_mask(query_length, window, key_length=None, *, causal=False):
    """Return the mask (1, 1, T, S) of keys less than `window` positions away."""
    key_length = query_length if key_length is None else key_length
    return position_mask(
        _count(query_length),
        _count(key_length),
        causal=causal,
        window=window,
    )


def tokens_first(ids, mask):
    """Move the padding of each row behind its tokens.

    Args:
        ids: (B, T).
        mask: (B, T), `True` for tokens.

    Returns:
        The ids (B, T) in the new order, and the places (B, T) where the tokens are
        now; padding has the place of the token before it.
    """
    index = ops.arange(ops.shape(ids)[1], dtype="int32")
    order = ops.argsort(ops.where(mask, index, index + ops.shape(ids)[1]), axis=1)
    places = ops.maximum(ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1, 0)
    return ops.take_along_axis(ids, order, axis=1), places


def combine_masks(*masks):
    """Return the conjunction of the masks that are not `None` (`None` if none)."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def as_boolean(mask, name: str, ranks: tuple[int, ...]):
    """Check a mask that came from outside, and return it as booleans.

    Args:
        mask: Booleans, or integers or floats that are 0 or 1.
        name: Name of the argument, for the message.
        ranks: The ranks that are accepted.

    Returns:
        The boolean mask; of integers in a trace, whose values cannot be looked at,
        1 is `True`.

    Raises:
        ValueError: The rank is another, there are values other than 0 and 1, or the
            mask is of floats in a trace, where nobody can tell.
    """
    mask = ops.convert_to_tensor(mask)
    if len(mask.shape) not in ranks:
        accepted = " or ".join(_FORMS[rank] for rank in ranks)
        raise ValueError(
            f"`{name}` must have the shape {accepted}. Received shape "
            f"{tuple(mask.shape)}. Add the missing axes, for example with "
            "`mask[:, None, :]` (a padding mask for every query)."
        )
    if keras.backend.standardize_dtype(mask.dtype) == "bool":
        return mask
    ones = ops.equal(mask, ops.ones_like(mask))
    if is_traced(mask):
        if "float" in keras.backend.standardize_dtype(mask.dtype):
            raise ValueError(
                f"`{name}` must be boolean or of integers in a model or a compiled "
                "function, where its values cannot be checked. Received floats. Use "
                'keras.Input(shape, dtype="bool"), or pass `mask > 0`.'
            )
    else:
        binary = ops.logical_or(ones, ops.equal(mask, ops.zeros_like(mask)))
        if not bool(ops.convert_to_numpy(ops.all(binary))):
            other = ops.convert_to_numpy(mask)[~ops.convert_to_numpy(binary)][0]
            raise ValueError(
                f"`{name}` must be boolean, or 0 and 1, with True (1) where "
                f"attention is allowed. Received {other} among its values, such "
                "as an additive mask has. Pass `mask == 0` for a mask that adds "
                "0 where attention is allowed."
            )
    return ones


def expand_mask(mask):
    """Give a mask (B, S) or (B, T, S) the four axes of the scores."""
    if len(mask.shape) == 2:
        return mask[:, None, None, :]
    if len(mask.shape) == 3:
        return mask[:, None, :, :]
    return mask


def check_padding(name: str, mask, sequence):
    """Check a padding mask that came from outside.

    Args:
        name: Name of the argument, for the message.
        mask: (B, S) or (1, S), or `None`.
        sequence: Tensor (B, S, ...) whose padding it marks.

    Returns:
        Boolean mask (1 or B, S), or `None`.

    Raises:
        ValueError: It has another shape, or is no 0/1 mask.
    """
    if mask is None:
        return None
    mask = as_boolean(mask, name, ranks=(2,))
    for axis, alike in ((0, (1,)), (1, ())):
        got, wanted = static_size(mask, axis), static_size(sequence, axis)
        if None not in (got, wanted) and got != wanted and got not in alike:
            raise ValueError(
                f"`{name}` must have the shape (batch, time) of the sequence, "
                f"{tuple(sequence.shape[:2])}. Received shape {tuple(mask.shape)}."
            )
    return mask


def key_padding(keys, **given):
    """Check and combine the padding masks of a sequence.

    Args:
        keys: Tensor (B, S, ...) whose padding they mark.
        **given: The masks by name, see `check_padding`.

    Returns:
        Mask (1 or B, 1, 1, S), `None` if neither is given.
    """
    checked = (check_padding(name, mask, keys) for name, mask in given.items())
    return combine_masks(*(None if m is None else expand_mask(m) for m in checked))


def pair_mask(mask, queries, keys, ranks=(3, 4), name: str = "attention_mask"):
    """Check a mask of pairs that came from outside, and give it four axes.

    Args:
        mask: (B, T, S) or (B, N, T, S), 1 where it is the same for all; or `None`.
        queries: Tensor (B, T, N, H), or (B, T, E) where the heads are not known.
        keys: Tensor (B, S, ...).
        ranks: The ranks that are accepted.
        name: Name of the argument, for the message.

    Returns:
        Boolean mask broadcastable to (B, N, T, S), or `None`.

    Raises:
        ValueError: It has another rank, other sizes, or is no 0/1 mask.
    """
    if mask is None:
        return None
    mask = as_boolean(mask, name, ranks)
    check_pairs(name, mask, queries, keys, ranks)
    return expand_mask(mask)


def check_pairs(name: str, pairs, queries, keys, ranks=(4,)):
    """Refuse a mask or a bias of pairs that is not broadcastable to the scores.

    Args:
        name: Name of the argument, for the message.
        pairs: The mask or bias.
        queries: Tensor (B, T, N, H), or (B, T, E) where the heads are not known.
        keys: Tensor (B, S, ...).
        ranks: The ranks that are accepted; three axes are those of all heads.

    Raises:
        ValueError: It has another rank, or an axis that is neither 1 nor that of the
            scores (B, N, T, S).
    """
    batches = {static_size(queries, 0), static_size(keys, 0)}
    wanted = (
        None if None in batches else max(batches),
        static_size(queries, 2) if len(queries.shape) == 4 else None,
        static_size(queries, 1),
        static_size(keys, 1),
    )
    got = tuple(static_size(pairs, axis) for axis in range(len(pairs.shape)))
    rank = len(got) if len(got) in ranks else max(ranks)
    wanted = wanted if rank == 4 else (wanted[0], *wanted[2:])
    if len(got) != rank or any(
        None not in sizes and sizes[0] not in (1, sizes[1])
        for sizes in zip(got, wanted, strict=True)
    ):
        raise ValueError(
            f"`{name}` must be broadcastable to {_FORMS[rank]} = {wanted}, with all "
            f"of these axes. Received shape {got}."
        )


_FORMS = {2: "(batch, time)", 3: "(batch, query, key)", 4: "(batch, head, query, key)"}


def _count(length):
    # Without a dtype, TensorFlow counts in int16 where floats are float16.
    return ops.arange(length, dtype="int32")


def _batched(positions):
    return positions[None] if len(positions.shape) == 1 else positions
