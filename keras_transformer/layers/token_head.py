"""The last layer of a model that predicts tokens."""

import keras
from keras import ops

from keras_transformer.layers.base import BaseLayer, full_dtype
from keras_transformer.ops.checks import check_integer, check_number
from keras_transformer.ops.projection import project


class TokenHead(BaseLayer):
    """Give every token of the vocabulary a score, its logit.

    `logits = scale * x W + b`; tied: `W` is the transposed token table

    Masks: passed on.

    Args:
        vocabulary_size: Number of token ids V.
        token_embedding: The `keras.layers.ReversibleEmbedding` to which the head
            is tied; a projection of its own if not given. For a functional model
            that is to be saved make it first, and pass it as `shared_embedding` of
            the `PositionalEmbedding` too: so Keras knows that the two share it.
        use_bias: Whether there is a bias b.
        scale: Factor of the inputs; T5 1.0, whose head is tied, has
            `embed_dim**-0.5`.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, T, E).

    Returns:
        Logits (B, T, V) in float32, whatever the dtype policy (float64 under
        float64).

    Raises:
        ValueError: A size out of range, a table of another vocabulary.

    Example:

    >>> head = TokenHead(vocabulary_size=100)
    >>> logits = head(keras.ops.ones((1, 3, 8)))

    Source: Press and Wolf 2017, https://arxiv.org/abs/1608.05859 (tied)
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        token_embedding=None,
        use_bias: bool = False,
        scale: float | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        if scale is not None:
            check_number("scale", scale, above=0)
        self.vocabulary_size = vocabulary_size
        self.token_embedding = token_embedding
        self.use_bias = use_bias
        self.scale = scale
        if token_embedding is None:
            self.projection = keras.layers.Dense(
                vocabulary_size,
                use_bias=False,
                name="projection",
                dtype=self.dtype_policy,
            )
        elif getattr(token_embedding, "input_dim", None) != vocabulary_size:
            raise ValueError(
                "`token_embedding` must be a keras.layers.ReversibleEmbedding of "
                f"vocabulary_size={vocabulary_size} tokens. Received: "
                f"{token_embedding!r}."
            )
        else:
            token_embedding.supports_masking = True  # else it warns of lost masks

    def build(self, inputs_shape):
        if self.token_embedding is None:
            self.projection.build(inputs_shape)
        elif not self.token_embedding.built:
            self.token_embedding.build(inputs_shape[:-1])
        if self.use_bias:
            self.bias = self.add_weight(
                shape=(self.vocabulary_size,),
                initializer="zeros",
                name="bias",
                autocast=False,
            )

    def call(self, inputs):
        if self.scale is not None:
            inputs = inputs * self.scale
        if self.token_embedding is None:
            logits = project(self.projection, inputs)
        else:
            logits = project(self.token_embedding, inputs, reverse=True)
        # (B, T, E) -> (B, T, V), in at least float32 for the loss and the search
        logits = ops.cast(logits, full_dtype(self.compute_dtype))
        return logits + ops.cast(self.bias, logits.dtype) if self.use_bias else logits

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape[:-1], self.vocabulary_size)
