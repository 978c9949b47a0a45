"""The chapter's positional encoding: sines and cosines."""

import keras
from keras import ops

from keras_transformer.layers.base import BaseLayer, as_integers, check_positions
from keras_transformer.ops.checks import check_choice, check_number
from keras_transformer.ops.positions import sinusoids

LAYOUTS = ("interleaved", "concatenated")


class SinusoidalEncoding(BaseLayer):
    """Add sines and cosines of the position to a sequence of vectors.

    `outputs[p] = inputs[p] + PE[p]`,
    `PE[p, 2i] = sin(p / max_wavelength**(2i / E))`,
    `PE[p, 2i + 1] = cos(p / max_wavelength**(2i / E))`

    It has no weights and takes sequences of any length. Masks: passed on.

    Args:
        layout: `"interleaved"` as above, or `"concatenated"`: all sines, then all
            cosines.
        max_wavelength: The longest period is 2 pi times this.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, T, E).
        start_index: Position of the first vector.
        positions: Integers (T,) or (B, T), in place of `start_index`.

    Returns:
        (B, T, E).

    Raises:
        ValueError: An unknown layout.

    Example:

    >>> encode = SinusoidalEncoding()
    >>> outputs = encode(keras.ops.zeros((1, 3, 8)))

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 10)
    """

    def __init__(
        self, *, layout: str = "interleaved", max_wavelength: float = 10000, **kwargs
    ):
        super().__init__(**kwargs)
        check_choice("layout", layout, LAYOUTS)
        check_number("max_wavelength", max_wavelength, above=0)
        self.layout = layout
        self.max_wavelength = max_wavelength

    def build(self, inputs_shape):
        if len(inputs_shape) != 3:
            raise ValueError(
                "The encoding is added to vectors (batch, time, width). Received shape "
                f"{tuple(inputs_shape)}. Embed token ids first."
            )
        self.input_spec = keras.layers.InputSpec(ndim=3)  # of later calls too

    def call(self, inputs, start_index=0, positions=None):
        if positions is None:
            start = as_integers("start_index", start_index)
            positions = start + ops.arange(ops.shape(inputs)[1], dtype="int32")
        table = sinusoids(
            check_positions(positions, inputs),
            inputs.shape[-1],
            layout=self.layout,
            max_wavelength=self.max_wavelength,
        )
        return inputs + ops.cast(table, inputs.dtype)

    def compute_output_shape(self, inputs_shape):
        return tuple(inputs_shape)
