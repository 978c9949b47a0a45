"""Blocks one after the other, with what they share."""

from keras import ops

from keras_transformer.layers.base import (
    BaseLayer,
    check_plug,
    check_positions,
    shifted_seed,
)
from keras_transformer.layers.transformer_block import TransformerBlock
from keras_transformer.ops import masks
from keras_transformer.ops.cache import (
    check_rows,
    next_positions,
    slot_mask,
    slot_pairs,
    write_tokens,
)
from keras_transformer.ops.checks import check_integer


class TransformerStack(BaseLayer):
    """N Transformer blocks, a position bias for all, and a final norm.

    `x = block_{N-1}(... block_0(x))`, and `norm(x)` at the end of pre-norm
    blocks, whose residual stream is not normalised inside.

    Post-norm is the default: a stack of more than about six needs a learning rate
    that warms up, or `normalize_first=True`.

    Masks: as `TransformerBlock`.

    Args:
        num_layers: Number of blocks.
        embed_dim: Width E of inputs and outputs.
        num_heads: Number of heads N.
        dense_dim: Width D inside the feed-forward parts.
        key_dim: Size of a head; `embed_dim // num_heads` if not given.
        num_key_value_heads: Number of key/value heads; `num_heads` if not given.
        causal: Whether self-attention sees no later position.
        cross_attention: Whether the blocks attend to `encoder_outputs` too.
        dropout: Dropout rate of the attention weights and of each part's output.
        attention_dropout: That of the attention weights, if it is another.
        activation: Activation of the feed-forward parts.
        gated: Whether the feed-forward parts are gated.
        norm: `"layer"` or `"rms"`.
        normalize_first: Pre-norm instead of post-norm.
        layer_norm_epsilon: Epsilon of every norm.
        use_bias: Whether the projections have biases.
        rotary: A `RotaryEmbedding` for self-attention.
        attention_scale: Factor of the scores; 1 / sqrt(key_dim) if not given.
        sliding_window: Self-attention sees positions less than this far away.
        final_norm: Whether a norm follows the last block; the value of
            `normalize_first` if not given.
        position_bias: An `AlibiBias` or `RelativePositionBias` layer for
            self-attention, computed once for all blocks.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, T, E).
        encoder_outputs: (B, S, E'), with cross-attention.
        mask: (B, T), `True` for tokens; also `padding_mask`.
        inputs_mask: Filled by Keras in place of `mask`.
        encoder_outputs_mask: (B, S); also `encoder_padding_mask`.
        attention_mask: (B, T, T) or (B, N, T, T), for self-attention; with a cache
            the last axis is that of its slots.
        cross_attention_mask: (B, T, S) or (B, N, T, S).
        positions: Positions (T,) or (B, T) of the tokens, for `rotary`,
            `position_bias` and `sliding_window`; counted on from the tokens in the
            cache if not given.
        cache: From `create_cache` or from an earlier call. It holds what the blocks
            read of `encoder_outputs`, which are left out then, with their mask.
        return_attention_scores: Whether to return the weights as well.
        training: Whether dropout is applied.

    Returns:
        The outputs (B, T, E); followed, if `return_attention_scores`, by a list
        of each block's weights; followed by the new cache if one was given.

    Raises:
        ValueError: As `TransformerBlock`.

    Example:

    >>> stack = TransformerStack(2, embed_dim=8, num_heads=2, dense_dim=16)
    >>> outputs = stack(keras.ops.ones((1, 3, 8)))

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 9);
    pre-norm and its final norm: Xiong et al. 2020,
    https://arxiv.org/abs/2002.04745
    """

    mask_aliases = TransformerBlock.mask_aliases

    def __init__(
        self,
        num_layers: int,
        embed_dim: int,
        num_heads: int,
        dense_dim: int,
        *,
        key_dim: int | None = None,
        num_key_value_heads: int | None = None,
        causal: bool = False,
        cross_attention: bool = False,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        activation="relu",
        gated: bool = False,
        norm: str = "layer",
        normalize_first: bool = False,
        layer_norm_epsilon: float = 1e-3,
        use_bias: bool = True,
        rotary=None,
        attention_scale: float | None = None,
        sliding_window: int | None = None,
        final_norm: bool | None = None,
        position_bias=None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        num_layers = check_integer("num_layers", num_layers)
        check_plug("position_bias", position_bias)
        bias_heads = getattr(position_bias, "num_heads", num_heads)
        if bias_heads != num_heads:
            raise ValueError(
                "`position_bias` must be made for the stack's heads. Received: "
                f"num_heads={num_heads}, and a position_bias of {bias_heads} heads."
            )
        self.num_layers = num_layers
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dense_dim = dense_dim
        self.key_dim = key_dim
        self.num_key_value_heads = num_key_value_heads
        self.causal = causal
        self.cross_attention = cross_attention
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.gated = gated
        self.norm = norm
        self.normalize_first = normalize_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.use_bias = use_bias
        self.rotary = rotary
        self.attention_scale = attention_scale
        self.sliding_window = sliding_window
        self.final_norm = final_norm
        self.position_bias = position_bias
        self.seed = seed

        self.blocks = [
            TransformerBlock(
                embed_dim,
                num_heads,
                dense_dim,
                key_dim=key_dim,
                num_key_value_heads=num_key_value_heads,
                causal=causal,
                cross_attention=cross_attention,
                dropout=dropout,
                attention_dropout=attention_dropout,
                activation=activation,
                gated=gated,
                norm=norm,
                normalize_first=normalize_first,
                layer_norm_epsilon=layer_norm_epsilon,
                use_bias=use_bias,
                rotary=rotary,
                attention_scale=attention_scale,
                sliding_window=sliding_window,
                seed=shifted_seed(seed, 3 * index),
                name=f"block_{index}",
                dtype=self.dtype_policy,
            )
            for index in range(num_layers)
        ]
        self.activation = self.blocks[0].activation
        self.final_norm_layer = None
        if normalize_first if final_norm is None else final_norm:
            self.final_norm_layer = self.blocks[0].make_norm("final_norm")

    def build(self, inputs_shape, encoder_outputs_shape=None):
        if self.position_bias is not None:
            self.position_bias.build((None,), (None,))
        for block in self.blocks:
            block.build(inputs_shape, encoder_outputs_shape)
        if self.final_norm_layer is not None:
            self.final_norm_layer.build(inputs_shape)

    def call(
        self,
        inputs,
        encoder_outputs=None,
        mask=None,
        inputs_mask=None,
        encoder_outputs_mask=None,
        attention_mask=None,
        cross_attention_mask=None,
        positions=None,
        cache=None,
        return_attention_scores=False,
        training=None,
    ):
        mask = inputs_mask if mask is None else mask
        if cache is not None:
            # Once for all blocks, which write their keys and values alone.
            self._check_cache(cache, inputs)
            mask = masks.check_padding("padding_mask", mask, inputs)
            if positions is None:
                positions = next_positions(cache, ops.shape(inputs)[1], mask)
            else:
                positions = check_positions(positions, inputs)
            cache, mask = write_tokens(cache, positions, mask), None
            attention_mask = masks.combine_masks(
                slot_mask(
                    cache, positions, causal=self.causal, window=self.sliding_window
                ),
                slot_pairs(attention_mask, inputs, cache["positions"]),
            )
        position_bias = self._position_bias(inputs, positions, cache)
        x, scores, block_caches = inputs, [], []
        for index, block in enumerate(self.blocks):
            results = block(
                x,
                encoder_outputs,
                mask=mask,
                encoder_outputs_mask=encoder_outputs_mask,
                attention_mask=attention_mask,
                cross_attention_mask=cross_attention_mask,
                position_bias=position_bias,
                positions=positions,
                cache=None if cache is None else _block_cache(cache, index),
                return_attention_scores=return_attention_scores,
                training=training,
            )
            x, *extras = results if isinstance(results, tuple) else (results,)
            if cache is not None:
                block_caches.append(extras.pop())
            scores.extend(extras)
        if self.final_norm_layer is not None:
            x = self.final_norm_layer(x)
        extras = ()
        if return_attention_scores:
            extras += (scores,)
        if cache is not None:
            extras += (_stack_cache(block_caches, cache),)
        return (x, *extras) if extras else x

    def create_cache(
        self,
        batch_size: int,
        max_length: int,
        encoder_outputs=None,
        encoder_padding_mask=None,
    ) -> dict:
        """Return an empty cache for decoding `max_length` tokens, prompt included.

        Args:
            batch_size: Number of sequences B.
            max_length: Number of slots.
            encoder_outputs: (B, S, E'), projected here once for all steps; needed
                with cross-attention.
            encoder_padding_mask: (B, S), `True` for tokens of the source; the mask
                that `encoder_outputs` carry if not given.
        """
        caches = [
            block.create_cache(
                batch_size, max_length, encoder_outputs, encoder_padding_mask
            )
            for block in self.blocks
        ]
        return _stack_cache(caches, caches[0]["self_attention"])

    def compute_output_shape(self, inputs_shape, encoder_outputs_shape=None):
        return tuple(inputs_shape)

    def _check_cache(self, cache, inputs):
        blocks = cache.get("blocks") if isinstance(cache, dict) else None
        if blocks is None or len(blocks) != self.num_layers:
            got = type(cache).__name__ if blocks is None else f"{len(blocks)} blocks"
            raise ValueError(
                f"`cache` of layer {self.name!r} must come from its own "
                f"`create_cache`, for {self.num_layers} blocks. Received: {got}."
            )
        check_rows(cache, inputs)

    def _position_bias(self, inputs, positions, cache):
        if self.position_bias is None:
            return None
        if positions is None:
            positions = ops.arange(ops.shape(inputs)[1], dtype="int32")
        keys = positions if cache is None else cache["positions"]
        return self.position_bias(positions, keys)


def _stack_cache(block_caches, common):
    """Keep once what the caches of all blocks have in common."""
    blocks = []
    for cache in block_caches:
        keys = {name: cache["self_attention"][name] for name in ("key", "value")}
        blocks.append({**cache, "self_attention": keys})
    slot = block_caches[-1]["self_attention"]["slot"]
    return {
        "mask": common["mask"],
        "positions": common["positions"],
        "slot": slot,
        "blocks": blocks,
    }


def _block_cache(cache, index):
    block = cache["blocks"][index]
    return {
        **block,
        "self_attention": {**block["self_attention"], "slot": cache["slot"]},
    }
