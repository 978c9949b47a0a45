"""The recurrent encoder is PyTorch's GRU and LSTM, padded as packed sequences."""

import itertools

import keras
import numpy as np
import pytest
from parity_tools import BATCH, SOURCE, WIDTH, assert_same, numbers, real, to_numpy

from keras_transformer.layers.recurrent_encoder import RecurrentEncoder

torch = pytest.importorskip("torch")

UNITS = 4
LENGTHS = (SOURCE, 3)
# Where PyTorch's gates (r, z, n; i, f, g, o) stand among those of Keras.
GATES = {"gru": (1, 0, 2), "lstm": (0, 1, 2, 3)}
THEIRS = {"gru": "GRU", "lstm": "LSTM"}


def reordered(parameter, cell):
    """Return a parameter (gates * U, ...) with the gates in Keras's order."""
    parts = np.split(parameter.detach().numpy(), len(GATES[cell]))
    return np.concatenate([parts[index] for index in GATES[cell]])


def copy_weights(theirs, layer, cell, place):
    """Give one direction of one layer the weights of PyTorch's at `place`."""
    kernel, recurrent, bias, recurrent_bias = (
        reordered(getattr(theirs, f"{name}_{place}"), cell)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    both = np.stack([bias, recurrent_bias])
    layer.set_weights([kernel.T, recurrent.T, both if cell == "gru" else both.sum(0)])


@pytest.mark.parametrize(
    "cell, two_way", itertools.product(["gru", "lstm"], [False, True])
)
def test_the_encoder_is_pytorchs(cell, two_way):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, THEIRS[cell])(
        WIDTH, UNITS, 2, batch_first=True, bidirectional=two_way, device="cpu"
    )
    ours = RecurrentEncoder(UNITS, cell=cell, num_layers=2, bidirectional=two_way)
    ours.build((None, None, WIDTH))
    for index, layer in enumerate(ours.recurrent_layers):
        if two_way:
            copy_weights(theirs, layer.forward_layer, cell, f"l{index}")
            copy_weights(theirs, layer.backward_layer, cell, f"l{index}_reverse")
        else:
            copy_weights(theirs, layer, cell, f"l{index}")

    x, mask = numbers(0, BATCH, SOURCE, WIDTH), real(LENGTHS, SOURCE)
    with torch.no_grad():
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            torch.tensor(x), LENGTHS, batch_first=True
        )
        packed, last = theirs(packed)
        expected, _ = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    outputs, states = ours(keras.ops.convert_to_tensor(x), mask=mask)
    assert_same(outputs, expected.numpy(), mask)
    last = last if cell == "lstm" else (last,)  # each (layers * directions, B, U)
    directions = 2 if two_way else 1
    for index, layer_states in enumerate(states):
        for place, state in enumerate(layer_states):
            direction, letter = divmod(place, len(last))
            theirs_state = last[letter][index * directions + direction]
            assert_same(to_numpy(state), theirs_state.numpy())
