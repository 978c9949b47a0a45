"""The fully connected part of a Transformer block."""

import keras

from keras_transformer.layers.base import BaseLayer
from keras_transformer.ops.checks import check_integer
from keras_transformer.ops.projection import project


class FeedForward(BaseLayer):
    """Two dense layers applied to each position by itself.

    `outputs = activation(x W_1 + b_1) W_2 + b_2`; gated:
    `outputs = (activation(x W_g + b_g) * (x W_1 + b_1)) W_2 + b_2`

    Masks: passed on unchanged.

    Args:
        embed_dim: Width E of the outputs.
        dense_dim: Width D between the two layers.
        activation: Name or function. `"gelu"` is the exact one (BERT, BART),
            `"gelu_tanh"` its tanh form (GPT-2, T5 1.1).
        gated: Whether a second projection gates the first (GLU variants).
        use_bias: Whether the layers have biases.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, T, ...).

    Returns:
        (B, T, E).

    Raises:
        ValueError: A size out of range, an unknown activation.

    Example:

    >>> feed_forward = FeedForward(embed_dim=8, dense_dim=16)
    >>> outputs = feed_forward(keras.ops.ones((1, 3, 8)))

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 9);
    gated: Shazeer 2020, https://arxiv.org/abs/2002.05202
    """

    def __init__(
        self,
        embed_dim: int,
        dense_dim: int,
        *,
        activation="relu",
        gated: bool = False,
        use_bias: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        embed_dim = check_integer("embed_dim", embed_dim)
        dense_dim = check_integer("dense_dim", dense_dim)
        self.embed_dim = embed_dim
        self.dense_dim = dense_dim
        self.activation = get_activation(activation)
        self.gated = gated
        self.use_bias = use_bias
        inner = None if gated else self.activation
        self.intermediate = self._dense("intermediate", dense_dim, inner)
        if gated:
            self.gate = self._dense("gate", dense_dim, self.activation)
        self.feed_forward_output = self._dense("feed_forward_output", embed_dim)

    def build(self, inputs_shape):
        inner_shape = (*inputs_shape[:-1], self.dense_dim)
        self.intermediate.build(inputs_shape)
        if self.gated:
            self.gate.build(inputs_shape)
        self.feed_forward_output.build(inner_shape)

    def call(self, inputs):
        hidden = project(self.intermediate, inputs)  # (B, T, E) -> (B, T, D)
        if self.gated:
            hidden = project(self.gate, inputs) * hidden
        return project(self.feed_forward_output, hidden)

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape[:-1], self.embed_dim)

    def _dense(self, name, width, activation=None):
        return keras.layers.Dense(
            width,
            activation=activation,
            use_bias=self.use_bias,
            name=name,
            dtype=self.dtype_policy,
        )


@keras.saving.register_keras_serializable(package="keras_transformer")
def gelu_tanh(x):
    """GELU in its tanh form, as GPT-2 and T5 1.1 have it (`gelu_new`)."""
    return keras.activations.gelu(x, approximate=True)


def get_activation(activation, name: str = "activation"):
    """Return an activation function, or say which name is unknown."""
    if activation == "gelu_tanh":
        return gelu_tanh
    try:
        return keras.activations.get(activation)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"`{name}` must be 'gelu_tanh', the name of a Keras activation or a "
            f"function. Received: {name}={activation!r}."
        ) from error
