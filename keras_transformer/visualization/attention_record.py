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

    `record_attention` gives one for calls of a model. For texts that are written, make
    one and pass it on: `generate(model, prompts, record=record)`, `beam_search`,
    `Translator.translate` and `TextGenerator.generate` fill it. Then there is one array
    for each layer, one example for each text, and row t of it is where the model looked
    when it wrote token t; `tokens` has what stands on both axes.

    Args:
        model: The model or layer whose calls are recorded.

    Raises:
        TypeError: `model` is no Keras model or layer.

    Example:

    >>> model = LanguageModel(20, 1, 8, 2, 16)
    >>> model.build()
    >>> record = AttentionRecord(model)
    >>> tokens = generate(model, [[5, 6]], max_new_tokens=4, record=record)
    >>> page = attention_view(record)
    """

    def __init__(self, model: keras.layers.Layer):
        if not isinstance(model, keras.layers.Layer):
            raise TypeError(
                "`AttentionRecord` needs a Keras model or layer. Received: "
                f"{type(model).__name__}."
            )
        self._model = model
        self._tokens: dict[int, list[list[tuple]]] = {}  # of each call that has some
        self._calls: dict[int, tuple[keras.layers.Layer | None, list]] = {}
        self._by_path: dict[str, list[np.ndarray]] | None = None
        self._failure: str | None = None
        self._traced: dict[int, keras.layers.Layer | None] = {}
        self._queries: dict[int, set] = {}

    def add(
        self,
        layer: keras.layers.Layer | None,
        weights,
        tokens=None,
        queries: str | None = None,
    ):
        """Keep a copy of the weights of one call of a layer (None: of no layer).

        Args:
            layer: The layer.
            weights: (B, N, T, S) or (B, T, S).
            tokens: For each example, its pair (query tokens, key tokens), if known.
            queries: See `queries`.
        """
        weights = ops.convert_to_numpy(ops.cast(weights, "float32"))
        if id(layer) not in self._calls:
            self._calls[id(layer)] = layer, []
            self._by_path = None
        self._calls[id(layer)][1].append(np.array(weights))
        self._queries.setdefault(id(layer), set()).add(queries)
        if tokens is not None:
            self._tokens.setdefault(id(layer), []).append(list(tokens))

    def add_traced(self, layer: keras.layers.Layer | None):
        """Note that a layer was called in a trace, whose weights cannot be kept."""
        self._traced[id(layer)] = layer

    def check_unused(self, model):
        """Refuse to be filled with a call of another model, or a second time."""
        if model is not self._model:
            raise ValueError(
                f"`record` is of the model {self._model.name!r}, but {model.name!r} is "
                "to be recorded. Make a new AttentionRecord(model)."
            )
        if self._calls or self._failure is not None:
            raise ValueError(
                "`record` was used before: it holds another call, or one that failed. "
                "Make a new AttentionRecord(model)."
            )

    def fail(self, error: BaseException):
        """Drop what was recorded of a call that failed halfway."""
        self._calls, self._by_path, self._tokens, self._queries = {}, None, {}, {}
        self._traced = {}
        self._failure = f"{type(error).__name__}: {error}"

    @property
    def failure(self) -> str | None:
        """The error that ended the recorded call, or None."""
        return self._failure

    @property
    def tokens(self) -> list[dict]:
        """For each example, layer path -> (query tokens, key tokens), where known.

        Known for texts that were written: pieces, or ids where there is no tokenizer.
        Pages show them; tables and plots take a pair,
        `attention_table(record[path][0], *record.tokens[1][path], batch=1)`. A layer
        whose calls had different tokens, such as one that serves encoder and decoder,
        has no one pair and is left out.
        """
        names, examples = self._names(), []
        for key, calls in self._tokens.items():
            for place, (pair, *others) in enumerate(zip(*calls, strict=True)):
                examples += [{} for _ in range(place + 1 - len(examples))]
                if all(other == pair for other in others):
                    examples[place][names[key]] = pair
        return examples

    @property
    def queries(self) -> dict[str, str]:
        """Layer path -> what its queries are, where it is the same in all calls.

        "self" if they are the sequence that is looked at, "cross" if another one,
        "views" if they are no sequence, as in the annotation matrix of 2017.
        """
        names, known = self._names(), {}
        for key, (kind, *others) in self._queries.items():
            if kind is not None and not others:
                known[names[key]] = kind
        return known

    @property
    def not_recorded(self) -> list[str]:
        """Paths of the model's attention layers whose weights could not be recorded.

        Those of `keras.layers` and `keras_hub`, and others whose class is called
        "...Attention"; and those of this library that were called in a trace alone.
        """
        traced = [x for key, x in self._traced.items() if key not in self._calls]
        paths = [self._relative(x.path) for x in traced if x is not None]
        return foreign_attention(self._model) + paths

    def __getitem__(self, path: str) -> list[np.ndarray]:
        weights = self._named()
        if path in weights:
            return weights[path]
        if self._failure is not None:
            raise KeyError(f"Nothing is recorded: the call failed with {self._failure}")
        recorded = ", ".join(map(repr, weights)) or "none"
        others = ", ".join(map(repr, self.not_recorded))
        others = f" Not recorded: {others}." if others else ""
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
        if not isinstance(self._model, keras.Model):  # it may have any `layers`
            return rest
        inside = rest.split("/")[0] in {layer.name for layer in self._model.layers}
        return rest if inside else path
