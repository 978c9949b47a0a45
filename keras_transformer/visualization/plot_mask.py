"""Masks as pictures: which tokens may look at which."""

from pathlib import Path

import numpy as np

from keras_transformer.visualization.attention_table import arrange
from keras_transformer.visualization.figures import (
    require_matplotlib,
    save,
    token_text,
)
from keras_transformer.visualization.heat_maps import draw_heat_maps

COLORS = ("#e5e7eb", "#2171b5")


def plot_mask(
    mask,
    query_tokens=None,
    key_tokens=None,
    *,
    batch: int = 0,
    title: str | None = None,
    query_label: str = "query",
    key_label: str = "key",
    visible_label: str = "may look",
    hidden_label: str = "hidden",
    every_token: bool = False,
    dpi: float = 100,
    path: str | Path | None = None,
):
    """Draw a mask: row t, column s is dark where query t may look at key s.

    Args:
        mask: Booleans, `True` = may attend: (T, S), (B, T, S) or (B, 1 or N, T, S),
            as the functions of `ops.masks` give them, the first head being drawn; of
            a padding mask (B, S) pass `mask[:, None, :]`.
        query_tokens: At most T tokens; by default positions, counted from 0.
        key_tokens: At most S tokens; by default the query tokens, or positions.
        batch: The index of the example; one that stands for all is drawn for any.
        title: The figure's title.
        query_label: What the rows are, in the reader's language.
        key_label: What the columns are.
        visible_label: What a dark cell means.
        hidden_label: What a light cell means.
        every_token: Whether the figure grows until every token can be written.
        dpi: Dots per inch; 80 for notebooks, 150 for print.
        path: The file to write; its suffix says the format (.png, .svg, .pdf).

    Returns:
        A `matplotlib.figure.Figure`. It belongs to no pyplot window; notebooks show
        it, and it need not be closed.

    Raises:
        ValueError: The mask has other values than True and False (or 1 and 0), as an
            additive mask has, or another number of axes; more tokens than positions.
        ImportError: matplotlib is not installed.

    Example:

    >>> figure = plot_mask([[True, False], [True, True]], ["나는", "간다"])

    (chapter: 9)
    """
    visible = _as_matrix(mask, batch)
    time, length = visible.shape
    if key_tokens is None and (query_tokens is None or time != length):
        key_tokens = range(length)
    queries = range(time) if query_tokens is None else query_tokens
    (visible,), queries, keys = arrange(
        visible.astype("float32"), queries, key_tokens, None, 0, None, whole=False
    )
    require_matplotlib()
    from matplotlib.colors import ListedColormap

    figure = draw_heat_maps(
        visible[None],
        list(map(token_text, queries)),
        list(map(token_text, keys)),
        labels=(query_label, key_label, ""),
        title=title,
        cmap=ListedColormap(COLORS),
        dpi=dpi,
        ticks={0.25: hidden_label, 0.75: visible_label},
        every_token=every_token,
    )
    save(figure, path)
    return figure


def _as_matrix(mask, batch):
    """Return one example's mask as booleans (T, S)."""
    if not isinstance(mask, np.ndarray | list | tuple):
        from keras import ops

        mask = ops.convert_to_numpy(mask)
    mask = np.asarray(mask)
    if mask.ndim not in (2, 3, 4):
        raise ValueError(
            "`mask` must be of shape (T, S), (B, T, S) or (B, N, T, S). Received "
            f"shape {mask.shape}."
        )
    if mask.dtype != bool:
        if not np.isin(mask, (0, 1)).all():
            raise ValueError(
                "`mask` must be boolean, or 0 and 1, with True (1) where attention is "
                "allowed. Received other values, such as an additive mask has. Pass "
                "`mask == 0` for a mask that adds 0 where attention is allowed."
            )
        mask = mask == 1
    if mask.ndim > 2:
        batch = 0 if len(mask) == 1 else batch
        if not 0 <= batch < len(mask):
            raise ValueError(
                f"`batch` must be at least 0 and below {len(mask)}: `mask` is of shape "
                f"{mask.shape}. Received: batch={batch}."
            )
        mask = mask[batch]
    return mask[0] if mask.ndim == 3 else mask
