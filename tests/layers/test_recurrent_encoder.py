"""P30: padding, empty rows and last states of the recurrent encoder.

Sources: tensorflow/tensorflow#36139, #43103, #33148; keras-team/keras#9914.
"""

import itertools

import numpy as np
import pytest

from cases.helpers import array, arrays, assert_close, randomize
from keras_transformer.layers.recurrent_encoder import RecurrentEncoder

X = np.random.default_rng(0).normal(size=(3, 5, 4)).astype("float32")
FORMS = list(itertools.product(["gru", "lstm"], [False, True], [1, 2]))
every_form = pytest.mark.parametrize("cell, two_way, num_layers", FORMS)


def make(cell, two_way, num_layers=1):
    encoder = RecurrentEncoder(
        3, cell=cell, bidirectional=two_way, num_layers=num_layers, name="encoder"
    )
    encoder.build((None, None, 4))
    return randomize(encoder)


@every_form
def test_padding_on_either_side_changes_no_output_and_no_state(
    cell, two_way, num_layers
):
    encoder = make(cell, two_way, num_layers)
    outputs, states = encoder(X[:, :2])
    for side in ((0, 3), (3, 0), (1, 2)):
        mask = np.pad(np.ones((3, 2), bool), ((0, 0), side))
        padded = np.pad(X[:, :2], ((0, 0), side, (0, 0)), constant_values=7.0)
        more, same = encoder(padded, mask=mask)
        assert_close(array(more)[:, side[0] : side[0] + 2], outputs)
        assert_close(same, states)


@every_form
def test_an_empty_row_has_states_of_zeros_and_changes_no_other(
    cell, two_way, num_layers
):
    encoder = make(cell, two_way, num_layers)
    mask = np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0], [1, 1, 0, 0, 0]], bool)
    outputs, states = encoder(X, mask=mask)
    assert np.isfinite(array(outputs)).all()
    assert not any(state[1].any() for state in arrays(states))
    alone, own = encoder(X[:1])
    assert_close(array(outputs)[:1], alone)
    assert_close([state[:1] for state in arrays(states)], arrays(own))


@every_form
def test_the_states_are_as_wide_and_as_many_as_documented(cell, two_way, num_layers):
    encoder = make(cell, two_way, num_layers)
    outputs, states = encoder(X)
    shapes = encoder.compute_output_shape(X.shape)
    assert shapes[0] == tuple(outputs.shape) == (3, 5, 6 if two_way else 3)
    assert shapes[1] == [[tuple(s.shape) for s in layer] for layer in states]
    assert len(states) == num_layers
    assert {len(layer) for layer in states} == {
        (2 if cell == "lstm" else 1) * (2 if two_way else 1)
    }


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_backward_direction_ends_at_the_first_token(cell):
    encoder = make(cell, True)
    outputs, (states,) = encoder(X, mask=np.array([[1, 1, 1, 0, 0]] * 3, bool))
    forward, backward = states[0], states[len(states) // 2]
    assert_close(forward, array(outputs)[:, 2, :3])
    assert_close(backward, array(outputs)[:, 0, 3:])
