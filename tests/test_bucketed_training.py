"""BucketedDataset in Keras's fit, evaluate and predict."""

import itertools

import keras
import numpy as np
import pytest

from cases.examples import quick
from cases.helpers import slow_on
from keras_transformer.datasets import BucketedDataset
from random_rows import VOCABULARY, pairs, random_rows


class Counted(keras.layers.Layer):
    """Counts its calls by a side effect, and remembers concrete inputs."""

    def __init__(self, **kwargs):
        super().__init__(dtype="int32", **kwargs)
        self.seen = []

    def call(self, inputs):
        try:
            self.seen.append(keras.ops.convert_to_numpy(inputs))
        except Exception:  # in a trace
            self.seen.append(None)
        return inputs


def classifier(**compile_settings):
    counted = Counted()
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            counted,
            keras.layers.Embedding(VOCABULARY, 8, mask_zero=True),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(
        "adam", "binary_crossentropy", metrics=["accuracy"], **compile_settings
    )
    counted.seen.clear()
    return model, counted.seen


def translator():
    source = keras.Input((None,), dtype="int32")
    target = keras.Input((None,), dtype="int32")
    embed = keras.layers.Embedding(VOCABULARY, 8, mask_zero=True)
    context = keras.layers.GlobalAveragePooling1D(keepdims=True)(embed(source))
    logits = keras.layers.Dense(VOCABULARY)(embed(target) + context)
    model = keras.Model((source, target), logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, weighted_metrics=["accuracy"])
    return model


@pytest.mark.parametrize(
    "settings", quick([{"batch_size": 8}, {"max_tokens": 80}], [{"max_tokens": 80}])
)
def test_fit_evaluate_and_predict_agree_with_row_by_row(settings):
    rows, labels = random_rows()
    model, _ = classifier()
    data = BucketedDataset(rows, labels, **settings)
    held_out = BucketedDataset(*random_rows(seed=1), **settings)
    history = model.fit(data, epochs=3, validation_data=held_out, verbose=0).history
    assert len(history["val_loss"]) == 3
    assert np.isfinite(history["loss"]).all()

    padded = np.zeros((len(rows), 14), "int32")
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    expected = model.predict_on_batch(padded)
    fixed = BucketedDataset(rows, shuffle=False, **settings)
    for _ in range(2):
        outputs = fixed.restore(model.predict(fixed, verbose=0))
        np.testing.assert_allclose(outputs, expected, atol=1e-6)
    np.testing.assert_allclose(
        model.evaluate(data, verbose=0),
        model.evaluate(padded, labels, verbose=0),
        atol=1e-5,
    )


def test_fit_evaluate_and_predict_take_pairs():
    inputs, labels = pairs()
    data = BucketedDataset(inputs, labels, sample_weight="tokens", max_tokens=200)
    model = translator()
    losses = model.fit(data, epochs=2, validation_data=data, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.evaluate(data, verbose=0)
    one_edge = BucketedDataset(inputs, edges=30, shuffle=False)
    outputs = one_edge.restore(model.predict(one_edge, verbose=0))
    assert outputs.shape == (70, 30, VOCABULARY)


@slow_on("jax")
def test_each_epoch_of_fit_sees_each_row_once():
    ids = list(range(1, 23))
    rows = [[n] * (1 + n % 7) for n in ids]
    model, seen = classifier(run_eagerly=True)
    data = BucketedDataset(rows, [0] * len(rows), batch_size=5)
    epochs = []

    class Notes(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            seen.clear()

        def on_epoch_end(self, epoch, logs=None):
            epochs.append([ids[:, 0].tolist() for ids in seen])

    model.fit(data, epochs=2, callbacks=[Notes()], verbose=0)
    for epoch in epochs:
        assert sorted(itertools.chain(*epoch)) == ids
    assert epochs[0] != epochs[1]


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch runs eagerly: no traces"
)
@pytest.mark.parametrize("count", quick([40, 70, 150], [70]))
def test_traces_are_no_more_than_edges(count):
    rows, labels = random_rows(count, longest=60)
    model, seen = classifier()
    data = BucketedDataset(rows, batch_size=8, shuffle=False)
    assert len(set(map(len, rows))) > len(data.edges)
    model.predict(data, verbose=0)
    assert 1 <= len(seen) <= len(data.edges)
    seen.clear()
    model.predict(data, verbose=0)
    assert not seen
    data = BucketedDataset(rows, labels, batch_size=8)
    model.fit(data, epochs=3, verbose=0)
    # One more to build the metrics.
    assert len(seen) <= len(data.edges) + 1


@pytest.mark.parametrize("count", [5, 40])
def test_draws_of_any_length_are_trained_on(count):
    """TensorFlow refuses batches of another length than it saw first."""

    def drawn(epoch):
        most = (1, 9, 2, 30)[epoch % 4]  # Keras may begin with the second
        return [[1 + row % 30] * (1 + row % most) for row in range(count)]

    class Notes(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            seen.clear()

    model, seen = classifier(run_eagerly=True)
    data = BucketedDataset(drawn(0), [0] * count, batch_size=16, redraw=drawn)
    assert set(map(len, drawn(0))) == {1}
    model.fit(data, epochs=4, callbacks=[Notes()], verbose=0)
    assert sum((ids > 0).sum() for ids in seen) == sum(
        len(row) for epoch in range(4) for row in drawn(epoch)
    )
