"""What the two attentions of 2015 share: all but their scores."""

import keras

from keras_transformer.layers.base import (
    VECTORS,
    BaseLayer,
    check_axes,
    check_sources,
)
from keras_transformer.ops import masks
from keras_transformer.ops.attention import attend
from keras_transformer.ops.checks import check_number


class SingleHeadAttention(BaseLayer):
    """Base of attentions with one head: subclasses say how to score.

    A subclass has `scores(query, key)`, and the same in two parts: what depends on
    the keys alone, `project_keys(key)`, and the rest, `projected_scores`.

    `weights = softmax(scores(query, key))`, `context = weights @ value`

    Args:
        dropout: Dropout rate of the weights.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.
    """

    mask_aliases = {"query_mask": "mask"}

    def __init__(self, *, dropout: float = 0.0, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        check_number("dropout", dropout, at_least=0, below=1)
        self.dropout = dropout
        self.seed = seed
        self.attention_dropout = keras.layers.Dropout(
            dropout, seed=seed, name="attention_dropout", dtype=self.dtype_policy
        )

    def build(self, query_shape, value_shape, key_shape=None):
        check_axes("query", query_shape, VECTORS)
        check_axes("value", value_shape, VECTORS)
        check_axes("key", key_shape, VECTORS)

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        projected_key=None,
        return_attention_scores=False,
        training=None,
        mask=None,  # `query_mask`, under the name from which Keras hands it on
    ):
        score = self.scores
        if projected_key is not None:
            if key is not None:
                raise ValueError(
                    "`projected_key` stands in place of `key`. Received both. Leave "
                    "one of them out."
                )
            key, score = projected_key, self.projected_scores
        check_sources(query, value, key)
        mask = masks.combine_masks(
            masks.key_padding(value, value_mask=value_mask, key_mask=key_mask),
            masks.pair_mask(attention_mask, query, value, ranks=(3,)),
        )
        context, weights = attend(
            query,
            value if key is None else key,
            value,
            score=score,
            mask=None if mask is None else mask[:, 0],  # one head: (B, T, S)
            dropout=self.attention_dropout if self.dropout and training else None,
            return_weights=return_attention_scores,
            layer=self,
            sources=(query, value),
        )
        return (context, weights) if return_attention_scores else context

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        return (*query_shape[:2], value_shape[-1])
