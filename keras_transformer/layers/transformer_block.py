"""The only Transformer layer: attention, cross-attention, feed-forward."""

import keras

from keras_transformer.layers.base import (
    VECTORS,
    BaseLayer,
    check_axes,
    check_plug,
    shifted_seed,
)
from keras_transformer.layers.feed_forward import FeedForward, get_activation
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.ops import masks
from keras_transformer.ops.checks import check_choice, check_integer, check_number


class TransformerBlock(BaseLayer):
    """One layer of a Transformer; its settings make it any family's.

    `x = norm(x + self_attention(x))`,
    `x = norm(x + cross_attention(x, encoder_outputs))` (with cross-attention),
    `x = norm(x + feed_forward(x))`

    With `normalize_first`, each `norm(x + f(x))` is `x + f(norm(x))` instead.
    Post-norm, the default and the chapter's, normalises each block's output, and
    stacks of more than about six blocks need a learning rate that warms up;
    pre-norm trains deep stacks without, and needs one more norm after the last
    block, which `TransformerStack` adds.

    Masks: `True` = may attend; only keys are masked. Self-attention sees the
    mask of `inputs`, cross-attention that of `encoder_outputs`. The output
    carries the mask of `inputs`.

    Args:
        embed_dim: Width E of inputs and outputs.
        num_heads: Number of heads N.
        dense_dim: Width D inside the feed-forward part.
        key_dim: Size of a head; `embed_dim // num_heads` if not given.
        num_key_value_heads: Number of key/value heads; `num_heads` if not given.
        causal: Whether self-attention sees no later position.
        cross_attention: Whether the block attends to `encoder_outputs` too.
        dropout: Dropout rate of the attention weights and of each part's output.
        attention_dropout: That of the attention weights, if it is another (Llama has
            this alone, BART none of it).
        activation: Activation of the feed-forward part.
        gated: Whether the feed-forward part is gated.
        norm: `"layer"` or `"rms"`.
        normalize_first: Pre-norm instead of post-norm.
        layer_norm_epsilon: Epsilon of every norm.
        use_bias: Whether the projections have biases.
        rotary: A `RotaryEmbedding` for self-attention.
        attention_scale: Factor of the scores; 1 / sqrt(key_dim) if not given.
        sliding_window: Self-attention sees positions less than this far away.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: (B, T, E).
        encoder_outputs: (B, S, E'), with cross-attention.
        mask: (B, T), `True` for tokens; also `padding_mask`. If not given, the
            mask that `inputs` carries.
        inputs_mask: Filled by Keras in place of `mask`.
        encoder_outputs_mask: (B, S); also `encoder_padding_mask`. If not given,
            the mask that `encoder_outputs` carries.
        attention_mask: (B, T, T) or (B, N, T, T), for self-attention; with a cache
            the last axis is that of its slots.
        cross_attention_mask: (B, T, S) or (B, N, T, S).
        position_bias: For self-attention, from `AlibiBias` or
            `RelativePositionBias`.
        positions: Positions (T,) or (B, T) of the tokens, for `rotary` and
            `sliding_window`; counted on from the tokens in the cache if not given.
        cache: From `create_cache` or from an earlier call. It holds what the block
            reads of `encoder_outputs`, which are left out then.
        return_attention_scores: Whether to return the weights as well.
        training: Whether dropout is applied.

    Returns:
        The outputs (B, T, E); followed, if `return_attention_scores`, by the
        weights (B, N, T, T), with cross-attention the pair of these and the
        weights (B, N, T, S); followed by the new cache if `cache` was given.

    Raises:
        ValueError: Sizes that do not divide, an unknown activation or norm,
            inputs of another width, encoder outputs missing, not expected or
            given beside a cache that holds them, a mask of another shape or an
            additive one.

    Example:

    >>> block = TransformerBlock(embed_dim=8, num_heads=2, dense_dim=16)
    >>> outputs = block(keras.ops.ones((1, 3, 8)))

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 9, 11)
    """

    mask_aliases = {
        "padding_mask": "mask",
        "inputs_mask": "mask",
        "encoder_padding_mask": "encoder_outputs_mask",
    }

    def __init__(
        self,
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
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        embed_dim = check_integer("embed_dim", embed_dim)
        num_heads = check_integer("num_heads", num_heads)
        dense_dim = check_integer("dense_dim", dense_dim)
        key_dim = check_integer("key_dim", key_dim, optional=True)
        check_number("dropout", dropout, at_least=0, below=1)
        check_number(
            "attention_dropout", attention_dropout, at_least=0, below=1, optional=True
        )
        check_number("layer_norm_epsilon", layer_norm_epsilon, above=0)
        check_number("attention_scale", attention_scale, above=0, optional=True)
        check_plug("rotary", rotary)
        check_choice("norm", norm, ("layer", "rms"))
        if key_dim is None and embed_dim % num_heads:
            raise ValueError(
                "`embed_dim` must be a multiple of `num_heads`, unless `key_dim` is "
                f"given. Received: embed_dim={embed_dim}, num_heads={num_heads}."
            )
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dense_dim = dense_dim
        self.key_dim = key_dim
        self.num_key_value_heads = num_key_value_heads
        self.causal = causal
        self.cross_attention = cross_attention
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation = get_activation(activation)
        self.gated = gated
        self.norm = norm
        self.normalize_first = normalize_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.use_bias = use_bias
        self.rotary = rotary
        self.attention_scale = attention_scale
        self.sliding_window = sliding_window
        self.seed = seed

        self.self_attention = self._make_attention(
            "self_attention",
            rotary=rotary,
            sliding_window=sliding_window,
            seed=seed,
        )
        self.self_attention_norm = self.make_norm("self_attention_norm")
        if cross_attention:
            self.cross_attention_layer = self._make_attention(
                "cross_attention", seed=shifted_seed(seed, 1)
            )
            self.cross_attention_norm = self.make_norm("cross_attention_norm")
        self.feed_forward = FeedForward(
            embed_dim,
            dense_dim,
            activation=self.activation,
            gated=gated,
            use_bias=use_bias,
            name="feed_forward",
            dtype=self.dtype_policy,
        )
        self.feed_forward_norm = self.make_norm("feed_forward_norm")
        self.output_dropout = keras.layers.Dropout(
            dropout,
            seed=shifted_seed(seed, 2),
            name="output_dropout",
            dtype=self.dtype_policy,
        )

    def build(self, inputs_shape, encoder_outputs_shape=None):
        check_axes("inputs", inputs_shape, VECTORS)
        if inputs_shape[-1] != self.embed_dim:
            raise ValueError(
                f"Layer {self.name!r} adds its outputs to its inputs, which must be "
                f"`embed_dim={self.embed_dim}` wide. Received inputs of shape "
                f"{tuple(inputs_shape)}."
            )
        inputs_shape = (*inputs_shape[:2], self.embed_dim)
        self.self_attention.build(inputs_shape, inputs_shape)
        self.self_attention_norm.build(inputs_shape)
        if self.cross_attention:
            check_axes("encoder_outputs", encoder_outputs_shape, VECTORS)
            self.cross_attention_layer.build(
                inputs_shape, encoder_outputs_shape or (None, None, self.embed_dim)
            )
            self.cross_attention_norm.build(inputs_shape)
        self.feed_forward.build(inputs_shape)
        self.feed_forward_norm.build(inputs_shape)
        self.output_dropout.build(inputs_shape)

    def call(
        self,
        inputs,
        encoder_outputs=None,
        mask=None,
        inputs_mask=None,
        encoder_outputs_mask=None,
        attention_mask=None,
        cross_attention_mask=None,
        position_bias=None,
        positions=None,
        cache=None,
        return_attention_scores=False,
        training=None,
    ):
        mask = inputs_mask if mask is None else mask
        mask = masks.check_padding("padding_mask", mask, inputs)
        cache = {} if cache is None else self._checked(cache)
        self._check_encoder(encoder_outputs, cache)
        if self.cross_attention:
            held = cache["cross_attention"]["mask"] if cache else encoder_outputs
            encoder_outputs_mask = masks.check_padding(
                "encoder_padding_mask", encoder_outputs_mask, held
            )
            cross_attention_mask = masks.pair_mask(
                cross_attention_mask, inputs, held, name="cross_attention_mask"
            )
        scores, new_cache = {}, {}

        def attend(name, attention, query, source, **arguments):
            results = attention(
                query,
                source,
                cache=cache.get(name),
                return_attention_scores=return_attention_scores,
                training=training,
                **arguments,
            )
            outputs, *extras = results if isinstance(results, tuple) else (results,)
            if name in cache:
                new_cache[name] = extras.pop()
            if return_attention_scores:
                scores[name] = extras.pop()
            return outputs

        x = inputs
        query = self._before(self.self_attention_norm, x)
        outputs = attend(
            "self_attention",
            self.self_attention,
            query,
            query,
            value_mask=mask,
            attention_mask=attention_mask,
            use_causal_mask=self.causal,
            position_bias=position_bias,
            positions=positions,
        )
        x = self._after(self.self_attention_norm, x, outputs)

        if self.cross_attention:
            outputs = attend(
                "cross_attention",
                self.cross_attention_layer,
                self._before(self.cross_attention_norm, x),
                encoder_outputs,
                value_mask=encoder_outputs_mask,
                attention_mask=cross_attention_mask,
            )
            x = self._after(self.cross_attention_norm, x, outputs)

        outputs = self.feed_forward(self._before(self.feed_forward_norm, x))
        x = self._after(self.feed_forward_norm, x, outputs)

        extras = ()
        if return_attention_scores:
            both = tuple(scores.values())
            extras += (both if self.cross_attention else both[0],)
        if cache:
            extras += (new_cache,)
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
        cache = {
            "self_attention": self.self_attention.create_cache(batch_size, max_length)
        }
        self._check_encoder(encoder_outputs, {})
        if self.cross_attention:
            cache["cross_attention"] = self.cross_attention_layer.precompute(
                encoder_outputs,
                value_mask=masks.check_padding(
                    "encoder_padding_mask", encoder_padding_mask, encoder_outputs
                ),
            )
        return cache

    def compute_output_shape(self, inputs_shape, encoder_outputs_shape=None):
        return tuple(inputs_shape)

    def _before(self, norm, x):
        return norm(x) if self.normalize_first else x

    def _after(self, norm, x, outputs):
        x = x + self.output_dropout(outputs)
        return x if self.normalize_first else norm(x)

    def _checked(self, cache):
        parts = {"self_attention"}
        if self.cross_attention:
            parts.add("cross_attention")
        whole = isinstance(cache, dict) and set(cache) == parts
        if not whole or "mask" not in cache.get("cross_attention", {"mask"}):
            got = sorted(cache) if isinstance(cache, dict) else type(cache).__name__
            raise ValueError(
                f"`cache` of layer {self.name!r} must come from its own "
                f"`create_cache`, with the parts {sorted(parts)}. Received: {got}."
            )
        return cache

    def _check_encoder(self, encoder_outputs, cache):
        held = "cross_attention" in cache
        given = encoder_outputs is not None or held
        if held and encoder_outputs is not None:
            raise ValueError(
                f"`cache` of layer {self.name!r} holds the encoder outputs that it "
                "was created with. Received: `encoder_outputs` beside it. Leave them "
                "out; for another source call `create_cache` again."
            )
        if given and not self.cross_attention:
            raise ValueError(
                f"Layer {self.name!r} has no cross-attention but received "
                "`encoder_outputs`. Create it with cross_attention=True."
            )
        if self.cross_attention and not given:
            raise ValueError(
                f"Layer {self.name!r} has cross-attention and needs "
                "`encoder_outputs`. Pass them, or create the layer with "
                "cross_attention=False."
            )

    def _make_attention(self, name, **settings):
        rate = self.attention_dropout
        return MultiHeadAttention(
            self.num_heads,
            self.key_dim or self.embed_dim // self.num_heads,
            dropout=self.dropout if rate is None else rate,
            use_bias=self.use_bias,
            output_shape=self.embed_dim,
            num_key_value_heads=self.num_key_value_heads,
            scale=self.attention_scale,
            name=name,
            dtype=self.dtype_policy,
            **settings,
        )

    def make_norm(self, name: str):
        """Return a norm with the settings of this block."""
        norms = {
            "layer": keras.layers.LayerNormalization,
            "rms": keras.layers.RMSNormalization,
        }
        norm = norms[self.norm](
            epsilon=self.layer_norm_epsilon, name=name, dtype=self.dtype_policy
        )
        norm.supports_masking = True  # Keras forgot it for the second
        return norm
