import keras
import numpy as np
import pytest

from keras_transformer.ops import masks
from keras_transformer.visualization import figures, plot_mask

pytest.importorskip("matplotlib")
pytestmark = [
    pytest.mark.filterwarnings("error::UserWarning"),
    pytest.mark.skipif(figures.hangul_font() is None, reason="no Hangul font"),
]

TOKENS = ["나는", "밥을", "먹었다", "."]


def shown(figure):
    """The mask that is drawn, and the texts of its rows and columns."""
    axes = figure.axes[0]
    texts = (
        [label.get_text() for label in axis.get_ticklabels()]
        for axis in (axes.yaxis, axes.xaxis)
    )
    return np.array(axes.images[0].get_array()) == 1, *texts


@pytest.mark.parametrize("axes", [2, 3, 4])
def test_a_cell_is_dark_where_the_query_may_look(axes):
    mask = keras.ops.convert_to_numpy(masks.causal_mask(4))[(0,) * (4 - axes)]
    drawn, rows, columns = shown(plot_mask(mask, TOKENS))
    np.testing.assert_array_equal(drawn, np.tri(4, dtype=bool))
    assert rows == columns == TOKENS


def test_masks_of_this_library_are_drawn_as_they_are():
    tensor = masks.sliding_window_mask(5, 2)
    drawn, rows, columns = shown(plot_mask(tensor))
    expected = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) < 2
    np.testing.assert_array_equal(drawn, expected)
    assert rows == columns == list("01234")


def test_an_example_of_a_batch_without_its_padding():
    padding = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]])
    mask = padding[:, None, :] * np.ones((2, 3, 1), int)
    figure = plot_mask(mask, ["I", "ate", "it"], TOKENS, batch=1)
    drawn, rows, columns = shown(figure)
    np.testing.assert_array_equal(drawn, [[True, True, False, False]] * 3)
    assert (rows, columns) == (["I", "ate", "it"], TOKENS)
    assert shown(plot_mask(mask, ["I"]))[2] == list("01234")


def test_the_legend_says_what_the_colours_mean(tmp_path):
    file = tmp_path / "mask.svg"
    figure = plot_mask(
        np.tri(4), TOKENS, visible_label="보임", hidden_label="가림", path=file
    )
    legend = [label.get_text() for label in figure.axes[-1].get_yticklabels()]
    assert legend == ["가림", "보임"]
    colors = figure.axes[0].images[0].cmap
    assert sum(colors(0.0)[:3]) > sum(colors(1.0)[:3]), "what may be seen is dark"
    assert file.read_text("utf-8").count("<svg") == 1


@pytest.mark.parametrize(
    ("mask", "arguments", "message"),
    [
        (np.full((2, 2), -1e9), {}, "Pass `mask == 0`"),
        (np.ones(3), {}, r"shape \(3,\)"),
        (np.ones((2, 3, 3)), dict(batch=2), "`batch` must be at least 0 and below 2"),
        (np.ones((3, 3)), dict(query_tokens=TOKENS), "4 tokens, but"),
    ],
)
def test_what_is_no_mask_is_refused(mask, arguments, message):
    with pytest.raises(ValueError, match=message):
        plot_mask(mask, **arguments)
