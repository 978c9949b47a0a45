import numpy as np
import pytest

from keras_transformer.visualization import figures, plot_views

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.colors import to_rgba  # noqa: E402
from matplotlib.patches import FancyBboxPatch  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.skipif(figures.hangul_font() is None, reason="no Hangul font"),
]

TOKENS = ["엄마", "아빠는", "아기를", "사랑해요"]
WEIGHTS = np.array([[0.1, 0.2, 0.3, 0.4, 0.0], [0.8, 0.1, 0.1, 0.0, 0.0]])


def chips(figure):
    return figure.axes[0].findobj(FancyBboxPatch)


def texts(figure):
    return [text for text in figure.axes[0].texts if text.get_text()]


def test_each_view_writes_the_sentence_darker_where_it_looks():
    figure = plot_views(WEIGHTS, TOKENS, title="관점", view_label="관점 {}")
    written = [text.get_text() for text in texts(figure)]
    assert written == ["관점", "관점 1", *TOKENS, "관점 2", *TOKENS]
    light = [sum(to_rgba(chip.get_facecolor())[:3]) for chip in chips(figure)]
    order = np.argsort(light, kind="stable")
    darkest_first = np.argsort(-WEIGHTS[:, :4].ravel(), kind="stable")
    np.testing.assert_array_equal(order, darkest_first)
    colors = matplotlib.colormaps["Blues"](WEIGHTS[:, :4].ravel() / 0.8)
    np.testing.assert_allclose([c.get_facecolor() for c in chips(figure)], colors)


def test_a_batch_gives_its_example():
    batch = np.stack([np.zeros((2, 5)), WEIGHTS])
    one, other = plot_views(batch, TOKENS, batch=1), plot_views(WEIGHTS, TOKENS)
    for a, b in zip(chips(one), chips(other), strict=True):
        assert a.get_facecolor() == b.get_facecolor()


def test_text_is_white_on_dark_and_black_on_light():
    figure = plot_views(WEIGHTS, TOKENS)
    first = [text for text in texts(figure) if text.get_text() == "엄마"]
    assert [text.get_color() for text in first] == ["black", "white"]


@pytest.mark.parametrize("tokens", [TOKENS, ["▁배", "😀", "[MASK]"], TOKENS * 15])
def test_nothing_is_cut_off_and_every_text_fits_its_chip(tokens):
    weights = np.random.default_rng(0).random((3, len(tokens)))
    figure = plot_views(
        weights, tokens, title="긴 제목은 여러 줄로 나뉜다 " * 5, dpi=80
    )
    figure._repr_png_()
    for artist in [*texts(figure), *chips(figure)]:
        box = artist.get_window_extent()
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, artist
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, artist
    boxes = [chip.get_window_extent() for chip in chips(figure)]
    for text in texts(figure):
        if text.get_text() in tokens:
            box = text.get_window_extent()
            assert any(b.x0 <= box.x0 and box.x1 <= b.x1 for b in boxes), text
    assert figure.get_size_inches()[0] < 13


def test_files_are_written_and_no_setting_changes(tmp_path):
    before = dict(matplotlib.rcParams)
    for name in ("views.png", "views.svg"):
        plot_views(WEIGHTS, TOKENS, path=tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    assert dict(matplotlib.rcParams) == before


def test_too_many_tokens_are_refused():
    with pytest.raises(ValueError, match="6 tokens, but `weights` have only 5"):
        plot_views(WEIGHTS, [*TOKENS, "아주", "많이"])
