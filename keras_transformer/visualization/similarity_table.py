"""How alike the vectors of two sequences are, as a table."""

import pandas as pd
from keras import ops

from keras_transformer.ops.attention import dot_product_scores
from keras_transformer.visualization.attention_table import arrange, as_table


def similarity_table(
    queries,
    keys=None,
    query_tokens=None,
    key_tokens=None,
    *,
    softmax: bool = False,
    scale: float | None = None,
    batch: int = 0,
) -> pd.DataFrame:
    """Return the attention scores of two sequences of vectors, without any weights.

    `scores[t, s] = scale * queries[t] . keys[s]`, and with `softmax` the weights
    `exp(scores[t, s]) / sum over s' of exp(scores[t, s'])`.

    Masks: give the tokens without padding; vectors behind them are cut off before
    the softmax, so that each row adds up to 1 over real tokens.

    Args:
        queries: Vectors (T, E) or (B, T, E).
        keys: Vectors (S, E) or (B, S, E); by default the queries (self-attention).
        query_tokens: At most T tokens; by default positions, counted from 0.
        key_tokens: At most S tokens; by default those of the queries where `keys` are
            not given, else positions.
        softmax: Whether to return weights in place of raw scores.
        scale: Factor of the inner products; None is 1 / sqrt(E), 1.0 leaves them.
        batch: The index of the example, of vectors with a batch axis.

    Returns:
        A `pandas.DataFrame` whose axes are named "query" and "key".

    Raises:
        ValueError: Vectors of another number of axes or of two sizes, more tokens than
            vectors, an example that is not there.
        TypeError: A text in place of tokens.

    Example:

    >>> table = similarity_table([[1.0, 0.0], [0.6, 0.8]], query_tokens=["배", "타고"])

    (chapter: 5 to 7)
    """
    own = keys is None
    queries = _vectors("queries", queries, batch)
    keys = queries if own else _vectors("keys", keys, batch)
    if queries.shape[-1] != keys.shape[-1]:
        raise ValueError(
            "`queries` and `keys` must be vectors of one size. Received sizes "
            f"{queries.shape[-1]} and {keys.shape[-1]}."
        )
    if query_tokens is None:
        query_tokens = range(queries.shape[0])
    if key_tokens is None:
        key_tokens = query_tokens if own else range(keys.shape[0])
    heads = (x[None, :, None] for x in (queries, keys))  # (1, T, 1, E)
    scores = dot_product_scores(*heads, scale)[0, 0]  # (T, S)
    tokens = query_tokens, key_tokens
    table = as_table(*arrange(scores, *tokens, None, 0, None, whole=False))
    if not softmax:
        return table
    weights = ops.softmax(ops.convert_to_tensor(table.to_numpy()), axis=-1)
    return pd.DataFrame(
        ops.convert_to_numpy(weights), index=table.index, columns=table.columns
    )


def _vectors(name, vectors, batch):
    """Return one example's vectors (T, E) in float32."""
    vectors = ops.cast(ops.convert_to_tensor(vectors), "float32")
    if len(vectors.shape) == 3:
        if not -vectors.shape[0] <= batch < vectors.shape[0]:
            raise ValueError(
                f"`batch` must be below {vectors.shape[0]}: `{name}` are of shape "
                f"{tuple(vectors.shape)}. Received: batch={batch}."
            )
        vectors = vectors[batch]
    if len(vectors.shape) != 2:
        raise ValueError(
            f"`{name}` must be vectors (T, E) or (B, T, E). Received shape "
            f"{tuple(vectors.shape)}. Token ids are to be embedded first."
        )
    return vectors
