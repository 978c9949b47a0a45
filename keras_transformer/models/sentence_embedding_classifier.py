"""The classifier of 2017: a sentence read from several points of view."""

import keras
from keras import layers

from keras_transformer.layers.recurrent_encoder import RecurrentEncoder
from keras_transformer.layers.self_attentive_embedding import SelfAttentiveEmbedding
from keras_transformer.models.text_classifier import (
    check_pad_id,
    class_probabilities,
)
from keras_transformer.ops.checks import check_integer, check_name, check_number


def build_sentence_embedding_classifier(
    vocabulary_size: int,
    embed_dim: int,
    lstm_units: int,
    num_hops: int,
    attention_dim: int = 350,
    *,
    penalty: float = 0.0,
    num_classes: int = 1,
    dropout: float = 0.0,
    pad_id: int = 0,
    name: str | None = None,
) -> keras.Model:
    """Build the self-attentive sentence classifier of the chapter's section 2.

    `ids -> embedding -> H = bidirectional LSTM -> M = A H -> dense`

    Args:
        vocabulary_size: Number of token ids V.
        embed_dim: Width d of the word vectors.
        lstm_units: Width u of each direction; H is 2u wide.
        num_hops: Number of points of view r.
        attention_dim: Width d_a of the annotation's first layer.
        penalty: Factor of `||A A^T - I||_F^2` in the loss.
        num_classes: 1 for one probability (sigmoid), n > 1 for n (softmax).
        dropout: Dropout rate of the word vectors and of M.
        pad_id: The id that is padding.
        name: Name of the model.

    Returns:
        A functional model from ids (B, T) to probabilities (B, num_classes) in
        float32, whatever the dtype policy (float64 under float64).

    Raises:
        ValueError: A size or rate out of range.

    Example:

    >>> model = build_sentence_embedding_classifier(1000, 8, 4, num_hops=3)
    >>> probabilities = model(keras.ops.convert_to_tensor([[5, 6, 0]]))

    Source: Lin et al. 2017, https://arxiv.org/abs/1703.03130 (chapter: 2)
    """
    check_name(name)
    vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
    embed_dim = check_integer("embed_dim", embed_dim)
    lstm_units = check_integer("lstm_units", lstm_units)
    num_classes = check_integer("num_classes", num_classes)
    check_number("dropout", dropout, at_least=0, below=1)
    check_pad_id(pad_id, vocabulary_size)

    ids = keras.Input((None,), dtype="int32", name="ids")
    x = layers.Embedding(
        vocabulary_size, embed_dim, mask_zero=pad_id == 0, name="embedding"
    )(ids)
    # Keras's Embedding knows no padding other than 0.
    mask = None if pad_id == 0 else ids != pad_id
    if dropout:
        x = layers.Dropout(dropout, name="embedding_dropout")(x)
    lstm = RecurrentEncoder(lstm_units, cell="lstm", bidirectional=True, name="lstm")
    x, _ = lstm(x, mask=mask)  # H: (B, T, 2u)
    x = SelfAttentiveEmbedding(
        num_hops, attention_dim, penalty=penalty, name="sentence_embedding"
    )(x, mask=mask)  # M: (B, r, 2u)
    x = layers.Flatten(name="flatten")(x)
    if dropout:
        x = layers.Dropout(dropout, name="dropout")(x)
    outputs = class_probabilities(num_classes)(x)
    return keras.Model(ids, outputs, name=name or "sentence_embedding_classifier")
