"""Batches of rows that are drawn anew for each epoch."""

import numpy as np
import pytest

from keras_transformer.datasets import BucketedDataset


def drawn(epoch, count=70, most=3):
    """Rows of a draw: each has 1 to `most` times its number, more in some epochs."""
    rng = np.random.default_rng(epoch)
    return [[row + 1] * rng.integers(1, most + 1) for row in range(count)]


def test_rows_of_one_edge_at_the_limit_get_one_beyond():
    """Else TensorFlow takes the limit for constant, and refuses shorter batches."""
    full = [[1] * 10] * 4
    data = BucketedDataset(
        [[1], [1], [1], [1] * 10],
        range(4),
        batch_size=2,
        redraw=lambda epoch: full,
        max_length=10,
    )
    data.set_epoch(1)
    assert sorted(ids.shape[1] for ids, _ in data) == [10, 12]


def test_batches_that_are_alike_in_all_epochs_are_made_once():
    data = BucketedDataset([[1], [2], [3]], batch_size=2, shuffle=False)
    list(data)
    planned = data._planned
    data.on_epoch_end()
    list(data)
    assert data._planned is planned


def served(data):
    """Label -> the ids of its row, of an epoch."""
    return {
        label: row[row > 0].tolist()
        for ids, labels in data
        for row, label in zip(ids, labels.tolist(), strict=True)
    }


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("limit", [None, 14])
def test_no_token_of_a_longer_draw_is_lost(shuffle, limit):
    most = [3, 9, 14, 2, 40, 5, 40, 3]
    data = BucketedDataset(
        drawn(0, most=3),
        range(70),
        batch_size=16,
        redraw=lambda epoch: drawn(epoch, most=most[epoch]),
        max_length=limit,
        shuffle=shuffle,
    )
    count, every = len(data), set()
    for epoch, longest in enumerate(most):
        expected = drawn(epoch, most=longest)
        assert served(data) == {row: ids[:limit] for row, ids in enumerate(expected)}
        assert len(list(data)) == len(data) == count == 5
        every |= {ids.shape for ids, _ in data}
        # One edge beyond the limit, where all rows reach it.
        assert all(ids.shape[1] <= (17 if limit else 50) for ids, _ in data)
        data.on_epoch_end()
    # Three sizes at the most, and few edges.
    assert len({rows for rows, _ in every}) <= 3
    assert len({width for _, width in every}) <= len(data.edges) + 13


def test_the_draws_of_an_epoch_depend_on_its_number_alone():
    def made():
        return BucketedDataset(drawn(0), range(70), batch_size=16, redraw=drawn)

    whole, late = made(), made()
    for _ in range(3):
        list(whole)
        whole.on_epoch_end()
    late.set_epoch(3)
    assert served(whole) == served(late)
    for (ids, labels), (others, more) in zip(whole, late, strict=True):
        np.testing.assert_array_equal(ids, others)
        np.testing.assert_array_equal(labels, more)


@pytest.mark.parametrize("settings", [{}, {"drop_remainder": True}])
@pytest.mark.parametrize("count, lengths", [(2, 1), (5, 1), (40, 1), (40, 6), (70, 2)])
def test_the_first_two_batches_of_draws_differ_in_length(count, lengths, settings):
    """Else TensorFlow refuses an epoch of longer ones."""
    rows = [[1] * (1 + row % lengths) for row in range(count)]
    data = BucketedDataset(rows, range(count), redraw=lambda _: rows, **settings)
    assert len(data) >= 2
    assert data[0][0].shape[1] != data[1][0].shape[1]


def test_redraw_must_return_as_many_rows():
    data = BucketedDataset([[1], [2]], [0, 1], redraw=lambda epoch: [[1]])
    data.on_epoch_end()
    with pytest.raises(ValueError, match="must return 2 sequences. It returned 1"):
        data[0]
    for arguments, settings in (
        (([[1], [2]], [[2], [3]]), {}),
        ([[1]], {}),
        ([[1], [2]], {"max_tokens": 8}),
    ):
        with pytest.raises(ValueError, match="`redraw` needs one input of at least"):
            BucketedDataset(arguments, redraw=lambda epoch: None, **settings)
    data = BucketedDataset([[1], [2]], redraw=lambda epoch: [], shuffle=False)
    with pytest.raises(ValueError, match="only with.*without `redraw`"):
        data.restore(np.zeros((2, 1)))
