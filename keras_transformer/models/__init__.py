"""Wiring: models made of the layers."""

from keras_transformer.models.language_model import LanguageModel
from keras_transformer.models.masked_language_model import MaskedLanguageModel
from keras_transformer.models.recurrent_seq2seq import RecurrentSeq2Seq
from keras_transformer.models.sentence_embedding_classifier import (
    build_sentence_embedding_classifier,
)
from keras_transformer.models.seq2seq_transformer import Seq2SeqTransformer
from keras_transformer.models.text_classifier import build_text_classifier
from keras_transformer.models.text_encoder import TextEncoder

__all__ = [
    "LanguageModel",
    "MaskedLanguageModel",
    "Seq2SeqTransformer",
    "TextEncoder",
    "RecurrentSeq2Seq",
    "build_sentence_embedding_classifier",
    "build_text_classifier",
]
