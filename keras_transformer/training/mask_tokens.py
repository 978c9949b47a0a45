"""BERT's training task: what it reads, and what it is to find."""

from collections.abc import Iterable, Sequence

import numpy as np

from keras_transformer.ops.checks import check_id, check_integer, check_number


def mask_tokens(
    sequences: Sequence,
    mask_token_id: int,
    vocabulary_size: int,
    *,
    unselectable_token_ids: Sequence[int] = (),
    mask_selection_rate: float | Sequence = 0.15,
    mask_token_rate: float = 0.8,
    random_token_rate: float = 0.1,
    seed: int = 0,
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return what BERT reads, what it is to find, and where: its training task.

    Each id is chosen with the probability `mask_selection_rate`, and at least one of a
    row. Of the chosen, 80 % become `mask_token_id`, 10 % an id at random, and 10 % stay
    as they are, so that the model must doubt every word. The loss counts the chosen
    ones only:

    `[a, b, c, d] -> inputs [a, MASK, c, d], labels [a, b, c, d], weights [0, 1, 0, 0]`

    Each row has its own draw: `mask_tokens(rows * 10, ...)` gives ten masks of each
    text, as in the paper, for one call of `fit`.

    Args:
        sequences: Token ids of each text, rows of any length.
        mask_token_id: The id that hides another. It is never chosen or drawn.
        vocabulary_size: Number of token ids V; other ids are drawn from all of them.
        unselectable_token_ids: Ids that are never chosen or drawn: padding, unknown,
            first and last of a text; `None` among them is passed over.
        mask_selection_rate: Probability of an id to be chosen, more than 0 and at most
            1; or for each row a sequence of them, one for each id, where some are to
            be asked for more often.
        mask_token_rate: Share of the chosen that become `mask_token_id`.
        random_token_rate: Share of the chosen that become an id at random.
        seed: Equal seeds give equal masks.

    Returns:
        Inputs, labels and weights, lists of arrays of equal lengths, for
        `BucketedDataset(inputs, labels, sample_weight=weights)`.

    Raises:
        ValueError: An id that is no integer or outside the vocabulary, a rate out of
            range, a row without an id that may be chosen.

    Example:

    >>> inputs, labels, weights = mask_tokens([[11, 12, 13]], 4, 20)
    >>> data = BucketedDataset(inputs, labels, sample_weight=weights)

    Source: Devlin et al. 2019, https://arxiv.org/abs/1810.04805 (3.1, A.1)
    """
    vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
    kept = np.zeros(vocabulary_size, bool)
    for name, ids in (
        ("mask_token_id", [mask_token_id]),
        ("unselectable_token_ids", unselectable_token_ids),
    ):
        for id in ids:
            check_id(name, id, vocabulary_size, "vocabulary_size")
            if id is not None:
                kept[id] = True
    if mask_token_id is None:
        raise ValueError(
            "`mask_token_id` must be the id of a mask token. Received: None. Train the "
            "tokenizer with user_defined_symbols=['<mask>'], and pass "
            "tokenizer.piece_to_id('<mask>')."
        )
    check_number("mask_token_rate", mask_token_rate, at_least=0, at_most=1)
    check_number("random_token_rate", random_token_rate, at_least=0, at_most=1)
    if mask_token_rate + random_token_rate > 1 + 1e-9:
        raise ValueError(
            "`mask_token_rate` and `random_token_rate` must be together at most 1. "
            f"Received: {mask_token_rate!r} and {random_token_rate!r}."
        )
    sequences, rates = list(sequences), mask_selection_rate
    if not isinstance(rates, Iterable) or getattr(rates, "ndim", 1) == 0:
        check_number("mask_selection_rate", rates, above=0, at_most=1)
        rates = [rates] * len(sequences)
    rates = list(rates)
    if len(rates) != len(sequences):
        raise ValueError(
            "`mask_selection_rate` must be a number, or rates for each row. Received: "
            f"rates for {len(rates)} of {len(sequences)} rows."
        )
    others = np.flatnonzero(~kept)
    rng = np.random.default_rng(seed)
    inputs, labels, weights = [], [], []
    for index, row in enumerate(sequences):
        row, rate = np.asarray(row), np.asarray(rates[index], "float64")
        if row.size and row.dtype.kind not in "iu":
            raise ValueError(
                f"Ids must be integers. Row {index} of `sequences` is {row.tolist()}."
            )
        if (
            rate.ndim
            and rate.shape != row.shape
            or not ((rate > 0) & (rate <= 1)).all()
        ):
            raise ValueError(
                "`mask_selection_rate` must be more than 0 and at most 1, one for each "
                f"id. Received for row {index}: {rate.tolist()!r}."
            )
        if row.size and not 0 <= row.min() <= row.max() < vocabulary_size:
            raise ValueError(
                f"Ids must be from 0 to {vocabulary_size - 1}, less than "
                f"`vocabulary_size`. Row {index} of `sequences` is {row.tolist()}."
            )
        row = row.astype("int32")
        free = np.flatnonzero(~kept[row])
        if not free.size:
            raise ValueError(
                f"Row {index} of `sequences` has no id that may be hidden: "
                f"{row.tolist()}. Leave it out."
            )
        chosen = free[rng.random(free.size) < np.broadcast_to(rate, row.shape)[free]]
        if not chosen.size:
            chosen = rng.choice(free, 1)
        read, weight = row.copy(), np.zeros(row.size, "float32")
        draw = rng.random(chosen.size)
        read[chosen[draw < mask_token_rate]] = mask_token_id
        draw = draw - mask_token_rate
        drawn = chosen[(draw >= 0) & (draw < random_token_rate)]
        read[drawn] = rng.choice(others, drawn.size)
        weight[chosen] = 1
        inputs.append(read)
        labels.append(row)
        weights.append(weight)
    return inputs, labels, weights
