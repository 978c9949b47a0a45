"""The recurrent translators of 2014 and 2015."""

import keras
from keras import ops

from keras_transformer.layers.base import BaseModel, full_dtype, shifted_seed
from keras_transformer.layers.recurrent_decoder import ATTENTIONS, RecurrentDecoder
from keras_transformer.layers.recurrent_encoder import RecurrentEncoder
from keras_transformer.models.settings import as_tokens, read_tokens
from keras_transformer.ops import masks
from keras_transformer.ops.backend import static_size
from keras_transformer.ops.checks import (
    check_choice,
    check_id,
    check_integer,
    check_number,
)


class RecurrentSeq2Seq(BaseModel):
    """Translate with recurrent layers: through one vector, or with attention.

    `H, h = encoder(source)`, `o_i = decoder(y_{i-1}, s_{i-1}, H or h)`,
    `logits_i = W o_i`

    - `attention=None` is 2014's translator: the encoder's last state is all that
      the decoder sees of the source, as its first state and beside each token (Cho
      et al.; Sutskever et al. gave the first state only). `cell="lstm",
      num_layers=4` has the depth of theirs.
    - `attention="bahdanau"` is 2015's: `c_i = sum_s alpha_is h_s` with
      `alpha_is = softmax(v . tanh(W s_{i-1} + U h_s))`, a two-way encoder, and a
      maxout of `[s_i; y_{i-1}; c_i]` before the last layer. The state in it is the
      new one, as in the paper's text; its appendix A.2.2 writes `s_{i-1}`.
    - `attention="luong"` attends after the step, `o_i = tanh(W [c_i; s_i])`, with
      three scores, and hands `o_i` to the next step (input feeding).

    Masks: padding of the source, on either side, changes nothing; a padded token of
    the target changes no state, and its logits mean nothing.

    Args:
        vocabulary_size: Number of target ids V.
        embed_dim: Width E of the token vectors.
        units: Width U of the states, in each direction.
        source_vocabulary_size: Number of source ids; V if not given.
        cell: `"gru"` or `"lstm"`.
        num_layers: Number of recurrent layers of encoder and decoder.
        bidirectional: Whether the encoder reads both ways; if not given, only with
            `attention="bahdanau"`.
        attention: `None`, `"bahdanau"` or `"luong"`.
        score: Luong's score: `"dot"` (one-way encoder), `"general"` (if not given)
            or `"concat"`.
        attention_units: Width of the network that scores (`"bahdanau"`,
            `"concat"`); `units` if not given.
        input_feeding: Whether Luong's decoder reads its last output; `True` if not
            given.
        output_units: Width of the outputs before the last layer; `units` if not
            given.
        share_embeddings: Whether source and target have one embedding.
        dropout: Dropout rate of the token vectors, between recurrent layers and of
            the decoder's outputs.
        pad_id: The id that is padding where no mask is given; `None` for no mask.
        start_id: The first token that the decoder reads.
        stop_id: The token that ends a target, or `None`.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: `{"encoder_token_ids": (B, S), "decoder_token_ids": (B, T)}`, and
            perhaps `"encoder_padding_mask"` and `"decoder_padding_mask"` of the same
            shapes, `True` for tokens. The target begins with `start_id`.
        training: Whether dropout is applied.

    Returns:
        The logits (B, T, V) of the token after each target token, in float32,
        whatever the dtype policy (float64 under float64).

    Raises:
        ValueError: A size, rate or id out of range, an unknown cell, attention or
            score, a setting that the chosen attention does not have, ids missing
            from `inputs`.

    Example:

    >>> model = RecurrentSeq2Seq(100, embed_dim=8, units=16, attention="bahdanau")
    >>> ids = keras.ops.convert_to_tensor([[2, 5, 6, 3]])
    >>> logits = model({"encoder_token_ids": ids, "decoder_token_ids": ids})

    Source: Cho et al. 2014, https://arxiv.org/abs/1406.1078; Sutskever et al. 2014,
    https://arxiv.org/abs/1409.3215; Bahdanau et al. 2015,
    https://arxiv.org/abs/1409.0473; Luong et al. 2015,
    https://arxiv.org/abs/1508.04025 (chapter: 1)
    """

    position_limit = None  # recurrent states have no positions

    def __init__(
        self,
        vocabulary_size: int,
        embed_dim: int,
        units: int,
        *,
        source_vocabulary_size: int | None = None,
        cell: str = "gru",
        num_layers: int = 1,
        bidirectional: bool | None = None,
        attention: str | None = None,
        score: str | None = None,
        attention_units: int | None = None,
        input_feeding: bool | None = None,
        output_units: int | None = None,
        share_embeddings: bool = False,
        dropout: float = 0.0,
        pad_id: int | None = 0,
        start_id: int = 2,
        stop_id: int | None = 3,
        seed: int | None = None,
        **kwargs,
    ):
        # Keras would cast float ids to half precision, and 2909 become 2912.
        super().__init__(autocast=False, **kwargs)
        vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        if source_vocabulary_size is None:
            source_vocabulary_size = vocabulary_size
        source_vocabulary_size = check_integer(
            "source_vocabulary_size", source_vocabulary_size
        )
        embed_dim = check_integer("embed_dim", embed_dim)
        check_choice("attention", attention, ATTENTIONS)
        check_number("dropout", dropout, at_least=0, below=1)
        _check_settings(attention, score, attention_units, input_feeding)
        score = "general" if score is None and attention == "luong" else score
        if bidirectional is None:
            bidirectional = attention == "bahdanau"
        if score == "dot" and bidirectional:
            raise ValueError(
                "score='dot' needs a one-way encoder, whose outputs are as wide as "
                "the decoder's states. Received: bidirectional=True. Use "
                "score='general', which puts a matrix between them."
            )
        if share_embeddings and source_vocabulary_size != vocabulary_size:
            raise ValueError(
                "`share_embeddings=True` needs one vocabulary for both sides. "
                f"Received: vocabulary_size={vocabulary_size}, "
                f"source_vocabulary_size={source_vocabulary_size}."
            )
        smaller = min(vocabulary_size, source_vocabulary_size)
        check_id("pad_id", pad_id, smaller, "vocabulary_size")
        check_integer("start_id", start_id, 0)
        check_id("start_id", start_id, vocabulary_size, "vocabulary_size")
        check_id("stop_id", stop_id, vocabulary_size, "vocabulary_size")
        if pad_id is not None and pad_id in (start_id, stop_id):
            raise ValueError(
                "`pad_id` must be neither `start_id` nor `stop_id`: padding is not "
                f"read. Received: pad_id={pad_id}, start_id={start_id}, "
                f"stop_id={stop_id}."
            )
        self.vocabulary_size = vocabulary_size
        self.source_vocabulary_size = source_vocabulary_size
        self.embed_dim = embed_dim
        self.units = units
        self.cell = cell
        self.num_layers = num_layers
        self.bidirectional = bool(bidirectional)
        self.attention = attention
        self.score = score
        self.attention_units = attention_units
        self.input_feeding = input_feeding
        self.output_units = output_units
        self.share_embeddings = bool(share_embeddings)
        self.dropout = dropout
        self.pad_id = pad_id
        self.start_id = start_id
        self.stop_id = stop_id
        self.seed = seed

        common = dict(cell=cell, num_layers=num_layers, dropout=dropout)
        self.target_embedding = keras.layers.Embedding(
            vocabulary_size,
            embed_dim,
            name="embedding" if share_embeddings else "target_embedding",
            dtype=self.dtype_policy,
        )
        self.source_embedding = self.target_embedding
        if not share_embeddings:
            self.source_embedding = keras.layers.Embedding(
                source_vocabulary_size,
                embed_dim,
                name="source_embedding",
                dtype=self.dtype_policy,
            )
        self.encoder = RecurrentEncoder(
            units,
            bidirectional=bidirectional,
            seed=shifted_seed(seed, 3),
            name="encoder",
            dtype=self.dtype_policy,
            **common,
        )
        self.decoder = RecurrentDecoder(
            units,
            attention=attention,
            score=score or "general",
            attention_units=attention_units,
            input_feeding=input_feeding is not False,
            output_units=output_units,
            two_way_source=bidirectional,
            seed=shifted_seed(seed, 3 + num_layers),
            name="decoder",
            dtype=self.dtype_policy,
            **common,
        )
        self.dropouts = {
            name: keras.layers.Dropout(
                dropout,
                seed=shifted_seed(seed, index),
                name=f"{name}_dropout",
                dtype=self.dtype_policy,
            )
            for index, name in enumerate(("source", "target", "output"))
        }
        # Logits in at least float32, for the loss and the search.
        self.head = keras.layers.Dense(
            vocabulary_size, name="head", dtype=full_dtype(self.compute_dtype)
        )

    def build(self, inputs_shape=None):
        self.source_embedding.build((None, None))
        if not self.share_embeddings:
            self.target_embedding.build((None, None))
        self.encoder.build((None, None, self.embed_dim))
        self.decoder.build((None, None, self.embed_dim))
        self.head.build((None, None, self.decoder.output_width))

    def call(self, inputs, training=None):
        ids, mask = read_tokens(inputs, "encoder_", self.pad_id)
        carry, memory = self._read_source(ids, mask, training)
        ids, mask = read_tokens(inputs, "decoder_", self.pad_id)
        places = None
        if mask is not None:
            # With its padding last, a target needs no mask: nothing comes after it.
            ids, places = masks.tokens_first(ids, mask)
        vectors = self.dropouts["target"](self.target_embedding(ids), training=training)
        outputs = self.decoder(vectors, carry, memory, places=places, training=training)
        return self.head(self.dropouts["output"](outputs, training=training))

    def start(self, inputs, max_length: int | None = None) -> dict:
        """Read the source; return the state before the first target token.

        Args:
            inputs: `{"token_ids": (B, S)}`, and perhaps `"padding_mask"` (B, S).
            max_length: Not needed: the state has the same size at any length.
        """
        ids, mask = read_tokens(inputs, "", self.pad_id)
        carry, memory = self._read_source(ids, mask, training=False)
        return {"carry": carry, "memory": memory}

    def step(self, tokens, state, return_alignment: bool = False):
        """Read one token of each row, and predict the next one.

        What is read is a token, `pad_id` too, as where a mask says so in a call.

        Args:
            tokens: Ids (B,).
            state: From `start` or from an earlier step.
            return_alignment: Whether to return the attention as well.

        Returns:
            The logits (B, V), the new state, and the attention on the source's
            tokens (B, S) if asked for.
        """
        if return_alignment and self.attention is None:
            raise ValueError(
                f"Model {self.name!r} has attention=None, and therefore no alignment. "
                "Leave out what needs one, such as a coverage penalty."
            )
        outputs, alignment, carry = self.decoder.step(
            self.target_embedding(as_tokens(tokens)), state["carry"], state["memory"]
        )
        logits = self.head(outputs)
        state = {"carry": carry, "memory": state["memory"]}
        return (logits, state, alignment) if return_alignment else (logits, state)

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape["decoder_token_ids"], self.vocabulary_size)

    def _read_source(self, ids, mask, training):
        if static_size(ids, 1) == 0:  # only empty sources: one place of padding
            ids = ops.pad(ids, [[0, 0], [0, 1]])
            mask = ops.zeros_like(ids, "bool")
        vectors = self.dropouts["source"](self.source_embedding(ids), training=training)
        outputs, states = self.encoder(vectors, mask=mask, training=training)
        if mask is None:
            mask = ops.ones_like(ids, "bool")
        return self.decoder.start(outputs, states, mask)


def _check_settings(attention, score, attention_units, input_feeding):
    """Refuse settings that the chosen attention does not have."""
    luong = attention == "luong"
    if luong and score is not None:
        check_choice("score", score, ("dot", "general", "concat"))
    scores = attention == "bahdanau" or (luong and score == "concat")
    for name, value, known in (
        ("score", score, luong),
        ("input_feeding", input_feeding, luong),
        ("attention_units", attention_units, scores),
    ):
        if value is not None and not known:
            raise ValueError(
                f"`{name}` is a setting of another attention. Received: attention="
                f"{attention!r}, score={score!r}, {name}={value!r}. Leave it out."
            )
