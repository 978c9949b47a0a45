"""Recurrent layers one above the other, which read a source sentence."""

import keras

from keras_transformer.layers.base import VECTORS, BaseLayer, check_axes, shifted_seed
from keras_transformer.ops import masks
from keras_transformer.ops.backend import recurrent_kernel
from keras_transformer.ops.checks import check_choice, check_integer, check_number

CELLS = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}


def make_recurrent(cell: str, units: int, index: int, dtype):
    """Return the recurrent layer `layer_<index>`, with all outputs and its state."""
    return CELLS[cell](
        units,
        return_sequences=True,
        return_state=True,
        use_cudnn=recurrent_kernel(),
        name=f"layer_{index}",
        dtype=dtype,
    )


class RecurrentEncoder(BaseLayer):
    """N recurrent layers; two-way ones read backwards too, each row from its end.

    `h_s = [f(x_s, h_{s-1}); g(x_s, h_{s+1})]`

    Masks: a padded step changes no state, on whichever side the padding is. A row
    of padding only has a state of zeros.

    Args:
        units: Width U of each direction's state.
        cell: `"gru"` or `"lstm"`.
        num_layers: Number of layers.
        bidirectional: Whether the layers read in both directions.
        dropout: Dropout rate of each layer's inputs but the first's.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, S, E).
        mask: (B, S), `True` for tokens; also `padding_mask`.
        training: Whether dropout is applied.

    Returns:
        The outputs of the last layer (B, S, U or 2 U), and a list of each layer's
        last states (B, U): h for GRU, h and c for LSTM, then the same of the
        backward direction, which ends at the first token.

    Raises:
        ValueError: A size or rate out of range, an unknown cell.

    Source: Sutskever et al. 2014, https://arxiv.org/abs/1409.3215; two-way:
    Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473 (chapter: 1)
    """

    mask_aliases = {"padding_mask": "mask", "inputs_mask": "mask"}

    def __init__(
        self,
        units: int,
        *,
        cell: str = "gru",
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        units = check_integer("units", units)
        num_layers = check_integer("num_layers", num_layers)
        check_choice("cell", cell, tuple(CELLS))
        check_number("dropout", dropout, at_least=0, below=1)
        self.units = units
        self.cell = cell
        self.num_layers = num_layers
        self.bidirectional = bool(bidirectional)
        self.dropout = dropout
        self.seed = seed
        self.recurrent_layers = []
        for index in range(num_layers):
            layer = make_recurrent(cell, units, index, self.dtype_policy)
            if bidirectional:
                layer = keras.layers.Bidirectional(
                    layer, name=layer.name, dtype=self.dtype_policy
                )
            self.recurrent_layers.append(layer)
        self.layer_dropouts = [
            keras.layers.Dropout(
                dropout,
                seed=shifted_seed(seed, index),
                name=f"dropout_{index}",
                dtype=self.dtype_policy,
            )
            for index in range(num_layers - 1)
        ]

    @property
    def output_width(self) -> int:
        """Width of the outputs."""
        return self.units * (2 if self.bidirectional else 1)

    def build(self, inputs_shape):
        check_axes("inputs", inputs_shape, VECTORS)
        width = inputs_shape[-1]
        for layer in self.recurrent_layers:
            layer.build((*inputs_shape[:2], width))
            width = self.output_width

    def call(self, inputs, mask=None, training=None):
        mask = masks.check_padding("mask", mask, inputs)
        x, states = inputs, []
        for index, layer in enumerate(self.recurrent_layers):
            if index:
                x = self.layer_dropouts[index - 1](x, training=training)
            x, *last = layer(x, mask=mask)
            states.append(last)
        return x, states

    def compute_output_shape(self, inputs_shape):
        state = (inputs_shape[0], self.units)
        directions = 2 if self.bidirectional else 1
        count = directions * (2 if self.cell == "lstm" else 1)
        outputs = (*inputs_shape[:2], self.output_width)
        return outputs, [[state] * count for _ in range(self.num_layers)]
