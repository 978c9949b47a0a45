"""ALiBi: a penalty on the scores that grows with the distance."""

from keras import ops

from keras_transformer.layers.base import BaseLayer, as_integers
from keras_transformer.ops.checks import check_integer
from keras_transformer.ops.positions import (
    alibi_slopes,
    relative_positions,
    relative_positions_shape,
)


class AlibiBias(BaseLayer):
    """Penalise the score of a key by its distance, more or less by head.

    `bias[n, t, s] = -slope[n] * |t - s|`

    It is symmetric, so that it serves encoders as well as decoders (whose
    causal mask hides one side). It returns slopes and integer distances rather
    than their product, because Keras casts float arguments: in bfloat16, far
    distances would all become the same.

    Args:
        num_heads: Number of heads N.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        query_positions: Integers (T,) or (B, T).
        key_positions: Integers (S,) or (B, S).

    Returns:
        `{"slopes": (N,), "distances": int32 (1 or B, T, S)}`, which attention
        layers and blocks take as `position_bias`.

    Example:

    >>> bias = AlibiBias(num_heads=8)(keras.ops.arange(3), keras.ops.arange(5))

    Source: Press et al. 2022, https://arxiv.org/abs/2108.12409
    """

    def __init__(self, num_heads: int, **kwargs):
        super().__init__(**kwargs)
        num_heads = check_integer("num_heads", num_heads)
        self.num_heads = num_heads

    def build(self, query_positions_shape, key_positions_shape=None):
        pass

    def call(self, query_positions, key_positions):
        distances = relative_positions(
            as_integers("query_positions", query_positions),
            as_integers("key_positions", key_positions),
        )
        slopes = ops.convert_to_tensor(alibi_slopes(self.num_heads), "float32")
        return {"slopes": slopes, "distances": ops.abs(distances)}

    def compute_output_shape(self, query_positions_shape, key_positions_shape):
        shape = relative_positions_shape(query_positions_shape, key_positions_shape)
        return {"slopes": (self.num_heads,), "distances": shape}
