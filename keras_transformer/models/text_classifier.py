"""The text classifier of the chapter's section 12."""

import keras
from keras import layers

from keras_transformer.layers.base import full_dtype
from keras_transformer.layers.positional_embedding import (
    ENCODINGS,
    PositionalEmbedding,
)
from keras_transformer.layers.sequence_pooling import SequencePooling
from keras_transformer.layers.transformer_encoder import TransformerEncoder
from keras_transformer.ops.checks import (
    check_choice,
    check_id,
    check_integer,
    check_name,
    check_number,
)


def build_text_classifier(
    vocabulary_size: int,
    embed_dim: int,
    num_heads: int,
    dense_dim: int,
    *,
    num_layers: int = 1,
    num_classes: int = 1,
    positions: str | None = None,
    sequence_length: int = 512,
    pooling: str = "mean",
    dropout: float = 0.0,
    normalize_first: bool = False,
    pad_id: int = 0,
    name: str | None = None,
) -> keras.Model:
    """Build a Transformer that classifies texts given as token ids.

    `ids -> embedding -> encoders -> pooling -> dense`

    At its defaults it is, layer for layer, the chapter's `build_model`: one
    encoder, no positions, the mean of the tokens, one sigmoid.

    Args:
        vocabulary_size: Number of token ids V.
        embed_dim: Width E of the token vectors.
        num_heads: Number of attention heads.
        dense_dim: Width inside the encoders' feed-forward part.
        num_layers: Number of encoders.
        num_classes: 1 for one probability (sigmoid), n > 1 for n probabilities
            (softmax).
        positions: `None` (a bag of tokens in context), `"learned"` or
            `"sinusoidal"`.
        sequence_length: The longest text in tokens, for learned positions.
        pooling: `"mean"`, `"max"` or `"first"`.
        dropout: Dropout rate, in the encoders and before the last layer.
        normalize_first: Pre-norm encoders, and a norm after the last.
        pad_id: The id that is padding.
        name: Name of the model.

    Returns:
        A functional model from ids (B, T) to probabilities (B, num_classes) in
        float32, whatever the dtype policy (float64 under float64).

    Raises:
        ValueError: A size or rate out of range, an unknown word for `positions`
            or `pooling`.

    Example:

    >>> model = build_text_classifier(1000, 16, num_heads=2, dense_dim=32)
    >>> probabilities = model(keras.ops.convert_to_tensor([[5, 6, 0]]))

    Source: the chapter's section 12
    """
    check_name(name)
    vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
    embed_dim = check_integer("embed_dim", embed_dim)
    num_layers = check_integer("num_layers", num_layers)
    num_classes = check_integer("num_classes", num_classes)
    sequence_length = check_integer("sequence_length", sequence_length)
    check_number("dropout", dropout, at_least=0, below=1)
    check_pad_id(pad_id, vocabulary_size)
    check_choice("positions", positions, ENCODINGS)
    check_choice("pooling", pooling, ("mean", "max", "first"))

    ids = keras.Input((None,), dtype="int32", name="ids")
    if positions is None:
        embedding = layers.Embedding(
            vocabulary_size, embed_dim, mask_zero=pad_id == 0, name="embedding"
        )
    else:
        embedding = PositionalEmbedding(
            sequence_length,
            vocabulary_size,
            embed_dim,
            encoding=positions,
            pad_id=pad_id,
            name="embedding",
        )
    x = embedding(ids)
    # Keras's Embedding knows no padding other than 0.
    masked = {} if positions or pad_id == 0 else {"padding_mask": ids != pad_id}
    for index in range(num_layers):
        x = TransformerEncoder(
            embed_dim,
            num_heads,
            dense_dim,
            dropout=dropout,
            normalize_first=normalize_first,
            name=f"encoder_{index}",
        )(x, **masked)
    if normalize_first:
        x = layers.LayerNormalization(epsilon=1e-3, name="final_norm")(x)
    x = SequencePooling(pooling, name="pooling")(x)
    if dropout:
        x = layers.Dropout(dropout, name="dropout")(x)
    outputs = class_probabilities(num_classes)(x)
    return keras.Model(ids, outputs, name=name or "text_classifier")


def class_probabilities(num_classes: int) -> layers.Dense:
    """Return the last layer of a classifier, in at least float32 for the loss."""
    activation = "sigmoid" if num_classes == 1 else "softmax"
    dtype = full_dtype(keras.config.dtype_policy().compute_dtype)
    return layers.Dense(
        num_classes, activation=activation, dtype=dtype, name="probabilities"
    )


def check_pad_id(pad_id: int, vocabulary_size: int):
    """Refuse a padding id that is no token id."""
    check_id("pad_id", pad_id, vocabulary_size, "vocabulary_size", optional=False)
