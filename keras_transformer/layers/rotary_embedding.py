"""Rotary position embedding: positions as turns of queries and keys."""

import keras
from keras import ops

from keras_transformer.layers.base import BaseLayer, check_axes, check_positions
from keras_transformer.ops.checks import check_choice, check_number
from keras_transformer.ops.positions import rotary_angles, rotate


class RotaryEmbedding(BaseLayer):
    """Turn each pair of features by an angle that grows with the position.

    `(x_i, x_j) -> (x_i cos a - x_j sin a, x_i sin a + x_j cos a)`,
    `a = position * max_wavelength**(-2i / H)`

    The score of a query and a key then depends on the distance between their
    positions only. Pass it as `rotary=` to an attention layer or block.

    Args:
        max_wavelength: The base of the frequencies (`rope_theta`).
        layout: `"half"` pairs feature i with i + H / 2, as checkpoints in
            Hugging Face's format do; `"interleaved"` pairs 2i with 2i + 1.
        scaling: `None`, `{"type": "linear", "factor": f}`, or `{"type": "llama3",
            "factor", "low_freq_factor", "high_freq_factor",
            "original_max_position_embeddings"}`, to reach beyond the trained
            length.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Queries or keys (B, T, N, H).
        positions: Integers (T,) or (B, T); 0, 1, ... if not given.

    Returns:
        (B, T, N, H).

    Raises:
        ValueError: An odd head size, an unknown layout or scaling.

    Example:

    >>> rotary = RotaryEmbedding()
    >>> turned = rotary(keras.ops.ones((1, 3, 2, 4)))

    Source: Su et al. 2021, https://arxiv.org/abs/2104.09864
    """

    def __init__(
        self,
        *,
        max_wavelength: float = 10000,
        layout: str = "half",
        scaling: dict | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_choice("layout", layout, ("half", "interleaved"))
        check_number("max_wavelength", max_wavelength, above=0)
        if scaling is not None:
            _check_scaling(scaling)
        self.max_wavelength = max_wavelength
        self.layout = layout
        self.scaling = scaling

    def build(self, inputs_shape):
        check_axes("inputs", inputs_shape, ("batch", "time", "heads", "head size"))
        self.input_spec = keras.layers.InputSpec(ndim=4)  # of later calls too
        if inputs_shape[-1] % 2:
            raise ValueError(
                "Rotary embedding turns pairs of features and needs an even head "
                f"size. Received inputs of shape {tuple(inputs_shape)}."
            )

    def call(self, inputs, positions=None):
        if positions is None:
            positions = ops.arange(ops.shape(inputs)[1], dtype="int32")
        angles = rotary_angles(
            check_positions(positions, inputs),
            inputs.shape[-1],
            max_wavelength=self.max_wavelength,
            scaling=self.scaling,
        )
        return rotate(inputs, angles, self.layout)

    def compute_output_shape(self, inputs_shape, positions_shape=None):
        return tuple(inputs_shape)


_SCALING_FIELDS = {
    "linear": {"factor"},
    "llama3": {
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    },
}


def _check_scaling(scaling):
    kind = scaling.get("type") if isinstance(scaling, dict) else None
    if kind not in _SCALING_FIELDS or set(scaling) - {"type"} != _SCALING_FIELDS[kind]:
        raise ValueError(
            "`scaling` must be a dict with 'type' and its fields: "
            f"{ {kind: sorted(fields) for kind, fields in _SCALING_FIELDS.items()} }. "
            f"Received: scaling={scaling!r}."
        )
    for name in _SCALING_FIELDS[kind]:
        check_number(f"scaling[{name!r}]", scaling[name], above=0)
    if kind == "llama3" and scaling["low_freq_factor"] >= scaling["high_freq_factor"]:
        raise ValueError(
            "`scaling['low_freq_factor']` must be below 'high_freq_factor': what lies "
            f"between the two is blended. Received: scaling={scaling!r}."
        )
