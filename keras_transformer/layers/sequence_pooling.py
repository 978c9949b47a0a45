"""From a sequence of vectors to one, padding left out."""

import keras
from keras import ops

from keras_transformer.layers.base import VECTORS, BaseLayer, check_axes, full_dtype
from keras_transformer.ops import masks
from keras_transformer.ops.checks import check_choice


class SequencePooling(BaseLayer):
    """Turn the vectors of a sequence into one vector.

    `mean: sum_t m_t x_t / max(1, sum_t m_t)`, `max: max over t with m_t = 1`,
    `first: x_t of the first t with m_t = 1`

    With `"mean"` it is `keras.layers.GlobalAveragePooling1D`, except that a
    sequence without a single token gives zeros rather than NaN.

    Masks: padding is left out. The output has no mask.

    Args:
        mode: `"mean"`, `"max"` or `"first"`.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, T, E).
        mask: (B, T), `True` for tokens; also `padding_mask`.

    Returns:
        (B, E).

    Raises:
        ValueError: An unknown mode, a mask of another shape or an additive one.

    Example:

    >>> pool = SequencePooling("max")
    >>> vectors = pool(keras.ops.ones((2, 3, 8)))

    Source: the chapter's section 12 (mean); Devlin et al. 2019,
    https://arxiv.org/abs/1810.04805 (first)
    """

    mask_aliases = {"padding_mask": "mask", "inputs_mask": "mask"}

    def __init__(self, mode: str = "mean", **kwargs):
        super().__init__(**kwargs)
        check_choice("mode", mode, ("mean", "max", "first"))
        self.mode = mode

    def build(self, inputs_shape):
        check_axes("inputs", inputs_shape, VECTORS)
        self.input_spec = keras.layers.InputSpec(ndim=3)  # of later calls too

    def call(self, inputs, mask=None, inputs_mask=None):
        mask = inputs_mask if mask is None else mask
        if mask is None:
            mask = ops.ones(ops.shape(inputs)[:2], "bool")
        tokens = masks.check_padding("padding_mask", mask, inputs)[:, :, None]
        zeros = ops.zeros_like(inputs)
        if self.mode == "mean":
            # Half precision cannot count beyond 2048 (float16) or 256 (bfloat16).
            dtype = full_dtype(inputs.dtype)
            total = ops.sum(ops.cast(ops.where(tokens, inputs, zeros), dtype), axis=1)
            count = ops.sum(ops.cast(tokens, dtype), axis=1)  # (B, 1)
            return ops.cast(total / ops.maximum(count, 1.0), inputs.dtype)
        if self.mode == "max":
            lowest = ops.min(inputs, axis=1, keepdims=True)
            pooled = ops.max(ops.where(tokens, inputs, lowest), axis=1)
        else:
            first = ops.argmax(ops.cast(tokens, "int32"), axis=1)  # (B, 1)
            pooled = ops.take_along_axis(inputs, first[:, :, None], axis=1)[:, 0]
        return ops.where(ops.any(tokens, axis=1), pooled, zeros[:, 0])

    def compute_mask(self, inputs, previous_mask=None):
        return None

    def compute_output_shape(self, inputs_shape):
        return (inputs_shape[0], inputs_shape[-1])
