"""What all figures share: matplotlib, fonts that have the letters, and saving."""

import importlib.util
import textwrap
import unicodedata
import warnings
from functools import partial
from io import BytesIO
from pathlib import Path

INSTALL = "pip install 'keras-transformer-layers[plot]'"
# Beginnings of family names, without spaces, the best first.
HANGUL_FAMILIES = (
    "nanumgothic",
    "nanumbarungothic",
    "notosanskr",
    "notosanscjk",
    "sourcehansans",
    "malgungothic",
    "applesdgothicneo",
    "applegothic",
    "undotum",
    "nanum",
    "baekmuk",
    "notoserifcjk",
    "droidsansfallback",
    "arialunicode",
)
LOOK_ALIKES = (("▁", "_"), ("␣", "_"), ("…", ".."))
BOX = "□"
WIDEST_TOKEN = 24  # Latin letters; a Hangul syllable is two wide


def require_matplotlib():
    """Import matplotlib, or say how to install it."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError(f"Plots need matplotlib: {INSTALL}.") from error


def new_figure(width: float, height: float, dpi: float):
    """Return a figure of this size in inches, which pyplot does not know of."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi)
    # Notebooks show pyplot's figures only, unless a figure brings its picture.
    figure._repr_png_ = partial(_png, figure)
    return figure


def save(figure, path: str | Path | None):
    """Write the figure to a file; its suffix says the format."""
    if path is not None:
        figure.savefig(path, dpi=figure.dpi)


def token_text(token) -> str:
    """Return a token as it is written in a figure: visible, and not too long."""
    text = str(token)
    if text.isspace() and text.isprintable():
        return "␣" * len(text)
    shown, room = "", WIDEST_TOKEN
    for letter in text:
        if unicodedata.category(letter) == "Cc":
            letter = f"<0x{ord(letter):02X}>"  # as SentencePiece writes bytes
        room -= 2 if _is_wide(letter[0]) else len(letter)
        if room < 0:
            return f"{shown}…"
        shown += letter
    return shown


class Fonts:
    """The fonts of one figure, chosen for its texts; no setting is changed.

    Texts with Hangul are written in NanumGothic if the package
    `koreanize_matplotlib` is there (it is not imported), or in a font of the
    system that has Hangul. Other texts keep matplotlib's font.

    Args:
        texts: All texts of the figure.
        stacklevel: How far up the user's own line is, for the warning.
    """

    def __init__(self, texts, stacklevel: int = 3):
        from matplotlib.font_manager import FontProperties, findfont

        usual = str(findfont(FontProperties()))
        self._files = [usual]
        letters = set(unicodedata.normalize("NFC", "".join(map(str, texts))))
        missing = [c for c in sorted(letters) if _is_wide(c) and not _has(usual, c)]
        if not missing:
            return
        hangul = hangul_font()
        if hangul is None:
            warnings.warn(
                f"No font was found that can write {missing[0]!r}: boxes are drawn "
                f"instead. To get one: {INSTALL}.",
                stacklevel=stacklevel,
            )
        else:
            self._files.insert(0, hangul)

    def fit(self, text, size: float):
        """Return the text in letters that can be drawn, and its font."""
        from matplotlib.font_manager import FontProperties

        main = self._files[0]
        text = unicodedata.normalize("NFC", str(text))
        for letter, other in LOOK_ALIKES:
            if not _has(main, letter):
                text = text.replace(letter, other)
        text = "".join(c for c in text if _has(main, c) or not _is_invisible(c))
        for file in self._files:
            if all(_has(file, c) for c in text):
                return text, FontProperties(fname=file, size=size)
        box = BOX if _has(main, BOX) else "?"
        text = "".join(c if _has(main, c) else box for c in text)
        return text, FontProperties(fname=main, size=size)

    def style(self, text, size: float) -> dict:
        """Return the arguments of matplotlib's texts, the string included."""
        from matplotlib.patheffects import Stroke

        text, font = self.fit(text, size)
        # Hinting makes "_" and "[" of small NanumGothic vanish, and snapping to
        # pixels "ㅁ". An effect, even without a line, draws outlines without both.
        outlines = font.get_file() != self._files[-1]
        effects = [Stroke(linewidth=0, snap=False)] if outlines else []
        # A token "$x$" is no formula.
        return dict(
            text=text,
            fontproperties=font,
            path_effects=effects,
            parse_math=False,
            usetex=False,
        )

    def width(self, text, size: float) -> float:
        """Return the width of a text in inches."""
        from matplotlib.textpath import TextToPath

        text, font = self.fit(text, size)
        measure = TextToPath().get_text_width_height_descent
        return max(measure(line, font, False)[0] for line in text.split("\n")) / 72

    def wrap(self, text, size: float, width: float) -> str:
        """Return the text in lines that are no wider than `width` inches."""
        lines = []
        for line in str(text).split("\n"):
            wanted = self.width(line, size)
            letters = max(10, int(len(line) * width / wanted)) if wanted else 10
            lines += textwrap.wrap(line, letters) if wanted > width else [line]
        return "\n".join(lines)


def hangul_font() -> str | None:
    """Return the file of a font with Hangul, or None."""
    spec = importlib.util.find_spec("koreanize_matplotlib")
    for folder in (spec and spec.submodule_search_locations) or ():
        for file in sorted(Path(folder).rglob("NanumGothic.ttf")):
            return str(file)
    from matplotlib.font_manager import fontManager

    found = []
    for entry in fontManager.ttflist:
        family = entry.name.lower().replace(" ", "")
        for rank, beginning in enumerate(HANGUL_FAMILIES):
            if family.startswith(beginning):
                plain = entry.style == "normal", entry.weight in (400, "normal")
                found.append((rank, *(not p for p in plain), str(entry.fname)))
    for *_, file in sorted(found):
        if _has(file, "한"):
            return file
    return None


def _has(file, letter):
    from matplotlib.font_manager import get_font

    try:
        return letter == "\n" or get_font(file).get_char_index(ord(letter)) != 0
    except (OSError, RuntimeError):  # a file that was removed, or is no font
        return False


def _is_wide(letter):
    """Whether this is a letter of Korean, Chinese or Japanese."""
    wide = unicodedata.east_asian_width(letter) in "WF"
    return wide and unicodedata.category(letter) == "Lo"


def _is_invisible(letter):
    return unicodedata.category(letter) in ("Cf", "Mn")


def _png(figure):
    file = BytesIO()
    figure.savefig(file, format="png", dpi=figure.dpi)
    return file.getvalue()
