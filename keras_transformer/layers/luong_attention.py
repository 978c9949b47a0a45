"""The multiplicative attention of 2015, in its three forms."""

from keras import ops

from keras_transformer.layers.single_head_attention import SingleHeadAttention
from keras_transformer.ops.attention import (
    additive_scores,
    concat_scores,
    dot_product_scores,
    general_scores,
)
from keras_transformer.ops.checks import check_choice, check_integer


class LuongAttention(SingleHeadAttention):
    """Multiplicative attention: queries and keys meet in a dot product.

    `dot: q . k`, `general: q W k`, `concat: v . tanh(W [q; k])`;
    `weights = softmax(score)`, `context = weights @ value`

    With different sequences as query and value it is cross-attention, with one
    sequence self-attention. The scores are not scaled.

    Masks: only keys are masked. `True` = may attend. The output carries the
    mask of `query`.

    Args:
        score: `"dot"` (equal widths), `"general"` (any widths, one matrix) or
            `"concat"` (a small network).
        units: Width of the network of `"concat"`; the query's width if not
            given.
        dropout: Dropout rate of the weights.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        query: (B, T, Eq).
        value: (B, S, Ev).
        key: (B, S, Ek); `value` if not given.
        query_mask: (B, T); only handed on to the output. (As `mask` too, the name by
            which Keras hands it on.)
        value_mask: (B, S), `True` for tokens.
        key_mask: (B, S), combined with `value_mask`.
        attention_mask: (B, T, S).
        projected_key: (B, S, Eq or U), in place of `key`: what `project_keys` made
            of the keys, once for many calls.
        return_attention_scores: Whether to return the weights (alignments) too.
        training: Whether dropout is applied.

    Returns:
        The context (B, T, Ev), and the weights (B, T, S) if asked for.

    Raises:
        ValueError: An unknown score, widths that cannot meet in `"dot"`, a mask
            of another shape or an additive one.

    Example:

    >>> attention = LuongAttention("general")
    >>> context = attention(keras.ops.ones((1, 3, 8)), keras.ops.ones((1, 5, 6)))

    Source: Luong et al. 2015, https://arxiv.org/abs/1508.04025 (chapter: 3)
    """

    def __init__(
        self,
        score: str = "dot",
        *,
        units: int | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        check_choice("score", score, ("dot", "general", "concat"))
        units = check_integer("units", units, optional=True)
        if units is not None and score != "concat":
            raise ValueError(
                "`units` is the width of the network that only score='concat' has. "
                f"Received: units={units}, score={score!r}."
            )
        self.score = score
        self.units = units

    def build(self, query_shape, value_shape, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        key_shape = value_shape if key_shape is None else key_shape
        query_width, key_width = query_shape[-1], key_shape[-1]
        if self.score == "dot" and query_width != key_width:
            raise ValueError(
                "score='dot' needs queries and keys of one width. Received queries of "
                f"width {query_width} and keys of width {key_width}. Use "
                "score='general', which puts a matrix between them."
            )
        if self.score == "general":
            self.kernel = self.add_weight(name="kernel", shape=(query_width, key_width))
        if self.score == "concat":
            units = self.units or query_width
            self.kernel = self.add_weight(
                name="kernel", shape=(query_width + key_width, units)
            )
            self.score_weight = self.add_weight(name="score_weight", shape=(units,))

    def scores(self, query, key):
        """Return the scores (B, T, S) of queries (B, T, Eq) and keys (B, S, Ek)."""
        if self.score == "general":
            return general_scores(query, key, self.kernel)
        if self.score == "concat":
            return concat_scores(query, key, self.kernel, self.score_weight)
        return self.projected_scores(query, key)

    def project_keys(self, key):
        """Return what the scores need of keys (B, S, Ek).

        `dot: k`, `general: W k`, `concat: W_k k`
        """
        if self.score == "general":
            return ops.einsum("bsf,ef->bse", key, ops.cast(self.kernel, key.dtype))
        if self.score == "concat":
            kernel = ops.cast(self.kernel, key.dtype)[-key.shape[-1] :]
            return ops.einsum("bse,eu->bsu", key, kernel)
        return key

    def projected_scores(self, query, projected_key):
        """Return the scores (B, T, S) of queries and projected keys."""
        if self.score == "concat":
            kernel = ops.cast(self.kernel, query.dtype)[: query.shape[-1]]
            query = ops.einsum("bte,eu->btu", query, kernel)
            return additive_scores(query, projected_key, self.score_weight)
        query, key = query[:, :, None], projected_key[:, :, None]
        return dot_product_scores(query, key, scale=1.0)[:, 0]
