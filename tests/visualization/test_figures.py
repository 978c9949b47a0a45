import sys
import unicodedata
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.visualization import (
    figures,
    plot_attention,
    plot_mask,
    plot_views,
)

font_manager = pytest.importorskip("matplotlib.font_manager")

HANGUL = figures.hangul_font()
SIZE = 10
needs_hangul = pytest.mark.skipif(
    HANGUL is None, reason="no Hangul font: pip install koreanize-matplotlib"
)


def letters(font):
    return font_manager.get_font(font.get_file()).get_charmap()


def test_the_optional_package_gives_the_font_without_being_imported():
    if not util.find_spec("koreanize_matplotlib"):
        pytest.skip("koreanize-matplotlib is not installed")
    assert Path(HANGUL).name == "NanumGothic.ttf"
    assert "koreanize_matplotlib" in Path(HANGUL).parts
    assert "koreanize_matplotlib" not in sys.modules


@needs_hangul
def test_without_the_package_the_system_is_searched(monkeypatch):
    usual = font_manager.findfont(font_manager.FontProperties())
    entries = [
        font_manager.FontEntry(usual, name="Noto Sans KR", weight=400),  # no Hangul
        font_manager.FontEntry("missing.ttf", name="Nanum Gothic", weight=400),
        font_manager.FontEntry(HANGUL, name="UnDotum", weight=400),
        font_manager.FontEntry(usual, name="Other", weight=400),
    ]
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    monkeypatch.setattr(font_manager.fontManager, "ttflist", entries)
    assert figures.hangul_font() == HANGUL
    monkeypatch.setattr(font_manager.fontManager, "ttflist", entries[:2])
    assert figures.hangul_font() is None


@needs_hangul
@pytest.mark.filterwarnings("error")
def test_every_letter_that_is_written_is_in_its_font():
    odd = [
        "▁배",
        "[MASK]",
        "😀",
        "배🥲",
        "Ġthe",
        "漢字",
        "\ud83d",
        "é\u200b",
        "\x07",
        "",
    ]
    texts = [figures.token_text(text) for text in odd]
    fonts = figures.Fonts(texts)
    for text in texts:
        shown, font = fonts.fit(text, SIZE)
        assert {ord(letter) for letter in shown} <= set(letters(font)), text
    shown = [fonts.fit(text, SIZE)[0] for text in texts]
    assert shown[0] == "_배" and shown[3] == "배□" and shown[8] == "<0x07>"
    assert fonts.fit("▁배", SIZE)[1].get_file() == HANGUL


@needs_hangul
def test_decomposed_hangul_is_written_in_syllables():
    word = unicodedata.normalize("NFD", "사랑해요")
    assert figures.Fonts([word]).fit(word, SIZE)[0] == "사랑해요"


@pytest.mark.filterwarnings("error")
def test_texts_without_hangul_keep_the_usual_font(monkeypatch):
    monkeypatch.setattr(figures, "hangul_font", lambda: pytest.fail("not needed"))
    usual = font_manager.findfont(font_manager.FontProperties())
    fonts = figures.Fonts(["the", "▁cat", "😀", "🥲"])
    assert fonts.fit("▁cat", SIZE)[0] == "▁cat"
    assert fonts.fit("🥲", SIZE)[0] == "□"
    assert fonts.fit("the", SIZE)[1].get_file() == usual


@pytest.mark.parametrize("draw", [plot_attention, plot_mask, plot_views])
def test_without_any_hangul_font_one_warning_says_what_to_install(monkeypatch, draw):
    monkeypatch.setattr(figures, "hangul_font", lambda: None)
    with pytest.warns(UserWarning) as caught:
        draw(np.eye(2), ["배", "타고"])._repr_png_()
    assert len(caught) == 1
    assert "keras-transformer-layers[plot]" in str(caught[0].message)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("draw", [plot_attention, plot_mask, plot_views])
def test_without_matplotlib_the_error_names_the_extra(monkeypatch, draw):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"keras-transformer-layers\[plot\]"):
        draw(np.eye(2), ["a", "b"])


def test_tokens_are_visible_and_not_too_long():
    assert figures.token_text("a\nb") == "a<0x0A>b"
    assert figures.token_text("  ") == "␣␣"
    assert figures.token_text("가" * 30) == "가" * 12 + "…"
    assert figures.token_text("a" * 30) == "a" * 24 + "…"
    assert figures.token_text(7) == "7"
