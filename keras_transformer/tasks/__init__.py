"""Tasks: a model joined with its tokenizer; text in, text out.

- `text_classifier`, `translator`, `text_generator`: the tasks
- `explanation`, `alignment`: what they return beside labels and texts
- `words/`: a word in its sentence: found, made a vector of, learned, told apart

What the tasks share, in the order in which they use it:

- `texts` are checked, and some held back
- `recipes`: the models that are built for them, by name
- `compatibility`: whether a model, its tokenizers and its labels fit
- `encoding`: texts to ids, ids to batches
- `fitting`: training with Keras's callbacks
- `saving`: a folder, written whole or not at all

Of one task: `prompts`, `windows` and `write_samples` of the generator,
`translation_scores` of the translator.
"""

from keras_transformer.tasks.alignment import Alignment, Translation
from keras_transformer.tasks.explanation import Explanation
from keras_transformer.tasks.text_classifier import TextClassifier
from keras_transformer.tasks.text_generator import TextGenerator
from keras_transformer.tasks.translator import Translator
from keras_transformer.tasks.words import (
    ContextWords,
    HomonymExperiment,
    WordSenses,
    best_threshold,
    compare_word_senses,
    embedding_vectors,
    evaluate_word_in_context,
    fit_masked_words,
    homonym_experiment,
    word_pieces,
    word_spans,
    word_vectors,
)
from keras_transformer.tasks.write_samples import WriteSamples

__all__ = [
    "Alignment",
    "ContextWords",
    "Explanation",
    "HomonymExperiment",
    "TextClassifier",
    "TextGenerator",
    "Translation",
    "Translator",
    "WordSenses",
    "WriteSamples",
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
