"""A word's vector in its sentence, from any encoder and any tokenizer."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_transformer.ops.backend import without_gradients
from keras_transformer.tasks.encoding import length_batches
from keras_transformer.tasks.texts import check_texts

# What tokenizers put before or into a piece to mark where words begin.
MARKS = ("▁", "##")
MASK_PIECE = "<mask>"


def word_spans(text: str, word: str) -> list[tuple[int, int]]:
    """Return where the tokens of a text that begin with a word have it.

    Args:
        text: The text; spaces stand between its tokens.
        word: The word; a particle may stand behind it.

    Returns:
        A pair for each such token: the word's first letter, and its last + 1.

    Raises:
        ValueError: No token begins with the word.

    Example:

    >>> word_spans("배 타고 배를 먹으니", "배")
    [(0, 1), (5, 6)]
    """
    starts = [
        at
        for at in range(len(text))
        if word and text.startswith(word, at) and (at == 0 or text[at - 1].isspace())
    ]
    if not starts:
        raise ValueError(
            f"No token of the text begins with the word. Received: word={word!r}, "
            f"text={text!r}."
        )
    return [(start, start + len(word)) for start in starts]


def word_pieces(tokenizer, text: str, span: tuple[int, int]) -> list[int]:
    """Return the numbers of the pieces of a text that hold letters of a span.

    Args:
        tokenizer: Its `pieces` are written with the text's own letters.
        text: The text.
        span: First letter, and last + 1.

    Returns:
        Numbers, ascending.

    Raises:
        ValueError: A span outside the text or of spaces alone, or pieces of other
            letters than the text's.

    Example:

    >>> word_pieces(tokenizer, "배를 먹으니", (0, 1))
    [0]
    """
    start, stop = span
    if not (0 <= start < stop <= len(text)) or not text[start:stop].strip():
        raise ValueError(
            f"A span must hold letters of its text. Received: span={tuple(span)}, "
            f"text={text!r}."
        )
    pieces = tokenizer.pieces(text)
    owners = [number for number, piece in enumerate(pieces) for _ in _letters(piece)]
    letters = "".join(map(_letters, pieces))
    whole = "".join(text.split())
    offset = letters.find(whole)  # special tokens may stand before the text
    if offset < 0:
        raise ValueError(
            "The tokenizer writes the text in other letters, so that its pieces "
            f"cannot be found in it. Received: text={text!r}, pieces={pieces}."
        )
    start = offset + len("".join(text[:start].split()))
    length = len("".join(text[slice(*span)].split()))
    return sorted(set(owners[start : start + length]))


def word_vectors(
    model,
    tokenizer,
    texts: Sequence[str],
    spans: Sequence[tuple[int, int]],
    *,
    hide: bool = False,
    batch_size: int = 64,
) -> np.ndarray:
    """Return the vector that a model has for a word, in each text its own.

    `vector = mean of h_t over the pieces t that hold letters of the word`,
    with h = `model.encode(ids)`

    Args:
        model: A `TextEncoder` or `MaskedLanguageModel`.
        tokenizer: Its tokenizer.
        texts: The texts.
        spans: For each text the word's place: first letter, and last + 1. A text
            with the word three times is passed three times.
        hide: Whether the model reads masks in place of those pieces, so that the
            vector holds what the rest of the text says of the word.
        batch_size: Most texts in one call.

    Returns:
        float32 array (texts, E).

    Raises:
        TypeError: A text that is no string.
        ValueError: Not as many spans as texts, as `word_pieces`, and with `hide` a
            tokenizer without a mask.

    Example:

    >>> spans = word_spans("배 타고 배 먹으니", "배")
    >>> vectors = word_vectors(model, tokenizer, ["배 타고 배 먹으니"] * 2, spans)

    (chapter: 6)
    """
    rows, places = _rows_and_places(tokenizer, texts, spans)
    if hide:
        hidden = mask_id(tokenizer)
        rows = [
            [hidden if number in place else id for number, id in enumerate(row)]
            for row, place in zip(rows, places, strict=True)
        ]
    encode = without_gradients(model.encode)
    vectors = np.zeros((len(rows), model.embed_dim), "float32")
    for length, numbers, batch in length_batches(rows, batch_size):
        counts = np.array([len(row) for row in batch])
        limit = max(model.position_limit or length, counts.max())
        ids = tokenizer.pad(batch, min(length, limit))
        mask = np.arange(ids.shape[1]) < counts[:, None]
        outputs = encode({"token_ids": ids, "padding_mask": mask})
        outputs = ops.convert_to_numpy(ops.cast(outputs, "float32"))
        for number, output in zip(numbers, outputs, strict=False):
            vectors[number] = output[places[number]].mean(axis=0)
    return vectors


def embedding_vectors(
    model, tokenizer, texts: Sequence[str], spans: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Return a word's vector in the token table alone: the same in every context.

    `vector = mean of table[id_t] over the pieces t that hold letters of the word`

    Args:
        model: As in `word_vectors`.
        tokenizer: As in `word_vectors`.
        texts: As in `word_vectors`.
        spans: As in `word_vectors`.

    Returns:
        float32 array (texts, E).

    Raises:
        TypeError, ValueError: As in `word_vectors`.

    (chapter: 6)
    """
    table = ops.convert_to_numpy(
        ops.cast(model.embedding.token_embedding.embeddings, "float32")
    )
    rows, places = _rows_and_places(tokenizer, texts, spans)
    vectors = np.zeros((len(rows), table.shape[1]), "float32")
    for vector, row, place in zip(vectors, rows, places, strict=True):
        vector[:] = table[np.asarray(row)[place]].mean(axis=0)
    return vectors


def _rows_and_places(tokenizer, texts, spans):
    """Return the ids of each text, and the places of its word's pieces among them."""
    texts, _ = check_texts(texts)
    spans = list(spans)
    if len(texts) != len(spans):
        raise ValueError(
            f"There must be one span for each text. Received: {len(texts)} texts, "
            f"{len(spans)} spans."
        )
    pairs = zip(texts, spans, strict=True)
    places = [word_pieces(tokenizer, text, span) for text, span in pairs]
    return tokenizer.encode(texts), places


def mask_id(tokenizer) -> int:
    """Return the id that hides another: the tokenizer's own, or that of `<mask>`.

    Args:
        tokenizer: One with a `mask_id`, or with a piece `<mask>`.

    Raises:
        ValueError: It has neither.
    """
    if getattr(tokenizer, "mask_id", None) is not None:
        return tokenizer.mask_id
    id = tokenizer.piece_to_id(MASK_PIECE)
    if id is None or tokenizer.id_to_piece(id) != MASK_PIECE:
        raise ValueError(
            f"The tokenizer has no piece {MASK_PIECE!r}. Train it with "
            f"user_defined_symbols=[{MASK_PIECE!r}]."
        )
    return id


def _letters(piece):
    for mark in MARKS:
        piece = piece.replace(mark, "")
    return "".join(piece.split())
