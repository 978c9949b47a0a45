"""Record every attention weight of a model's call, without changing the model."""

import inspect
from contextlib import contextmanager

import keras

from keras_transformer.ops.attention import recorder, recording
from keras_transformer.visualization.attention_record import AttentionRecord

LOOPS = (
    "fit",
    "evaluate",
    "predict",
    "train_on_batch",
    "test_on_batch",
    "predict_on_batch",
)


@contextmanager
def record_attention(model):
    """Record the attention weights of the calls made inside a `with` block.

    Works for any Keras model that holds layers of this library, at any depth, for
    calls `model(x)`. The outputs are the same; the fused kernel, which keeps no
    weights, is not taken meanwhile. The calls that `fit`, `evaluate`, `predict` and
    the like make are not recorded, on any backend: most compile them. Inside
    another `with` block of a recorder, both record. A thread or task of its own
    records nothing unless it opens a recorder itself.

    Attention layers of other libraries are not recorded, nor what a part of the model
    compiles, as the cell of a `keras.layers.RNN` on JAX: `record.not_recorded` names
    them.

    Args:
        model: The model or layer that will be called.

    Yields:
        An `AttentionRecord`. When the block ends with an error, it is emptied.

    Raises:
        TypeError: `model` is no Keras model or layer.
        RuntimeError: Nothing was recorded: the model was not called, or only by
            `predict`, or has no attention layer of this library.

    Example:

    >>> encoder = TransformerEncoder(embed_dim=8, num_heads=2, dense_dim=16)
    >>> with record_attention(encoder) as record:
    ...     outputs = encoder(keras.ops.ones((1, 3, 8)))
    >>> weights = record["self_attention"][0]
    """
    record, outer, around = AttentionRecord(model), recorder.get(), _open_loops()

    def add(layer, weights, mask, queries):
        if outer is not None:
            outer(layer, weights, mask, queries)
        if _open_loops() != around:
            return
        if weights is None:
            record.add_traced(layer)
        else:
            record.add(layer, weights, queries=queries)

    try:
        with recording(add):
            yield record
    except BaseException as error:
        record.fail(error)
        raise
    if not record:
        others = ", ".join(map(repr, record.not_recorded))
        others = f" Not recorded: {others}." if others else ""
        raise RuntimeError(
            f"No attention of {model.name!r} was recorded. Call `model(x)` inside "
            "the `with` block: what `predict`, `evaluate` and `fit` call is not "
            "recorded, since most backends compile it. Only attention layers of this "
            f"library are recorded.{others}"
        )


def _open_loops():
    """Count the calls of `fit`, `predict` and the like that are under way.

    PyTorch compiles nothing, and other backends nothing when told to run eagerly:
    only the stack of calls tells whether Keras's loop makes the call of a layer.
    """
    loops = {inspect.unwrap(getattr(keras.Model, name)).__code__ for name in LOOPS}
    frame, count = inspect.currentframe(), 0
    while frame is not None:
        count += frame.f_code in loops
        frame = frame.f_back
    return count
