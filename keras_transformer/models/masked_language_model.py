"""BERT's training task: guess the tokens that were hidden from a text."""

import keras
from keras import ops

from keras_transformer.layers.base import as_integers
from keras_transformer.layers.feed_forward import get_activation
from keras_transformer.layers.token_head import TokenHead
from keras_transformer.models.settings import keyword_only
from keras_transformer.models.text_encoder import TextEncoder


class MaskedLanguageModel(TextEncoder):
    """A `TextEncoder` with a head that predicts the token at each place.

    `logits = head(norm(activation(sequence_output W + b)))`

    Args:
        vocabulary_size: Number of token ids V.
        num_layers: Number of blocks.
        embed_dim: Width E of the token vectors.
        num_heads: Number of attention heads.
        dense_dim: Width inside the feed-forward parts.
        tie_head: Whether the head is the transposed token table.
        head_activation: Activation between the encoder and the head; the
            encoder's if not given.
        **settings: Every other setting of `TextEncoder` and of
            `TransformerStack`, and `name`, `dtype`, `trainable`. There is no
            pooler unless asked for, since the loss does not reach it.

    Call arguments:
        inputs: As `TextEncoder`. A dict may also have `mask_positions` (B, P), the
            places that are asked for: training predicts the hidden tokens alone, and
            spares the rest of the logits.
        training: Whether dropout is applied.

    Returns:
        Logits (B, T, V) in float32 (float64 under float64); (B, P, V) with
        `mask_positions`.

    Raises:
        ValueError: As `TextEncoder`.

    Example:

    >>> model = MaskedLanguageModel(100, 2, embed_dim=8, num_heads=2, dense_dim=16)
    >>> logits = model(keras.ops.convert_to_tensor([[5, 6, 0]]))

    Source: Devlin et al. 2019, https://arxiv.org/abs/1810.04805
    """

    part_settings = tuple(
        name
        for name in (*keyword_only(TextEncoder), *TextEncoder.part_settings)
        if name != "pooler"
    )

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        embed_dim: int,
        num_heads: int,
        dense_dim: int,
        *,
        tie_head: bool = True,
        head_activation=None,
        **settings,
    ):
        if "pooler" in settings:
            raise ValueError(
                "MaskedLanguageModel has no setting 'pooler', since its loss would "
                "not reach it. TextEncoder has one."
            )
        super().__init__(
            vocabulary_size,
            num_layers,
            embed_dim,
            num_heads,
            dense_dim,
            pooler=False,
            **settings,
        )
        self.tie_head = tie_head
        if head_activation is not None:
            head_activation = get_activation(head_activation, "head_activation")
        self.head_activation = head_activation
        self.head_dense = keras.layers.Dense(
            embed_dim,
            activation=head_activation or self.encoder.activation,
            name="head_dense",
            dtype=self.dtype_policy,
        )
        self.head_norm = self.encoder.blocks[0].make_norm("head_norm")
        self.head = TokenHead(
            vocabulary_size,
            token_embedding=self.embedding.token_embedding if tie_head else None,
            use_bias=True,
            name="head",
            dtype=self.dtype_policy,
        )

    def build(self, inputs_shape=None):
        super().build(inputs_shape)
        vectors_shape = (None, None, self.embed_dim)
        self.head_dense.build(vectors_shape)
        self.head_norm.build(vectors_shape)
        self.head.build(vectors_shape)

    def call(self, inputs, training=None):
        x = self.encode(inputs, training=training)  # (B, T, E)
        if isinstance(inputs, dict) and inputs.get("mask_positions") is not None:
            places = as_integers("mask_positions", inputs["mask_positions"])
            x = ops.take_along_axis(x, places[..., None], axis=1)  # (B, P, E)
        return self.head(self.head_norm(self.head_dense(x)))
