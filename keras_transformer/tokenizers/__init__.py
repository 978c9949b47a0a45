"""Tokenizers: text to token ids and back, without Keras or a backend."""

from keras_transformer.tokenizers.huggingface_tokenizer import HuggingFaceTokenizer
from keras_transformer.tokenizers.mapped_sentencepiece_tokenizer import (
    MappedSentencePieceTokenizer,
)
from keras_transformer.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer

__all__ = [
    "HuggingFaceTokenizer",
    "MappedSentencePieceTokenizer",
    "SentencePieceTokenizer",
]
