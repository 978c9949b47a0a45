import numpy as np
import pytest

import keras_transformer as kt
from cases.helpers import array
from support import check_layer

X = np.random.default_rng(0).normal(size=(2, 4, 8)).astype("float32")


def test_it_keeps_the_laws_of_every_layer():
    check_layer("SelfAttentiveEmbedding")


@pytest.mark.parametrize("penalty", [True, "1", -0.5, np.inf, np.nan])
def test_a_penalty_that_is_no_finite_number_is_refused(penalty):
    with pytest.raises(ValueError, match="`penalty` must be a finite number"):
        kt.SelfAttentiveEmbedding(3, penalty=penalty)


def test_a_penalty_may_come_from_numpy():
    losses = []
    for penalty in (0.5, np.float32(0.5), np.int64(2)):
        layer = kt.SelfAttentiveEmbedding(3, attention_dim=4, penalty=penalty)
        layer.build(X.shape)
        layer.annotation.kernel.assign(np.ones((4, 3)))
        layer.attention.kernel.assign(np.ones((8, 4)))
        layer(X)
        losses.append(float(array(layer.losses[0])))
        copy = type(layer).from_config(layer.get_config())
        assert copy.penalty == penalty
    np.testing.assert_allclose(losses, losses[0] * np.array([1, 1, 4]), rtol=1e-6)
