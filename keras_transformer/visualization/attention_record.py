"""What `record_attention` gives: attention weights by layer path."""

from collections import Counter
from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_transformer.visualization.layer_tree import (
    foreign_attention,
    layer_tree,
)


class AttentionRecord(Mapping):
    """Attention weights by layer path: `record[path]` is a list of arrays.

    There is one array for each time that the layer was called, (B, N, T, S), or
    (B, T, S) for layers with one head. Paths are relative to the model:
    `"decoder/block_0/self_attention"`, not `"my_model/decoder/..."`. Where two
    layers have one path, as in two submodels that were built alike, they are told
    apart by their places in the model: `"left/encoder/self_attention"`.

    Args:
        model: The model or layer whose calls are recorded.
    """

    def __init__(self, model: keras.layers.Layer):
        self._model = model
        self._calls: dict[int, tuple[keras.layers.Layer | None, list]] = {}
        self._by_path: dict[str, list[np.ndarray]] | None = None
        self._failure: str | None = None

    def add(self, layer: keras.layers.Layer | None, weights):
        """Keep a copy of the weights of one call of a layer (None: of no layer)."""
        weights = ops.convert_to_numpy(ops.cast(weights, "float32"))
        if id(layer) not in self._calls:
            self._calls[id(layer)] = layer, []
            self._by_path = None
        self._calls[id(layer)][1].append(np.array(weights))

    def fail(self, error: BaseException):
        """Drop what was recorded of a call that failed halfway."""
        self._calls, self._by_path = {}, None
        self._failure = f"{type(error).__name__}: {error}"

    @property
    def failure(self) -> str | None:
        """The error that ended the recorded call, or None."""
        return self._failure

    @property
    def not_recorded(self) -> list[str]:
        """Paths of the model's attention layers that are not of this library.

        Those of `keras.layers` and `keras_hub`, and others whose class is called
        "...Attention": their weights cannot be recorded.
        """
        return foreign_attention(self._model)

    def __getitem__(self, path: str) -> list[np.ndarray]:
        weights = self._named()
        if path in weights:
            return weights[path]
        if self._failure is not None:
            raise KeyError(f"Nothing is recorded: the call failed with {self._failure}")
        recorded = ", ".join(map(repr, weights)) or "none"
        others = ", ".join(map(repr, self.not_recorded))
        others = f" Not recorded, being of another library: {others}." if others else ""
        raise KeyError(
            f"No attention recorded as {path!r}. Recorded: {recorded}.{others}"
        )

    def __iter__(self):
        return iter(self._named())

    def __len__(self):
        return len(self._calls)

    def _named(self):
        if self._by_path is None:
            names = self._names()
            self._by_path = {names[key]: w for key, (_, w) in self._calls.items()}
        return self._by_path

    def _names(self):
        """Return the name of each recorded layer, by its id; no two are alike."""
        tree = layer_tree(self._model)
        places = {id(layer): place for place, layer in tree.items()}
        called = [layer for layer, _ in self._calls.values() if layer is not None]
        usual = {
            id(layer): self._relative(layer.path)
            for layer in [*tree.values(), *called]
            if layer.path
        }
        shared = Counter(usual.values())
        names = {}
        for key in self._calls:
            name = usual.get(key) or places.get(key) or "attention"
            if shared[name] > 1:
                name = places.get(key, name)
            number, free = 1, name
            while free in names.values():
                number += 1
                free = f"{name} ({number})"
            names[key] = free
        return names

    def _relative(self, path):
        """Take the model's name off a path, not that of a layer called like it."""
        first, _, rest = path.partition("/")
        if first != self._model.name or not rest:
            return path
        layers = getattr(self._model, "layers", None)
        inside = layers is None or rest.split("/")[0] in {x.name for x in layers}
        return rest if inside else path
