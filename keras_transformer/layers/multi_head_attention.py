"""Multi-head attention, with everything that Transformer families add to it."""

import keras
from keras import ops

from keras_transformer.layers.base import (
    VECTORS,
    BaseLayer,
    CarriedMask,
    check_axes,
    check_left_out,
    check_plug,
    check_positions,
    check_sources,
)
from keras_transformer.ops import masks, positions
from keras_transformer.ops.attention import attend
from keras_transformer.ops.cache import (
    check_heads,
    check_own,
    check_source,
    create_cache,
    next_positions,
    slot_mask,
    slot_pairs,
    write_keys,
    write_tokens,
)
from keras_transformer.ops.checks import check_integer, check_number
from keras_transformer.ops.projection import project


class MultiHeadAttention(BaseLayer):
    """Attention of several heads side by side, each on its own projection.

    `head_n = softmax(scale * (query W_n^Q) (key W_n^K)^T + bias) (value W_n^V)`,
    `outputs = concat(head_1, ..., head_N) W^O`

    It equals `keras.layers.MultiHeadAttention` with the same weights (which
    `set_weights` takes over), and adds grouped key/value heads, rotary
    positions, a position bias and a key/value cache. Where `attend` has a faster fused
    kernel, it is used at inference although dropout is configured.

    Masks: only keys are masked. `True` = may attend. A query with nothing to
    attend to gets zeros before the output projection. The output carries the
    mask of `query`.

    Args:
        num_heads: Number of query heads N.
        key_dim: Size of each query and key head (per head, not in all).
        value_dim: Size of each value head; `key_dim` if not given.
        dropout: Dropout rate of the attention weights.
        use_bias: Whether the projections have biases.
        output_shape: Width of the output, or a tuple of several axes' sizes; the
            width of `query` if not given.
        num_key_value_heads: Number of key/value heads K, a divisor of
            `num_heads`; `num_heads` if not given (K = 1: multi-query attention).
        rotary: A `RotaryEmbedding` that turns queries and keys; for attention
            of a sequence to itself.
        scale: Factor of the scores; 1 / sqrt(key_dim) if not given.
        sliding_window: A query sees keys less than this many positions away.
        flash_attention: As in `keras.ops.dot_product_attention`; `None` lets
            the backend choose.
        kernel_initializer: Initializer of the projection kernels.
        bias_initializer: Initializer of the projection biases.
        kernel_regularizer: Regularizer of the projection kernels.
        bias_regularizer: Regularizer of the projection biases.
        kernel_constraint: Constraint of the projection kernels.
        bias_constraint: Constraint of the projection biases.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        query: (B, T, E).
        value: (B, S, E'). `None` with a cache from `precompute`, which holds it.
        key: (B, S, E''); `value` if not given.
        query_mask: (B, T); only handed on to the output. (As `mask` too, the name by
            which Keras hands it on.)
        value_mask: (B, S), `True` for tokens.
        key_mask: (B, S), combined with `value_mask`.
        attention_mask: (B, T, S), or broadcastable to (B, N, T, S); with a cache
            that grows, S is all of its slots.
        return_attention_scores: Whether to return the weights as well.
        training: Whether dropout is applied.
        use_causal_mask: Whether a query sees no later key.
        position_bias: Added to the scores: four axes, broadcastable to (B, N, T, S),
            or what `AlibiBias` returns.
        positions: Positions (T,) or (B, T) of the tokens, for `rotary` and
            `sliding_window`; counted on from the tokens in the cache if not given.
        cache: From `create_cache`, from an earlier call or from `precompute`.

    Returns:
        The outputs (B, T, E), followed by the weights (B, N, T, S) if
        `return_attention_scores`, and by the new cache if `cache` was given.

    Raises:
        ValueError: Sizes that do not divide, values of another batch, a mask or bias
            of another shape, an additive mask, a cache of another layer.

    Example:

    >>> attention = MultiHeadAttention(num_heads=2, key_dim=4)
    >>> outputs = attention(keras.ops.ones((1, 3, 8)), keras.ops.ones((1, 5, 8)))

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 8);
    grouped heads: Ainslie et al. 2023, https://arxiv.org/abs/2305.13245
    """

    mask_aliases = {"query_mask": "mask"}

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | tuple[int, ...] | None = None,
        *,
        num_key_value_heads: int | None = None,
        rotary=None,
        scale: float | None = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        seed: int | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        num_heads = check_integer("num_heads", num_heads)
        key_dim = check_integer("key_dim", key_dim)
        value_dim = check_integer("value_dim", value_dim, optional=True)
        for size in _as_tuple(output_shape):
            check_integer("output_shape", size)
        num_key_value_heads = check_integer(
            "num_key_value_heads", num_key_value_heads, optional=True
        )
        sliding_window = check_integer("sliding_window", sliding_window, optional=True)
        check_number("dropout", dropout, at_least=0, below=1)
        if num_key_value_heads is not None and num_heads % num_key_value_heads:
            raise ValueError(
                "`num_heads` must be a multiple of `num_key_value_heads`. Received: "
                f"num_heads={num_heads}, num_key_value_heads={num_key_value_heads}."
            )
        check_plug("rotary", rotary)
        check_number("scale", scale, above=0, optional=True)
        if rotary is not None and key_dim % 2:
            raise ValueError(
                "`rotary` turns pairs of features and needs an even `key_dim`. "
                f"Received: key_dim={key_dim}."
            )
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self._output_shape = output_shape  # Keras models read `output_shape`
        self.num_key_value_heads = num_key_value_heads
        self.rotary = rotary
        self.scale = scale
        self.sliding_window = sliding_window
        self.flash_attention = flash_attention
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.seed = seed

        key_heads = num_key_value_heads or num_heads
        self._key_heads, self._value_size = key_heads, value_dim or key_dim
        self.query = self._projection("query", num_heads, key_dim)
        self.key = self._projection("key", key_heads, key_dim)
        self.value = self._projection("value", key_heads, self._value_size)
        self.attention_output = None  # its width is known when built
        self.attention_dropout = keras.layers.Dropout(
            dropout, seed=seed, name="attention_dropout", dtype=self.dtype_policy
        )

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        check_axes("query", query_shape, VECTORS)
        check_axes("value", value_shape, VECTORS)
        check_axes("key", key_shape, VECTORS)
        self.query.build(query_shape)
        self.key.build(key_shape)
        self.value.build(value_shape)
        output_shape = _as_tuple(self._output_shape) or (query_shape[-1],)
        # Heads g and sizes h: letters out of order, and PyTorch copies the kernel
        # at every call.
        axes = "ijklmn"[: len(output_shape)]
        self.attention_output = keras.layers.EinsumDense(
            f"btgh,gh{axes}->bt{axes}",
            output_shape=(None, *output_shape),
            bias_axes=axes if self.use_bias else None,
            name="attention_output",
            **self._weight_settings(),
        )
        self.attention_output.supports_masking = True
        heads_shape = (*query_shape[:2], self.num_heads, self._value_size)
        self.attention_output.build(heads_shape)
        self.attention_dropout.build(None)
        if self.rotary is not None:
            self.rotary.build((*query_shape[:2], self.num_heads, self.key_dim))

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
        position_bias=None,
        positions=None,
        cache=None,
        mask=None,  # `query_mask`, under the name from which Keras hands it on
    ):
        growing = cache is not None and "slot" in cache
        queries = project(self.query, query)  # (B, T, N, H)
        if cache is not None and not growing:
            check_left_out(value, key)
            check_source(cache, self._key_heads, self.key_dim, self._value_size)
            keys, values = _as_heads(cache)
            check_sources(query, values, keys)
        else:
            check_sources(query, value, key)
            keys = project(self.key, value if key is None else key)  # (B, S, K, H)
            values = project(self.value, value)  # (B, S, K, H')
        mask = masks.key_padding(keys, value_mask=value_mask, key_mask=key_mask)
        if cache is not None and not growing:
            mask = masks.combine_masks(mask, masks.expand_mask(cache["mask"]))

        tokens = None if mask is None else mask[:, 0, 0]  # (1 or B, S)
        if positions is not None:
            positions = check_positions(positions, keys)
        elif growing:
            positions = next_positions(cache, ops.shape(keys)[1], tokens)
        places = [
            _count(x) if positions is None else positions for x in (queries, keys)
        ]
        if self.rotary is not None:
            queries = self.rotary(queries, places[0])
            keys = self.rotary(keys, places[1])
        if growing:
            mask = None
            check_own(queries, keys)
            check_heads(cache, keys, values)
            if "mask" in cache:  # else the stack masks for all of its blocks
                cache = write_tokens(cache, positions, tokens)
                mask = slot_mask(
                    cache, positions, causal=use_causal_mask, window=self.sliding_window
                )
            cache, use_causal_mask = write_keys(cache, keys, values), False
            keys, values = _as_heads(cache)
        elif self.sliding_window is not None:
            window = self.sliding_window
            near = masks.position_mask(*places, causal=False, window=window)
            mask = masks.combine_masks(mask, near)
        pairs = slot_pairs if growing else masks.pair_mask
        mask = masks.combine_masks(mask, pairs(attention_mask, queries, keys))

        outputs, scores = attend(
            queries,
            keys,
            values,
            scale=self.scale,
            mask=mask,
            causal=use_causal_mask,
            bias=_as_bias(position_bias, queries, keys),
            dropout=self.attention_dropout if self.dropout and training else None,
            return_weights=return_attention_scores,
            layer=self,
            sources=(query, value),
            flash_attention=self.flash_attention,
        )
        outputs = project(self.attention_output, outputs)  # (B, T, N, H') -> (B, T, E)
        extras = (scores,) if return_attention_scores else ()
        extras += (cache,) if cache is not None else ()
        return (outputs, *extras) if extras else outputs

    def precompute(self, value, key=None, value_mask=None, key_mask=None):
        """Project a source once, for all steps of a decoder's cross-attention.

        Args:
            value: (B, S, E'), such as the encoder's outputs.
            key: (B, S, E''); `value` if not given.
            value_mask: (B, S), `True` for tokens; the mask that `value` carries if
                not given.
            key_mask: The same of `key`.

        Returns:
            A cache that never grows; pass it as `cache` with `value=None`.

        Raises:
            ValueError: The layer is not built, or depends on positions: it has `rotary`
                or a `sliding_window`; a mask of another shape.
        """
        if not self.built:
            raise ValueError(
                f"Layer {self.name!r} must be built before a source is precomputed. "
                "Call it once, or call its `build` with the shapes."
            )
        for name in ("rotary", "sliding_window"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"Layer {self.name!r} has `{name}`, which is for a sequence that "
                    "attends to itself. A precomputed source is another one."
                )
        if value_mask is None:
            value_mask = CarriedMask()(value)
        mask = masks.check_padding("value_mask", value_mask, value)
        if key is not None:
            key_mask = CarriedMask()(key) if key_mask is None else key_mask
            key_mask = masks.check_padding("key_mask", key_mask, key)
        keys, values = self.key(value if key is None else key), self.value(value)
        return {
            "key": ops.transpose(keys, (0, 2, 1, 3)),
            "value": ops.transpose(values, (0, 2, 1, 3)),
            "mask": masks.combine_masks(mask, key_mask),
        }

    def create_cache(self, batch_size: int, max_length: int) -> dict:
        """Return an empty cache of `max_length` slots for this layer."""
        return create_cache(
            batch_size,
            max_length,
            self._key_heads,
            self.key_dim,
            self._value_size,
            dtype=self.compute_dtype,
        )

    def compute_output_shape(self, query_shape, value_shape=None, key_shape=None):
        output_shape = _as_tuple(self._output_shape) or (query_shape[-1],)
        return (*query_shape[:-1], *output_shape)

    def _projection(self, name, heads, size):
        layer = keras.layers.EinsumDense(
            "bse,enh->bsnh",
            output_shape=(None, heads, size),
            bias_axes="nh" if self.use_bias else None,
            name=name,
            **self._weight_settings(),
        )
        layer.supports_masking = True
        return layer

    def _weight_settings(self):
        def fresh(initializer):
            # An unseeded initializer gives its first draw again when reused.
            return type(initializer).from_config(initializer.get_config())

        return {
            "kernel_initializer": fresh(self.kernel_initializer),
            "bias_initializer": fresh(self.bias_initializer),
            "kernel_regularizer": self.kernel_regularizer,
            "bias_regularizer": self.bias_regularizer,
            "kernel_constraint": self.kernel_constraint,
            "bias_constraint": self.bias_constraint,
            "dtype": self.dtype_policy,
        }


def _as_tuple(output_shape):
    if isinstance(output_shape, (tuple, list)):
        return tuple(output_shape)
    return () if output_shape is None else (output_shape,)


def _as_heads(cache):
    """Return a cache's keys and values as (B, S, K, H)."""
    return (ops.transpose(cache[name], (0, 2, 1, 3)) for name in ("key", "value"))


def _as_bias(position_bias, queries, keys):
    if isinstance(position_bias, dict):
        position_bias = positions.alibi_bias(**position_bias)
    if position_bias is not None:
        masks.check_pairs("position_bias", position_bias, queries, keys)
    return position_bias


def _count(heads):
    """Number the tokens of queries or keys (B, T, N, H)."""
    return ops.arange(ops.shape(heads)[1], dtype="int32")
