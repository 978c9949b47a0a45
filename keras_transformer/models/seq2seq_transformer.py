"""The Transformer of 2017: an encoder reads, a decoder writes."""

from keras import ops

from keras_transformer.layers.base import shifted_seed
from keras_transformer.layers.positional_embedding import (
    ENCODINGS,
    PositionalEmbedding,
)
from keras_transformer.layers.sinusoidal_encoding import LAYOUTS
from keras_transformer.layers.token_head import TokenHead
from keras_transformer.layers.transformer_stack import TransformerStack
from keras_transformer.models.positioned_model import PositionedModel
from keras_transformer.models.settings import (
    STACK_SETTINGS,
    as_column,
    check_slots,
    read_tokens,
    split_settings,
    token_positions,
)
from keras_transformer.models.writing_model import WritingModel
from keras_transformer.ops.cache import next_positions
from keras_transformer.ops.checks import (
    check_choice,
    check_id,
    check_integer,
    check_number,
)


class Seq2SeqTransformer(PositionedModel, WritingModel):
    """An encoder and a decoder: the translator, T5, BART and Marian by settings.

    `logits[t] = head(decoder(embedding(targets[..t]), encoder(embedding(source))))`,
    which predicts `targets[t + 1]`

    Masks: `encoder_padding_mask` hides padding of the source, on either side, from
    both stacks; `decoder_padding_mask` that of the targets. Positions count tokens
    only, so that a text has the same positions wherever its padding stands.

    Args:
        vocabulary_size: Number of token ids V of the targets, and of the source
            if `source_vocabulary_size` is not given.
        num_layers: Number of encoder blocks, and of decoder blocks if
            `num_decoder_layers` is not given.
        embed_dim: Width E of the token vectors.
        num_heads: Number of attention heads.
        dense_dim: Width inside the feed-forward parts.
        num_decoder_layers: Number of decoder blocks.
        num_decoder_heads: Number of the decoder's heads, if it is another.
        decoder_dense_dim: Width inside the decoder's feed-forward parts, if it is
            another.
        source_vocabulary_size: Number of token ids of the source.
        share_embeddings: Whether source and targets share one token table.
        positions: `"learned"`, `"sinusoidal"`, or `None`: by `rotary` or the
            position biases.
        sequence_length: The longest text in tokens, for learned positions.
        position_layout: Of sinusoids: `"interleaved"` or `"concatenated"`.
        position_offset: Row of the first learned position (BART: 2).
        count_padding: Whether padding of the source takes up positions, as in
            Hugging Face's models; it matters where padding stands before a token.
        encoder_position_bias: An `AlibiBias` or `RelativePositionBias` layer.
        decoder_position_bias: The same for the decoder's self-attention.
        scale_embedding: Whether token vectors are multiplied by sqrt(E).
        embedding_norm: Whether a layer norm follows the embeddings (BART).
        tie_head: Whether the head is the transposed token table of the targets.
        head_bias: Whether the logits have a bias (BART, Marian).
        head_scale: Factor of the head's inputs (T5 1.0: `embed_dim**-0.5`).
        pad_id: The id that is padding where no mask is given; `None` for none.
        start_id: The first token of the decoder.
        stop_id: The id that ends a text; `None` if there is none.
        generation: Settings that `generate`, `stream` and `beam_search` take where
            their caller gives none, such as `{"stop_ids": [2, 9]}`: those that a
            checkpoint comes with.
        **settings: Every other setting of `TransformerStack` (`dropout`,
            `activation`, `normalize_first`, `norm`, ...), and `name`, `dtype`,
            `trainable`.

    Call arguments:
        inputs: Dict with `encoder_token_ids` (B, S), `decoder_token_ids` (B, T:
            the targets shifted right, `start_id` first), and perhaps
            `encoder_padding_mask` and `decoder_padding_mask`.
        training: Whether dropout is applied.

    Returns:
        Logits (B, T, V) in float32 (float64 under float64).

    Raises:
        ValueError: A size out of range, an unknown setting, a text longer than
            the learned positions.

    Example:

    >>> model = Seq2SeqTransformer(100, 2, embed_dim=8, num_heads=2, dense_dim=16)
    >>> ids = keras.ops.convert_to_tensor([[1, 5, 6]])
    >>> logits = model({"encoder_token_ids": ids, "decoder_token_ids": ids})

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 9)
    """

    part_settings = tuple(name for name in STACK_SETTINGS if name != "position_bias")
    part_with_settings = "encoder"

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        embed_dim: int,
        num_heads: int,
        dense_dim: int,
        *,
        num_decoder_layers: int | None = None,
        num_decoder_heads: int | None = None,
        decoder_dense_dim: int | None = None,
        source_vocabulary_size: int | None = None,
        share_embeddings: bool = True,
        positions: str | None = "sinusoidal",
        sequence_length: int | None = 512,
        position_layout: str = "interleaved",
        position_offset: int = 0,
        count_padding: bool = False,
        encoder_position_bias=None,
        decoder_position_bias=None,
        scale_embedding: bool = True,
        embedding_norm: bool = False,
        tie_head: bool = True,
        head_bias: bool = False,
        head_scale: float | None = None,
        pad_id: int | None = 0,
        start_id: int = 1,
        stop_id: int | None = 2,
        generation: dict | None = None,
        **settings,
    ):
        settings, common = split_settings(type(self), settings)
        super().__init__(autocast=False, **common)
        vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        source_size = check_integer(
            "source_vocabulary_size", source_vocabulary_size, optional=True
        )
        if share_embeddings and source_size not in (None, vocabulary_size):
            raise ValueError(
                "One shared token table needs one vocabulary. Received: "
                f"vocabulary_size={vocabulary_size}, source_vocabulary_size="
                f"{source_size}. Pass share_embeddings=False."
            )
        num_decoder_layers = check_integer(
            "num_decoder_layers", num_decoder_layers, optional=True
        )
        num_decoder_heads = check_integer(
            "num_decoder_heads", num_decoder_heads, optional=True
        )
        decoder_dense_dim = check_integer(
            "decoder_dense_dim", decoder_dense_dim, optional=True
        )
        check_choice("positions", positions, ENCODINGS)
        check_choice("position_layout", position_layout, LAYOUTS)
        check_number("head_scale", head_scale, above=0, optional=True)
        check_integer("start_id", start_id, 0)
        for name, value in (
            ("pad_id", pad_id),
            ("start_id", start_id),
            ("stop_id", stop_id),
        ):
            check_id(name, value, vocabulary_size, "vocabulary_size")
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dense_dim = dense_dim
        self.num_decoder_layers = num_decoder_layers
        self.num_decoder_heads = num_decoder_heads
        self.decoder_dense_dim = decoder_dense_dim
        self.source_vocabulary_size = source_size
        self.share_embeddings = share_embeddings
        self.positions = positions
        self.sequence_length = sequence_length
        self.position_layout = position_layout
        self.position_offset = position_offset
        self.count_padding = count_padding
        self.scale_embedding = scale_embedding
        self.embedding_norm = embedding_norm
        self.tie_head = tie_head
        self.head_bias = head_bias
        self.head_scale = head_scale
        self.pad_id = pad_id
        self.start_id = start_id
        self.stop_id = stop_id
        self.generation = generation

        self.encoder = TransformerStack(
            num_layers,
            embed_dim,
            num_heads,
            dense_dim,
            position_bias=encoder_position_bias,
            name="encoder",
            dtype=self.dtype_policy,
            **settings,
        )
        decoder_layers = num_decoder_layers or num_layers
        seed = shifted_seed(self.encoder.seed, 3 * num_layers)
        self.decoder = TransformerStack(
            decoder_layers,
            embed_dim,
            num_decoder_heads or num_heads,
            decoder_dense_dim or dense_dim,
            causal=True,
            cross_attention=True,
            position_bias=decoder_position_bias,
            name="decoder",
            dtype=self.dtype_policy,
            **{**settings, "seed": seed},
        )
        seed = shifted_seed(seed, 3 * decoder_layers)
        self.encoder_embedding = self._make_embedding(
            "encoder_embedding", source_size or vocabulary_size, None, seed
        )
        self.decoder_embedding = self._make_embedding(
            "decoder_embedding",
            vocabulary_size,
            self.encoder_embedding.token_embedding if share_embeddings else None,
            shifted_seed(seed, 1),
        )
        self.head = TokenHead(
            vocabulary_size,
            token_embedding=(
                self.decoder_embedding.token_embedding if tie_head else None
            ),
            use_bias=head_bias,
            scale=head_scale,
            name="head",
            dtype=self.dtype_policy,
        )

    def build(self, inputs_shape=None):
        vectors_shape = (None, None, self.embed_dim)
        self.encoder_embedding.build((None, None))
        self.decoder_embedding.build((None, None))
        self.encoder.build(vectors_shape)
        self.decoder.build(vectors_shape, vectors_shape)
        self.head.build(vectors_shape)

    def call(self, inputs, training=None):
        # On JAX `fit` runs `call` alone, and layers learn of training from here only.
        source, mask = self.encode(inputs, training=training)
        first = self.start_id == self.pad_id
        ids, own_mask = read_tokens(inputs, "decoder_", self.pad_id, first)
        positions = token_positions(self, ids, own_mask)
        x = self.decoder_embedding(ids, positions=positions, training=training)
        x = self.decoder(
            x,
            source,
            mask=own_mask,
            encoder_outputs_mask=mask,
            positions=positions,
            training=training,
        )
        return self.head(x)

    def encode(self, inputs, prefix: str = "encoder_", training=None):
        """Read the source.

        Args:
            inputs: Dict with `<prefix>token_ids` (B, S) and perhaps
                `<prefix>padding_mask` (B, S).
            prefix: `"encoder_"` as in a call, `""` as in `start`.
            training: As in a call.

        Returns:
            The encoder's outputs (B, S, E), and the mask (B, S) or `None`.

        Raises:
            ValueError: A source longer than the learned positions.
        """
        ids, mask = read_tokens(inputs, prefix, self.pad_id)
        positions = token_positions(self, ids, None if self.count_padding else mask)
        x = self.encoder_embedding(ids, positions=positions, training=training)
        x = self.encoder(x, mask=mask, positions=positions, training=training)
        return x, mask

    @property
    def encoder_position_bias(self):
        """The position bias of the encoder's self-attention."""
        return self.encoder.position_bias

    @property
    def decoder_position_bias(self):
        """The position bias of the decoder's self-attention."""
        return self.decoder.position_bias

    def start(self, inputs, max_length: int) -> dict:
        """Read the source once, and return the state of decoding.

        Args:
            inputs: Dict with `token_ids` (B, S) and perhaps `padding_mask`: the
                source.
            max_length: Number of slots for all tokens of the target, `start_id`
                included.

        Returns:
            The key/value cache, with the keys and values of the source.

        Raises:
            ValueError: A source longer than the learned positions, or more slots
                than these.
        """
        check_slots(self, None, None, max_length)
        source, mask = self.encode(inputs, prefix="")
        if mask is None:
            mask = ops.ones(ops.shape(source)[:2], "bool")
        batch = ops.shape(source)[0]
        return self.decoder.create_cache(batch, max_length, source, mask)

    def step(self, tokens, state, return_alignment: bool = False):
        """Read one token a row, and predict the next.

        Args:
            tokens: int32 (B,); `start_id` first.
            state: From `start` or from an earlier step.
            return_alignment: Whether to return where the last block looked in the
                source as well, the mean of its heads.

        Returns:
            The logits (B, V) as in a call, the new state, and with `return_alignment`
            the weights (B, S).
        """
        ids = as_column(tokens)
        positions = next_positions(state, 1)
        x = self.decoder_embedding(ids, positions=positions)
        x, *scores, state = self.decoder(
            x,
            positions=positions,
            cache=state,
            return_attention_scores=return_alignment,
        )
        logits = self.head(x)[:, 0]
        if not return_alignment:
            return logits, state
        _, cross = scores[0][-1]  # (B, N, 1, S)
        return logits, state, ops.mean(cross[:, :, 0], axis=1)

    def _make_embedding(self, name, vocabulary_size, table, seed):
        norm = self.encoder.layer_norm_epsilon if self.embedding_norm else None
        return PositionalEmbedding(
            self.sequence_length,
            vocabulary_size,
            self.embed_dim,
            encoding=self.positions,
            pad_id=None,  # masks are handed on by name
            layout=self.position_layout,
            position_offset=self.position_offset,
            scale_embedding=self.scale_embedding,
            layer_norm_epsilon=norm,
            dropout=self.encoder.dropout,
            shared_embedding=table,
            seed=seed,
            name=name,
            dtype=self.dtype_policy,
        )
