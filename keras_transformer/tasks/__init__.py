"""Tasks: a model joined with its tokenizer; text in, text out."""

from keras_transformer.tasks.explanation import Explanation
from keras_transformer.tasks.text_classifier import TextClassifier

__all__ = ["Explanation", "TextClassifier"]
