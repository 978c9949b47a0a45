"""What a decoder reads, and what it is to predict."""

from collections.abc import Sequence


def shift_right(
    sequences: Sequence, start_id: int | None = None, stop_id: int | None = None
) -> tuple[list[list[int]], list[list[int]]]:
    """Return what a decoder reads, and what it is to predict from it.

    `[a, b, c] -> inputs [start, a, b, c], labels [a, b, c, stop]`: at each place the
    label is the token after the one that is read. Without `start_id` and `stop_id`,
    as for a language model, `[a, b, c] -> [a, b], [b, c]`.

    Both are padded by their lengths, not by their values (`BucketedDataset` with
    `sample_weight="tokens"`), so a stop id that is also the padding id is learned.

    Args:
        sequences: Token ids of each text, without start and stop ids.
        start_id: Put before each input.
        stop_id: Put behind each label.

    Returns:
        Inputs and labels, lists of lists of equal lengths.

    Raises:
        ValueError: A row leaves nothing to predict.

    Example:

    >>> shift_right([[11, 12, 13]], start_id=2, stop_id=3)
    ([[2, 11, 12, 13]], [[11, 12, 13, 3]])
    """
    before = [] if start_id is None else [int(start_id)]
    behind = [] if stop_id is None else [int(stop_id)]
    whole = [[*before, *map(int, row), *behind] for row in sequences]
    for index, row in enumerate(whole):
        if len(row) < 2:
            raise ValueError(
                f"Row {index} of `sequences` is too short: with a start and a stop id "
                f"it must have at least 2 ids. Received: {list(row)}. Leave it out."
            )
    return [row[:-1] for row in whole], [row[1:] for row in whole]
