"""Attention weights as heat maps with tokens on both axes."""

from pathlib import Path

import numpy as np

from keras_transformer.visualization.attention_table import arrange
from keras_transformer.visualization.figures import (
    require_matplotlib,
    save,
    token_text,
)
from keras_transformer.visualization.heat_maps import draw_heat_maps


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
    mark_greatest: bool = False,
    every_token: bool = False,
    dpi: float = 100,
    path: str | Path | None = None,
):
    """Draw attention weights as a heat map: one head, or all heads of a layer.

    Row t, column s is how much query token t looks at key token s. The figure
    grows with the number of tokens; where their texts would overlap, every second,
    third, ... is written, unless `every_token`. All panels share one range of
    colours. For cross-attention of a translator this is the alignment of 2015:
    `mark_greatest` frames the source token that each target token looks at most;
    `average_attention` gives the mean over all layers.

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
        mark_greatest: Whether to frame the greatest weight of each row.
        every_token: Whether the figure grows until every token can be written, for
            long texts; a page to scroll in is `attention_view`.
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
    figure = draw_heat_maps(
        heads,
        list(map(token_text, queries)),
        list(map(token_text, keys)),
        labels=(query_label, key_label, weight_label),
        names=[head_label.format(number) for number in range(len(heads))],
        title=title,
        limits=(0.0, vmax),
        cmap=cmap,
        dpi=dpi,
        mark_greatest=mark_greatest,
        every_token=every_token,
    )
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
