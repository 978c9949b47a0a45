import keras
import numpy as np
import pytest

import keras_transformer as kt
from cases.helpers import array
from keras_transformer.visualization import plot_positions

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("error::UserWarning")


def values(figure):
    return np.array(figure.axes[0].images[0].get_array())


def test_the_sinusoids_of_the_chapter_are_drawn():
    drawn = values(plot_positions(length=7, width=6))
    position, pair = np.arange(7)[:, None], np.arange(3)
    angles = position / 10000 ** (2 * pair / 6)
    np.testing.assert_allclose(drawn[:, 0::2], np.sin(angles), atol=1e-5)
    np.testing.assert_allclose(drawn[:, 1::2], np.cos(angles), atol=1e-5)
    layer = kt.SinusoidalEncoding(layout="concatenated")
    expected = array(layer(keras.ops.zeros((1, 7, 6))))[0]
    other = values(plot_positions(length=7, width=6, layout="concatenated"))
    np.testing.assert_allclose(other, expected, atol=1e-6)


def test_sinusoids_of_equal_distance_are_equally_alike():
    drawn = values(plot_positions(length=12, width=16, similarity=True))
    np.testing.assert_allclose(np.diag(drawn), 1.0, atol=1e-5)
    for distance in range(1, 12):
        diagonal = np.diag(drawn, distance)
        np.testing.assert_allclose(diagonal, diagonal[0], atol=1e-5)
    assert drawn[0, 1] > drawn[0, 2] > drawn[0, 3]


def test_a_table_of_learned_positions_is_drawn():
    layer = keras.layers.Embedding(5, 4)
    layer.build()
    table = array(layer.embeddings)
    figure = plot_positions(layer.embeddings, title="learned")
    np.testing.assert_array_equal(values(figure), table)
    low, high = figure.axes[0].images[0].get_clim()
    assert -low == high == pytest.approx(np.abs(table).max())
    lengths = np.linalg.norm(table, axis=1)
    cosines = table @ table.T / np.outer(lengths, lengths)
    drawn = values(plot_positions(layer.embeddings, similarity=True))
    np.testing.assert_allclose(drawn, cosines, atol=1e-5)
    assert np.isfinite(values(plot_positions(np.zeros((2, 3)), similarity=True))).all()


def test_labels_say_what_is_what_and_files_are_written(tmp_path):
    figure = plot_positions(length=5, width=4, path=tmp_path / "positions.png")
    labels = figure.get_supylabel(), figure.get_supxlabel()
    assert labels == ("position", "feature")
    assert figure.axes[-1].get_ylabel() == "value"
    alike = plot_positions(length=5, similarity=True, path=tmp_path / "alike.svg")
    assert alike.get_supxlabel() == "position"
    assert alike.axes[-1].get_ylabel() == "cosine"
    assert all(file.stat().st_size > 1000 for file in tmp_path.iterdir())


def test_what_is_no_table_is_refused():
    with pytest.raises(ValueError, match=r"`table` must be.*\(2, 3, 4\)"):
        plot_positions(np.zeros((2, 3, 4)))
    with pytest.raises(ValueError, match="`length` must be at least 1.*length=0"):
        plot_positions(length=0)
    with pytest.raises(ValueError, match="`layout` must be"):
        plot_positions(layout="other")
