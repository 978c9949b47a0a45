"""Texts of near lengths together, so that a search compiles for few sizes."""

from collections.abc import Iterator, Sequence

from keras_transformer.generation.inputs import bucket
from keras_transformer.ops.checks import check_integer


def length_batches(rows: Sequence, batch_size: int) -> Iterator[tuple]:
    """Yield batches of rows that are padded to one length.

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
