"""Record every attention weight of a model's call, without changing the model."""

from collections.abc import Mapping
from contextlib import contextmanager

import keras
import numpy as np
from keras import ops

from keras_transformer.ops.attention import recorder


class AttentionRecord(Mapping):
    """Attention weights by layer path: `record[path]` is a list of arrays.

    There is one array for each time that the layer was called, (B, N, T, S), or
    (B, T, S) for layers with one head. Paths are relative to the model:
    `"decoder/block_0/self_attention"`, not `"my_model/decoder/..."`.
    """

    def __init__(self, model: keras.layers.Layer):
        self._model = model
        self._weights: dict[str, list[np.ndarray]] = {}

    def add(self, path: str | None, weights):
        """Keep a copy of one call's weights."""
        weights = ops.convert_to_numpy(ops.cast(weights, "float32"))
        path = self._relative(path or "attention")
        self._weights.setdefault(path, []).append(np.array(weights))

    def __getitem__(self, path: str) -> list[np.ndarray]:
        if path not in self._weights:
            recorded = ", ".join(map(repr, self._weights)) or "none"
            raise KeyError(f"No attention recorded as {path!r}. Recorded: {recorded}.")
        return self._weights[path]

    def __iter__(self):
        return iter(self._weights)

    def __len__(self):
        return len(self._weights)

    def _relative(self, path):
        """Take the model's name off a path, not that of a layer called like it."""
        first, _, rest = path.partition("/")
        if first != self._model.name or not rest:
            return path
        layers = getattr(self._model, "layers", None)
        inside = layers is None or rest.split("/")[0] in {x.name for x in layers}
        return rest if inside else path


@contextmanager
def record_attention(model):
    """Record the attention weights of the calls made inside a `with` block.

    Works for any Keras model that holds layers of this library, at any depth,
    on every backend, for calls `model(x)`. The outputs are the same; the fused
    kernel, which keeps no weights, is not taken meanwhile. A thread or task of
    its own records nothing unless it opens a recorder itself.

    Args:
        model: The model or layer that will be called.

    Yields:
        An `AttentionRecord`.

    Raises:
        TypeError: `model` is no Keras model or layer.
        RuntimeError: Nothing was recorded: `model.predict` runs a compiled
            function, which cannot be looked into.

    Example:

    >>> encoder = TransformerEncoder(embed_dim=8, num_heads=2, dense_dim=16)
    >>> with record_attention(encoder) as record:
    ...     outputs = encoder(keras.ops.ones((1, 3, 8)))
    >>> weights = record["self_attention"][0]
    """
    if not isinstance(model, keras.layers.Layer):
        raise TypeError(
            "`record_attention` needs a Keras model or layer. Received: "
            f"{type(model).__name__}."
        )
    record = AttentionRecord(model)
    token = recorder.set(record.add)
    try:
        yield record
    finally:
        recorder.reset(token)
    if not record:
        raise RuntimeError(
            f"No attention of {model.name!r} was recorded. Call `model(x)` inside "
            "the `with` block: `predict` and `fit` run compiled functions, which "
            "cannot be looked into. Only attention layers of this library are "
            "recorded."
        )
