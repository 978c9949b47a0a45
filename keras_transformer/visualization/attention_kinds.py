"""What a recorded layer does: self-attention or cross-attention, and of what."""

from collections.abc import Mapping

import numpy as np

KINDS = ("encoder", "decoder", "cross", "single")


def attention_kind(path: str, weights, record) -> str:
    """Return the kind of a recorded layer: one of `KINDS`.

    "single" has one head: (B, T, S). "cross" looks at another sequence: the record
    says so, or its name or its lengths where the record does not know. "decoder" looks
    at its own sequence and is causal, or stands beside cross-attention or in a decoder.
    "encoder" looks at its own sequence.

    Args:
        path: The layer's path in the record.
        weights: One of its recorded arrays.
        record: The record.
    """
    if weights.ndim == 3:
        return "single"
    *around, name = path.split("/")
    known = queries_of(record).get(path)
    if known is None and weights.shape[-1] != weights.shape[-2]:
        known = "cross"
    if "cross" in name or known == "cross":
        return "cross"
    block = "/".join(around) + "/"
    beside = any(p.startswith(block) and "cross" in p[len(block) :] for p in record)
    if beside or any("decoder" in part for part in around):
        return "decoder"
    if any("encoder" in part for part in around):
        return "encoder"
    above = np.triu_indices(weights.shape[-1], 1)
    causal = weights.shape[-1] > 1 and not weights[..., above[0], above[1]].any()
    return "decoder" if causal else "encoder"


def queries_of(record) -> dict[str, str]:
    """Return what the queries of each layer are, see `AttentionRecord.queries`."""
    return getattr(record, "queries", {})


def check_record(record) -> Mapping:
    """Return the record if it is one and holds something, or say what is wrong."""
    if not isinstance(record, Mapping):
        raise TypeError(
            "`record` must be what `record_attention` gives, or a dict of layer path "
            f"to a list of arrays. Received: {type(record).__name__}."
        )
    failure = getattr(record, "failure", None)
    if failure is not None:
        raise ValueError(
            f"`record` holds nothing, since the recorded call failed with {failure}"
        )
    if not record:
        raise ValueError(
            "`record` holds nothing. Call the model inside the `with` block of "
            "`record_attention`."
        )
    return record


def calls_of(record, path: str) -> list:
    """Return the arrays of a layer, or say which layers there are.

    Raises:
        KeyError: A layer that is not recorded.
        ValueError: One array in place of a list of them.
    """
    if path not in record and not hasattr(record, "not_recorded"):
        known = ", ".join(map(repr, record))
        raise KeyError(f"No attention recorded as {path!r}. Recorded: {known}.")
    calls = record[path]
    if not isinstance(calls, list | tuple) or not calls:
        raise ValueError(
            "`record` must map each layer path to a list of arrays, one for each call. "
            f"Received for {path!r}: {type(calls).__name__}. Put an array in a list."
        )
    return calls


def layers_of(record, layers=None, kind: str | None = None) -> list[np.ndarray]:
    """Return one array (B, N, T, S) for each layer, in the order of their calls.

    Args:
        record: What `record_attention` gives, or a list of arrays, taken as it is.
        layers: Paths of the record; by default all of `kind`.
        kind: One of `KINDS`; None where the record holds only one.
    """
    if isinstance(record, list | tuple):
        if not record:
            raise ValueError("`record` holds nothing: an empty list of arrays.")
        return [_with_heads(np.asarray(weights)) for weights in record]
    record = check_record(record)
    kinds = {
        path: attention_kind(path, calls_of(record, path)[0], record) for path in record
    }
    if layers is None:
        found = dict.fromkeys(kinds.values())
        named = ", ".join(map(repr, found))
        if kind is None and len(found) > 1:
            raise ValueError(
                f"Several kinds of attention are recorded: {named}. Give `kind`, or "
                "`layers`, a list of paths."
            )
        if kind is not None and kind not in found:
            raise ValueError(
                f"`kind` must be one that is recorded: {named}. Received: {kind!r}."
            )
        layers = [path for path in kinds if kind in (None, kinds[path])]
    chosen = []
    for path in [layers] if isinstance(layers, str) else layers:
        calls = calls_of(record, path)
        if len(calls) != 1:
            raise ValueError(
                f"Layer {path!r} was called {len(calls)} times. Record one call of the "
                "model, or give a list of arrays in the order of the calls."
            )
        chosen.append(_with_heads(calls[0]))
    return chosen


def _with_heads(weights):
    if weights.ndim == 3:
        weights = weights[:, None]
    if weights.ndim != 4:
        raise ValueError(
            "Weights must be of shape (B, N, T, S) or (B, T, S). Received shape "
            f"{weights.shape}."
        )
    return weights
