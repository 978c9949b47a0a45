import keras
import numpy as np
import pytest

import keras_transformer as kt
from cases.helpers import array, assert_close
from support import check_layer

X = np.random.default_rng(0).normal(size=(3, 4, 8)).astype("float32") - 5
MASK = np.array([[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], "bool")


def test_it_keeps_the_laws_of_every_layer():
    check_layer("SequencePooling")


@pytest.mark.parametrize("mode", ["mean", "max", "first"])
def test_padding_is_left_out_and_an_empty_text_is_zero(mode):
    pooled = array(kt.SequencePooling(mode)(X, mask=MASK))
    reduce = {"mean": np.mean, "max": np.max, "first": lambda x, axis: x[0]}[mode]
    expected = [reduce(X[0, 1:3], axis=0), reduce(X[1], axis=0), np.zeros(8)]
    np.testing.assert_allclose(pooled, expected, atol=1e-6)


def test_the_mean_is_keras_pooling():
    keras_pooling = keras.layers.GlobalAveragePooling1D()
    ours = kt.SequencePooling()
    assert_close(ours(X[:2], mask=MASK[:2]), keras_pooling(X[:2], mask=MASK[:2]))
    assert_close(ours(X), keras_pooling(X))


def test_a_long_text_is_averaged_in_float32():
    ones = keras.ops.ones((1, 5000, 2), "bfloat16")
    assert_close(kt.SequencePooling(dtype="mixed_bfloat16")(ones), np.ones((1, 2)))
