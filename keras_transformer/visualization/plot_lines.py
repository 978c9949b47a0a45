"""A table as lines: learning curves, and one figure against another."""

from pathlib import Path

import pandas as pd

from keras_transformer.visualization.figures import (
    Fonts,
    new_figure,
    require_matplotlib,
    save,
)

LABEL, TITLE, LEGEND = 10, 12, 9
SCALES = ("linear", "log")
MOST_TICKS, MANY = 12, 5


def plot_lines(
    table,
    *,
    title: str | None = None,
    x_label: str | None = None,
    y_label: str = "",
    x_scale: str = "linear",
    y_scale: str = "linear",
    size: tuple[float, float] = (6.0, 3.2),
    dpi: float = 100,
    path: str | Path | None = None,
):
    """Draw each column of a table as a line over its index.

    Dots mark the values where there are few. Values that are no numbers (NaN)
    leave a gap.

    Args:
        table: A `pandas.DataFrame` of numbers with a numeric index, or what makes
            one, such as `history.history`. The columns' names are the legend.
        title: The figure's title.
        x_label: What the index is; by default the index's name.
        y_label: What the values are.
        x_scale: `"linear"` or `"log"`.
        y_scale: `"linear"` or `"log"`.
        size: Width and height in inches.
        dpi: Dots per inch; 80 for notebooks, 150 for print.
        path: The file to write; its suffix says the format (.png, .svg, .pdf).

    Returns:
        A `matplotlib.figure.Figure`. It belongs to no pyplot window; notebooks show
        it, and it need not be closed.

    Raises:
        ValueError: An empty table, values or an index that are no numbers, another
            scale.
        ImportError: matplotlib is not installed.

    Example:

    >>> figure = plot_lines({"loss": [0.7, 0.5], "val_loss": [0.7, 0.6]})

    (chapter: 5, 10, 12)
    """
    table = pd.DataFrame(table)
    for name, scale in (("x_scale", x_scale), ("y_scale", y_scale)):
        if scale not in SCALES:
            raise ValueError(f"`{name}` must be one of {SCALES}. Received: {scale!r}.")
    if table.empty:
        raise ValueError(f"`table` is empty: its shape is {table.shape}.")
    kinds = {"its index": table.index.dtype, **table.dtypes.to_dict()}
    wrong = [name for name, kind in kinds.items() if kind.kind not in "iuf"]
    if wrong:
        raise ValueError(
            "`table` must hold numbers over an index of numbers. No numbers are in: "
            f"{', '.join(map(str, wrong))}."
        )
    require_matplotlib()
    x_label = str(table.index.name or "") if x_label is None else x_label
    fonts = Fonts([*table.columns, x_label, y_label, title or ""])
    figure = new_figure(*size, dpi)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    axes = figure.add_subplot(xscale=x_scale, yscale=y_scale)
    marker = "o" if len(table) <= 30 else None
    for name in table.columns:
        axes.plot(table.index, table[name], marker=marker, markersize=3.5)
    if x_scale == "linear" and table.index.dtype.kind in "iu":
        axes.xaxis.get_major_locator().set_params(integer=True)  # no epoch 1.5
    elif x_scale == "log" and len(table) <= MOST_TICKS:
        axes.set_xticks(table.index, labels=[f"{x:g}" for x in table.index])
        axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    for write, text, letters in (
        (axes.set_xlabel, x_label, LABEL),
        (axes.set_ylabel, y_label, LABEL),
        (axes.set_title, fonts.wrap(title or "", TITLE, size[0] - 1), TITLE),
    ):
        style = fonts.style(text, letters)
        write(style.pop("text"), **style)
    _write_legend(figure, axes, table.columns, fonts)
    save(figure, path)
    return figure


def _write_legend(figure, axes, names, fonts):
    styles = [fonts.style(name, LEGEND) for name in names]
    texts = [style["text"] for style in styles]
    if len(names) < MANY:
        legend = axes.legend(axes.lines, texts, frameon=False)
    else:  # beside the axes, since many lines leave no room inside
        legend = figure.legend(
            axes.lines, texts, loc="outside right upper", frameon=False
        )
    for text, style in zip(legend.get_texts(), styles, strict=True):
        text.set(**style)
