"""The chapter's encoder layer."""

from keras_transformer.layers.base import check_common
from keras_transformer.layers.transformer_block import TransformerBlock


class TransformerEncoder(TransformerBlock):
    """One encoder layer: self-attention, then a feed-forward network.

    `x = norm(x + self_attention(x))`, `x = norm(x + feed_forward(x))`

    With its defaults and the same weights it equals the `get_encoder` of the
    chapter's section 11. It is `TransformerBlock` with every position seeing
    every other; further settings are there.

    Post-norm is the default: a stack of more than about six needs a learning rate
    that warms up, or `normalize_first=True`.

    Masks: `True` = may attend; only keys are masked. The mask that the inputs
    carry (from an embedding with `mask_zero` or a `PositionalEmbedding`) is
    used, and passed on.

    Args:
        embed_dim: Width E of inputs and outputs.
        num_heads: Number of heads N.
        dense_dim: Width D inside the feed-forward part.
        key_dim: Size of a head; `embed_dim // num_heads` if not given.
        dropout: Dropout rate of the attention weights and of each part's output.
        activation: Activation of the feed-forward part.
        normalize_first: Pre-norm instead of post-norm.
        layer_norm_epsilon: Epsilon of both norms.
        rotary: A `RotaryEmbedding` for the attention.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, T, E).
        mask: (B, T), `True` for tokens; also `padding_mask`.
        attention_mask: (B, T, T) or (B, N, T, T).
        return_attention_scores: Whether to return the weights (B, N, T, T) too.
        training: Whether dropout is applied.

    Returns:
        (B, T, E), and the weights if asked for.

    Raises:
        ValueError: As `TransformerBlock`.

    Example:

    >>> encoder = TransformerEncoder(embed_dim=8, num_heads=2, dense_dim=16)
    >>> outputs = encoder(keras.ops.ones((1, 3, 8)))

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 11, 12)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dense_dim: int,
        *,
        key_dim: int | None = None,
        dropout: float = 0.0,
        activation="relu",
        normalize_first: bool = False,
        layer_norm_epsilon: float = 1e-3,
        rotary=None,
        seed: int | None = None,
        **kwargs,
    ):
        check_common(type(self), kwargs)
        super().__init__(
            embed_dim,
            num_heads,
            dense_dim,
            key_dim=key_dim,
            dropout=dropout,
            activation=activation,
            normalize_first=normalize_first,
            layer_norm_epsilon=layer_norm_epsilon,
            rotary=rotary,
            seed=seed,
            **kwargs,
        )
