"""Attention followed through all layers, down to the input's tokens."""

import numpy as np

from keras_transformer.visualization.average_attention import mean_heads


def attention_rollout(
    record, *, layers=None, kind: str | None = None, residual: float = 0.5
) -> np.ndarray:
    """Multiply the attention of all layers: how much each token draws on each input.

    `R[l] = A[l] @ R[l - 1]`, `R[0] = I`, with
    `A[l] = residual * I + (1 - residual) * mean over heads of weights[l]`,
    its rows scaled to add up to 1

    One layer's weights say which *states* a token looks at, and these are mixtures
    already. The rollout follows the mixing down to the input; the identity stands
    for the residual connection around each attention.

    Masks: weights of padding are 0 and stay 0: no real token draws on it. Give tables
    and plots the tokens without padding.

    Args:
        record: What `record_attention` gives, or a list of arrays (B, N, T, T) from
            the first layer to the last.
        layers: Paths of the record, from the first layer to the last; by default all
            of `kind`, as they were called.
        kind: "encoder" or "decoder" (self-attention); None where only one kind is
            recorded.
        residual: The part that passes by each attention, at least 0 and below 1.

    Returns:
        The rollout (B, T, T).

    Raises:
        ValueError: Layers that are not self-attention of one length, a `residual` out
            of its range, or as `average_attention`.
        KeyError, TypeError: As `average_attention`.

    Example:

    >>> rollout = attention_rollout([np.full((1, 2, 3, 3), 1 / 3)] * 2)

    Source: Abnar and Zuidema 2020, https://arxiv.org/abs/2005.00928
    """
    if not 0 <= residual < 1:
        raise ValueError(
            "`residual` must be at least 0 and less than 1. Received: "
            f"residual={residual!r}."
        )
    weights = mean_heads(record, layers, kind)  # (L, B, T, S)
    if weights.shape[2] != weights.shape[3]:
        raise ValueError(
            "A rollout needs self-attention, as many keys as queries. Received weights "
            f"of shape {weights.shape[1:]}. Choose `layers` or `kind`."
        )
    identity = np.eye(weights.shape[-1], dtype=weights.dtype)
    mixed = residual * identity + (1 - residual) * weights
    sums = mixed.sum(axis=-1, keepdims=True)
    mixed = mixed / np.where(sums > 0, sums, 1)
    rollout = mixed[0]
    for layer in mixed[1:]:
        rollout = layer @ rollout
    return rollout
