import numpy as np
import pandas as pd
import pytest

from keras_transformer.visualization import figures, plot_lines

matplotlib = pytest.importorskip("matplotlib")

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(figures.hangul_font() is None, reason="no Hangul font"),
]

TABLE = pd.DataFrame(
    {"손실": [0.7, 0.5, 0.4], "검증 손실": [0.7, np.nan, 0.6]},
    index=pd.Index([1, 2, 4], name="에포크"),
)


def test_each_column_is_a_line_over_the_index():
    (axes,) = plot_lines(TABLE).axes
    assert len(axes.lines) == 2
    for line, name in zip(axes.lines, TABLE, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), TABLE.index)
        np.testing.assert_array_equal(line.get_ydata(), TABLE[name])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == list(TABLE)


def test_labels_are_written_and_the_index_names_itself():
    (axes,) = plot_lines(TABLE, title="학습 곡선 $x$", y_label="값").axes
    assert axes.get_xlabel() == "에포크" and axes.get_ylabel() == "값"
    assert axes.get_title() == "학습 곡선 $x$" and not axes.title.get_parse_math()
    assert plot_lines(TABLE, x_label="번째").axes[0].get_xlabel() == "번째"


def test_a_history_is_a_table_and_scales_are_taken():
    (axes,) = plot_lines({"loss": [0.7, 0.5]}, x_scale="log", y_scale="log").axes
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [0, 1])
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_dots_mark_few_values_only():
    few, many = plot_lines({"a": range(30)}), plot_lines({"a": range(31)})
    assert few.axes[0].lines[0].get_marker() == "o"
    assert many.axes[0].lines[0].get_marker() == "None"


def test_an_index_of_integers_has_no_ticks_between():
    short = pd.DataFrame({"a": [1.0, 2.0]}, index=[1, 2])
    ticks = plot_lines(short).axes[0].get_xticks()
    assert (ticks == ticks.astype(int)).all()
    halves = plot_lines(short.set_axis([1.0, 2.0])).axes[0].get_xticks()
    assert (halves != halves.astype(int)).any()


def test_a_log_axis_is_labelled_with_the_values():
    powers = {2**power: float(power) for power in range(5)}
    (axes,) = plot_lines({"a": powers}, x_scale="log").axes
    written = [label.get_text() for label in axes.get_xticklabels()]
    assert written == ["1", "2", "4", "8", "16"]
    assert not axes.xaxis.get_minorticklocs().size


def test_the_legend_of_many_lines_stands_beside_them():
    figure = plot_lines({f"차원 {i}": [i, 1 - i] for i in range(5)})
    figure._repr_png_()
    (axes,), (legend,) = figure.axes, figure.legends
    assert axes.get_legend() is None and len(legend.get_texts()) == 5
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1


@pytest.mark.parametrize("dpi", [80, 150])
def test_nothing_is_cut_off(dpi):
    figure = plot_lines(TABLE, title="긴 제목은 나뉜다 " * 8, y_label="값", dpi=dpi)
    figure._repr_png_()
    (axes,) = figure.axes
    artists = [axes.title, axes.xaxis.label, axes.yaxis.label, axes.get_legend()]
    for artist in artists:
        box = artist.get_window_extent()
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, artist
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, artist


def test_files_are_written_and_no_setting_changes(tmp_path):
    before = dict(matplotlib.rcParams)
    for name in ("lines.png", "lines.svg"):
        plot_lines(TABLE, path=tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert dict(matplotlib.rcParams) == before


def test_what_is_no_table_of_numbers_is_refused():
    with pytest.raises(ValueError, match=r"empty: its shape is \(0, 0\)"):
        plot_lines({})
    with pytest.raises(ValueError, match="No numbers are in: its index, 글"):
        plot_lines(pd.DataFrame({"값": [1], "글": ["배"]}, index=["가"]))
    with pytest.raises(ValueError, match="`y_scale` must be one of .* 'square'"):
        plot_lines(TABLE, y_scale="square")
