"""A Transformer that writes: each token is predicted from those before it."""

from keras import ops

from keras_transformer.layers.base import shifted_seed
from keras_transformer.layers.positional_embedding import (
    ENCODINGS,
    PositionalEmbedding,
)
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
from keras_transformer.ops.backend import static_size
from keras_transformer.ops.cache import next_positions
from keras_transformer.ops.checks import (
    check_choice,
    check_id,
    check_integer,
    check_number,
)


class LanguageModel(PositionedModel, WritingModel):
    """A causal language model: GPT-2, Llama and their like are settings of it.

    `logits[t] = head(decoder(embedding(ids[..t])))`, which predicts `ids[t + 1]`

    Masks: `padding_mask` hides padding, on either side; positions count tokens
    only, so that a text has the same positions wherever its padding stands.

    Args:
        vocabulary_size: Number of token ids V.
        num_layers: Number of blocks.
        embed_dim: Width E of the token vectors.
        num_heads: Number of attention heads.
        dense_dim: Width inside the feed-forward parts.
        positions: `"learned"`, `"sinusoidal"`, or `None`: by `rotary` or
            `position_bias`.
        sequence_length: The longest text in tokens, for learned positions.
        scale_embedding: Whether token vectors are multiplied by sqrt(E).
        embedding_norm: Whether a layer norm follows the embedding.
        tie_head: Whether the head is the transposed token table.
        head_bias: Whether the logits have a bias.
        head_scale: Factor of the head's inputs.
        pad_id: The id that is padding where no mask is given; `None` for none.
        stop_id: The id that ends a text; `None` if there is none.
        generation: Settings that `generate`, `stream` and `beam_search` take where
            their caller gives none, such as `{"stop_ids": [2, 9]}`: those that a
            checkpoint comes with.
        **settings: Every other setting of `TransformerStack` (`dropout`,
            `activation`, `normalize_first`, `norm`, `rotary`, ...), and `name`,
            `dtype`, `trainable`.

    Call arguments:
        inputs: Token ids (B, T), or a dict with `token_ids` and perhaps
            `padding_mask` (B, T).
        training: Whether dropout is applied.

    Returns:
        Logits (B, T, V) in float32 (float64 under float64).

    Raises:
        ValueError: A size out of range, an unknown setting, a text longer than
            the learned positions.

    Example:

    >>> model = LanguageModel(100, num_layers=2, embed_dim=8, num_heads=2, dense_dim=16)
    >>> logits = model(keras.ops.convert_to_tensor([[5, 6, 7]]))

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask
    Learners" (text 2: decoder-only)
    """

    part_settings = STACK_SETTINGS
    part_with_settings = "decoder"
    start_id = None  # a prompt is needed

    def __init__(
        self,
        vocabulary_size: int,
        num_layers: int,
        embed_dim: int,
        num_heads: int,
        dense_dim: int,
        *,
        positions: str | None = "learned",
        sequence_length: int | None = 512,
        scale_embedding: bool = False,
        embedding_norm: bool = False,
        tie_head: bool = True,
        head_bias: bool = False,
        head_scale: float | None = None,
        pad_id: int | None = None,
        stop_id: int | None = None,
        generation: dict | None = None,
        **settings,
    ):
        settings, common = split_settings(type(self), settings)
        super().__init__(autocast=False, **common)
        vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        check_choice("positions", positions, ENCODINGS)
        check_number("head_scale", head_scale, above=0, optional=True)
        for name, value in (("pad_id", pad_id), ("stop_id", stop_id)):
            check_id(name, value, vocabulary_size, "vocabulary_size")
        self.vocabulary_size = vocabulary_size
        self.num_layers = num_layers
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dense_dim = dense_dim
        self.positions = positions
        self.sequence_length = sequence_length
        self.scale_embedding = scale_embedding
        self.embedding_norm = embedding_norm
        self.tie_head = tie_head
        self.head_bias = head_bias
        self.head_scale = head_scale
        self.pad_id = pad_id
        self.stop_id = stop_id
        self.generation = generation

        self.decoder = TransformerStack(
            num_layers,
            embed_dim,
            num_heads,
            dense_dim,
            causal=True,
            name="decoder",
            dtype=self.dtype_policy,
            **settings,
        )
        self.embedding = PositionalEmbedding(
            sequence_length,
            vocabulary_size,
            embed_dim,
            encoding=positions,
            pad_id=None,  # masks are handed on by name
            scale_embedding=scale_embedding,
            layer_norm_epsilon=(
                self.decoder.layer_norm_epsilon if embedding_norm else None
            ),
            dropout=self.decoder.dropout,
            seed=shifted_seed(self.decoder.seed, 3 * num_layers),
            name="embedding",
            dtype=self.dtype_policy,
        )
        self.head = TokenHead(
            vocabulary_size,
            token_embedding=self.embedding.token_embedding if tie_head else None,
            use_bias=head_bias,
            scale=head_scale,
            name="head",
            dtype=self.dtype_policy,
        )

    def build(self, inputs_shape=None):
        vectors_shape = (None, None, self.embed_dim)
        self.embedding.build((None, None))
        self.decoder.build(vectors_shape)
        self.head.build(vectors_shape)

    def call(self, inputs, training=None):
        ids, mask = read_tokens(inputs, pad_id=self.pad_id)
        positions = token_positions(self, ids, mask)
        # On JAX `fit` runs `call` alone, and layers learn of training from here only.
        x = self.embedding(ids, positions=positions, training=training)
        x = self.decoder(x, mask=mask, positions=positions, training=training)
        return self.head(x)

    def start(self, inputs, max_length: int) -> dict:
        """Read a prompt in one pass, and return the state of decoding.

        Args:
            inputs: As in a call: the prompt without each row's last token, which
                is the first that `step` reads. Padding stands on either side, and
                a row may be all padding.
            max_length: Number of slots for all tokens, padding of the prompt
                included.

        Returns:
            The key/value cache.

        Raises:
            ValueError: More slots than learned positions, fewer than the prompt.
        """
        ids, mask = read_tokens(inputs, pad_id=self.pad_id)
        check_slots(self, ids, mask, max_length)
        cache = self.decoder.create_cache(ops.shape(ids)[0], max_length)
        if static_size(ids, 1) == 0:
            return cache
        positions = next_positions(cache, ops.shape(ids)[1], mask)
        x = self.embedding(ids, positions=positions)
        return self.decoder(x, mask=mask, positions=positions, cache=cache)[1]

    def step(self, tokens, state):
        """Read one token a row, and predict the next.

        Args:
            tokens: int32 (B,).
            state: From `start` or from an earlier step.

        Returns:
            The logits (B, V) as in a call, and the new state.
        """
        ids = as_column(tokens)
        positions = next_positions(state, 1)
        x = self.embedding(ids, positions=positions)
        x, state = self.decoder(x, positions=positions, cache=state)
        return self.head(x)[:, 0], state
