"""What a sentence says of a word without any model: the pieces around it, counted."""

from collections.abc import Sequence

import numpy as np

from keras_transformer.ops.checks import check_integer
from keras_transformer.tasks.texts import check_texts
from keras_transformer.tasks.words.word_vectors import word_pieces


class ContextWords:
    """Count the pieces around a word, the rarer the heavier: a bag of context.

    `vector[v] = sqrt(count of v near the word) * log((1 + D) / (1 + D_v))`, with D
    texts, D_v of them with the piece v; the word's own pieces are left out. It
    stands where a model's vectors stand, in `WordSenses`.

    Args:
        tokenizer: The tokenizer.
        texts: Texts that say how rare a piece is.
        window: Most pieces on each side of the word; `None` for the whole text.

    Call arguments:
        texts: The texts.
        spans: For each the word's place: first letter, and last + 1.

    Returns:
        float32 array (texts, V).

    Raises:
        ValueError: As `word_pieces`.

    Example:

    >>> bag = ContextWords(tokenizer, texts, window=6)
    >>> vectors = bag(["배 타고 배 먹으니"], [(0, 1)])

    (chapter: 6)
    """

    def __init__(self, tokenizer, texts: Sequence[str], *, window: int | None = None):
        self.tokenizer = tokenizer
        self.window = check_integer("window", window, optional=True)
        texts, _ = check_texts(texts)
        seen = np.zeros(tokenizer.vocabulary_size)
        for row in tokenizer.encode(texts):
            seen[list(set(row))] += 1
        self.rarity = np.log((1 + len(texts)) / (1 + seen))

    def __call__(self, texts: Sequence[str], spans: Sequence) -> np.ndarray:
        counts = np.zeros((len(texts), len(self.rarity)), "float32")
        rows = self.tokenizer.encode(list(texts))
        for count, text, span, row in zip(counts, texts, spans, rows, strict=True):
            own = word_pieces(self.tokenizer, text, span)
            before, behind = row[: own[0]], row[own[-1] + 1 :]
            if self.window is not None:
                before, behind = before[-self.window :], behind[: self.window]
            np.add.at(count, [*before, *behind], 1)
        return np.sqrt(counts) * self.rarity.astype("float32")
