"""The additive attention of 2015."""

import keras

from keras_transformer.layers.single_head_attention import SingleHeadAttention
from keras_transformer.ops.attention import additive_scores
from keras_transformer.ops.checks import check_integer


class BahdanauAttention(SingleHeadAttention):
    """Additive attention: a small network scores each pair of query and key.

    `score(q, k) = v . tanh(W_q q + W_k k)`, `weights = softmax(score)`,
    `context = weights @ value`

    With different sequences as query and value it is cross-attention (the 2015
    translator's soft alignment), with one sequence self-attention.

    Masks: only keys are masked. `True` = may attend. The output carries the
    mask of `query`.

    Args:
        units: Width U of the scoring network.
        dropout: Dropout rate of the weights.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        query: (B, T, Eq), such as the decoder's states.
        value: (B, S, Ev), such as the encoder's outputs.
        key: (B, S, Ek); `value` if not given.
        query_mask: (B, T); only handed on to the output. (As `mask` too, the name by
            which Keras hands it on.)
        value_mask: (B, S), `True` for tokens.
        key_mask: (B, S), combined with `value_mask`.
        attention_mask: (B, T, S).
        projected_key: (B, S, U), in place of `key`: what `project_keys` made of
            the keys, once for many calls.
        return_attention_scores: Whether to return the weights (alignments) too.
        training: Whether dropout is applied.

    Returns:
        The context (B, T, Ev), and the weights (B, T, S) if asked for.

    Raises:
        ValueError: A size or rate out of range, a mask of another shape or an
            additive one.

    Example:

    >>> attention = BahdanauAttention(units=4)
    >>> context = attention(keras.ops.ones((1, 3, 8)), keras.ops.ones((1, 5, 6)))

    Source: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473 (chapter: 1, 3)
    """

    def __init__(
        self,
        units: int,
        *,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        units = check_integer("units", units)
        self.units = units
        self.query = keras.layers.Dense(
            units, use_bias=False, name="query", dtype=self.dtype_policy
        )
        self.key = keras.layers.Dense(
            units, use_bias=False, name="key", dtype=self.dtype_policy
        )

    def build(self, query_shape, value_shape, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        self.query.build(query_shape)
        self.key.build(value_shape if key_shape is None else key_shape)
        self.score_weight = self.add_weight(
            name="score_weight", shape=(self.units,), initializer="glorot_uniform"
        )

    def scores(self, query, key):
        """Return the scores (B, T, S) of queries (B, T, Eq) and keys (B, S, Ek)."""
        return self.projected_scores(query, self.project_keys(key))

    def project_keys(self, key):
        """Return what the scores need of keys (B, S, Ek): W_k k, (B, S, U)."""
        return self.key(key)

    def projected_scores(self, query, projected_key):
        """Return the scores (B, T, S) of queries and projected keys."""
        return additive_scores(self.query(query), projected_key, self.score_weight)
