"""The key/value cache as a value: passed in, handed back.

A cache that was passed in is not changed, except on PyTorch in inference mode
(`ops.backend.write_slice`): there, keep only the one handed back.
"""

import keras
from keras import ops

from keras_transformer.ops import masks
from keras_transformer.ops.backend import is_traced, static_size, write_slice
from keras_transformer.ops.checks import check_integer


def create_cache(
    batch_size: int,
    max_length: int,
    num_key_value_heads: int,
    key_dim: int,
    value_dim: int | None = None,
    dtype: str | None = None,
) -> dict:
    """Return an empty cache for one attention layer.

    Args:
        batch_size: Number of sequences B.
        max_length: Number of slots S, prompt and new tokens together.
        num_key_value_heads: Number of key/value heads K.
        key_dim: Size of a key head.
        value_dim: Size of a value head; `key_dim` if not given.
        dtype: The layer's compute dtype (Keras casts other floats at each call).

    Returns:
        `{"key": (B, K, S, H), "value": (B, K, S, H), "mask": (B, S), "positions":
        (B, S), "slot": ()}`: `mask` marks the slots that hold tokens, `positions`
        are those tokens' places in their texts, and `slot` is the next free one,
        as an int32 tensor so that it does not trace anew.

    Raises:
        ValueError: A size that is no integer or is negative.
    """
    for name, size in (("batch_size", batch_size), ("max_length", max_length)):
        if isinstance(size, (int, float, str)):  # else it may be a trace's own size
            check_integer(name, size, 0)
    dtype = keras.backend.standardize_dtype(dtype)
    shape = (batch_size, num_key_value_heads, max_length)
    return {
        "key": ops.zeros((*shape, key_dim), dtype),
        "value": ops.zeros((*shape, value_dim or key_dim), dtype),
        "mask": ops.zeros((batch_size, max_length), "bool"),
        "positions": ops.zeros((batch_size, max_length), "int32"),
        "slot": ops.zeros((), "int32"),
    }


def next_positions(cache: dict, length: int, mask=None):
    """Number T new tokens on from those in the cache.

    Args:
        cache: From `create_cache` or from an earlier call.
        length: Number T of new tokens.
        mask: Boolean (1 or B, T), `False` for padding, which is not counted.

    Returns:
        int32 (B, T).
    """
    count = ops.sum(ops.cast(cache["mask"], "int32"), axis=1, keepdims=True)
    if mask is None:
        return count + ops.arange(length, dtype="int32")
    before = ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1
    return count + ops.maximum(before, 0)


def write_tokens(cache: dict, positions, mask=None) -> dict:
    """Return the cache with T new tokens in `mask` and `positions`.

    `write_keys` comes next, and moves `slot` on.

    Args:
        cache: From `create_cache` or from an earlier call.
        positions: Their positions (T,) or (B, T), as from `next_positions`.
        mask: Boolean (1 or B, T), `False` for padding among the new tokens; `None`
            if all are tokens.

    Raises:
        ValueError: The cache has no room. Inside a compiled function this cannot be
            checked: keep to `max_length`.
    """
    slot, length = cache["slot"], static_size(positions, -1)
    slots = static_size(cache["positions"], 1)
    if None not in (length, slots) and not is_traced(slot):
        used = int(ops.convert_to_numpy(slot))
        if used + length > slots:
            raise ValueError(
                f"The cache has {slots} slots, {used} of them used, and no room "
                f"for {length} more tokens. Create it with a larger `max_length`."
            )
    shape = (ops.shape(cache["positions"])[0], ops.shape(positions)[-1])
    mask = ops.ones((1, 1), "bool") if mask is None else mask
    return {
        **cache,
        **{
            name: write_slice(cache[name], ops.broadcast_to(new, shape), slot, 1)
            for name, new in (("mask", mask), ("positions", positions))
        },
    }


def slot_mask(cache: dict, positions, *, causal: bool, window: int | None):
    """Return which slots T new tokens may attend to, (B, 1, T, S).

    Args:
        cache: From `write_tokens`.
        positions: The new tokens' positions (T,) or (B, T).
        causal: Whether a token sees no later slot than its own.
        window: As in `position_mask`.
    """
    mask, slot = masks.expand_mask(cache["mask"]), cache["slot"]
    if causal:
        new = ops.arange(ops.shape(positions)[-1], dtype="int32")
        slots = ops.arange(ops.shape(cache["mask"])[1], dtype="int32")
        mask = masks.combine_masks(mask, masks.position_mask(slot + new, slots))
    if window is not None:
        near = masks.position_mask(
            positions, cache["positions"], causal=False, window=window
        )
        mask = masks.combine_masks(mask, near)
    return mask


def slot_pairs(attention_mask, queries, slots):
    """Check a mask of new tokens and slots, and give it four axes.

    Args:
        attention_mask: (B, T, S) or (B, N, T, S), S being all slots, used or not; or
            `None`.
        queries: Tensor (B, T, ...) of the new tokens.
        slots: Tensor (B, S, ...) of all slots.

    Raises:
        ValueError: It has another rank, other sizes, or is no 0/1 mask.
    """
    mask = masks.pair_mask(attention_mask, queries, slots)
    if mask is not None and static_size(mask, 3) == 1 != static_size(slots, 1):
        raise ValueError(
            "With a cache, the last axis of `attention_mask` must be that of all its "
            f"{static_size(slots, 1)} slots. Received shape "
            f"{tuple(attention_mask.shape)}, which does not say which slots it means."
        )
    return mask


def check_source(cache: dict, heads: int, key_dim: int, value_dim: int):
    """Refuse what is no cache from `precompute` of attention with such heads.

    Raises:
        ValueError: It has other parts, or other numbers or sizes of heads.
    """
    parts = {"key", "value", "mask"}
    if not isinstance(cache, dict) or set(cache) != parts:
        got = sorted(cache) if isinstance(cache, dict) else type(cache).__name__
        raise ValueError(
            "A cache that does not grow must come from this layer's `precompute`, with "
            f"the parts {sorted(parts)}. Received: {got}."
        )
    got = [static_size(cache[name], i) for name in ("key", "value") for i in (1, 3)]
    wanted = [heads, key_dim, heads, value_dim]
    if any(None is not size != other for size, other in zip(got, wanted, strict=True)):
        raise ValueError(
            f"This layer has {heads} key/value heads of sizes {key_dim} and "
            f"{value_dim}, but the cache was precomputed with {got[0]} and {got[2]} "
            f"heads of sizes {got[1]} and {got[3]}. Take it from this layer's own "
            "`precompute`."
        )


def check_rows(cache: dict, inputs):
    """Refuse inputs (B, ...) of another batch than the cache's.

    Raises:
        ValueError: Another batch.
    """
    batch, rows = static_size(cache["mask"], 0), static_size(inputs, 0)
    if None not in (batch, rows) and batch != rows:
        raise ValueError(
            f"The cache was created for {batch} sequences, but the inputs are {rows}. "
            f"Create it with batch_size={rows}."
        )


def check_own(queries, keys):
    """Refuse keys (B, S, ...) of another sequence than the queries' (B, T, ...).

    Raises:
        ValueError: Other lengths, for a cache that grows.
    """
    query_length, key_length = static_size(queries, 1), static_size(keys, 1)
    if None not in (query_length, key_length) and query_length != key_length:
        raise ValueError(
            "A cache that grows holds a sequence that attends to itself: `query` and "
            "`value` are its new tokens. For another sequence take a cache from "
            f"`precompute`. Received: {query_length} queries, {key_length} keys."
        )


def check_heads(cache: dict, key, value):
    """Refuse new keys and values (B, T, K, H) that do not fit the cache.

    Raises:
        ValueError: Another batch, or other numbers or sizes of heads.
    """
    for name, new in (("key", key), ("value", value)):
        batch, heads, slots, size = (static_size(cache[name], i) for i in range(4))
        pairs = zip((0, 2, 3), (batch, heads, size), strict=True)
        got = [(static_size(new, axis), wanted) for axis, wanted in pairs]
        if any(None not in pair and pair[0] != pair[1] for pair in got):
            raise ValueError(
                f"The cache holds {name}s of shape (batch, heads, slots, size) = "
                f"{(batch, heads, slots, size)}, but the new {name}s have (batch, "
                f"time, heads, size) = {tuple(new.shape)}. Create the cache with "
                "this layer's `num_key_value_heads` and head sizes."
            )


def write_keys(cache: dict, key, value) -> dict:
    """Return the cache with the keys and values of T new tokens, `slot` T further.

    Args:
        cache: From `write_tokens`.
        key: New keys (B, T, K, H); see `check_heads`.
        value: New values (B, T, K, H).
    """
    slot, heads_first = cache["slot"], (0, 2, 1, 3)
    return {
        **cache,
        "key": write_slice(cache["key"], ops.transpose(key, heads_first), slot, 2),
        "value": write_slice(
            cache["value"], ops.transpose(value, heads_first), slot, 2
        ),
        "slot": slot + ops.shape(key)[1],
    }
