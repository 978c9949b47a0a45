import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from cases.helpers import array
from keras_transformer.ops import masks


def test_causal_and_window_masks_compare_positions():
    assert array(masks.causal_mask(3, 4))[0, 0].tolist() == [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
    ]
    window = array(masks.sliding_window_mask(4, 2))[0, 0]
    assert (window == (np.abs(np.subtract.outer(range(4), range(4))) < 2)).all()
    causal = array(masks.sliding_window_mask(4, 2, causal=True))[0, 0]
    assert (causal == (window & np.tri(4, dtype="bool"))).all()


def test_positions_may_differ_by_row():
    query = ops.convert_to_tensor([[0, 1], [3, 4]])
    mask = masks.position_mask(query, ops.arange(5), window=2)
    assert array(mask)[:, 0].astype(int).tolist() == [
        [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]],
        [[0, 0, 1, 1, 0], [0, 0, 0, 1, 1]],
    ]


def test_padding_and_combination():
    padding = masks.padding_mask(ops.convert_to_tensor([[5, 0, 7]]), pad_id=0)
    assert array(padding).tolist() == [[True, False, True]]
    both = masks.combine_masks(masks.expand_mask(padding), None, masks.causal_mask(3))
    assert array(both)[0, 0].astype(int).tolist() == [[1, 0, 0], [1, 0, 0], [1, 0, 1]]
    assert masks.combine_masks(None, None) is None


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float32", "bfloat16"])
def test_zeros_and_ones_of_any_dtype_are_masks(dtype):
    mask = masks.as_boolean(ops.convert_to_tensor([[1, 0]], dtype), "mask", (2,))
    assert array(mask).tolist() == [[True, False]]


@pytest.mark.parametrize("values", [[[0.0, -1e9]], [[0.5, 1.0]], [[2, 0]], [[-1, 1]]])
def test_other_values_are_refused(values):
    with pytest.raises(ValueError, match="`my_mask` must be boolean.*mask == 0"):
        masks.as_boolean(ops.convert_to_tensor(values), "my_mask", (2,))


def test_a_mask_of_another_rank_is_refused():
    with pytest.raises(ValueError, match=r"`my_mask` must have the shape \(batch, "):
        masks.as_boolean(ops.ones((2, 3)), "my_mask", (3, 4))
    with pytest.raises(ValueError, match="broadcastable to .*, 3, 5\\)"):
        masks.pair_mask(ops.ones((1, 4, 5)), ops.ones((1, 3, 2)), ops.ones((1, 5, 2)))


def test_a_padding_mask_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"`my_mask` must have the shape .*\(2, 3\)"):
        masks.key_padding(ops.ones((2, 3, 8)), my_mask=ops.ones((2, 4)))
    with pytest.raises(ValueError, match="`my_mask` must have the shape"):
        masks.key_padding(ops.ones((2, 3, 8)), my_mask=ops.ones((2, 1)))
    assert masks.key_padding(ops.ones((2, 3)), a=ops.ones((1, 3)), b=None).shape[0] == 1


def test_an_additive_mask_never_gets_through_a_model():
    inputs, mask = keras.Input((None, 8)), keras.Input((None,))
    # A compiled function cannot look at the values, so floats are refused as such;
    # PyTorch compiles nothing and looks at each call.
    with pytest.raises(ValueError, match="must be boolean"):
        outputs = kt.TransformerEncoder(8, 2, 12)(inputs, padding_mask=mask)
        model = keras.Model([inputs, mask], outputs)
        model([np.ones((1, 3, 8), "float32"), np.array([[0, 0, -1e9]], "float32")])


def test_tokens_first_moves_padding_behind_and_says_where_all_went():
    ids = np.array([[0, 5, 0, 6, 7], [8, 9, 0, 0, 0], [0, 0, 0, 0, 0]])
    moved, places = masks.tokens_first(ids, ops.convert_to_tensor(ids != 0))
    np.testing.assert_array_equal(moved, [[5, 6, 7, 0, 0], [8, 9, 0, 0, 0], [0] * 5])
    np.testing.assert_array_equal(
        places, [[0, 0, 0, 1, 2], [0, 1, 1, 1, 1], [0, 0, 0, 0, 0]]
    )
    back = np.take_along_axis(array(moved), array(places), axis=1)
    np.testing.assert_array_equal(back[ids != 0], ids[ids != 0])
