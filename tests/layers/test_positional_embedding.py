import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from cases.helpers import array, assert_close
from support import check_layer


def test_it_keeps_the_laws_of_every_layer():
    check_layer("PositionalEmbedding")


@pytest.mark.parametrize("encoding", ["learned", "sinusoidal"])
def test_start_index_and_positions_choose_the_rows(encoding):
    layer = kt.PositionalEmbedding(9, 12, 8, encoding=encoding)
    ids = np.array([[5, 6, 7, 8]])
    whole = array(layer(ids))
    assert_close(layer(ids[:, 2:], start_index=2), whole[:, 2:])
    start = ops.convert_to_tensor(2, "int32")
    assert_close(layer(ids[:, 2:], start_index=start), whole[:, 2:])
    positions = np.array([[3, 2, 1, 0]])
    assert_close(layer(ids[:, ::-1].copy(), positions=positions), whole[:, ::-1])


def test_positions_beyond_the_table_are_refused():
    layer = kt.PositionalEmbedding(4, 12, 8)
    for arguments in (
        dict(start_index=3),
        dict(start_index=ops.convert_to_tensor(3, "int32")),
        dict(positions=np.array([[3, 4]])),
    ):
        with pytest.raises(ValueError, match="position 4 .*`sequence_length=4`"):
            layer(np.array([[5, 6]]), **arguments)


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(pad_id=12), "`pad_id` must be an id below.*pad_id=12, input_dim=12"),
        (dict(encoding="fourier"), "`encoding` must be one of 'learned', 'sinusoidal'"),
        (dict(output_dim=0), "`output_dim` must be a positive integer"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    sizes = dict(sequence_length=4, input_dim=12, output_dim=8)
    with pytest.raises(ValueError, match=message):
        kt.PositionalEmbedding(**{**sizes, **settings})


@pytest.mark.parametrize("positions", [[1], [[0, 1], [0, 1]], [[[0, 1, 2]]]])
@pytest.mark.parametrize(
    "layer, inputs",
    [
        (lambda: kt.PositionalEmbedding(4, 12, 8), np.array([[5, 6, 7]])),
        (lambda: kt.SinusoidalEncoding(), np.zeros((1, 3, 8), "float32")),
        (lambda: kt.RotaryEmbedding(), np.zeros((1, 3, 2, 8), "float32")),
    ],
    ids=["embedding", "sinusoidal", "rotary"],
)
def test_positions_of_another_shape_are_refused(layer, inputs, positions):
    with pytest.raises(ValueError, match="`positions` must have the shape"):
        layer()(inputs, positions=np.array(positions))


def test_ids_in_place_of_vectors_are_refused():
    with pytest.raises(ValueError, match="Embed token ids first"):
        kt.SinusoidalEncoding()(np.array([[5, 6, 7]]))
