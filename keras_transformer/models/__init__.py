"""Wiring: models made of the layers."""

from keras_transformer.models.recurrent_seq2seq import RecurrentSeq2Seq
from keras_transformer.models.sentence_embedding_classifier import (
    build_sentence_embedding_classifier,
)
from keras_transformer.models.text_classifier import build_text_classifier

__all__ = [
    "RecurrentSeq2Seq",
    "build_sentence_embedding_classifier",
    "build_text_classifier",
]
