"""Words in context: found, made vectors of, learned from raw text, told apart."""

from keras_transformer.tasks.words.compare_word_senses import compare_word_senses
from keras_transformer.tasks.words.context_words import ContextWords
from keras_transformer.tasks.words.homonym_experiment import (
    HomonymExperiment,
    homonym_experiment,
)
from keras_transformer.tasks.words.masked_words import fit_masked_words
from keras_transformer.tasks.words.word_in_context import (
    best_threshold,
    evaluate_word_in_context,
)
from keras_transformer.tasks.words.word_senses import WordSenses
from keras_transformer.tasks.words.word_vectors import (
    embedding_vectors,
    word_pieces,
    word_spans,
    word_vectors,
)

__all__ = [
    "ContextWords",
    "HomonymExperiment",
    "WordSenses",
    "best_threshold",
    "compare_word_senses",
    "embedding_vectors",
    "evaluate_word_in_context",
    "fit_masked_words",
    "homonym_experiment",
    "word_pieces",
    "word_spans",
    "word_vectors",
]
