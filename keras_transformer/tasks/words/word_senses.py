"""The sense of a word by its neighbours: vectors of the word in other sentences."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from keras_transformer.ops.checks import check_integer
from keras_transformer.tasks.texts import check_texts
from keras_transformer.tasks.words.word_vectors import word_spans


class WordSenses:
    """Tell the senses of a word apart by the labelled sentences that are nearest.

    `sense = the most frequent of the k sentences with the largest cos(h, h_i)`,
    where h is the word's vector in its sentence, less the mean of the known vectors
    of that word. No sense is learned: what tells them apart is the context that a
    model has put into h.

    Args:
        encode: Function of texts and of a span for each, (first letter, last + 1),
            that returns vectors (texts, E); such as `word_vectors` with its model
            and tokenizer.
        texts: Sentences whose sense is known.
        words: The word of each sentence, at the beginning of one of its tokens; the
            first such token counts.
        senses: The sense of each, a string or an integer.
        num_neighbors: Number k of sentences that vote; of equal votes the nearest's
            counts.

    Raises:
        TypeError: A text that is no string.
        ValueError: Not as many words and senses as texts, or a text without its word.

    Example:

    >>> known = load_homonyms().train
    >>> columns = (known[name] for name in ("sentence", "word", "sense"))
    >>> senses = WordSenses(partial(word_vectors, model, tokenizer), *columns)
    >>> print(senses.nearest("배 타고 배 먹으니 배 아프다", "배"))

    Source: Peters et al. 2018, https://arxiv.org/abs/1802.05365 (5.3) (chapter: 6)
    """

    def __init__(
        self,
        encode: Callable[[Sequence[str], Sequence], np.ndarray],
        texts: Sequence[str],
        words: Sequence[str],
        senses: Sequence,
        *,
        num_neighbors: int = 5,
    ):
        self.encode = encode
        self.num_neighbors = check_integer("num_neighbors", num_neighbors)
        texts, senses = check_texts(texts, senses)
        self.known = pd.DataFrame(
            {"word": _words(texts, words), "sense": senses, "sentence": texts}
        )
        vectors = encode(texts, _first_spans(texts, self.known["word"]))
        groups = self.known.groupby("word").indices
        self._means = {
            word: vectors[rows].mean(axis=0) for word, rows in groups.items()
        }
        self._rows = groups
        self._vectors = {
            word: self._centred(vectors[rows], word) for word, rows in groups.items()
        }

    def vectors(self, text: str, word: str) -> np.ndarray:
        """Return the vector of each occurrence of a word in a text, (count, E)."""
        spans = word_spans(text, word)
        return self.encode([text] * len(spans), spans)

    def nearest(self, text: str, word: str) -> pd.DataFrame:
        """Return the known sentences that are nearest to each occurrence of a word.

        Args:
            text: The text.
            word: The word; a token of the text begins with it.

        Returns:
            A table with the columns `occurrence` (counted from 0), `similarity`,
            `sense` and `sentence`, the nearest first.

        Raises:
            ValueError: No token begins with the word, or no known sentence has it.
        """
        rows, cosines = self._neighbours(self.vectors(text, word), word)
        table = self.known.loc[rows.ravel(), ["sense", "sentence"]].reset_index(
            drop=True
        )
        table.insert(0, "similarity", cosines.ravel())
        table.insert(0, "occurrence", np.repeat(np.arange(len(rows)), rows.shape[1]))
        return table

    def sense_of(self, text: str, word: str) -> list:
        """Return the sense of each occurrence of a word in a text; see `nearest`."""
        return self._votes(self.vectors(text, word), word)

    def predict(self, texts: Sequence[str], words: Sequence[str]) -> list:
        """Return the sense of the first occurrence of a word in each text."""
        texts, _ = check_texts(texts)
        words = _words(texts, words)
        vectors = self.encode(texts, _first_spans(texts, words))
        senses = [None] * len(texts)
        for word in dict.fromkeys(words):
            rows = [row for row, other in enumerate(words) if other == word]
            for row, sense in zip(rows, self._votes(vectors[rows], word), strict=True):
                senses[row] = sense
        return senses

    def evaluate(
        self, texts: Sequence[str], words: Sequence[str], senses: Sequence
    ) -> dict:
        """Compare the senses that are found with the right ones.

        Args:
            texts: Sentences that are not among the known ones.
            words: The word of each.
            senses: The right sense of each.

        Returns:
            `accuracy`, the share of right senses; and `words`, a pandas table with
            a row for each word: its number of `sentences`, and their `accuracy`.
        """
        texts, senses = check_texts(texts, senses)
        words = _words(texts, words)
        found = self.predict(texts, words)
        right = pd.Series([a == b for a, b in zip(found, senses, strict=True)])
        each = right.groupby(pd.Index(words, name="word"))
        table = each.agg(sentences="size", accuracy="mean")
        return {"accuracy": float(right.mean()), "words": table}

    def _neighbours(self, vectors, word):
        """The nearest known rows (vectors, k) of a word, and their cosines."""
        if word not in self._rows:
            raise ValueError(
                f"No known sentence has the word {word!r}. There are: "
                f"{', '.join(self._rows)}."
            )
        cosines = self._centred(vectors, word) @ self._vectors[word].T
        order = np.argsort(-cosines, axis=1, kind="stable")[:, : self.num_neighbors]
        return self._rows[word][order], np.take_along_axis(cosines, order, axis=1)

    def _centred(self, vectors, word):
        """Vectors less the word's mean, of length 1; 0 where only rounding is left."""
        rest = vectors - self._means[word]
        least = 1e-5 * np.linalg.norm(self._means[word])
        rest[np.linalg.norm(rest, axis=1) < least] = 0
        return unit(rest)

    def _votes(self, vectors, word):
        rows, _ = self._neighbours(vectors, word)
        senses = self.known["sense"].to_numpy()
        # Of equal counts, most_common gives the one that came first: the nearest.
        return [Counter(senses[row]).most_common(1)[0][0] for row in rows]


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (..., E) of length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-9)


def _first_spans(texts, words):
    return [word_spans(*pair)[0] for pair in zip(texts, words, strict=True)]


def _words(texts, words):
    words = [words] * len(texts) if isinstance(words, str) else list(words)
    if len(words) != len(texts):
        raise ValueError(
            f"There must be one word for each text. Received: {len(texts)} texts, "
            f"{len(words)} words."
        )
    return words
