"""The recurrent decoders of 2014 and 2015: one step, run over time or alone."""

import keras
from keras import ops

from keras_transformer.layers.bahdanau_attention import BahdanauAttention
from keras_transformer.layers.base import VECTORS, BaseLayer, check_axes, shifted_seed
from keras_transformer.layers.luong_attention import LuongAttention
from keras_transformer.layers.recurrent_encoder import CELLS, make_recurrent
from keras_transformer.ops.attention import is_recording, recording
from keras_transformer.ops.backend import is_traced, scan_states
from keras_transformer.ops.checks import check_choice, check_integer, check_number

ATTENTIONS = (None, "bahdanau", "luong")


class RecurrentDecoder(BaseLayer):
    """Write a target sentence token by token, from a vector or by attention.

    `None` (2014): `s_i = f([y; c], s_{i-1})` with one vector `c` for all steps;
    `o_i = maxout(W [s_i; y; c])`

    `"bahdanau"` (2015): the same with `c_i = attention(s_{i-1}, H)` in place of `c`.
    The outputs are of the new state, as the paper's text has it, `g(y_{i-1}, s_i,
    c_i)`; its appendix A.2.2 writes `s_{i-1}` in the maxout.

    `"luong"` (2015): `s_i = f([y; o_{i-1}], s_{i-1})`, `c_i = attention(s_i, H)`,
    `o_i = tanh(W [c_i; s_i])`

    `y` is the vector of the token read, `f` a stack of recurrent layers (the
    states that meet `H` are the last one's), and `H` are the encoder's outputs.
    Where the states do not depend on an attention, they are computed for the whole
    sentence by Keras's recurrent layers; otherwise one function is run over time.

    What changes at each step is the carry, `{"cells": [[(B, U), ...], ...]}` with
    `"context"` (2015) or `"feed"` (Luong's `o_{i-1}`); what does not is the memory.

    Masks: source padding gets no weight.

    Args:
        units: Width U of the states.
        cell: `"gru"` or `"lstm"`.
        num_layers: Number of recurrent layers.
        attention: `None`, `"bahdanau"` or `"luong"`.
        score: Luong's score, `"dot"`, `"general"` or `"concat"`.
        attention_units: Width of the network that scores (`"bahdanau"`,
            `"concat"`); `units` if not given.
        input_feeding: Whether Luong's decoder reads `o_{i-1}`.
        output_units: Width R of the outputs `o_i`; `units` if not given.
        two_way_source: Whether the encoder's states come from both directions.
        dropout: Dropout rate of each layer's inputs but the first's; one mask
            serves all steps of a sentence.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, T, E), the vectors of the tokens read, padding last.
        carry: From `start`.
        memory: From `start`.
        places: (B, T), which step stands where in the outputs; in order if not
            given.
        training: Whether dropout is applied.

    Returns:
        The outputs (B, T, R).

    Raises:
        ValueError: A size or rate out of range, an unknown cell or attention.

    Source: Cho et al. 2014, https://arxiv.org/abs/1406.1078; Bahdanau et al. 2015,
    https://arxiv.org/abs/1409.0473; Luong et al. 2015,
    https://arxiv.org/abs/1508.04025 (chapter: 1)
    """

    def __init__(
        self,
        units: int,
        *,
        cell: str = "gru",
        num_layers: int = 1,
        attention: str | None = None,
        score: str = "general",
        attention_units: int | None = None,
        input_feeding: bool = True,
        output_units: int | None = None,
        two_way_source: bool = False,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        units = check_integer("units", units)
        num_layers = check_integer("num_layers", num_layers)
        check_choice("cell", cell, tuple(CELLS))
        check_choice("attention", attention, ATTENTIONS)
        check_number("dropout", dropout, at_least=0, below=1)
        attention_units = check_integer(
            "attention_units", attention_units, optional=True
        )
        output_units = check_integer("output_units", output_units, optional=True)
        self.units = units
        self.cell = cell
        self.num_layers = num_layers
        self.attention = attention
        self.score = score
        self.attention_units = attention_units
        self.input_feeding = bool(input_feeding)
        self.output_units = output_units
        self.two_way_source = bool(two_way_source)
        self.dropout = dropout
        self.seed = seed

        self.output_width = output_units or units
        self.feeds = attention == "luong" and self.input_feeding
        self.source_width = units * (2 if two_way_source else 1)
        self.recurrent_layers = [
            make_recurrent(cell, units, index, self.dtype_policy)
            for index in range(num_layers)
        ]
        self.layer_dropouts = [
            keras.layers.Dropout(
                dropout,
                seed=shifted_seed(seed, index),
                name=f"dropout_{index}",
                dtype=self.dtype_policy,
            )
            for index in range(num_layers - 1)
        ]
        self.attention_layer = self._make_attention()
        if attention == "luong":
            width, activation = self.output_width, "tanh"
        else:
            width, activation = 2 * self.output_width, None  # halved by the maxout
        self.readout = self._dense("readout", width, activation, attention != "luong")
        self.bridges = []
        if two_way_source:
            self.bridges = [
                self._dense(f"bridge_{index}_{letter}", units, "tanh")
                for index in range(num_layers)
                for letter in self._letters()
            ]

    def _letters(self):
        return "hc" if self.cell == "lstm" else "h"

    def _dense(self, name, units, activation=None, use_bias=False):
        return keras.layers.Dense(
            units,
            activation=activation,
            use_bias=use_bias,
            name=name,
            dtype=self.dtype_policy,
        )

    def _make_attention(self):
        common = {"name": "attention", "dtype": self.dtype_policy}
        if self.attention == "bahdanau":
            return BahdanauAttention(self.attention_units or self.units, **common)
        if self.attention == "luong":
            units = self.attention_units if self.score == "concat" else None
            return LuongAttention(self.score, units=units, **common)
        return None

    def build(self, inputs_shape):
        check_axes("inputs", inputs_shape, VECTORS)
        batch, time, embed_dim = inputs_shape
        width = embed_dim + (0 if self.attention == "luong" else self.source_width)
        width += self.output_width if self.feeds else 0
        for layer in self.recurrent_layers:
            layer.build((batch, time, width))
            width = self.units
        read = self.units + self.source_width
        read += 0 if self.attention == "luong" else embed_dim
        self.readout.build((batch, time, read))
        if self.attention_layer is not None:
            self.attention_layer.build(
                (batch, time, self.units), (batch, None, self.source_width)
            )
        both = self.attention is None and self.two_way_source
        for bridge in self.bridges:
            bridge.build((batch, self.units * (2 if both else 1)))

    def start(self, encoder_outputs, encoder_states, mask):
        """Return the carry and the memory before the first token.

        The states go on from the encoder's, layer by layer. Those of a two-way
        encoder pass a bridge, `s_0 = tanh(W h)`, where h is the backward state (the
        paper's), or both without attention, which sees no more than them.

        Args:
            encoder_outputs: H (B, S, U or 2 U).
            encoder_states: From the same `RecurrentEncoder`.
            mask: (B, S), `True` for tokens.
        """
        cells = encoder_states
        if self.two_way_source:
            cells = [
                self._bridged(states, index)
                for index, states in enumerate(encoder_states)
            ]
        carry = {"cells": [list(states) for states in cells]}
        if self.attention is None:
            last = encoder_states[-1]
            vectors = last[:: len(self._letters())]  # h of each direction
            return carry, {"vector": ops.concatenate(vectors, axis=-1)}
        memory = {
            "values": encoder_outputs,
            "keys": self.attention_layer.project_keys(encoder_outputs),
            "mask": mask,
        }
        rows = ops.shape(encoder_outputs)[0]
        if self.attention == "bahdanau":
            carry["context"] = ops.zeros((rows, self.source_width), self.compute_dtype)
        elif self.feeds:
            carry["feed"] = ops.zeros((rows, self.output_width), self.compute_dtype)
        return carry, memory

    def call(self, inputs, carry, memory, places=None, training=None):
        noise = self._noise(inputs) if self.dropout and training else None
        cells, looped = carry["cells"], self.feeds or self.attention == "bahdanau"
        if looped:
            with recording(None):
                carry = scan_states(
                    lambda carry, y: self._advance(y, carry, memory, noise)[0],
                    carry,
                    inputs,
                )
            parts = {"inputs": inputs, "states": _top(carry["cells"]), **carry}
            del parts["cells"]
        else:
            states = self._advance_all(inputs, cells, memory, noise)
            parts = {"inputs": inputs, "states": states}
        recorded = looped and is_recording() and not is_traced(parts["states"])
        if recorded:
            parts["queries"] = parts["states"]
            if self.attention == "bahdanau":
                earlier = parts["states"][:, :-1]
                first = _top(cells)[:, None]
                parts["queries"] = ops.concatenate([first, earlier], axis=1)
        if places is not None:
            parts = {
                name: ops.take_along_axis(part, places[:, :, None], axis=1)
                for name, part in parts.items()
            }
        if recorded:  # the alignments of all steps once more, as one matrix
            self._attend(parts["queries"], memory)
        return self._outputs(parts, memory)[0]

    def step(self, inputs, carry, memory):
        """Read one token of each row.

        Args:
            inputs: (B, E), the vectors of the tokens.
            carry: From `start` or from an earlier step.
            memory: From `start`.

        Returns:
            The outputs (B, R), the weights (B, S), `None` without attention, and
            the new carry.
        """
        carry, weights = self._advance(inputs, carry, memory)
        parts = {"inputs": inputs, "states": _top(carry["cells"]), **carry}
        del parts["cells"]
        parts = {name: part[:, None] for name, part in parts.items()}
        outputs, late_weights = self._outputs(parts, memory)
        weights = late_weights if weights is None else weights
        return outputs[:, 0], None if weights is None else weights[:, 0], carry

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape[:2], self.output_width)

    def _advance(self, y, carry, memory, noise=None):
        """Return the carry after one token (B, E), and weights (B, 1, S) or `None`."""
        weights = None
        if self.attention is None:
            y = ops.concatenate([y, memory["vector"]], axis=-1)
        elif self.attention == "bahdanau":
            query = _top(carry["cells"])[:, None]
            context, weights = self._attend(query, memory)
            y = ops.concatenate([y, context[:, 0]], axis=-1)
        elif self.feeds:
            y = ops.concatenate([y, carry["feed"]], axis=-1)
        cells = []
        for index, layer in enumerate(self.recurrent_layers):
            if index and noise is not None:
                y = y * noise[index - 1]
            y, states = layer.cell(y, carry["cells"][index])
            cells.append(list(states))
        if self.attention == "bahdanau":
            return {"cells": cells, "context": context[:, 0]}, weights
        if self.feeds:
            outputs, weights = self._combine(y[:, None], memory)
            return {"cells": cells, "feed": outputs[:, 0]}, weights
        return {"cells": cells}, weights

    def _advance_all(self, y, cells, memory, noise):
        """Return the states (B, T, U) of all tokens (B, T, E) at once."""
        if self.attention is None:
            y = ops.concatenate([y, _repeated(memory["vector"], y)], axis=-1)
        for index, layer in enumerate(self.recurrent_layers):
            if index and noise is not None:
                y = y * noise[index - 1][:, None]
            y, *_ = layer(y, initial_state=cells[index])
        return y

    def _outputs(self, parts, memory):
        """Return the outputs (B, T, R), and weights (B, T, S) or `None`."""
        if self.feeds:
            return parts["feed"], None
        if self.attention == "luong":
            return self._combine(parts["states"], memory)
        context = parts.get("context")
        if context is None:
            context = _repeated(memory["vector"], parts["states"])
        read = [parts["states"], parts["inputs"], context]
        pairs = self.readout(ops.concatenate(read, axis=-1))  # (B, T, 2 R)
        batch, time, _ = ops.shape(pairs)
        pairs = ops.reshape(pairs, (batch, time, self.output_width, 2))
        return ops.max(pairs, axis=-1), None

    def _combine(self, states, memory):
        context, weights = self._attend(states, memory)
        return self.readout(ops.concatenate([context, states], axis=-1)), weights

    def _attend(self, queries, memory):
        return self.attention_layer(
            queries,
            memory["values"],
            value_mask=memory["mask"],
            projected_key=memory["keys"],
            return_attention_scores=True,
        )

    def _bridged(self, states, index):
        """Return the first states of layer `index` after a two-way encoder."""
        count = len(self._letters())
        first = []
        for forward, backward, bridge in zip(
            states[:count],
            states[count:],
            self.bridges[index * count : (index + 1) * count],
            strict=True,
        ):
            if self.attention is None:
                backward = ops.concatenate([forward, backward], axis=-1)
            first.append(bridge(backward))
        return first

    def _noise(self, inputs):
        ones = ops.ones((ops.shape(inputs)[0], self.units), self.compute_dtype)
        return [dropout(ones, training=True) for dropout in self.layer_dropouts]


def _top(cells):
    """Return h of the last layer."""
    return cells[-1][0]


def _repeated(vector, like):
    """Return a vector (B, W) at each step of `like` (B, T, ...)."""
    batch, time = ops.shape(like)[:2]
    vector = vector[:, None]
    return ops.broadcast_to(vector, (batch, time, vector.shape[-1]))
