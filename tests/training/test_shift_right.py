import pytest

from keras_transformer.datasets import BucketedDataset
from keras_transformer.training import shift_right


def test_inputs_and_labels_are_shifted_by_exactly_one():
    """P18."""
    inputs, labels = shift_right([[11, 12, 13]], start_id=2, stop_id=3)
    data = BucketedDataset(inputs, labels, edges=6, sample_weight="tokens")
    read, wanted, weights = data[0]
    assert read.tolist() == [[2, 11, 12, 13, 0, 0]]
    assert wanted.tolist() == [[11, 12, 13, 3, 0, 0]]
    assert weights.tolist() == [[1, 1, 1, 1, 0, 0]]
    assert shift_right([[5, 6, 7]]) == ([[5, 6]], [[6, 7]])


def test_the_first_stop_id_is_learned_though_it_pads():
    """P19: padding is told by length, not by value."""
    inputs, labels = shift_right([[9, 5, 6], [9, 5]], stop_id=3)
    data = BucketedDataset(
        inputs, labels, pad_id=3, shuffle=False, edges=3, sample_weight="tokens"
    )
    _, wanted, weights = data[0]
    rows = {
        tuple(row): weight.tolist() for row, weight in zip(wanted, weights, strict=True)
    }
    assert rows == {(5, 6, 3): [1, 1, 1], (5, 3, 3): [1, 1, 0]}


def test_rows_that_leave_nothing_to_predict_are_refused():
    with pytest.raises(ValueError, match="Row 1 of `sequences` is too short"):
        shift_right([[5, 6], [7]])
    assert shift_right([[]], start_id=2, stop_id=3) == ([[2]], [[3]])
