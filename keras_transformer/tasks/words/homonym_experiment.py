"""The chapter's homonyms: does an encoder that reads raw text tell them apart?"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import keras
import pandas as pd

from keras_transformer.layers import RelativePositionBias
from keras_transformer.models import MaskedLanguageModel
from keras_transformer.ops.checks import check_integer
from keras_transformer.tasks.texts import check_texts
from keras_transformer.tasks.words.compare_word_senses import (
    check_word_tables,
    compare_word_senses,
)
from keras_transformer.tasks.words.context_words import ContextWords
from keras_transformer.tasks.words.masked_words import fit_masked_words
from keras_transformer.tasks.words.word_vectors import (
    embedding_vectors,
    word_vectors,
)
from keras_transformer.tokenizers import SentencePieceTokenizer

SENTENCE, WORD = "배 타고 배 먹으니 배 아프다", "배"
SIZES = {"num_layers": 2, "embed_dim": 64, "num_heads": 4, "dense_dim": 128}
FIT = {
    "rate": 0.6,
    "rarity": 1e-3,
    "learning_rate": 3e-3,
    "max_tokens": 512,
}


class HomonymExperiment(NamedTuple):
    """What `homonym_experiment` returns.

    Attributes:
        table: From `compare_word_senses`.
        encoders: Name of each row -> its function of texts and spans.
        model: The trained `MaskedLanguageModel`.
        tokenizer: Its tokenizer.
        history: Keras's `History` of its training.
    """

    table: pd.DataFrame
    encoders: dict[str, Callable]
    model: MaskedLanguageModel
    tokenizer: SentencePieceTokenizer
    history: keras.callbacks.History


def homonym_experiment(
    known: pd.DataFrame,
    test: pd.DataFrame,
    texts: Sequence[str] = (),
    *,
    text: str = SENTENCE,
    word: str = WORD,
    vocabulary_size: int = 2000,
    epochs: int = 30,
    num_neighbors: int = 1,
    seed: int = 0,
    verbose="auto",
) -> HomonymExperiment:
    """Train a small encoder by hidden words, and ask it for the senses of homonyms.

    No sense is shown to the training. The vector of a word is the output at its place,
    where a mask hides it: what the sentence says of it. Compared are the vectors of the
    trained encoder (`trained`), of the same before its training (`untrained`), of one
    trained alike that knows no positions (`no positions`), of the token table alone
    (`embedding`), and the counts of the pieces around the word (`context`).

    Args:
        known: Sentences whose sense is known, as `load_homonyms().train`. The
            encoders read them too, without the senses.
        test: Other sentences, as `load_homonyms().test`; no training reads them.
        texts: Further texts to train on; the more, the less hangs on the seed.
        text: A text with a word in several senses.
        word: That word.
        vocabulary_size: Pieces of the tokenizer, which is trained on the same texts.
        epochs: How often each text is read.
        num_neighbors: As in `WordSenses`.
        seed: Seed of the weights and of the training; `keras.utils.set_random_seed`
            is called with it.
        verbose: As in `fit`.

    Returns:
        A `HomonymExperiment`.

    Raises:
        ValueError: As `compare_word_senses` and `fit_masked_words`.

    Example:

    >>> texts = load_pairs().train["source"]
    >>> found = homonym_experiment(*load_homonyms(), texts)
    >>> print(found.table)

    (chapter: 6)
    """
    check_word_tables(known, test, text, word)
    num_neighbors = check_integer("num_neighbors", num_neighbors)
    texts = [*known["sentence"], *check_texts(texts)[0]]
    tokenizer = SentencePieceTokenizer.train(
        texts, vocabulary_size, user_defined_symbols=["<mask>"]
    )

    def build(positions=True):
        keras.utils.set_random_seed(seed)
        bias = RelativePositionBias(SIZES["num_heads"], bidirectional=True)
        model = MaskedLanguageModel(
            tokenizer.vocabulary_size,
            **SIZES,
            positions=None,
            position_bias=bias if positions else None,
            activation="gelu",
            normalize_first=True,
        )
        model.build()
        return model

    def train(model):
        return fit_masked_words(
            model,
            tokenizer,
            texts,
            epochs=epochs,
            seed=seed,
            verbose=verbose,
            **FIT,
        )

    model, unordered = build(), build(positions=False)
    history = train(model)
    train(unordered)
    encoders = {
        "trained": partial(word_vectors, model, tokenizer, hide=True),
        "untrained": partial(word_vectors, build(), tokenizer, hide=True),
        "no positions": partial(word_vectors, unordered, tokenizer, hide=True),
        "embedding": partial(embedding_vectors, model, tokenizer),
        "context": ContextWords(tokenizer, texts),
    }
    table = compare_word_senses(
        encoders, known, test, text=text, word=word, num_neighbors=num_neighbors
    )
    return HomonymExperiment(table, encoders, model, tokenizer, history)
