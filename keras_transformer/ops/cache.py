"""The key/value cache as a value: passed in, handed back, never changed."""

import keras
from keras import ops

from keras_transformer.ops.backend import is_traced, static_size


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
        `{"key": (B, K, S, H), "value": (B, K, S, H), "mask": (B, S), "position":
        ()}`: `mask` marks the slots that hold tokens, `position` is the next
        free slot, as an int32 tensor so that it does not trace anew.
    """
    dtype = keras.backend.standardize_dtype(dtype)
    shape = (batch_size, num_key_value_heads, max_length)
    return {
        "key": ops.zeros((*shape, key_dim), dtype),
        "value": ops.zeros((*shape, value_dim or key_dim), dtype),
        "mask": ops.zeros((batch_size, max_length), "bool"),
        "position": ops.zeros((), "int32"),
    }


def write_cache(cache: dict, key, value, mask=None) -> dict:
    """Return the cache with the keys and values of T new tokens appended.

    Args:
        cache: From `create_cache` or from an earlier call.
        key: New keys (B, T, K, H).
        value: New values (B, T, K, H).
        mask: Boolean (1 or B, T), `False` for padding among the new tokens; `None`
            if all are tokens.

    Returns:
        A new cache whose `position` is advanced by T.

    Raises:
        ValueError: The heads do not fit the cache, or it has no room. Inside a
            compiled function the room cannot be checked: keep to `max_length`.
    """
    position, length = cache["position"], static_size(key, 1)
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
    if None not in (length, slots) and not is_traced(position):
        used = int(ops.convert_to_numpy(position))
        if used + length > slots:
            raise ValueError(
                f"The cache has {slots} slots, {used} of them used, and no room "
                f"for {length} more tokens. Create it with a larger `max_length`."
            )
    mask = ops.ones((1, 1), "bool") if mask is None else mask
    mask = ops.broadcast_to(mask, ops.shape(key)[:2])
    return {
        "key": _write(cache["key"], ops.transpose(key, (0, 2, 1, 3)), position, 2),
        "value": _write(
            cache["value"], ops.transpose(value, (0, 2, 1, 3)), position, 2
        ),
        "mask": _write(cache["mask"], mask, position, 1),
        "position": position + ops.shape(key)[1],
    }


def _write(buffer, update, position, axis):
    zero = ops.zeros((), "int32")
    start = [zero] * len(buffer.shape)
    start[axis] = position
    return ops.slice_update(buffer, start, ops.cast(update, buffer.dtype))
