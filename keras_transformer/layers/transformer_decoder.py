"""The chapter's decoder layer."""

from keras_transformer.layers.base import check_common
from keras_transformer.layers.transformer_block import TransformerBlock


class TransformerDecoder(TransformerBlock):
    """One decoder layer: causal self-attention, cross-attention, feed-forward.

    `x = norm(x + self_attention(x))`,
    `x = norm(x + cross_attention(x, encoder_outputs))`,
    `x = norm(x + feed_forward(x))`

    Called as `decoder(targets, encoder_outputs)`. No position sees a later one.
    Without cross-attention it is a block of GPT. It is `TransformerBlock` with
    `causal=True`; further settings are there.

    Post-norm is the default: a stack of more than about six needs a learning rate
    that warms up, or `normalize_first=True`.

    Masks: `True` = may attend; only keys are masked. Self-attention sees the
    padding of the targets, cross-attention that of the encoder's outputs, never
    the targets'. The output carries the mask of the targets.

    Args:
        embed_dim: Width E of inputs and outputs.
        num_heads: Number of heads N.
        dense_dim: Width D inside the feed-forward part.
        cross_attention: Whether the layer attends to an encoder's outputs.
        key_dim: Size of a head; `embed_dim // num_heads` if not given.
        dropout: Dropout rate of the attention weights and of each part's output.
        activation: Activation of the feed-forward part.
        normalize_first: Pre-norm instead of post-norm.
        layer_norm_epsilon: Epsilon of every norm.
        rotary: A `RotaryEmbedding` for self-attention.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Targets (B, T, E).
        encoder_outputs: (B, S, E').
        mask: (B, T) of the targets; also `padding_mask`.
        encoder_outputs_mask: (B, S); also `encoder_padding_mask`.
        attention_mask: (B, T, T) or (B, N, T, T), for self-attention.
        cross_attention_mask: (B, T, S) or (B, N, T, S).
        cache: From `create_cache` or from an earlier call.
        return_attention_scores: Whether to return both weights too.
        training: Whether dropout is applied.

    Returns:
        (B, T, E); then the pair of weights (B, N, T, T) and (B, N, T, S) if asked
        for (without cross-attention only the first); then the new cache if
        `cache` was given.

    Raises:
        ValueError: As `TransformerBlock`.

    Example:

    >>> decoder = TransformerDecoder(embed_dim=8, num_heads=2, dense_dim=16)
    >>> outputs = decoder(keras.ops.ones((1, 3, 8)), keras.ops.ones((1, 5, 8)))

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 9)
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dense_dim: int,
        *,
        cross_attention: bool = True,
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
            causal=True,
            cross_attention=cross_attention,
            key_dim=key_dim,
            dropout=dropout,
            activation=activation,
            normalize_first=normalize_first,
            layer_norm_epsilon=layer_norm_epsilon,
            rotary=rotary,
            seed=seed,
            **kwargs,
        )
