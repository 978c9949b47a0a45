"""A Transformer that reads: a vector for every token, and one for the text."""

import keras

from keras_transformer.layers.base import shifted_seed
from keras_transformer.layers.positional_embedding import (
    ENCODINGS,
    PositionalEmbedding,
)
from keras_transformer.layers.transformer_stack import TransformerStack
from keras_transformer.models.positioned_model import PositionedModel
from keras_transformer.models.settings import (
    STACK_SETTINGS,
    read_tokens,
    split_settings,
    token_positions,
)
from keras_transformer.ops.checks import check_choice, check_id, check_integer


class TextEncoder(PositionedModel):
    """An encoder of token ids: BERT and RoBERTa without a head are settings of it.

    `sequence_output = encoder(embedding(ids))`,
    `pooled_output = tanh(sequence_output[0] W + b)`

    Masks: `padding_mask` hides padding, on either side; positions count tokens
    only, so that a text has the same positions wherever its padding stands.

    Args:
        vocabulary_size: Number of token ids V.
        num_layers: Number of blocks.
        embed_dim: Width E of the token vectors.
        num_heads: Number of attention heads.
        dense_dim: Width inside the feed-forward parts.
        positions: `"learned"`, `"sinusoidal"`, or `None`: by `rotary` or
            `position_bias`.
        sequence_length: The longest text in tokens, for learned positions.
        position_offset: Row of the first learned position (RoBERTa:
            `pad_id + 1`).
        count_padding: Whether padding takes up positions, as in Hugging Face's
            BERT; it matters where padding stands before a token.
        num_segments: Number of segments (BERT: 2).
        embedding_norm: Whether a layer norm follows the embedding.
        pooler: Whether there is a `pooled_output`, of the first token.
        pad_id: The id that is padding where no mask is given; `None` for none.
        **settings: Every other setting of `TransformerStack` (`dropout`,
            `activation`, `layer_norm_epsilon`, ...), and `name`, `dtype`,
            `trainable`.

    Call arguments:
        inputs: Token ids (B, T), or a dict with `token_ids` and perhaps
            `padding_mask` and `segment_ids` (B, T).
        training: Whether dropout is applied.

    Returns:
        `{"sequence_output": (B, T, E), "pooled_output": (B, E)}`, the second only
        with `pooler`.

    Raises:
        ValueError: A size out of range, an unknown setting, a text longer than
            the learned positions.

    Example:

    >>> model = TextEncoder(100, num_layers=2, embed_dim=8, num_heads=2, dense_dim=16)
    >>> outputs = model(keras.ops.convert_to_tensor([[5, 6, 0]]))

    Source: Devlin et al. 2019, https://arxiv.org/abs/1810.04805 (text 2:
    encoder-only)
    """

    part_settings = STACK_SETTINGS
    part_with_settings = "encoder"

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        embed_dim: int,
        num_heads: int,
        dense_dim: int,
        *,
        positions: str | None = "learned",
        sequence_length: int | None = 512,
        position_offset: int = 0,
        count_padding: bool = False,
        num_segments: int = 0,
        embedding_norm: bool = True,
        pooler: bool = True,
        pad_id: int | None = 0,
        **settings,
    ):
        settings, common = split_settings(type(self), settings)
        super().__init__(autocast=False, **common)
        vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        check_choice("positions", positions, ENCODINGS)
        check_id("pad_id", pad_id, vocabulary_size, "vocabulary_size")
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dense_dim = dense_dim
        self.positions = positions
        self.sequence_length = sequence_length
        self.position_offset = position_offset
        self.count_padding = count_padding
        self.num_segments = num_segments
        self.embedding_norm = embedding_norm
        self.pooler = pooler
        self.pad_id = pad_id

        self.encoder = TransformerStack(
            num_layers,
            embed_dim,
            num_heads,
            dense_dim,
            name="encoder",
            dtype=self.dtype_policy,
            **settings,
        )
        self.embedding = PositionalEmbedding(
            sequence_length,
            vocabulary_size,
            embed_dim,
            encoding=positions,
            pad_id=None,  # masks are handed on by name
            position_offset=position_offset,
            num_segments=num_segments,
            layer_norm_epsilon=(
                self.encoder.layer_norm_epsilon if embedding_norm else None
            ),
            dropout=self.encoder.dropout,
            seed=shifted_seed(self.encoder.seed, 3 * num_layers),
            name="embedding",
            dtype=self.dtype_policy,
        )
        if pooler:
            self.first_token_pooler = keras.layers.Dense(
                embed_dim, activation="tanh", name="pooler", dtype=self.dtype_policy
            )

    def build(self, inputs_shape=None):
        vectors_shape = (None, None, self.embed_dim)
        self.embedding.build((None, None))
        self.encoder.build(vectors_shape)
        if self.pooler:
            self.first_token_pooler.build((None, self.embed_dim))

    def call(self, inputs, training=None):
        x = self.encode(inputs, training=training)
        outputs = {"sequence_output": x}
        if self.pooler:
            outputs["pooled_output"] = self.first_token_pooler(x[:, 0])
        return outputs

    def encode(self, inputs, training=None):
        """Return a vector (B, T, E) for every token of `inputs`, as in a call."""
        ids, mask = read_tokens(inputs, pad_id=self.pad_id)
        segments = inputs.get("segment_ids") if isinstance(inputs, dict) else None
        positions = token_positions(self, ids, None if self.count_padding else mask)
        # On JAX `fit` runs `call` alone, and layers learn of training from here only.
        x = self.embedding(
            ids, positions=positions, segment_ids=segments, training=training
        )
        return self.encoder(x, mask=mask, positions=positions, training=training)
