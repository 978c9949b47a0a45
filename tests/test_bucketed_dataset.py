"""BucketedDataset: the laws of its batches."""

import itertools
import pickle

import keras
import numpy as np
import pytest

from keras_transformer.datasets import BucketedDataset
from keras_transformer.datasets.buckets import least_padding
from random_rows import pairs, random_rows


def make(kind, **settings):
    if kind == "pairs":
        inputs, labels = pairs()
        return BucketedDataset(inputs, labels, sample_weight="tokens", **settings)
    return BucketedDataset(*random_rows(), **settings)


def shapes(dataset):
    """The shapes of all arrays of each batch."""
    return [tuple(a.shape for a in keras.tree.flatten(batch)) for batch in dataset]


SETTINGS = [
    {"batch_size": 8},
    {"batch_size": 7},
    {"batch_size": 64},
    {"batch_size": 1},
    {"max_tokens": 60},
    {"max_tokens": 60, "batch_size": 5},
    {"batch_size": 8, "edges": (4, 8, 16, 32)},
    {"batch_size": 8, "edges": (4, 8)},
    {"batch_size": 8, "edges": 30},
    {"max_tokens": 100, "edges": (4, 8)},
    {"batch_size": 8, "shuffle": False},
    {"max_tokens": 60, "shuffle": False},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_row_comes_once_an_epoch_with_its_label(settings):
    rows, labels = random_rows()
    data = BucketedDataset(rows, labels, **settings)
    for _ in range(3):
        assert sorted(data.order) == list(range(len(rows)))
        place = 0
        for ids, targets in data:
            assert ids.dtype == targets.dtype == "int32"
            assert ids.shape[1] in data.edges
            for row, target in zip(ids, targets, strict=True):
                expected = rows[data.order[place]]
                assert row.tolist() == expected + [0] * (len(row) - len(expected))
                assert target == labels[data.order[place]]
                place += 1
        assert place == len(rows)
        data.on_epoch_end()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_pairs_stay_in_line(settings):
    (sources, targets), labels = pairs()
    settings = {"sample_weight": "tokens", "pad_id": 99} | settings
    data = BucketedDataset((sources, targets), labels, **settings)
    order = iter(data.order)
    for (source, target), label, weight in data:
        assert target.shape == label.shape == weight.shape
        assert (source.shape[1], target.shape[1]) in data.edges or isinstance(
            settings.get("edges"), int
        )
        assert weight.dtype == "float32"
        np.testing.assert_array_equal(weight, label != 99)
        for row in zip(source, target, label, strict=True):
            index = next(order)
            plain = [[i for i in ids.tolist() if i != 99] for ids in row]
            assert plain == [sources[index], targets[index], labels[index]]
    assert next(order, None) is None


@pytest.mark.parametrize("kind", ["single", "pairs"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_shapes_are_few_and_no_batch_is_tiny(kind, settings):
    data = make(kind, **settings)
    found = set(shapes(data))
    assert len(found) <= len(data.edges) + 1
    assert len(data.edges) <= 6 or "edges" in settings
    if "max_tokens" not in settings:
        sizes = {batch[0][0] for batch in found}
        size = settings["batch_size"]
        assert max(sizes) <= size
        assert min(sizes) >= min(70, size) // 2
    else:
        for batch in found:
            assert all(np.prod(shape) <= settings["max_tokens"] for shape in batch)


@pytest.mark.parametrize("kind", ["single", "pairs"])
@pytest.mark.parametrize("seed", range(4))
def test_first_two_batches_differ_wherever_any_do(kind, seed):
    """TensorFlow takes what the first two batches share for constant."""
    for settings in SETTINGS:
        data = make(kind, seed=seed, **settings)
        for _ in range(3):
            every = shapes(data)
            for array in range(len(every[0])):
                for axis in range(1, len(every[0][array])):
                    sizes = [batch[array][axis] for batch in every]
                    assert len(set(sizes)) == 1 or sizes[0] != sizes[1], settings
            data.on_epoch_end()


def test_batches_are_shuffled_afresh_and_reproducibly():
    rows, labels = random_rows()
    same, other, fixed = (
        BucketedDataset(rows, labels, batch_size=8, **settings)
        for settings in ({"seed": 3}, {"seed": 4}, {"shuffle": False})
    )
    np.random.seed(0)
    state = np.random.get_state()[1].copy()
    again = BucketedDataset(rows, labels, batch_size=8, seed=3)
    orders, together = [], []
    for _ in range(3):
        assert np.array_equal(same.order, again.order)
        assert not np.array_equal(same.order, other.order)
        orders.append(tuple(same.order))
        together.append({frozenset(rows) for rows, _ in same._served()[1]})
        order = tuple(fixed.order)
        for data in (same, again, other, fixed):
            data.on_epoch_end()
        assert tuple(fixed.order) == order
    assert len(set(orders)) == 3
    # Other rows share a batch, too.
    assert together[0] != together[1] != together[2]
    assert np.array_equal(np.random.get_state()[1], state)


def test_the_batches_of_an_epoch_can_be_asked_for():
    rows, labels = random_rows()
    data = BucketedDataset(rows, labels, batch_size=8)
    orders = []
    for _ in range(3):
        orders.append(data.order.tolist())
        data.on_epoch_end()
    for epoch in (1, 0, 2, 2):
        data.set_epoch(epoch)
        assert data.epoch == epoch and data.order.tolist() == orders[epoch]


def test_default_edges_need_least_padding():
    rng = np.random.default_rng(0)
    for _ in range(20):
        lengths = rng.integers(1, 9, rng.integers(1, 12))
        longest = lengths.max()
        edges = least_padding(lengths, 3)
        assert len(edges) <= 3 and edges[-1] == longest

        def padded(edges, lengths=lengths):
            edges = np.array(edges)
            return edges[np.searchsorted(edges, lengths)].sum()

        smaller = range(1, longest)
        every = [
            (*chosen, longest)
            for n in range(3)
            for chosen in itertools.combinations(smaller, n)
        ]
        assert padded(edges) == min(map(padded, every))
    assert len(least_padding(np.arange(1, 5000))) == 5


def test_rows_are_cut_only_when_asked():
    rows, labels = random_rows(longest=14)
    longest = max(map(len, rows))
    assert BucketedDataset(rows, labels, edges=(4, 8)).edges[-1] == longest
    cut = BucketedDataset(rows, labels, edges=(4, 8, 16), max_length=6)
    assert cut.edges == (8,)
    order = iter(cut.order)
    for ids, _ in cut:
        for row in ids:
            expected = rows[next(order)][:6]
            assert row.tolist() == expected + [0] * (8 - len(expected))
    inputs, labels = pairs()
    data = BucketedDataset(inputs, labels, max_length=(5, 3), sample_weight="tokens")
    assert data.edges[-1] == (5, 3)
    for (_, target), label, weight in data:
        assert target.shape == label.shape == weight.shape
        assert weight.sum() == (label > 0).sum()


def test_edges_may_differ_between_inputs():
    inputs, labels = pairs()
    data = BucketedDataset(inputs, labels, edges=((4, 8, 20), (5, 10, 30)))
    assert set(data.edges) <= {(4, 5), (8, 10), (20, 30)}
    assert BucketedDataset(inputs, labels, edges=30).edges == ((30, 30),)


def test_remainders_are_dropped_in_turn():
    rows, labels = random_rows(70)
    data = BucketedDataset(rows, labels, batch_size=8, drop_remainder=True)
    assert len(data) == 8
    assert len(set(shapes(data))) <= len(data.edges)
    assert {batch[0][0] for batch in shapes(data)} == {8}
    seen = set()
    for _ in range(30):
        assert len(set(data.order)) == 64
        seen |= set(data.order)
        data.on_epoch_end()
    assert seen == set(range(70))
    with pytest.raises(ValueError, match="leaves no batch of 70 rows"):
        BucketedDataset(rows, labels, batch_size=80, drop_remainder=True)


def test_equal_lengths_and_empty_rows_are_served():
    data = BucketedDataset([[1, 2]] * 10, range(10), batch_size=4)
    assert data.edges == (2,) and len(data) == 3
    data = BucketedDataset([[], [1], []], batch_size=4, shuffle=False)
    assert data[0][0].tolist() == [[0], [0], [1]]
    assert data.order.tolist() == [0, 2, 1]


def test_labels_and_weights_take_several_forms():
    rows, _ = random_rows(20)
    one_hot = np.eye(3)[np.arange(20) % 3]
    weights = np.linspace(0, 1, 20)
    data = BucketedDataset(rows, one_hot, sample_weight=weights, shuffle=False)
    for _, labels, weight in data:
        assert labels.dtype == weight.dtype == "float32"
    labels = np.concatenate([labels for _, labels, _ in data])
    np.testing.assert_array_equal(labels, one_hot[data.order])
    weight = np.concatenate([weight for _, _, weight in data])
    np.testing.assert_allclose(weight, weights[data.order], atol=1e-7)
    each = [[0.5] * len(row) for row in rows]
    for ids, labels, weight in BucketedDataset(rows, rows, sample_weight=each):
        np.testing.assert_array_equal(weight, 0.5 * (ids > 0))
        np.testing.assert_array_equal(labels, ids)


def test_the_dataset_can_be_sent_to_another_process():
    data = make("pairs", batch_size=8)
    again = pickle.loads(pickle.dumps(data))
    for one, other in zip(
        keras.tree.flatten(list(data)), keras.tree.flatten(list(again)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_outputs_are_restored_only_where_their_order_is_known():
    rows, labels = random_rows()
    for settings in ({}, {"shuffle": False, "drop_remainder": True}):
        with pytest.raises(ValueError, match="only with shuffle=False"):
            BucketedDataset(rows, labels, **settings).restore(np.zeros((70, 1)))


ROWS = [[1, 2], [3], [4, 5, 6]]


@pytest.mark.parametrize(
    "arguments, settings, error, message",
    [
        (([[1], "글"],), {}, TypeError, "Received '글' as row 1. Encode texts"),
        (([[1], None],), {}, TypeError, "Received None as row 1"),
        (([[1], [0.5]],), {}, TypeError, r"integer ids. Received \[0.5\] as row 1"),
        (([[1], [None]],), {}, TypeError, "as row 1"),
        (([[1], [[2], [3, 4]]],), {}, TypeError, "as row 1"),
        ((([1, 2], [3]),), {}, TypeError, "row 0.*a tuple means several inputs"),
        (([[2**31]],), {}, ValueError, "within int32"),
        (([],), {}, ValueError, "at least one row"),
        (((ROWS, ROWS[:2]),), {}, ValueError, "as many for each input.*2 and 3"),
        ((ROWS, [0, 1]), {}, ValueError, "each of the 3 rows. Received shape"),
        ((ROWS, ["a", "b", "c"]), {}, TypeError, "`labels` must be numbers.*'a'"),
        ((ROWS, [0, 1, None]), {}, TypeError, "`labels` must be numbers"),
        ((ROWS, [0, 1, float("nan")]), {}, ValueError, "finite. Received nan in row 2"),
        ((ROWS, [[1], [1], [1]]), {}, ValueError, "must be as long, row by row"),
        ((ROWS,), {"sample_weight": [1, 1, 1]}, ValueError, "needs `labels`"),
        ((ROWS, [0, 1, 1]), {"sample_weight": "tokens"}, ValueError, "'tokens' where"),
        ((ROWS, ROWS), {"sample_weight": [[1.0]] * 3}, ValueError, "same lengths"),
        ((ROWS,), {"batch_size": 0}, ValueError, "`batch_size` must be a positive"),
        ((ROWS,), {"max_tokens": 2}, ValueError, "hold the longest row, padded to 3"),
        ((ROWS,), {"max_length": 0}, ValueError, "`max_length` must be a positive"),
        ((ROWS,), {"max_length": (1, 2)}, ValueError, "one for each of the 1"),
        ((ROWS,), {"workers": 2}, ValueError, "`workers` must be 1"),
        ((ROWS,), {"pad_id": 0.5}, ValueError, "`pad_id` must be an integer"),
        ((ROWS,), {"edges": ()}, ValueError, "`edges` must be ascending"),
        ((ROWS,), {"edges": (4, 4)}, ValueError, "`edges` must be ascending"),
        ((ROWS,), {"edges": (0, 4)}, ValueError, "`edges` must be ascending"),
        ((ROWS,), {"edges": (2.5, 4)}, ValueError, "`edges` must be ascending"),
        (((ROWS, ROWS),), {"edges": ((2,), (2, 4))}, ValueError, "as many for each"),
    ],
)
def test_what_cannot_be_batched_is_refused(arguments, settings, error, message):
    with pytest.raises(error, match=message):
        BucketedDataset(*arguments, **settings)


def test_inputs_may_have_names():
    lists = {"first": [[5, 6], [7]], "second": [[1], [2, 3]]}
    named = BucketedDataset(lists, [0, 1], shuffle=False)
    plain = BucketedDataset(tuple(lists.values()), [0, 1], shuffle=False)
    inputs, labels = named[0]
    assert list(inputs) == ["first", "second"]
    for one, other in zip(inputs.values(), plain[0][0], strict=True):
        assert one.tolist() == other.tolist()
    assert labels.tolist() == plain[0][1].tolist()
