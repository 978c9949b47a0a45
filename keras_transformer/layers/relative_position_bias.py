"""T5's relative position bias: a learned number for each bucket of distance."""

import keras
from keras import ops

from keras_transformer.layers.base import BaseLayer, as_integers
from keras_transformer.ops.checks import check_integer
from keras_transformer.ops.positions import (
    relative_buckets,
    relative_positions,
    relative_positions_shape,
)


class RelativePositionBias(BaseLayer):
    """Add a learned bias to the scores, by head and bucket of key - query.

    `bias[n, t, s] = table[bucket(s - t), n]`

    One table serves all blocks of a stack: the bias is computed once and handed
    to every block.

    Args:
        num_heads: Number of heads N.
        num_buckets: Number of buckets.
        max_distance: Distances from here on share one bucket.
        bidirectional: Whether keys after the query have buckets of their own;
            `False` in decoders.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        query_positions: Integers (T,) or (B, T).
        key_positions: Integers (S,) or (B, S).

    Returns:
        Bias (1 or B, N, T, S), which attention layers and blocks take as
        `position_bias`.

    Example:

    >>> layer = RelativePositionBias(num_heads=8)
    >>> bias = layer(keras.ops.arange(3), keras.ops.arange(5))

    Source: Raffel et al. 2020, https://arxiv.org/abs/1910.10683
    """

    def __init__(
        self,
        num_heads: int,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        num_heads = check_integer("num_heads", num_heads)
        num_buckets = check_integer("num_buckets", num_buckets)
        max_distance = check_integer("max_distance", max_distance)
        if bidirectional and num_buckets % 2:
            raise ValueError(
                "`num_buckets` must be even, one half for each direction. Received: "
                f"num_buckets={num_buckets}."
            )
        exact = num_buckets // (4 if bidirectional else 2)
        if exact < 1 or max_distance <= exact:
            raise ValueError(
                "`num_buckets` must be at least "
                f"{4 if bidirectional else 2} and `max_distance` greater than the "
                f"{exact} distances that have a bucket each. Received: "
                f"num_buckets={num_buckets}, max_distance={max_distance}."
            )
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.relative_attention_bias = keras.layers.Embedding(
            num_buckets,
            num_heads,
            name="relative_attention_bias",
            dtype=self.dtype_policy,
        )

    def build(self, query_positions_shape, key_positions_shape=None):
        self.relative_attention_bias.build(None)

    def call(self, query_positions, key_positions):
        buckets = relative_buckets(
            relative_positions(
                as_integers("query_positions", query_positions),
                as_integers("key_positions", key_positions),
            ),
            bidirectional=self.bidirectional,
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
        )
        bias = self.relative_attention_bias(buckets)  # (B, T, S, N)
        return ops.transpose(bias, (0, 3, 1, 2))

    def compute_output_shape(self, query_positions_shape, key_positions_shape):
        batch, time, length = relative_positions_shape(
            query_positions_shape, key_positions_shape
        )
        return (batch, self.num_heads, time, length)
