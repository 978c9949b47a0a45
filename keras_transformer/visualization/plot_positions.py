"""Positional encodings as pictures: their values, and how alike positions are."""

from pathlib import Path

import numpy as np
from keras import ops

from keras_transformer.ops.positions import sinusoids
from keras_transformer.visualization.figures import require_matplotlib, save
from keras_transformer.visualization.heat_maps import draw_heat_maps

# As of one head, but small cells do: their order is the picture, not their names.
SIZES = (5.5, 0.04, 0.5, 8.0, 9)


def plot_positions(
    table=None,
    *,
    length: int = 64,
    width: int = 64,
    layout: str = "interleaved",
    max_wavelength: float = 10000,
    similarity: bool = False,
    title: str | None = None,
    position_label: str = "position",
    feature_label: str = "feature",
    value_label: str | None = None,
    cmap="RdBu_r",
    dpi: float = 100,
    path: str | Path | None = None,
):
    """Draw an encoding of positions, a row each, or the cosines between its rows.

    The values: row p is the vector of position p, by default the sinusoids
    `PE[p, 2i] = sin(p / max_wavelength**(2i / width))` and
    `PE[p, 2i + 1] = cos(p / max_wavelength**(2i / width))`.
    The similarity: row p, column q is `PE[p] . PE[q] / (|PE[p]| |PE[q]|)`; of
    sinusoids it depends on the distance of p and q alone.

    Args:
        table: Vectors of positions (T, E), such as learned ones; None for
            sinusoids.
        length: Number of positions, of sinusoids.
        width: Size of their vectors.
        layout: "interleaved" or "concatenated", as in `SinusoidalEncoding`.
        max_wavelength: The longest period is 2 pi times this.
        similarity: Whether to draw the similarity in place of the values.
        title: The figure's title.
        position_label: What the rows are, in the reader's language.
        feature_label: What the columns of the values are.
        value_label: What the colours are; by default "value" or "cosine".
        cmap: A colour map of matplotlib with a middle, a name or an object.
        dpi: Dots per inch; 80 for notebooks, 150 for print.
        path: The file to write; its suffix says the format (.png, .svg, .pdf).

    Returns:
        A `matplotlib.figure.Figure`. It belongs to no pyplot window; notebooks show
        it, and it need not be closed.

    Raises:
        ValueError: Another number of axes than two, sizes below 1, an unknown layout.
        ImportError: matplotlib is not installed.

    Example:

    >>> figure = plot_positions(length=50, width=32)

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 10)
    """
    if table is None:
        _check(length, width, layout)
        positions = np.arange(length, dtype="int32")
        wavelength = dict(layout=layout, max_wavelength=max_wavelength)
        table = sinusoids(positions, width, **wavelength)
    table = ops.convert_to_numpy(ops.cast(ops.convert_to_tensor(table), "float32"))
    if table.ndim != 2:
        raise ValueError(
            "`table` must be vectors of positions (T, E). Received shape "
            f"{table.shape}. Of an embedding layer pass its `embeddings`."
        )
    require_matplotlib()
    columns = range(table.shape[1])
    limit = float(np.abs(table).max()) or 1.0
    if similarity:
        lengths = np.linalg.norm(table, axis=1, keepdims=True)
        table = table / np.where(lengths > 0, lengths, 1)
        table, columns, limit = table @ table.T, range(len(table)), 1.0
    label = "cosine" if similarity else "value"
    figure = draw_heat_maps(
        table[None],
        list(map(str, range(len(table)))),
        list(map(str, columns)),
        labels=(
            position_label,
            position_label if similarity else feature_label,
            label if value_label is None else value_label,
        ),
        title=title,
        limits=(-limit, limit),
        cmap=cmap,
        dpi=dpi,
        sizes=SIZES,
    )
    save(figure, path)
    return figure


def _check(length, width, layout):
    for name, size in (("length", length), ("width", width)):
        if size < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={size!r}.")
    if layout not in ("interleaved", "concatenated"):
        raise ValueError(
            '`layout` must be "interleaved" or "concatenated". Received: '
            f"layout={layout!r}."
        )
