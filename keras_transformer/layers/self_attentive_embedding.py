"""The self-attentive sentence embedding of 2017."""

import keras
from keras import ops

from keras_transformer.layers.base import VECTORS, BaseLayer, check_axes, full_dtype
from keras_transformer.ops import masks
from keras_transformer.ops.attention import attend
from keras_transformer.ops.checks import check_integer, check_number


class SelfAttentiveEmbedding(BaseLayer):
    """Read a sentence from several points of view: r weighted sums of its words.

    `A = softmax(W_2 tanh(W_1 H^T))`, `M = A H`

    `H` are the states of a sentence's words, usually those of a bidirectional
    LSTM. Each row of the annotation matrix `A` (r x n) is one point of view; the
    penalty `||A A^T - I||_F^2` keeps the rows from looking at the same words.

    Masks: padding gets no weight. The output has no mask: its r rows are all
    valid.

    Args:
        num_hops: Number of points of view r.
        attention_dim: Width of the first of the two layers (d_a of the paper).
        penalty: Factor of the penalty, the mean over the batch, which is added
            to the model's losses; 0 for none.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, S, E).
        mask: (B, S), `True` for words; also `padding_mask`.
        return_attention_scores: Whether to return A as well.

    Returns:
        The sentence matrix M (B, r, E), and A (B, r, S) if asked for.

    Raises:
        ValueError: A size out of range, a negative penalty, a mask of another
            shape or an additive one.

    Example:

    >>> embed = SelfAttentiveEmbedding(num_hops=3, attention_dim=4)
    >>> sentences = embed(keras.ops.ones((1, 5, 8)))

    Source: Lin et al. 2017, https://arxiv.org/abs/1703.03130 (chapter: 2)
    """

    mask_aliases = {"padding_mask": "mask", "inputs_mask": "mask"}

    def __init__(
        self, num_hops: int, attention_dim: int = 350, *, penalty: float = 0.0, **kwargs
    ):
        super().__init__(**kwargs)
        num_hops = check_integer("num_hops", num_hops)
        attention_dim = check_integer("attention_dim", attention_dim)
        check_number("penalty", penalty, at_least=0)
        self.num_hops = num_hops
        self.attention_dim = attention_dim
        self.penalty = penalty
        self.attention = keras.layers.Dense(
            attention_dim,
            activation="tanh",
            use_bias=False,
            name="attention",
            dtype=self.dtype_policy,
        )
        self.annotation = keras.layers.Dense(
            num_hops, use_bias=False, name="annotation", dtype=self.dtype_policy
        )

    def build(self, inputs_shape):
        check_axes("inputs", inputs_shape, VECTORS)
        self.attention.build(inputs_shape)
        self.annotation.build((*inputs_shape[:-1], self.attention_dim))

    def call(self, inputs, mask=None, inputs_mask=None, return_attention_scores=False):
        mask = inputs_mask if mask is None else mask
        mask = masks.key_padding(inputs, padding_mask=mask)  # (B, 1, 1, S)
        sentences, annotations = attend(
            None,
            inputs,
            inputs,
            score=self._score,
            mask=None if mask is None else mask[:, 0],
            return_weights=True,
            layer=self,
            sources=(None, inputs),
        )
        if self.penalty:
            self.add_loss(self.penalty * _overlap(annotations))
        return (sentences, annotations) if return_attention_scores else sentences

    def compute_mask(self, inputs, previous_mask=None):
        return None

    def compute_output_shape(self, inputs_shape):
        return (inputs_shape[0], self.num_hops, inputs_shape[-1])

    def _score(self, _, states):
        scores = self.annotation(self.attention(states))  # (B, S, r)
        return ops.transpose(scores, (0, 2, 1))


def _overlap(annotations):
    """Return the mean over the batch of ||A A^T - I||_F^2."""
    annotations = ops.cast(annotations, full_dtype(annotations.dtype))
    products = ops.einsum("brs,bqs->brq", annotations, annotations)
    identity = ops.eye(products.shape[-1], dtype=products.dtype)
    return ops.mean(ops.sum(ops.square(products - identity), axis=(1, 2)))
