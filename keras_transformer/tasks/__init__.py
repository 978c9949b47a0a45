"""Tasks: a model joined with its tokenizer; text in, text out."""

from keras_transformer.tasks.alignment import Alignment, Translation
from keras_transformer.tasks.explanation import Explanation
from keras_transformer.tasks.text_classifier import TextClassifier
from keras_transformer.tasks.text_generator import TextGenerator
from keras_transformer.tasks.translator import Translator
from keras_transformer.tasks.words import (
    ContextWords,
    WordSenses,
    best_threshold,
    embedding_vectors,
    evaluate_word_in_context,
    fit_masked_words,
    word_pieces,
    word_spans,
    word_vectors,
)
from keras_transformer.tasks.write_samples import WriteSamples

__all__ = [
    "Alignment",
    "ContextWords",
    "Explanation",
    "TextClassifier",
    "TextGenerator",
    "Translation",
    "Translator",
    "WordSenses",
    "WriteSamples",
    "best_threshold",
    "embedding_vectors",
    "evaluate_word_in_context",
    "fit_masked_words",
    "word_pieces",
    "word_spans",
    "word_vectors",
]
