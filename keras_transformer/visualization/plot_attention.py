"""Attention weights as heat maps with tokens on both axes."""

from math import ceil
from pathlib import Path

import numpy as np

from keras_transformer.visualization.attention_table import arrange
from keras_transformer.visualization.figures import (
    Fonts,
    new_figure,
    require_matplotlib,
    save,
    token_text,
)

# Sizes in inches and points: (wanted side of a panel, least and greatest cell,
# greatest side, tokens' letters) of one head, and of each head in a grid.
ONE_HEAD = (7.0, 0.2, 0.5, 13.0, 9)
GRID = (2.8, 0.07, 0.4, 4.5, 8)
MOST_COLUMNS, LEAST_SIDE, GAP, LABEL, TITLE = 4, 1.0, 0.12, 10, 12


def plot_attention(
    weights,
    query_tokens,
    key_tokens=None,
    *,
    head: int | str | None = None,
    title: str | None = None,
    batch: int | None = 0,
    hide=None,
    query_label: str = "query",
    key_label: str = "key",
    weight_label: str = "attention weight",
    head_label: str = "head {}",
    vmax: float | None = None,
    cmap="Blues",
    dpi: float = 100,
    path: str | Path | None = None,
):
    """Draw attention weights as a heat map: one head, or all heads of a layer.

    Row t, column s is how much query token t looks at key token s. The figure
    grows with the number of tokens; where their texts would overlap, every second,
    third, ... is written. All panels share one range of colours.

    Masks: the weights of padding are cut off: give the tokens without it, see
    `attention_table`.

    Args:
        weights: One recorded array or tensor, as for `attention_table`.
        query_tokens: At most T tokens, or None for the views of 2017.
        key_tokens: At most S tokens; by default the query tokens.
        head: The index of a head, "mean", or None for all heads in a grid.
        title: The figure's title.
        batch: The index of the example; None where `weights` have no batch axis.
        hide: A token or several whose rows and columns are left out.
        query_label: What the rows are, in the reader's language.
        key_label: What the columns are.
        weight_label: What the colours are.
        head_label: The title of each panel of a grid; {} is the head's index.
        vmax: The weight of the darkest colour, 1.0 to compare figures; by default
            the greatest weight shown.
        cmap: A colour map of matplotlib, a name or an object.
        dpi: Dots per inch; 80 for notebooks, 150 for print.
        path: The file to write; its suffix says the format (.png, .svg, .pdf).

    Returns:
        A `matplotlib.figure.Figure`. It belongs to no pyplot window; notebooks show
        it, and it need not be closed.

    Raises:
        ValueError, TypeError: As `attention_table`; a `vmax` that is not positive.
        ImportError: matplotlib is not installed.

    Example:

    >>> figure = plot_attention([[0.9, 0.1], [0.2, 0.8]], ["배", "타고"])

    (chapter: 3 to 9)
    """
    heads, queries, keys = arrange(
        weights, query_tokens, key_tokens, head, batch, hide
    )  # (N, T, S)
    vmax = color_limit(heads, vmax)
    require_matplotlib()
    rows, columns = list(map(token_text, queries)), list(map(token_text, keys))
    names = [head_label.format(number) for number in range(len(heads))]
    labels = query_label, key_label, weight_label
    fonts = Fonts([*rows, *columns, *names, *labels, title or ""])
    layout = _Layout(fonts, rows, columns, labels, len(heads), title)
    figure = new_figure(layout.width, layout.height, dpi)
    for number, values in enumerate(heads):
        axes = figure.add_axes(layout.panel(number))
        image = axes.imshow(
            values,
            cmap=cmap,
            vmin=0.0,
            vmax=vmax,
            aspect="auto",
            origin="upper",
            interpolation="none",
        )
        axes.grid(False)
        _write_tokens(axes.yaxis, layout.y, layout.is_first(number))
        _write_tokens(axes.xaxis, layout.x, layout.is_lowest(number))
        if len(heads) > 1:
            name = fonts.style(names[number], LABEL)
            axes.set_title(name.pop("text"), pad=4, **name)
    add_color_bar(figure, image, layout.color_bar, fonts, weight_label)
    (x, y), style = layout.key_label, fonts.style(key_label, LABEL)
    figure.supxlabel(style.pop("text"), x=x, y=y, va="bottom", **style)
    (x, y), style = layout.query_label, fonts.style(query_label, LABEL)
    figure.supylabel(style.pop("text"), x=x, y=y, ha="left", **style)
    if title:
        (x, y), style = layout.title_place, fonts.style(layout.title, TITLE)
        figure.suptitle(style.pop("text"), x=x, y=y, va="top", **style)
    save(figure, path)
    return figure


def color_limit(weights, vmax) -> float:
    """Return the weight of the darkest colour."""
    if vmax is not None:
        if not vmax > 0:
            raise ValueError(f"`vmax` must be positive. Received: vmax={vmax!r}.")
        return float(vmax)
    finite = weights[np.isfinite(weights)]
    greatest = float(finite.max()) if finite.size else 0.0
    return greatest if greatest > 0 else 1.0


def add_color_bar(figure, image, place, fonts, label):
    """Draw the scale of colours, with its label, at a place in the figure."""
    bar = figure.colorbar(image, cax=figure.add_axes(place))
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=2)
    style = fonts.style(label, LABEL - 1)
    bar.set_label(style.pop("text"), **style)


def _write_tokens(axis, plan, write):
    if not write:
        axis.set_ticks([])
        return
    axis.set_tick_params(length=3, pad=2)
    labels = [style["text"] for style in plan.styles]
    axis.set_ticks(plan.ticks, labels=labels)
    for label, style in zip(axis.get_ticklabels(), plan.styles, strict=True):
        label.set(rotation=plan.rotation, **style)
        if plan.rotation == 45:
            label.set(ha="right", va="top", rotation_mode="anchor")


class _Axis:
    """How the tokens of one axis are written; lengths in inches."""

    def __init__(self, tokens, side, size, fonts, *, horizontal):
        line = 1.3 * size / 72
        step = ceil(line * len(tokens) / side)
        room = step * side / len(tokens)
        self.ticks = range(0, len(tokens), step)
        written = tokens[::step]
        self.styles = [fonts.style(token, size) for token in written]
        widest = max(fonts.width(token, size) for token in written)
        self.rotation, self.depth, self.overhang = 0, widest, 0.0
        if not horizontal:
            return
        if widest < 0.9 * room:
            self.depth = line
        elif 0.7 * room > line:
            self.rotation, self.depth = 45, 0.71 * (widest + line)
            self.overhang = max(0.0, 0.71 * widest - room / 2)
        else:
            self.rotation = 90


class _Layout:
    """Where everything stands, so that nothing is cut off; lengths in inches."""

    def __init__(self, fonts, rows, columns, labels, count, title):
        wanted, least, greatest, most, size = ONE_HEAD if count == 1 else GRID
        self.count = count
        lines = ceil(count / MOST_COLUMNS)
        self.columns = ceil(count / lines)
        query, key, weight = (fonts.width(label, LABEL) for label in labels)
        cell = np.clip(wanted / max(len(rows), len(columns)), least, greatest)
        side = min(most, cell * len(columns))
        self.w = float(max(side, LEAST_SIDE, key / self.columns))
        side = min(most, cell * len(rows))
        self.h = float(max(side, LEAST_SIDE, max(query, weight) / lines))
        self.y = _Axis(rows, self.h, size, fonts, horizontal=False)
        self.x = _Axis(columns, self.w, size, fonts, horizontal=True)
        label = 1.5 * LABEL / 72
        self.name = label if count > 1 else 0.0
        tokens = max(self.y.depth + 0.07, self.x.overhang - label)
        self.left = 1.5 * GAP + label + tokens
        self.inner_w = self.columns * self.w + (self.columns - 1) * GAP
        self.inner_h = lines * (self.h + self.name) + (lines - 1) * GAP
        self.bottom = GAP + label + self.x.depth + 0.09
        self.width = self.left + self.inner_w + 1.0
        self.title = fonts.wrap(title or "", TITLE, self.width - 2 * GAP)
        written = 1.4 * TITLE / 72 * len(self.title.split("\n")) if title else 0.0
        self.top = GAP + written
        self.height = self.top + self.inner_h + self.bottom
        middle = self.bottom + self.inner_h / 2
        self.key_label = self._at(self.left + self.inner_w / 2, GAP)
        self.query_label = self._at(GAP, middle)
        self.title_place = self._at(self.width / 2, self.height - GAP)
        bar = min(self.inner_h - self.name, 5.0)
        low = self.bottom + (self.inner_h - self.name - bar) / 2
        self.color_bar = (
            *self._at(self.left + self.inner_w + GAP, low),
            *self._at(0.14, bar),
        )

    def panel(self, number):
        """Return left, bottom, width and height, as parts of the figure."""
        line, column = divmod(number, self.columns)
        x = self.left + column * (self.w + GAP)
        from_top = self.top + line * (self.h + self.name + GAP) + self.name + self.h
        return *self._at(x, self.height - from_top), *self._at(self.w, self.h)

    def is_first(self, number):
        """Whether a panel stands at the left edge."""
        return number % self.columns == 0

    def is_lowest(self, number):
        """Whether no panel stands below this one."""
        return number + self.columns >= self.count

    def _at(self, x, y):
        return x / self.width, y / self.height
