"""The one table of models: constructor arguments, inputs, paths of their weights."""

from collections.abc import Callable
from dataclasses import dataclass, field

import keras
import numpy as np

import keras_transformer as kt

from .helpers import randomize

VOCABULARY = 12
# A text, one with padding, one of padding only.
IDS = np.array([[5, 6, 7, 8], [9, 4, 0, 0], [0, 0, 0, 0]], "int32")
TARGETS = np.array([[2, 6, 7], [2, 9, 0], [0, 0, 0]], "int32")


@dataclass(frozen=True)
class ModelExample:
    """How to make one model, and what it reads.

    Attributes:
        model: Public name of its class, or of the function that builds it.
        arguments: Makes the arguments of a small one (new plugs each time).
        complete: Makes arguments of which none has its default.
        paths: Pattern of variable paths -> number of variables with it.
        reads: `"text"` or `"pair"`.
    """

    model: str
    arguments: Callable[[], dict]
    complete: Callable[[], dict]
    paths: dict = field(default_factory=dict)
    reads: str = "text"

    @property
    def constructor(self):
        """The class or the function."""
        return getattr(kt, self.model)

    @property
    def is_class(self) -> bool:
        """Whether it is a class, rather than a function that builds a Keras model."""
        return isinstance(self.constructor, type)

    def make(self, **more):
        """Return a built model with fixed random weights."""
        model = self.constructor(**{**self.arguments(), **more})
        if self.is_class:
            model.build((None, None))
        return randomize(model)

    def inputs(self, ids=IDS, targets=TARGETS):
        """Return what the model is called with."""
        if self.reads == "text":
            return ids
        return {"encoder_token_ids": ids, "decoder_token_ids": targets}

    def functional(self, **more):
        """Return it inside a functional model of one output, that of all tokens."""
        model = self.make(**more)
        if not self.is_class:
            return model
        inputs = self.inputs()
        if not isinstance(inputs, dict):
            inputs = {"token_ids": inputs}
        symbolic = {
            name: keras.Input((None,), dtype="int32", name=name) for name in inputs
        }
        symbolic = symbolic if len(inputs) > 1 else symbolic["token_ids"]
        outputs = model(symbolic)
        if isinstance(outputs, dict):
            outputs = outputs["sequence_output"]
        return keras.Model(symbolic, outputs)

    def trainable(self, **more):
        """Return a model of one output: itself, if it has no more."""
        several = self.model == "TextEncoder"
        return self.functional(**more) if several else self.make(**more)


def _sizes(**more):
    return {
        "vocabulary_size": VOCABULARY,
        "num_layers": 1,
        "embed_dim": 8,
        "num_heads": 2,
        "dense_dim": 12,
        **more,
    }


def _stack(**more):
    """Return every setting of a stack with a value other than its default."""
    return dict(
        vocabulary_size=VOCABULARY,
        num_layers=2,
        embed_dim=8,
        num_heads=4,
        dense_dim=14,
        key_dim=6,
        num_key_value_heads=2,
        dropout=0.25,
        attention_dropout=0.5,
        activation="gelu",
        gated=True,
        norm="rms",
        normalize_first=True,
        layer_norm_epsilon=1e-5,
        use_bias=False,
        rotary=kt.RotaryEmbedding(layout="interleaved"),
        attention_scale=0.5,
        sliding_window=3,
        final_norm=False,
        positions="sinusoidal",
        sequence_length=16,
        seed=3,
        **more,
    )


def _encoder(**more):
    return _stack(
        position_bias=kt.AlibiBias(4),
        position_offset=2,
        count_padding=True,
        num_segments=2,
        embedding_norm=False,
        pad_id=4,
        **more,
    )


_HEAD = dict(tie_head=False, head_bias=True, head_scale=0.5, pad_id=4)
_CLASSIFIER = dict(vocabulary_size=VOCABULARY, embed_dim=8)
_QUERIES = r".*attention/(query|key|value)/kernel"

MODELS = {
    "text-classifier": ModelExample(
        "build_text_classifier",
        lambda: dict(
            **_CLASSIFIER, num_heads=2, dense_dim=12, positions="learned", dropout=0.1
        ),
        lambda: dict(
            vocabulary_size=13,
            embed_dim=12,
            num_heads=4,
            dense_dim=14,
            num_layers=2,
            num_classes=3,
            positions="sinusoidal",
            sequence_length=16,
            pooling="max",
            dropout=0.25,
            normalize_first=True,
            pad_id=4,
            name="chosen",
        ),
        {_QUERIES: 3, "probabilities/kernel": 1},
    ),
    "sentence-embedding": ModelExample(
        "build_sentence_embedding_classifier",
        lambda: dict(**_CLASSIFIER, lstm_units=4, num_hops=3, attention_dim=5),
        lambda: dict(
            vocabulary_size=13,
            embed_dim=6,
            lstm_units=5,
            num_hops=2,
            attention_dim=4,
            penalty=0.5,
            num_classes=3,
            dropout=0.25,
            pad_id=4,
            name="chosen",
        ),
        {"sentence_embedding/(attention|annotation)/kernel": 2},
    ),
    "language-model": ModelExample(
        "LanguageModel",
        lambda: _sizes(sequence_length=100, pad_id=0),
        lambda: _stack(
            position_bias=kt.AlibiBias(4),
            scale_embedding=True,
            embedding_norm=True,
            stop_id=5,
            generation={"temperature": 0.5, "stop_ids": [5, 6]},
            **_HEAD,
        ),
        {_QUERIES: 3, r".*decoder/block_\d+/feed_forward/.*/kernel": 2},
    ),
    "masked-language-model": ModelExample(
        "MaskedLanguageModel",
        lambda: _sizes(sequence_length=100),
        lambda: _encoder(tie_head=False, head_activation="tanh"),
        {_QUERIES: 3, ".*head_dense/kernel": 1},
    ),
    "text-encoder": ModelExample(
        "TextEncoder",
        lambda: _sizes(sequence_length=100, num_segments=2),
        lambda: _encoder(pooler=False),
        {_QUERIES: 3, ".*embedding/token_embedding/embeddings": 1},
    ),
    "translator": ModelExample(
        "Seq2SeqTransformer",
        lambda: _sizes(),
        lambda: (
            _stack(
                encoder_position_bias=kt.AlibiBias(4),
                decoder_position_bias=kt.RelativePositionBias(8, bidirectional=False),
                num_decoder_layers=3,
                num_decoder_heads=8,
                decoder_dense_dim=10,
                source_vocabulary_size=13,
                share_embeddings=False,
                position_layout="concatenated",
                position_offset=2,
                count_padding=True,
                scale_embedding=False,
                embedding_norm=True,
                start_id=5,
                stop_id=6,
                generation={"num_beams": 3},
                **_HEAD,
            )
            | {"positions": "learned"}
        ),
        {_QUERIES: 9, ".*decoder/block_0/cross_attention/query/kernel": 1},
        reads="pair",
    ),
}


def _recurrent(kernels=4, **settings):
    return ModelExample(
        "RecurrentSeq2Seq",
        lambda: dict(vocabulary_size=VOCABULARY, embed_dim=3, units=4, **settings),
        lambda: dict(
            vocabulary_size=VOCABULARY,
            embed_dim=3,
            units=4,
            source_vocabulary_size=13,
            cell="lstm",
            num_layers=2,
            bidirectional=True,
            attention="luong",
            score="concat",
            attention_units=5,
            input_feeding=False,
            output_units=6,
            # `share_embeddings` needs one size: test_recurrent_training.py.
            share_embeddings=False,
            dropout=0.25,
            pad_id=4,
            start_id=5,
            stop_id=6,
            seed=7,
        ),
        {r".*(encoder|decoder)/layer_0/.*kernel": kernels, ".*head/kernel": 1},
        reads="pair",
    )


MODELS["recurrent-2014"] = _recurrent()
MODELS["recurrent-2015"] = _recurrent(kernels=6, attention="bahdanau")
MODELS["recurrent-luong"] = _recurrent(attention="luong")
QUICK = ["text-classifier", "text-encoder", "language-model"]
