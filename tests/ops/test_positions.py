import numpy as np
import pytest
from keras import ops

from cases.helpers import array
from keras_transformer.ops import positions


@pytest.mark.parametrize("width", [1, 2, 5, 8])
@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_sinusoids_follow_the_formula(width, layout):
    table = array(positions.sinusoids(ops.arange(6), width, layout=layout))
    assert table.shape == (6, width)
    expected = np.zeros((6, width))
    for p in range(6):
        for i in range(width):
            angle = p / 10000 ** (2 * (i // 2) / width)
            expected[p, i] = np.cos(angle) if i % 2 else np.sin(angle)
    if layout == "concatenated":
        expected = np.concatenate([expected[:, 0::2], expected[:, 1::2]], -1)
    np.testing.assert_allclose(table, expected, atol=1e-6)


def test_positions_of_each_row_have_their_own_sinusoids():
    table = array(positions.sinusoids(ops.convert_to_tensor([[0, 3], [5, 1]]), 5))
    single = array(positions.sinusoids(ops.arange(6), 5))
    np.testing.assert_allclose(table, single[[[0, 3], [5, 1]]], atol=1e-7)


def test_buckets_are_those_of_t5():
    relative = [-128, -20, -8, -1, 0, 1, 3, 8, 20, 200]
    buckets = array(positions.relative_buckets(ops.convert_to_tensor(relative)))
    assert buckets.tolist() == [15, 10, 8, 1, 0, 17, 19, 24, 26, 31]
    relative = [-200, -64, -20, -16, -8, -3, 0, 1, 50]
    buckets = positions.relative_buckets(
        ops.convert_to_tensor(relative), bidirectional=False
    )
    assert array(buckets).tolist() == [31, 26, 17, 16, 8, 3, 0, 0, 0]


def test_alibi_slopes_and_bias():
    np.testing.assert_allclose(positions.alibi_slopes(8), 0.5 ** np.arange(1, 9))
    np.testing.assert_allclose(
        positions.alibi_slopes(3), [2.0**-4, 2.0**-8, 2.0**-2], rtol=1e-6
    )
    distances = ops.convert_to_tensor([[[0, 1000, 1001]]])
    bias = positions.alibi_bias(ops.convert_to_tensor([0.5], "bfloat16"), distances)
    assert array(bias).tolist() == [[[[0.0, -500.0, -500.5]]]]
