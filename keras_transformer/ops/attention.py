"""Attention: scores, and the one place where scores become weights."""

import math
from contextlib import contextmanager
from contextvars import ContextVar

import keras
from keras import ops

from keras_transformer.ops import masks
from keras_transformer.ops.backend import (
    has_accelerator,
    has_attention_kernel,
    is_traced,
    static_size,
)

# A function, see `recording`, while attention is recorded, else None.
recorder: ContextVar = ContextVar("keras_transformer_recorder", default=None)

# Finite, so that no gradient becomes NaN, and below every real score.
_HIDDEN = -1e38
_HIDDEN_FLOAT16 = -3e4


def is_recording() -> bool:
    """Return whether attention weights are being recorded in this context."""
    return recorder.get() is not None


@contextmanager
def recording(record):
    """Hand all attention inside to a function `record(layer, weights, mask, queries)`.

    Args:
        record: Gets the layer that attends; its weights (B, N, T, S) or (B, T, S), or
            None in a trace; the mask, broadcastable to (B, N, T, S), or None; and what
            the queries are: "self" if the sequence that is looked at, "cross" if
            another one, "views" if they are no sequence, None if not known. `None`
            records nothing: for the steps of what is then recorded as a whole.
    """
    token = recorder.set(record)
    try:
        yield
    finally:
        recorder.reset(token)


def dot_product_scores(query, key, scale: float | None = None):
    """Multiplicative scores of each head, `scale * query . key`.

    Args:
        query: (B, T, N, H).
        key: (B, S, K, H); each key head serves N / K query heads.
        scale: Factor; `None` is 1 / sqrt(H), which keeps the softmax from
            saturating as H grows.

    Returns:
        Scores (B, N, T, S).

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
    """
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    query, key = ops.convert_to_tensor(query), ops.convert_to_tensor(key)
    query = query * ops.cast(scale, query.dtype)
    if query.shape[2] == key.shape[2]:
        return ops.einsum("btnh,bsnh->bnts", query, key)
    scores = ops.einsum("btkgh,bskh->bkgts", _grouped(query, key), key)
    batch, heads, groups, time, length = ops.shape(scores)
    return ops.reshape(scores, (batch, heads * groups, time, length))


def additive_scores(query, key, weight):
    """Additive scores `v . tanh(q + k)` of projected queries and keys.

    Args:
        query: Projected queries (B, T, U).
        key: Projected keys (B, S, U).
        weight: The vector v (U,).

    Returns:
        Scores (B, T, S).

    Source: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473
    """
    hidden = ops.tanh(ops.expand_dims(query, 2) + ops.expand_dims(key, 1))
    return ops.einsum("btsu,u->bts", hidden, ops.cast(weight, hidden.dtype))


def general_scores(query, key, kernel):
    """Multiplicative scores `q W k` with a learned matrix between the two.

    Args:
        query: (B, T, Eq).
        key: (B, S, Ek).
        kernel: The matrix W (Eq, Ek).

    Returns:
        Scores (B, T, S).

    Source: Luong et al. 2015, https://arxiv.org/abs/1508.04025
    """
    return ops.einsum("bte,bse->bts", ops.einsum("bte,ef->btf", query, kernel), key)


def concat_scores(query, key, kernel, weight):
    """Scores `v . tanh(W [q; k])` of the concatenated query and key.

    Args:
        query: (B, T, Eq).
        key: (B, S, Ek).
        kernel: The matrix W (Eq + Ek, U).
        weight: The vector v (U,).

    Returns:
        Scores (B, T, S).

    Source: Luong et al. 2015, https://arxiv.org/abs/1508.04025
    """
    width = query.shape[-1]
    # W [q; k] = W_q q + W_k k: the (B, T, S, Eq + Ek) tensor is never made.
    return additive_scores(
        ops.einsum("bte,eu->btu", query, kernel[:width]),
        ops.einsum("bse,eu->bsu", key, kernel[width:]),
        weight,
    )


def attend(
    query,
    key,
    value,
    *,
    score=None,
    scale: float | None = None,
    mask=None,
    causal: bool = False,
    bias=None,
    dropout=None,
    return_weights: bool = False,
    layer=None,
    sources=None,
    flash_attention: bool | None = None,
):
    """Mix values by the softmax of scores: every attention of this library.

    `weights = softmax(score(query, key) + bias)` where `mask` allows, else 0;
    `outputs = weights @ value`

    The backend's fused kernel is taken unless the weights themselves are needed
    (returned, recorded or dropped out), the scores are not dot products, or the
    kernel cannot take the sizes or the dtype, or is slower (see
    `has_attention_kernel`). Both ways give equal outputs, take the softmax in at least
    float32, and give zeros where a query may attend to nothing.

    Args:
        query: (B, T, N, H), or (B, T, E) for one head without a heads axis;
            `None` if `score` needs none.
        key: (B, S, K, H), or (B, S, E).
        value: (B, S, K, H'), or (B, S, E').
        score: Function of (query, key) that returns scores; `None` is
            `dot_product_scores`.
        scale: Factor of the dot product; `None` is 1 / sqrt(H).
        mask: Boolean, `True` = may attend, as many axes as the scores have and
            broadcastable to them.
        causal: Whether to hide keys behind the query's own index as well.
        bias: Added to the scores, broadcastable to them; minus infinity hides. A
            fused kernel takes it in the query's dtype, as it does the scores.
        dropout: Function applied to the weights (training only).
        return_weights: Whether to return the weights.
        layer: The layer that asks; the weights are recorded under its path.
        sources: The query and the value that the layer was given, before they were
            projected; `None` for what it was not given.
        flash_attention: As in `keras.ops.dot_product_attention`.

    Returns:
        The outputs (B, T, N, H') or (B, T, E'), and the weights (B, N, T, S) or
        (B, T, S), `None` unless `return_weights`.
    """
    query, key, value, mask, bias = (
        None if x is None else ops.convert_to_tensor(x)
        for x in (query, key, value, mask, bias)
    )
    scores = None if score is None else score(query, key)
    if bias is not None:
        # A bias of minus infinity hides as a mask does, also beside a mask.
        mask = masks.combine_masks(mask, bias > -math.inf)
    headless = len(value.shape) == 3
    if headless:
        value = ops.expand_dims(value, 2)  # (B, S, 1, E)
        if scores is None:
            query, key = ops.expand_dims(query, 2), ops.expand_dims(key, 2)
        scores, mask, bias = (
            None if x is None else ops.expand_dims(x, 1) for x in (scores, mask, bias)
        )  # (B, 1, T, S)

    record = recorder.get()
    if record is not None and is_traced(value):
        record(layer, None, None, None)
        record = None  # a trace must not bake the recording into a compiled function
    weights = None
    if (
        scores is None
        and not return_weights
        and dropout is None
        and record is None
        and (flash_attention or has_attention_kernel(static_size(value, 1)))
        and _kernel_takes(query, value)
    ):
        outputs = _fused(query, key, value, scale, mask, causal, bias, flash_attention)
    else:
        if scores is None:
            scores = dot_product_scores(query, key, scale)
        if causal:
            mask = masks.combine_masks(mask, masks.causal_mask(*ops.shape(scores)[2:]))
        outputs, weights = _explicit(scores, value, mask, bias, dropout)
        if return_weights or record is not None:
            weights = _clear_blind(weights, mask)
            weights = ops.squeeze(weights, 1) if headless else weights
        if record is not None:
            record(layer, weights, mask, sources and _kind_of_queries(*sources))
    if headless:
        outputs = ops.squeeze(outputs, 2)
    return outputs, weights if return_weights else None


def _kind_of_queries(query, value):
    """Return what `recording` tells of the queries. Equal values are one sequence.

    Under half precision Keras gives a layer two copies of what is one tensor.
    """
    if query is None:
        return "views"
    if value is None or tuple(query.shape) != tuple(value.shape):
        return "cross"
    if query is value:
        return "self"
    alike = ops.convert_to_numpy(ops.all(ops.equal(query, value)))
    return "self" if alike else "cross"


def _explicit(scores, value, mask, bias, dropout):
    double = keras.backend.standardize_dtype(scores.dtype) == "float64"
    dtype = "float64" if double else "float32"
    scores = ops.cast(scores, dtype)
    if bias is not None:
        scores = scores + ops.cast(bias, dtype)
    if mask is not None:
        scores = ops.where(mask, scores, ops.cast(_HIDDEN, dtype))
    # Keras warns of a softmax over one element, which one key rightly is.
    alone = static_size(scores, -1) == 1
    weights = ops.ones_like(scores) if alone else ops.softmax(scores, axis=-1)
    weights = ops.cast(weights, value.dtype)
    dropped = weights if dropout is None else dropout(weights)
    heads, value_heads = weights.shape[1], value.shape[2]
    if heads == value_heads:
        outputs = ops.einsum("bnts,bsnh->btnh", dropped, value)
    else:
        batch, _, time, length = ops.shape(dropped)
        groups = (batch, value_heads, heads // value_heads, time, length)
        outputs = ops.einsum("bkgts,bskh->btkgh", ops.reshape(dropped, groups), value)
        outputs = ops.reshape(outputs, (batch, time, heads, value.shape[-1]))
    return _clear_blind(outputs, mask, axes=(0, 2, 1, 3)), weights


def _fused(query, key, value, scale, mask, causal, bias, flash_attention):
    if key.shape[2] == 1 < query.shape[2]:
        # Keras repeats key/value heads for every kernel, but not a single one.
        key = ops.repeat(key, query.shape[2], axis=2)
        value = ops.repeat(value, query.shape[2], axis=2)
    if causal and (mask is not None or bias is not None):
        mask = masks.combine_masks(
            mask, masks.causal_mask(ops.shape(query)[1], ops.shape(key)[1])
        )
        causal = False
    additive = bias
    if bias is not None and mask is not None:  # PyTorch's kernel refuses both
        half = keras.backend.standardize_dtype(query.dtype) == "float16"
        hidden = _HIDDEN_FLOAT16 if half else _HIDDEN
        additive = ops.where(mask, bias, ops.cast(hidden, bias.dtype))
    outputs = ops.dot_product_attention(
        query,
        key,
        value,
        bias=additive,
        mask=mask if bias is None else None,
        scale=scale,
        is_causal=causal,
        flash_attention=flash_attention,
    )
    return _clear_blind(outputs, mask, axes=(0, 2, 1, 3))


def _clear_blind(x, mask, axes=(0, 1, 2, 3)):
    """Put zeros where a query may attend to nothing, in (B, N, T, ...) or as `axes`."""
    if mask is None:
        return x
    sees = ops.any(mask, axis=-1, keepdims=True)  # (B, N, T, 1)
    return ops.where(ops.transpose(sees, axes), x, ops.zeros_like(x))


def _kernel_takes(query, value):
    if query.shape[-1] != value.shape[-1]:
        return False  # JAX's kernel fails
    half = keras.backend.standardize_dtype(query.dtype) == "float16"
    return not half or has_accelerator()  # JAX on CPU has no float16 kernel


def _grouped(query, key):
    """Split the heads axis of `query` into key heads and groups."""
    batch, time, heads, size = ops.shape(query)
    return ops.reshape(query, (batch, time, key.shape[2], heads // key.shape[2], size))
