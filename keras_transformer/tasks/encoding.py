"""Texts to ids for each use, with any of the package's tokenizers; ids to batches."""

from collections.abc import Iterator, Sequence

from keras_transformer.generation.inputs import bucket
from keras_transformer.ops.checks import check_integer
from keras_transformer.tokenizers import (
    HuggingFaceTokenizer,
    MappedSentencePieceTokenizer,
)

_TEMPLATED = (HuggingFaceTokenizer, MappedSentencePieceTokenizer)


def encode_source(tokenizer, texts, max_length: int):
    """Return what an encoder reads: a text and its end, or as the template has it."""
    if isinstance(tokenizer, _TEMPLATED):
        return tokenizer.encode(texts, max_length=max_length)
    return tokenizer.encode(texts, add_eos=True, max_length=max_length)


def encode_bare(tokenizer, texts, *, add_bos=False, target=False, max_length=None):
    """Return the ids of texts without a template.

    Args:
        tokenizer: Any of the package's.
        texts: The texts.
        add_bos: Whether the bos id comes first.
        target: Whether they are of the language that is translated to.
        max_length: Most ids of a text.
    """
    settings = {"add_bos": add_bos}
    if max_length is not None:
        settings["max_length"] = max_length
    if isinstance(tokenizer, _TEMPLATED) and not add_bos:
        settings["add_special_tokens"] = False
    if target and isinstance(tokenizer, MappedSentencePieceTokenizer):
        settings["target"] = True
    return tokenizer.encode(texts, **settings)


def begins_with_bos(tokenizer) -> bool:
    """Return whether a text to be written on begins with bos, if nobody says.

    Llama's template has it, GPT-2 has none; without a template it does.
    """
    if not isinstance(tokenizer, _TEMPLATED):
        return True
    first = tokenizer.encode("")[:1]
    return bool(first) and first == [tokenizer.bos_id]


def masked_by_length(**rows: Sequence) -> dict[str, list]:
    """Return a model's inputs with masks, which tell padding by a row's length alone.

    An end may have the id of padding, as in GPT-2; told by ids it would be hidden.

    Args:
        **rows: Name of an input that ends in `token_ids` -> its rows. The mask of
            `<prefix>token_ids` is `<prefix>padding_mask`. Pad both with 0.
    """
    masked = {}
    for name, ids in rows.items():
        masked[name] = ids
        mask = name.replace("token_ids", "padding_mask")
        masked[mask] = [[1] * len(row) for row in ids]
    return masked


def length_batches(rows: Sequence, batch_size: int) -> Iterator[tuple]:
    """Yield batches of rows of near lengths, so that a search compiles for few.

    Args:
        rows: Token ids of each row.
        batch_size: Most rows a batch.

    Yields:
        The padded length; the numbers of the batch's rows; the rows, filled up to a
        power of two (or `batch_size`) with the first one, since each number of rows
        compiles anew.
    """
    batch_size = check_integer("batch_size", batch_size)
    groups = {}
    for index, row in enumerate(rows):
        groups.setdefault(bucket(len(row)), []).append(index)
    for length, members in sorted(groups.items()):
        for start in range(0, len(members), batch_size):
            numbers = members[start : start + batch_size]
            size = min(batch_size, 1 << (len(numbers) - 1).bit_length())
            filled = numbers + [numbers[0]] * (size - len(numbers))
            yield length, numbers, [rows[index] for index in filled]
