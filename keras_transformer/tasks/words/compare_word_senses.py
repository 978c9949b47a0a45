"""Several ways to make a vector of a word, measured by the senses they tell apart."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from keras_transformer.tasks.words.word_senses import WordSenses
from keras_transformer.tasks.words.word_vectors import word_spans

COLUMNS = ("word", "sense", "sentence")


def compare_word_senses(
    encoders: Mapping[str, Callable],
    known: pd.DataFrame,
    test: pd.DataFrame,
    *,
    text: str,
    word: str,
    num_neighbors: int = 5,
) -> pd.DataFrame:
    """Measure on the same sentences which vectors of a word tell its senses apart.

    `accuracy = share of the test sentences whose nearest known ones have their sense`,
    and for each occurrence of a word in one text the sense of its nearest.

    Args:
        encoders: Name -> function of texts and spans that returns vectors, as in
            `WordSenses`.
        known: Sentences whose sense is known, with the columns `word`, `sense` and
            `sentence`, as `load_homonyms` has them.
        test: Other sentences, with the same columns.
        text: A text with a word in several senses.
        word: That word.
        num_neighbors: As in `WordSenses`.

    Returns:
        A table with a row for each encoder: `accuracy` on `test`; `1`, `2`, ..., the
        sense of each occurrence of the word in the text; and `spread`, how far its
        vectors lie apart: `max ||h_i - h_j|| / max ||h_i||`, 0 where they are one and
        the same.

    Raises:
        ValueError: A table without a column, and as `WordSenses`.

    Example:

    >>> encoders = {"trained": partial(word_vectors, model, tokenizer)}
    >>> text = "배 타고 배 먹으니 배 아프다"
    >>> table = compare_word_senses(encoders, *load_homonyms(), text=text, word="배")

    (chapter: 6)
    """
    check_word_tables(known, test, text, word)
    rows = []
    for encode in encoders.values():
        senses = WordSenses(encode, *_columns(known), num_neighbors=num_neighbors)
        found = senses.sense_of(text, word)
        rows.append(
            {
                "accuracy": senses.evaluate(*_columns(test))["accuracy"],
                **{str(n): sense for n, sense in enumerate(found, start=1)},
                "spread": _spread(senses.vectors(text, word)),
            }
        )
    return pd.DataFrame(rows, index=pd.Index(encoders, name="vectors"))


def check_word_tables(known, test, text: str, word: str):
    """Refuse what `compare_word_senses` cannot measure, before any work.

    Raises:
        ValueError: A table without a column, or a word that is not in the text or
            not among the known sentences.
    """
    for name, frame in (("known", known), ("test", test)):
        missing = [column for column in COLUMNS if column not in frame]
        if missing:
            raise ValueError(
                f"`{name}` must have the columns {', '.join(COLUMNS)}. There is no "
                f"{missing[0]!r} among: {', '.join(map(str, frame))}."
            )
    word_spans(text, word)
    unknown = sorted({word, *test["word"]} - set(known["word"]))
    if unknown:
        raise ValueError(
            f"No sentence of `known` has the word {unknown[0]!r}. There are: "
            f"{', '.join(map(str, known['word'].unique()))}."
        )


def _columns(frame):
    return (frame[name].tolist() for name in ("sentence", "word", "sense"))


def _spread(vectors):
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1).max()
    return float(apart / max(np.linalg.norm(vectors, axis=-1).max(), 1e-9))
