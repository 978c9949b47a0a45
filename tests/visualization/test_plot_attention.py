import xml.etree.ElementTree as ET

import numpy as np
import pytest

from keras_transformer.visualization import figures, plot_attention

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.text import Text  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(figures.hangul_font() is None, reason="no Hangul font"),
]

TOKENS = ["배", "타고", "배", "먹으니", "배", "아프다"]
PIECES = ["[CLS]", "▁배", "를", "[MASK]", "😀", "🥲", "$x$", "</s>"]
LONG = [f"{word}{n}" for n in range(15) for word in ("연기는", "좋은데", "이", "다")]


def weights(*shape):
    scores = np.exp(2 * np.random.default_rng(0).normal(size=shape))
    return (scores / scores.sum(axis=-1, keepdims=True)).astype("float32")


def panels(figure):
    """The heat maps; the last axes are the colour bar's."""
    return figure.axes[:-1]


def values(axes):
    return axes.images[0].get_array()


def written(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_one_head_is_one_panel_with_its_values_and_no_padding():
    w = weights(2, 3, 8, 8)
    w[..., 6:] = 0
    figure = plot_attention(w, TOKENS, head=1, batch=1, title="제목")
    (axes,) = panels(figure)
    np.testing.assert_array_equal(values(axes), w[1, 1, :6, :6])
    assert written(axes.xaxis) == written(axes.yaxis) == TOKENS
    assert figure.get_suptitle() == "제목"
    assert (figure.get_supylabel(), figure.get_supxlabel()) == ("query", "key")
    assert figure.axes[-1].get_ylabel() == "attention weight"
    top, bottom = axes.get_ylim()[::-1]
    assert top < bottom, "the first query stands at the top"


def test_all_heads_share_one_range_of_colours():
    w = weights(1, 8, 6, 6)
    figure = plot_attention(w, TOKENS, head_label="머리 {}")
    axes = panels(figure)
    assert [a.get_title() for a in axes] == [f"머리 {n}" for n in range(8)]
    for number, one in enumerate(axes):
        np.testing.assert_array_equal(values(one), w[0, number])
        assert one.images[0].get_clim() == (0.0, pytest.approx(w.max()))
    assert [bool(written(a.yaxis)) for a in axes] == [n % 4 == 0 for n in range(8)]
    assert [bool(written(a.xaxis)) for a in axes] == [n >= 4 for n in range(8)]
    fixed = plot_attention(w, TOKENS, vmax=1.0)
    assert panels(fixed)[0].images[0].get_clim() == (0.0, 1.0)


def test_cross_attention_and_the_labels_of_the_caller():
    figure = plot_attention(
        weights(2, 4, 5),
        ["I", "ate", "it", "."],
        PIECES[:5],
        query_label="영어 (쿼리)",
        key_label="한국어 (키)",
        weight_label="가중치",
    )
    (axes,) = panels(figure)
    assert written(axes.yaxis) == ["I", "ate", "it", "."]
    assert written(axes.xaxis) == ["[CLS]", "_배", "를", "[MASK]", "😀"]
    assert figure.get_supylabel() == "영어 (쿼리)"
    assert figure.get_supxlabel() == "한국어 (키)"
    assert figure.axes[-1].get_ylabel() == "가중치"


def test_the_views_of_2017_are_named():
    (axes,) = panels(plot_attention(weights(3, 6), None, TOKENS))
    assert written(axes.yaxis) == ["view 1", "view 2", "view 3"]


def test_hangul_is_written_in_a_hangul_font():
    (axes,) = panels(plot_attention(weights(6, 6), TOKENS))
    for label in axes.get_xticklabels() + axes.get_yticklabels():
        assert label.get_fontproperties().get_file() == figures.hangul_font()


@pytest.mark.parametrize(
    ("shape", "queries", "keys"),
    [
        ((1, 1), ["a"], None),
        ((6, 6), TOKENS, None),
        ((8, 8), PIECES, None),
        ((1, 5, 8, 8), PIECES, None),
        ((60, 60), LONG, None),
        ((1, 8, 60, 60), LONG, None),
        ((3, 60), None, LONG),
        ((60, 2), LONG, ["가" * 40, "\n"]),
    ],
)
def test_nothing_is_cut_off_and_no_tokens_overlap(shape, queries, keys):
    figure = plot_attention(
        weights(*shape),
        queries,
        keys,
        title="긴 제목은 여러 줄로 나뉘어 그림 안에 남는다",
        query_label="쿼리: 디코더가 지금 만드는 낱말",
        dpi=80,
    )
    figure._repr_png_()
    whole = figure.bbox
    scale = figure.axes[-1].get_yticklabels()  # those above its end are not drawn
    for text in set(figure.findobj(Text)) - set(scale):
        if text.get_text():
            box = text.get_window_extent()
            inside = whole.x0 <= box.x0 and box.x1 <= whole.x1
            assert inside and whole.y0 <= box.y0 and box.y1 <= whole.y1, text
    for axes in panels(figure):
        boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
        for upper, lower in zip(boxes, boxes[1:], strict=False):
            assert upper.y0 >= lower.y1 - 1
        labels = axes.get_xticklabels()
        if labels and labels[0].get_rotation() != 45:  # slanted boxes overlap
            boxes = [label.get_window_extent() for label in labels]
            for left, right in zip(boxes, boxes[1:], strict=False):
                assert left.x1 <= right.x0 + 1


def test_sixty_tokens_are_all_written_and_the_figure_grows():
    (axes,) = panels(plot_attention(weights(60, 60), LONG))
    assert written(axes.xaxis) == written(axes.yaxis) == LONG
    small = plot_attention(weights(6, 6), TOKENS).get_size_inches()
    large = plot_attention(weights(60, 60), LONG).get_size_inches()
    assert (large > 2 * small).all() and (large < 20).all()
    (axes,) = panels(plot_attention(weights(120, 120), LONG * 2))
    assert written(axes.xaxis) == (LONG * 2)[::2]


def test_every_token_of_a_long_text_is_written_if_asked():
    many = LONG * 2
    figure = plot_attention(weights(120, 120), many, every_token=True)
    (axes,) = panels(figure)
    assert written(axes.xaxis) == written(axes.yaxis) == many
    figure._repr_png_()
    boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
    for upper, lower in zip(boxes, boxes[1:], strict=False):
        assert upper.y0 >= lower.y1 - 1


def test_the_greatest_weight_of_each_row_is_framed_if_asked():
    w = weights(1, 2, 4, 6)
    w[0, 0, 3] = 0.0  # a query that sees nothing
    figure = plot_attention(w, TOKENS[:4], TOKENS, mark_greatest=True)
    for values_, axes, rows in zip(w[0], panels(figure), (3, 4), strict=True):
        frames = [patch.get_xy() for patch in axes.patches]
        corners = [(values_[row].argmax() - 0.5, row - 0.5) for row in range(rows)]
        assert frames == corners
    assert not panels(plot_attention(w, TOKENS[:4], TOKENS))[0].patches


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_files_are_written(tmp_path, suffix):
    file = tmp_path / f"그림.{suffix}"
    figure = plot_attention(weights(1, 2, 8, 8), PIECES, path=file, dpi=80)
    if suffix == "svg":
        assert ET.parse(file).getroot().tag.endswith("svg")
    else:
        data = file.read_bytes()
        assert data == figure._repr_png_()
        size = tuple(np.frombuffer(data[16:24], ">u4"))
        wanted = figure.get_size_inches() * 80
        np.testing.assert_allclose(size, wanted, atol=1)


def test_notebooks_show_the_figure():
    formatters = pytest.importorskip("IPython.core.formatters")
    figure = plot_attention(weights(6, 6), TOKENS)
    shown = formatters.PNGFormatter()(figure)
    assert shown.startswith(b"\x89PNG")


def test_no_setting_changes_and_pyplot_knows_no_figure(tmp_path):
    from matplotlib import font_manager, pyplot

    before = dict(matplotlib.rcParams)
    fonts = len(font_manager.fontManager.ttflist)
    plot_attention(weights(8, 8), PIECES, path=tmp_path / "a.png")
    assert dict(matplotlib.rcParams) == before
    assert len(font_manager.fontManager.ttflist) == fonts
    assert pyplot.get_fignums() == []


def test_weights_that_are_zero_or_missing_are_drawn():
    for weight in (0.0, np.nan):
        figure = plot_attention(np.full((2, 2), weight), ["a", "b"])
        assert figure._repr_png_().startswith(b"\x89PNG")


def test_what_does_not_fit_is_refused_and_nothing_is_written(tmp_path):
    file = tmp_path / "a.png"
    with pytest.raises(ValueError, match="6 tokens, but `weights` have only 5"):
        plot_attention(weights(5, 5), TOKENS, path=file)
    with pytest.raises(ValueError, match="`head` must be below 2"):
        plot_attention(weights(1, 2, 6, 6), TOKENS, head=2, path=file)
    with pytest.raises(ValueError, match="`vmax` must be positive"):
        plot_attention(weights(6, 6), TOKENS, vmax=0, path=file)
    assert not file.exists()
