"""Heat maps with named rows and columns: one panel, or several in a grid."""

from math import ceil

import numpy as np

from keras_transformer.visualization.figures import Fonts, new_figure

# Sizes in inches and points: (wanted side of a panel, least and greatest cell,
# greatest side, tokens' letters) of one head, and of each head in a grid.
ONE_HEAD = (7.0, 0.2, 0.5, 13.0, 9)
GRID = (2.8, 0.07, 0.4, 4.5, 8)
MOST_COLUMNS, LEAST_SIDE, GAP, LABEL, TITLE = 4, 1.0, 0.12, 10, 12


def draw_heat_maps(
    panels,
    rows,
    columns,
    *,
    labels,
    names=None,
    title: str | None = None,
    limits=(0.0, 1.0),
    cmap="Blues",
    dpi: float = 100,
    ticks: dict | None = None,
    mark_greatest: bool = False,
    every_token: bool = False,
    sizes: tuple | None = None,
):
    """Draw matrices as heat maps that share their rows, columns and colours.

    Args:
        panels: Values (N, T, S).
        rows: T texts.
        columns: S texts.
        labels: What the rows, the columns and the colours are.
        names: The title of each panel, if there are several.
        title: The figure's title.
        limits: The values of the first and the last colour.
        cmap: A colour map of matplotlib.
        dpi: Dots per inch.
        ticks: Value -> text beside the colours; by default numbers.
        mark_greatest: Whether to frame the greatest value of each row.
        every_token: Whether the figure grows until every row and column is named.
        sizes: As `ONE_HEAD` and `GRID`, which are the defaults of one and of several
            panels.

    Returns:
        A `matplotlib.figure.Figure` that pyplot does not know of.
    """
    names = names or [""] * len(panels)
    ticks = ticks or {}
    texts = [*rows, *columns, *names, *labels, *ticks.values(), title or ""]
    fonts = Fonts(texts, stacklevel=4)
    sizes = sizes or (ONE_HEAD if len(panels) == 1 else GRID)
    if every_token:
        wanted, least, greatest, _, size = sizes
        sizes = wanted, max(least, 1.31 * size / 72), greatest, np.inf, size
    layout = _Layout(fonts, rows, columns, labels, len(panels), title, sizes)
    figure = new_figure(layout.width, layout.height, dpi)
    for number, values in enumerate(panels):
        axes = figure.add_axes(layout.panel(number))
        image = axes.imshow(
            values,
            cmap=cmap,
            vmin=limits[0],
            vmax=limits[1],
            aspect="auto",
            origin="upper",
            interpolation="none",
        )
        axes.grid(False)
        _write_tokens(axes.yaxis, layout.y, layout.is_first(number))
        _write_tokens(axes.xaxis, layout.x, layout.is_lowest(number))
        if mark_greatest:
            _frame_greatest(axes, values)
        if len(panels) > 1:
            name = fonts.style(names[number], LABEL)
            axes.set_title(name.pop("text"), pad=4, **name)
    query, key, weight = labels
    bar = add_color_bar(figure, image, layout.color_bar, fonts, weight)
    if ticks:
        styles = [fonts.style(text, LABEL - 2) for text in ticks.values()]
        bar.set_ticks(list(ticks), labels=[style["text"] for style in styles])
        for label, style in zip(bar.ax.get_yticklabels(), styles, strict=True):
            label.set(**style)
    (x, y), style = layout.key_label, fonts.style(key, LABEL)
    figure.supxlabel(style.pop("text"), x=x, y=y, va="bottom", **style)
    (x, y), style = layout.query_label, fonts.style(query, LABEL)
    figure.supylabel(style.pop("text"), x=x, y=y, ha="left", **style)
    if title:
        (x, y), style = layout.title_place, fonts.style(layout.title, TITLE)
        figure.suptitle(style.pop("text"), x=x, y=y, va="top", **style)
    return figure


def _frame_greatest(axes, values):
    from matplotlib.patches import Rectangle

    for row, weights in enumerate(values):
        if np.isfinite(weights).all() and weights.any():
            corner = int(np.argmax(weights)) - 0.5, row - 0.5
            frame = dict(fill=False, edgecolor="#c2410c", linewidth=1.2)
            axes.add_patch(Rectangle(corner, 1, 1, **frame))


def add_color_bar(figure, image, place, fonts, label):
    """Draw the scale of colours, with its label, at a place in the figure."""
    bar = figure.colorbar(image, cax=figure.add_axes(place))
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=2)
    style = fonts.style(label, LABEL - 1)
    bar.set_label(style.pop("text"), **style)
    return bar


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

    def __init__(self, fonts, rows, columns, labels, count, title, sizes):
        wanted, least, greatest, most, size = sizes
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
