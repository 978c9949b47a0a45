"""Tokenizers: text to token ids and back, without Keras or a backend."""

from keras_transformer.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer

__all__ = ["SentencePieceTokenizer"]
