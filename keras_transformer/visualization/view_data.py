"""The data of the attention page: tokens once, weights in 8 bits."""

import base64
from collections.abc import Mapping

import numpy as np

from keras_transformer.visualization.attention_kinds import (
    attention_kind,
    calls_of,
    check_record,
    queries_of,
)
from keras_transformer.visualization.attention_table import as_numpy, select_heads
from keras_transformer.visualization.sequences import Sequence, pair_sequences


def view_data(record, tokens=None, target_tokens=None, batch=0, hide=None) -> dict:
    """Return what the page needs to know, as plain lists, texts and numbers.

    `sequences` are lists of tokens. Each of `layers` has a name and a kind, the
    numbers of its sequences ("query" and "key"), and its weights (N, T, S) as
    `quantize` gives them, the bytes in base64. `hides`: whether tokens are hidden, so
    that rows do not add up to 1. `notRecorded` are paths.

    Arguments: as of `attention_view`.
    """
    record = check_record(record)
    own = getattr(record, "tokens", [])
    if tokens is None and target_tokens is None and batch in range(-len(own), len(own)):
        # Of a layer that had several sequences nothing is known: they are numbered.
        tokens = {**dict.fromkeys(record), **own[batch]} if own[batch] else None
    paths = list(tokens if isinstance(tokens, Mapping) else record)
    calls = {
        path: [as_numpy(weights) for weights in calls_of(record, path)]
        for path in paths
    }
    kinds = {path: attention_kind(path, calls[path][0], record) for path in paths}
    heads = {path: _heads(path, calls[path], batch) for path in paths}
    pairs = pair_sequences(kinds, queries_of(record), heads, tokens, target_tokens)
    shown = [
        (path, number, weights, pairs[path] or (Sequence(path), Sequence(path)))
        for path in paths
        for number, weights in enumerate(heads[path], 1)
    ]
    for path, _, weights, pair in shown:
        for sequence, axis in zip(pair, ("query", "key"), strict=True):
            sequence.fit(path, weights, axis)
    sequences = list(dict.fromkeys(s for *_, pair in shown for s in pair))
    kept = {sequence: sequence.kept(hide) for sequence in sequences}
    layers = []
    for path, call, weights, (query, key) in shown:
        rows = weights[:, kept[query]]
        key.check_whole(path, weights if key is query else rows)
        scales, levels = quantize(rows[:, :, kept[key]])
        layers.append(
            {
                "name": path if len(heads[path]) == 1 else f"{path} (call {call})",
                "kind": kinds[path],
                "query": sequences.index(query),
                "key": sequences.index(key),
                "scales": scales,
                "weights": base64.b64encode(levels.tobytes()).decode("ascii"),
            }
        )
    return {
        "sequences": [s.texts(kept[s]) for s in sequences],
        "layers": layers,
        "hides": bool(hide),
        "notRecorded": list(getattr(record, "not_recorded", ())),
    }


def quantize(weights):
    """Round weights (N, T, S) to 8 bits, finer where they are small.

    `weight = (level / 255)**2 * scale`, the scale being the head's greatest weight.
    A weight is at most `scale / 255` off, and one of a hundredth of the scale by a
    twentieth of itself: most weights of long texts are small.

    Returns:
        The scale of each head, a list of floats, and uint8 levels (N, T, S).
    """
    scales = weights.max(axis=(1, 2), keepdims=True)
    parts = weights / np.where(scales > 0, scales, 1)
    levels = np.rint(255 * np.sqrt(parts)).astype("uint8")
    return [float(f"{scale:.6g}") for scale in scales.ravel()], levels


def _heads(path, calls, batch):
    """Return (N, T, S) of the example for each call of a layer."""
    heads = []
    for weights in calls:
        weights = select_heads(weights, None, batch)
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError(
                f"The weights of {path!r} must be numbers of at least 0, as softmax "
                "gives them. Received: others, such as NaN. Look at the model's inputs."
            )
        heads.append(weights)
    return heads
