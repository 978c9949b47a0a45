"""Attention of a whole model as one self-contained page."""

import html
import json
import re
from importlib.resources import files
from pathlib import Path

from keras_transformer.visualization.view_data import view_data

LANGUAGES = ("en", "ko")
TITLES = {"en": "Attention", "ko": "어텐션"}


class AttentionPage:
    """A page of HTML that notebooks show in a frame of its own.

    Attributes:
        html: The whole page, a text.
        height: The height of the frame in pixels.
    """

    def __init__(self, page: str, height: int):
        self.html = page
        self.height = height

    def save(self, path: str | Path):
        """Write the page to a file, in UTF-8."""
        Path(path).write_text(self.html, "utf-8")

    def _repr_html_(self):
        # A frame keeps the page's styles from the notebook and the other way round;
        # the sandbox keeps its script from everything else.
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts" '
            f'title="attention" style="width: 100%; height: {self.height}px; '
            'border: 0"></iframe>'
        )

    def __repr__(self):
        return f"<AttentionPage of {len(self.html.encode()):,} bytes>"


def attention_view(
    record,
    path: str | Path | None = None,
    *,
    tokens=None,
    target_tokens=None,
    batch: int = 0,
    hide=None,
    title: str | None = None,
    language: str = "en",
    height: int = 900,
) -> AttentionPage:
    """Show all recorded attention of a model as one page to look around in.

    The page has everything inside it and loads nothing: open it in a browser, send
    it by mail, or let a notebook show it. Choose a kind (encoder self, decoder
    self, cross, single head), a layer and a head or the mean of heads; hover over a
    token, or tap it, to see what it looks at and what looks at it; open a head from
    the thumbnails of all. The keyboard does all this too: Tab, arrow keys, Enter
    keeps a token, Escape lets it go.

    Weights are rounded to 8 bits, at most 1/255 of the head's greatest weight off.

    Masks: padding is not shown: positions that nothing looked at in any layer are
    left out. Of a sequence at which no layer looks, such as the target of a recurrent
    translator, give the tokens, without padding. Tokens that are shown look at nothing
    behind the given tokens.

    Args:
        record: What `record_attention` gives, or a dict of layer path to a list of
            arrays (B, N, T, S) or (B, T, S).
        path: The file to write, such as "attention.html".
        tokens: The tokens that went into the model, with its special tokens; for an
            encoder and a decoder those of the encoder. None takes the record's own
            `tokens`, where texts were written, or numbers them. Or a
            mapping of layer path to a tuple (query tokens, key tokens), or None to
            number them, which also chooses the layers that are shown.
        target_tokens: The tokens that went into the decoder, if there are two
            sequences.
        batch: The index of the example.
        hide: A token or several that are left out.
        title: The page's title.
        language: The language of the page: "en" or "ko".
        height: The height in a notebook, in pixels.

    Returns:
        An `AttentionPage`, which a notebook shows; `.html` is its text.

    Raises:
        TypeError: `record` is no record, or tokens are one text.
        ValueError: The record is empty or of a call that failed, more tokens than
            positions or fewer than are looked at, an example or a language that is not
            there.
        KeyError: `tokens` has a layer that is not recorded.

    Example:

    >>> weights = [[[[0.9, 0.1], [0.2, 0.8]]]]
    >>> page = attention_view({"encoder": [weights]}, tokens=["배", "타고"])

    (chapter: 3 to 9)
    """
    if language not in LANGUAGES:
        raise ValueError(
            f"`language` must be one of {LANGUAGES}. Received: language={language!r}."
        )
    data = view_data(record, tokens, target_tokens, batch, hide)
    text = _fill(
        language=language,
        title=html.escape(TITLES[language] if title is None else str(title)),
        style=_asset("page.css"),
        data=_as_json({"language": language, **data}),
        script=_script(),
    )
    # Half a character, as of a token that is cut inside an emoji, is shown as "?".
    page = AttentionPage(text.encode("utf-8", "replace").decode("utf-8"), height)
    if path is not None:
        page.save(path)
    return page


def _fill(**parts):
    """Fill the template in one pass: what a token contains is never a place."""
    return re.sub(r"{{(\w+)}}", lambda place: parts[place[1]], _asset("page.html"))


def _as_json(data):
    # No "<" is left, so that no token ends the element or begins another.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _script():
    folder = files("keras_transformer.visualization") / "page"
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".js"))
    parts = "\n".join(map(_asset, names))
    return f'"use strict";\n(() => {{\n{parts}}})();'


def _asset(name):
    folder = files("keras_transformer.visualization") / "page"
    return (folder / name).read_text("utf-8")
