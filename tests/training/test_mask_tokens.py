"""BERT's training task: what is hidden, what is drawn, and what is counted."""

import numpy as np
import pytest

from keras_transformer.datasets import BucketedDataset
from keras_transformer.training import mask_tokens

MASK, SIZE, SPECIAL = 4, 50, (0, 1, None, 3)
RNG = np.random.default_rng(0)
ROWS = [[3, *RNG.integers(5, SIZE, RNG.integers(20, 30)), 1, 0] for _ in range(500)]


def masked(rows=ROWS, **settings):
    settings = {"unselectable_token_ids": SPECIAL, **settings}
    return mask_tokens(rows, MASK, SIZE, **settings)


def flat(rows):
    return np.concatenate([np.asarray(row) for row in rows])


def test_of_the_chosen_eight_in_ten_are_hidden_one_is_another_and_one_stays():
    for rate, hidden, other in ((0.15, 0.8, 0.1), (0.4, 0.5, 0.5)):
        inputs, labels, weights = map(
            flat,
            masked(
                mask_selection_rate=rate,
                mask_token_rate=hidden,
                random_token_rate=other,
            ),
        )
        chosen = weights == 1
        assert chosen.sum() == pytest.approx(
            rate * np.isin(labels, range(5, SIZE)).sum(), rel=0.06
        )
        read = inputs[chosen]
        assert np.mean(read == MASK) == pytest.approx(hidden, abs=0.04)
        drawn = (read != MASK) & (read != labels[chosen])
        assert drawn.mean() == pytest.approx(other * 44 / 45, abs=0.04)


def test_labels_are_the_rows_and_what_is_not_chosen_stays():
    inputs, labels, weights = masked()
    for row, *arrays in zip(ROWS, inputs, labels, weights, strict=True):
        read, label, weight = arrays
        np.testing.assert_array_equal(label, row)
        np.testing.assert_array_equal(read[weight == 0], label[weight == 0])
        assert weight.sum() >= 1 and set(weight) <= {0.0, 1.0}


def test_special_ids_are_neither_chosen_nor_drawn():
    inputs, labels, weights = map(
        flat, masked(mask_selection_rate=1.0, random_token_rate=0.2)
    )
    special = np.isin(labels, (0, 1, 3))
    np.testing.assert_array_equal(weights, ~special)
    np.testing.assert_array_equal(inputs[special], labels[special])
    assert not np.isin(inputs[~special], (0, 1, 3)).any()
    (read,), _, (weight,) = masked(
        [[MASK, 7, MASK]], mask_selection_rate=1.0, mask_token_rate=0.0
    )
    assert weight.tolist() == [0, 1, 0] and read[[0, 2]].tolist() == [MASK, MASK]


def test_equal_seeds_give_equal_masks_and_each_row_its_own():
    for first, second in zip(masked(seed=3), masked(seed=3), strict=True):
        np.testing.assert_array_equal(flat(first), flat(second))
    assert (flat(masked(seed=3)[2]) != flat(masked(seed=4)[2])).any()
    _, _, weights = masked([ROWS[0]] * 20)
    assert len({tuple(weight) for weight in weights}) > 1


def test_they_make_batches():
    inputs, labels, weights = masked(ROWS[:40])
    data = BucketedDataset(inputs, labels, sample_weight=weights, batch_size=8)
    read, wanted, weight = data[0]
    assert read.shape == wanted.shape == weight.shape
    assert (wanted[weight == 1] >= 5).all() and weight.sum(axis=1).min() >= 1


def test_what_cannot_be_masked_is_refused():
    with pytest.raises(ValueError, match="Row 1 of `sequences` has no id"):
        masked([[5], [0, 3, MASK]])
    with pytest.raises(ValueError, match="has no id that may be hidden: \\[\\]"):
        masked([[]])
    with pytest.raises(ValueError, match="Ids must be from 0 to 49.*Row 0"):
        masked([[SIZE]])
    with pytest.raises(ValueError, match="`mask_selection_rate` must be a finite"):
        masked(mask_selection_rate=0.0)
    with pytest.raises(ValueError, match="together at most 1"):
        masked(mask_token_rate=0.8, random_token_rate=0.3)
    with pytest.raises(ValueError, match="`random_token_rate` must be a finite number"):
        masked(random_token_rate=-0.1)
    with pytest.raises(ValueError, match="user_defined_symbols"):
        mask_tokens(ROWS, None, SIZE)
    for name, settings in (
        ("mask_token_id", {}),
        ("unselectable_token_ids", {"unselectable_token_ids": [99]}),
    ):
        with pytest.raises(ValueError, match=f"`{name}` must be an id below"):
            mask_tokens(ROWS, 99 if name == "mask_token_id" else MASK, SIZE, **settings)


def test_some_ids_may_be_asked_for_more_often():
    rows = [[7, 8, 9, 10]] * 500
    _, _, weights = masked(rows, mask_selection_rate=[[0.8, 0.1, 0.1, 0.4]] * 500)
    shares = np.mean(weights, axis=0)
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1, 0.4], atol=0.08)
    with pytest.raises(ValueError, match="rates for 1 of 500 rows"):
        masked(rows, mask_selection_rate=[[0.5] * 4])
    for wrong in ([0.5] * 3, [0.5, 0.5, 0.5, 0.0], [0.5, 0.5, 0.5, 1.1]):
        with pytest.raises(ValueError, match="one for each id. Received for row 0"):
            masked([rows[0]], mask_selection_rate=[wrong])


def test_a_rate_of_numpy_is_a_number_and_ids_that_are_no_integers_are_refused():
    for first, second in zip(
        masked(mask_selection_rate=np.float32(0.25)),
        masked(mask_selection_rate=0.25),
        strict=True,
    ):
        np.testing.assert_array_equal(flat(first), flat(second))
    for wrong in (None, True, np.float32(1.5), np.nan, np.array(0.25)):
        with pytest.raises(ValueError, match="`mask_selection_rate` must be a finite"):
            masked(mask_selection_rate=wrong)
    for row in ([7.9, 8.0], [True], ["7"]):
        with pytest.raises(ValueError, match="must be integers. Row 1 of `sequences`"):
            masked([[7], row])
    with pytest.raises(ValueError, match="Ids must be from 0 to 49.*Row 0"):
        masked([[2**32 + 7]])
