"""Attention averaged over the layers and heads of a model."""

import numpy as np

from keras_transformer.visualization.attention_kinds import layers_of


def average_attention(record, *, layers=None, kind: str | None = None) -> np.ndarray:
    """Return the mean of all heads of all layers, for a table or a plot.

    `average[t, s] = mean over layers l of mean over heads n of weights[l][n, t, s]`

    Of the cross-attention of a translator this is its alignment:
    `plot_attention(average_attention(record, kind="cross"), target, source)`.

    Masks: padding keeps its rows and columns; give tables and plots the tokens
    without it.

    Args:
        record: What `record_attention` gives, or a list of arrays (B, N, T, S) or
            (B, T, S).
        layers: Paths of the record; by default all of `kind`.
        kind: "encoder" or "decoder" (self-attention), "cross", or "single" (layers
            with one head); None where only one kind is recorded.

    Returns:
        Weights (B, T, S).

    Raises:
        ValueError: Several kinds are recorded and none is chosen, one that is not
            recorded, layers of different lengths, or called more than once.
        KeyError: A layer that is not recorded.
        TypeError: `record` is no record.

    Example:

    >>> average = average_attention({"encoder": [np.full((1, 2, 3, 3), 1 / 3)]})

    (chapter: 7, 8)
    """
    return np.mean(mean_heads(record, layers, kind), axis=0)


def mean_heads(record, layers, kind) -> np.ndarray:
    """Return the mean of the heads of each layer, (L, B, T, S)."""
    arrays = layers_of(record, layers, kind)
    shapes = {(len(weights), *weights.shape[2:]) for weights in arrays}
    if len(shapes) != 1:
        raise ValueError(
            "The layers must have attended to sequences of the same lengths. Received "
            f"(batch, query, key) of {sorted(shapes)}. Choose `layers` or `kind`."
        )
    return np.stack([weights.mean(axis=1) for weights in arrays])
