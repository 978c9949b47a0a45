import numpy as np
import pytest

from keras_transformer.visualization import figures, plot_points

matplotlib = pytest.importorskip("matplotlib")

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(figures.hangul_font() is None, reason="no Hangul font"),
]

POINTS = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
LABELS = ["배", "눈", "배"]


def test_each_label_has_its_points_its_colour_and_its_name():
    (axes,) = plot_points(POINTS, LABELS, title="같은 글자 $x$").axes
    first, second = axes.collections
    np.testing.assert_array_equal(first.get_offsets(), POINTS[[0, 2]])
    np.testing.assert_array_equal(second.get_offsets(), POINTS[[1]])
    assert (first.get_facecolor()[0] != second.get_facecolor()[0]).any()
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["배", "눈"]
    assert axes.get_title() == "같은 글자 $x$" and not axes.title.get_parse_math()


def test_points_with_a_note_are_large_and_have_their_text(tmp_path):
    file = tmp_path / "points.png"
    (axes,) = plot_points(POINTS, LABELS, notes={2: "셋째"}, path=file).axes
    small, large = axes.collections[0].get_sizes()
    assert large > small and file.stat().st_size > 1000
    assert list(axes.collections[0].get_linewidths()) == [0, 1]  # a rim for it alone
    (note,) = axes.texts
    assert note.get_text() == "셋째" and tuple(note.xy) == tuple(POINTS[2])


def test_what_cannot_be_drawn_is_refused():
    for points in (POINTS[:, :1], POINTS[0], POINTS * np.nan, [], [["a", "b"]]):
        with pytest.raises(ValueError, match="`points` must be finite numbers"):
            plot_points(points, LABELS)
    with pytest.raises(ValueError, match="3 points, 2 labels"):
        plot_points(POINTS, LABELS[:2])
    with pytest.raises(ValueError, match="from 0 to 2. Received: \\[3\\]"):
        plot_points(POINTS, LABELS, notes={3: "없음"})
