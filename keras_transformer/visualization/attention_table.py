"""Attention weights as a table with tokens on both axes."""

import operator
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from keras_transformer.visualization.attention_kinds import check_record


def attention_table(
    weights,
    query_tokens,
    key_tokens=None,
    *,
    head: int | str | None = None,
    batch: int | None = 0,
    hide=None,
) -> pd.DataFrame:
    """Return attention weights as a table: a row a query, a column a key.

    `table.iloc[t, s]` is how much query token t looks at key token s. Tokens that
    occur several times keep a row and a column each.

    Masks: the weights of padding are cut off, not shown: give the tokens without
    it. Padding on the left is left out by name, `hide="<pad>"`. What is left is
    not scaled again. Nothing else is cut off: it is an error if a shown query looks at
    a key behind the given tokens, and of self-attention if any query does.

    Args:
        weights: One recorded array or tensor, `record[path][0]`: (B, N, T, S),
            (B, T, S), (N, T, S) or (T, S). Three axes are (B, T, S), as layers with
            one head are recorded, unless a head is chosen or `batch` is None.
        query_tokens: At most T tokens; None names the rows "view 1" to "view T",
            for the annotation matrix (r x n) of 2017.
        key_tokens: At most S tokens; by default the query tokens (self-attention).
        head: The index of a head, or "mean" of all heads, which is the default.
        batch: The index of the example; None where `weights` have no batch axis.
        hide: A token or several whose rows and columns are left out.

    Returns:
        A `pandas.DataFrame` whose axes are named "query" and "key".

    Raises:
        ValueError: More tokens than positions, fewer than are looked at, no tokens,
            weights with another number of axes, a head or an example that is not there;
            three axes with `head="mean"`, which may be examples or heads.
        TypeError: A text in place of tokens.

    Example:

    >>> table = attention_table([[0.9, 0.1], [0.2, 0.8]], ["배", "타고"])

    (chapter: 2 to 8)
    """
    return as_table(*arrange(weights, query_tokens, key_tokens, head, batch, hide))


def as_table(heads, queries, keys):
    """Return the mean of heads (N, T, S) as a table with tokens on its axes."""
    return pd.DataFrame(
        heads.mean(axis=0),
        index=pd.Index(queries, name="query"),
        columns=pd.Index(keys, name="key"),
    )


def arrange(weights, query_tokens, key_tokens, head, batch, hide, whole=True):
    """Return weights (N, T, S) without padding, and their two lists of tokens.

    `whole`: whether to refuse tokens that leave out keys which are looked at.
    """
    heads = select_heads(as_numpy(weights), head, batch)  # (N, T, S)
    queries = check_tokens(query_tokens, "query_tokens", "query", heads.shape[1])
    if query_tokens is None and key_tokens is None:
        raise ValueError("Give `key_tokens` where `query_tokens` is None.")
    keys = query_tokens if key_tokens is None else key_tokens
    keys = check_tokens(keys, "key_tokens", "key", heads.shape[2])
    hidden = hidden_names(hide)
    rows = [row for row, token in enumerate(queries) if str(token) not in hidden]
    columns = [place for place, token in enumerate(keys) if str(token) not in hidden]
    if not rows or not columns:
        raise ValueError(
            f"Nothing is left to show: {len(queries)} query and {len(keys)} key "
            f"tokens, hide={hide!r}."
        )
    if whole and key_tokens is None:
        check_whole(heads, len(keys), "query_tokens")
    elif whole:
        check_whole(heads[:, rows], len(keys), "key_tokens")
    heads = heads[:, rows][:, :, columns]
    return heads, [queries[row] for row in rows], [keys[column] for column in columns]


def hidden_names(hide) -> set[str]:
    """Return the names of the tokens to leave out: one, several or None."""
    if hide is None:
        return set()
    several = isinstance(hide, Iterable) and not isinstance(hide, str)
    return {str(token) for token in (hide if several else [hide])}


def check_whole(heads, count, name):
    """Refuse `count` key tokens where the queries of (N, T, S) look at later keys."""
    looked_at = np.flatnonzero((heads > 0).any(axis=(0, 1)))
    if len(looked_at) and looked_at[-1] >= count:
        raise ValueError(
            f"`{name}` has {count} tokens, but key {looked_at[-1] + 1} is looked at: "
            "it is a token, not padding, and would be cut off. Give all tokens that "
            "went into the model, with its special tokens, and name those to leave out "
            "in `hide`."
        )


def as_numpy(weights):
    """Return one array of weights as float32 or float64, with 2 to 4 axes."""
    if isinstance(weights, Mapping):
        known = ", ".join(map(repr, check_record(weights)))
        raise ValueError(
            "`weights` must be one array of a record, `record[path][0]`, not the whole "
            f"record. Its paths: {known}."
        )
    if not isinstance(weights, np.ndarray | list | tuple):
        from keras import ops

        weights = ops.convert_to_numpy(ops.cast(weights, "float32"))
    try:
        weights = np.asarray(weights)
    except ValueError as error:
        raise ValueError(
            "`weights` must be one array: `record[path]` is a list, take one of its "
            f"arrays, `record[path][0]`. NumPy said: {error}"
        ) from error
    if weights.dtype not in (np.float32, np.float64):
        weights = weights.astype("float32")
    if weights.ndim not in (2, 3, 4):
        raise ValueError(
            "`weights` must be one array of shape (B, N, T, S), (B, T, S), (N, T, S) "
            "or (T, S); `record[path]` is a list of arrays, take one: "
            f"`record[path][0]`. Received: shape {weights.shape}."
        )
    return weights


def select_heads(weights, head, batch):
    """Return (N, T, S) of one example: all heads, or one, or their mean."""
    if weights.ndim == 2:
        weights = weights[None]
    elif weights.ndim == 4:
        if batch is None:
            raise ValueError(
                f"`weights` of shape {weights.shape} have a batch axis: give `batch`, "
                "the index of the example."
            )
        weights = _take(weights, "batch", batch)[0]
    elif head is None and batch is not None:
        weights = _take(weights, "batch", batch)
    elif head == "mean" and batch is not None and len(weights) > 1:
        raise ValueError(
            f"`weights` of shape {weights.shape} are either (B, T, S), which have one "
            "head: leave out `head`; or (N, T, S): give batch=None. Received: "
            f"head={head!r}, batch={batch!r}."
        )
    elif batch not in (None, 0):
        raise ValueError(
            f"`weights` of shape {weights.shape} are either (B, T, S), then leave out "
            "`head`, or (N, T, S), then leave out `batch`. Received: "
            f"head={head!r}, batch={batch!r}."
        )
    if head is None:
        return weights
    if isinstance(head, str) and head == "mean":
        return weights.mean(axis=0, keepdims=True)
    return _take(weights, "head", head)


def _take(weights, name, index):
    """Return one entry of the first axis, which stays."""
    try:
        number = operator.index(index)
    except TypeError:
        choice = 'an index, "mean" or None' if name == "head" else "an index or None"
        raise ValueError(f"`{name}` must be {choice}. Received: {index!r}.") from None
    size = len(weights)
    if not -size <= number < size:
        raise ValueError(
            f"`{name}` must be below {size}: `weights` are of shape {weights.shape}. "
            f"Received: {name}={number}."
        )
    number %= size
    return weights[number : number + 1]


def check_tokens(tokens, name, axis, length):
    """Return the tokens of an axis as a list no longer than it; None: views."""
    if tokens is None:
        return [f"view {number}" for number in range(1, length + 1)]
    if isinstance(tokens, str | bytes):
        raise TypeError(
            f"`{name}` must be a list of tokens, not one text. Received: {tokens!r}."
        )
    tokens = list(tokens)
    if len(tokens) > length:
        raise ValueError(
            f"`{name}` has {len(tokens)} tokens, but `weights` have only {length} "
            f"{axis} positions. Give the tokens that went into the model, with its "
            "special tokens and after its cutting; for attention between two "
            "sequences give `key_tokens` too."
        )
    return tokens
