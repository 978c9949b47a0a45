"""A sentence once for each of its views, as coloured text."""

from pathlib import Path

from keras_transformer.visualization.attention_table import arrange
from keras_transformer.visualization.figures import (
    Fonts,
    new_figure,
    require_matplotlib,
    save,
    token_text,
)
from keras_transformer.visualization.heat_maps import add_color_bar
from keras_transformer.visualization.plot_attention import color_limit

# Lengths in inches, letters in points.
SIZE, LINE, CHIP, PADDING, GAP, MARGIN, WIDEST = 12, 0.36, 0.29, 0.06, 0.05, 0.15, 10.0
LABEL, TITLE, LEAST_HEIGHT = 10, 12, 1.3


def plot_views(
    weights,
    tokens,
    *,
    batch: int | None = 0,
    hide=None,
    title: str | None = None,
    view_label: str = "view {}",
    weight_label: str = "attention weight",
    vmax: float | None = None,
    cmap="Blues",
    dpi: float = 100,
    path: str | Path | None = None,
):
    """Draw a sentence r times, each word the darker the more its view looks at it.

    For the annotation matrix A (r x n) of `SelfAttentiveEmbedding`. Long sentences
    go on in a next line.

    Masks: the weights of padding are cut off: give the tokens without it.

    Args:
        weights: One recorded array or tensor A: (B, r, S) or (r, S).
        tokens: At most S tokens.
        batch: The index of the example; None where `weights` have no batch axis.
        hide: A token or several that are left out.
        title: The figure's title.
        view_label: What stands before each row; {} is the view's number, from 1.
        weight_label: What the colours are.
        vmax: The weight of the darkest colour; by default the greatest shown.
        cmap: A colour map of matplotlib that begins light, a name or an object.
        dpi: Dots per inch; 80 for notebooks, 150 for print.
        path: The file to write; its suffix says the format (.png, .svg, .pdf).

    Returns:
        A `matplotlib.figure.Figure`. It belongs to no pyplot window; notebooks show
        it, and it need not be closed.

    Raises:
        ValueError, TypeError: As `attention_table`; a `vmax` that is not positive.
        ImportError: matplotlib is not installed.

    Example:

    >>> figure = plot_views([[0.9, 0.1], [0.2, 0.8]], ["엄마", "아빠는"])

    Source: Lin et al. 2017, https://arxiv.org/abs/1703.03130 (chapter: 2)
    """
    heads, _, tokens = arrange(weights, None, tokens, None, batch, hide)
    views = heads.mean(axis=0)  # (r, S)
    vmax = color_limit(views, vmax)
    require_matplotlib()
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    tokens = list(map(token_text, tokens))
    labels = [view_label.format(number) for number in range(1, len(views) + 1)]
    fonts = Fonts([*tokens, *labels, title or "", weight_label])
    places, right, lines = _places(tokens, fonts)
    left = 2 * MARGIN + max(fonts.width(label, LABEL) for label in labels)
    width = left + right + MARGIN + 1.0
    title = fonts.wrap(title or "", TITLE, width - 2 * MARGIN)
    top = MARGIN + (0.28 * len(title.split("\n")) if title else 0.0)
    block = lines * LINE + (LINE / 3 if lines > 1 else 0.0)
    least = max(LEAST_HEIGHT, fonts.width(weight_label, LABEL) + 2 * MARGIN)
    height = max(top + len(views) * block + MARGIN, least)

    figure = new_figure(width, height, dpi)
    axes = figure.add_axes([0, 0, 1, 1])  # in inches, from the upper left
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    colors = colormaps.get_cmap(cmap)
    scale = Normalize(0.0, vmax, clip=True)
    ink = axes.xaxis.label.get_color()
    _write(axes, MARGIN, MARGIN, fonts.style(title, TITLE), va="top", color=ink)
    for number, (label, weights) in enumerate(zip(labels, views, strict=True)):
        y = top + number * block
        _write(axes, MARGIN, y + LINE / 2, fonts.style(label, LABEL), color=ink)
        for (x, line, chip), token, weight in zip(places, tokens, weights, strict=True):
            place = left + x, y + line * LINE
            _draw_chip(axes, place, chip, colors(scale(weight)))
            middle = place[0] + PADDING, place[1] + LINE / 2
            color = "white" if _is_dark(colors(scale(weight))) else "black"
            _write(axes, *middle, fonts.style(token, SIZE), color=color)
    bar = min(height - 2 * MARGIN, 3.0)
    image = ScalarMappable(scale, colors)
    place = ((left + right + MARGIN) / width, 1 - (MARGIN + bar) / height)
    add_color_bar(
        figure, image, (*place, 0.14 / width, bar / height), fonts, weight_label
    )
    save(figure, path)
    return figure


def _places(tokens, fonts):
    """Return (x, line, width) of each token, the right end, and the lines."""
    places, x, line, right = [], 0.0, 0, 0.0
    for token in tokens:
        chip = max(fonts.width(token, SIZE), 0.05) + 2 * PADDING
        if x and x + chip > WIDEST:
            x, line = 0.0, line + 1
        places.append((x, line, chip))
        right = max(right, x + chip)
        x += chip + GAP
    return places, right, line + 1


def _write(axes, x, y, style, va="center_baseline", **more):
    axes.text(x, y, style.pop("text"), va=va, **style, **more)


def _draw_chip(axes, place, width, color):
    from matplotlib.patches import FancyBboxPatch

    axes.add_patch(
        FancyBboxPatch(
            (place[0], place[1] + (LINE - CHIP) / 2),
            width,
            CHIP,
            boxstyle="round,pad=0,rounding_size=0.05",
            facecolor=color,
            edgecolor="0.8",
            linewidth=0.5,
        )
    )


def _is_dark(color):
    red, green, blue, _ = color
    return 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
