"""Vectors as points of a plane, coloured by what they are."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_transformer.visualization.figures import (
    Fonts,
    new_figure,
    require_matplotlib,
    save,
)

NOTE, TITLE, LEGEND = 11, 12, 9
MARKERS = "osD^vPX*"
READABLE = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1}


def plot_points(
    points,
    labels: Sequence,
    *,
    notes: dict[int, str] | None = None,
    title: str | None = None,
    size: tuple[float, float] = (6.0, 4.2),
    dpi: float = 100,
    path: str | Path | None = None,
):
    """Draw points of a plane; each label has its colour and its mark.

    Args:
        points: Array (points, 2), such as the first two principal components of
            vectors.
        labels: The label of each point; the legend names them in order of
            appearance.
        notes: Number of a point -> a text beside it; such points are drawn large.
        title: The figure's title.
        size: Width and height in inches.
        dpi: Dots per inch; 80 for notebooks, 150 for print.
        path: The file to write; its suffix says the format (.png, .svg, .pdf).

    Returns:
        A `matplotlib.figure.Figure`. It belongs to no pyplot window; notebooks show
        it, and it need not be closed.

    Raises:
        ValueError: Points that are not finite numbers (points, 2), not as many
            labels, a note of a point that is not there.
        ImportError: matplotlib is not installed.

    Example:

    >>> figure = plot_points([[0, 0], [1, 2]], ["배", "눈"], notes={1: "첫째"})

    (chapter: 6)
    """
    points, labels, notes = np.asarray(points), list(map(str, labels)), notes or {}
    numbers = points.dtype.kind in "iuf" and points.ndim == 2 and points.shape[1] == 2
    if not (numbers and len(points) and np.isfinite(points).all()):
        raise ValueError(
            "`points` must be finite numbers of shape (points, 2). Received: shape "
            f"{points.shape}, {points.dtype}."
        )
    if len(labels) != len(points):
        raise ValueError(
            f"There must be one label for each point. Received: {len(points)} points, "
            f"{len(labels)} labels."
        )
    wrong = [number for number in notes if number not in range(len(points))]
    if wrong:
        raise ValueError(
            f"`notes` must name points from 0 to {len(points) - 1}. Received: {wrong}."
        )
    require_matplotlib()
    fonts = Fonts([*labels, *notes.values(), title or ""])
    figure = new_figure(*size, dpi)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08)
    axes = figure.add_subplot()
    names = list(dict.fromkeys(labels))
    for index, name in enumerate(names):
        rows = [row for row, label in enumerate(labels) if label == name]
        axes.scatter(
            *points[rows].T,
            s=[130 if row in notes else 26 for row in rows],
            marker=MARKERS[index % len(MARKERS)],
            color=f"C{index % 10}",
            edgecolors="black",
            linewidths=[1 if row in notes else 0 for row in rows],
            alpha=0.8,
        )
    for number, text in notes.items():
        style = fonts.style(text, NOTE)
        axes.annotate(
            style.pop("text"),
            points[number],
            xytext=(8, 6),
            textcoords="offset points",
            bbox=READABLE,
            **style,
        )
    axes.set(xticks=[], yticks=[])
    style = fonts.style(fonts.wrap(title or "", TITLE, size[0] - 1), TITLE)
    axes.set_title(style.pop("text"), **style)
    styles = [fonts.style(name, LEGEND) for name in names]
    legend = axes.legend([style["text"] for style in styles], frameon=False)
    for text, handle, style in zip(
        legend.get_texts(), legend.legend_handles, styles, strict=True
    ):
        text.set(**style)
        handle.set_sizes([26])
        handle.set_linewidth(0)
    save(figure, path)
    return figure
