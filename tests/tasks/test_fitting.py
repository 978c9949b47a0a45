"""What an interrupted training left is taken as far as it is whole."""

import os
import random
from contextlib import suppress

import keras
import numpy as np
import pytest

from cases.examples import quick
from cases.helpers import Interrupt
from keras_transformer.datasets import BucketedDataset
from keras_transformer.tasks.fitting import compile_for_labels, fit_model

ROWS = [[n] for n in range(8)]


class Batches(BucketedDataset):
    """Rows n with the label 2 n; `served` are the first ids of each batch."""

    def __init__(self, batch_size=8):
        super().__init__(ROWS, 2.0 * np.arange(8), batch_size=batch_size)
        self.served = []

    def __getitem__(self, index):
        ids, labels = super().__getitem__(index)
        self.served.append(ids[:, 0].tolist())
        return ids.astype("float32"), labels


def fresh():
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e-3), loss="mse")
    return model


def fit(folder, callbacks=(), model=None, train=None, **settings):
    model = model or fresh()
    settings = {"average": None, "patience": None, **settings}
    watch = dict(monitor="val_loss", mode="min", epochs=5, verbose=0)
    history = fit_model(
        model,
        train or Batches(),
        Batches(),
        checkpoint_folder=folder,
        callbacks=callbacks,
        **watch,
        **settings,
    )
    return history.epoch, model.get_weights()


def cut(file):
    """Leave half of a file, as a process does that is killed while it writes."""
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


LATEST, STATE = "backup/latest.weights.h5", "backup/training_metadata.json"


@pytest.mark.parametrize(
    ("files", "epochs"),
    quick(
        [
            ([], [3, 4]),
            ([LATEST], [2, 3, 4]),
            ([STATE], [2, 3, 4]),
            (["best.weights.h5"], [3, 4]),
            (["best.weights.h5", LATEST], [2, 3, 4]),
            (["last/epoch-00002.weights.h5"], [3, 4]),
            ([LATEST, f"{LATEST}.bkp"], [0, 1, 2, 3, 4]),
        ],
        [(["best.weights.h5", LATEST], [2, 3, 4])],
    ),
)
@pytest.mark.parametrize("average", [None, 2])
def test_what_was_cut_short_is_passed_over(tmp_path, files, epochs, average):
    folder = tmp_path / "state"
    settings = dict(average=average, patience=5)  # with it the best are kept as well
    with pytest.raises(KeyboardInterrupt):
        fit(folder, [Interrupt(3)], **settings)
    for file in files:
        if (folder / file).is_file():  # `last` is there where it is averaged
            cut(folder / file)
    passed, weights = fit(folder, **settings)
    assert passed == epochs
    assert not folder.exists()
    _, whole = fit(tmp_path / "whole", **settings)
    if files != ["last/epoch-00002.weights.h5"]:  # one file less is averaged
        for ours, theirs in zip(weights, whole, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_later_training_begins_at_its_beginning(tmp_path):
    model = fresh()
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, [Interrupt(3)], model)
    assert fit(tmp_path, model=model)[0] == [3, 4]
    assert model.fit(Batches(), epochs=2, verbose=0).epoch == [0, 1]


class Notes(keras.callbacks.Callback):
    """Note what a data set serves in each epoch."""

    def __init__(self, data):
        super().__init__()
        self.data, self.epochs = data, {}

    def on_epoch_begin(self, epoch, logs=None):
        self.data.served.clear()

    def on_epoch_end(self, epoch, logs=None):
        self.epochs[epoch] = list(self.data.served)


@pytest.mark.parametrize("before", [1, 3])
def test_a_training_that_goes_on_sees_the_batches_that_it_would_have(tmp_path, before):
    def passed(folder, callbacks=()):
        data = Batches(batch_size=2)
        notes = Notes(data)
        with suppress(KeyboardInterrupt):
            passed.weights = fit(folder, [notes, *callbacks], train=data)[1]
        return notes.epochs

    whole = passed(tmp_path / "whole")
    weights = passed.weights
    random.seed(7)  # as in another process
    first = passed(tmp_path / "halves", [Interrupt(before)])
    random.seed(8)
    second = passed(tmp_path / "halves")
    assert list(first) == list(range(before)) and {**first, **second} == whole
    assert list(second) == list(range(before, 5))
    orders = [repr(order) for order in whole.values()]
    assert all(len(order) == 4 for order in whole.values())
    assert len(set(orders)) == 5
    for one, other in zip(passed.weights, weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_training_that_is_done_is_kept_until_it_is_saved(tmp_path):
    folder = tmp_path / "state"
    passed, weights = fit(folder, average=2, keep_checkpoints=True)
    assert passed == [0, 1, 2, 3, 4] and folder.exists()
    passed, again = fit(folder, average=2, keep_checkpoints=True)
    assert passed == []
    for one, other in zip(again, weights, strict=True):
        np.testing.assert_array_equal(one, other)
    cut(folder / "done.weights.h5")  # the epochs themselves are still there
    for kept in (True, False):
        passed, again = fit(folder, average=2, keep_checkpoints=kept)
        assert passed == [] and folder.exists() == kept
        for one, other in zip(again, weights, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
    with pytest.raises(ValueError, match="needs a `checkpoint_folder`"):
        fit(None, keep_checkpoints=True)


CURVE = [5.0, 3.0, 4.0, 4.0, 1.0, 1.0]


def scripted(folder, callbacks=(), **settings):
    """Train one weight, which is the epoch's number; `CURVE` is the loss there."""

    def loss(watched, outputs):
        places = keras.ops.arange(1, len(CURVE) + 1, dtype="float32")
        near = keras.ops.relu(1.0 - keras.ops.abs(outputs - places))
        heights = keras.ops.convert_to_tensor(CURVE, "float32")
        curve = keras.ops.sum(near * heights, axis=-1, keepdims=True)
        return keras.ops.where(watched > 0, curve, -outputs)

    class Ones(BucketedDataset):
        def __init__(self, watched):
            super().__init__([[1]], [watched])

        def __getitem__(self, index):
            ids, labels = super().__getitem__(index)
            return ids.astype("float32"), labels[:, None]

    start = dict(use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, **start)])
    model.compile(keras.optimizers.SGD(1.0), loss=loss)
    history = fit_model(
        model,
        Ones(0.0),
        Ones(1.0),
        monitor="val_loss",
        mode="min",
        epochs=len(CURVE),
        checkpoint_folder=folder,
        callbacks=callbacks,
        verbose=0,
        **settings,
    )
    weight = float(keras.ops.convert_to_numpy(model.weights[0])[0, 0])
    return history.epoch, history.history["val_loss"], weight


@pytest.mark.parametrize("kept", [False, True])
def test_training_stops_early_and_goes_back_to_the_best(tmp_path, kept):
    folder = tmp_path if kept else None
    epochs, losses, weight = scripted(folder, patience=2)
    assert epochs == [0, 1, 2, 3] and losses == pytest.approx(CURVE[:4])
    assert weight == 2.0  # epoch 1's, the best of those
    epochs, losses, weight = scripted(folder, patience=None)
    assert losses == pytest.approx(CURVE) and weight == 6.0


@pytest.mark.parametrize("before", [2, 3])
def test_an_interrupted_training_stops_early_too(tmp_path, before):
    with pytest.raises(KeyboardInterrupt):
        scripted(tmp_path, [Interrupt(before)], patience=2)
    epochs, losses, weight = scripted(tmp_path, patience=2)
    if before == 2:  # as if nothing had been
        assert epochs == [2, 3] and weight == 2.0
    else:  # patience begins anew, and meets a better epoch
        assert epochs == [3, 4, 5] and weight == 5.0
    assert losses == pytest.approx([CURVE[epoch] for epoch in epochs])


@pytest.mark.parametrize("patience", [None, 9])
def test_the_best_are_kept_and_measured_only_for_early_stopping(
    tmp_path, patience, monkeypatch
):
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path, [Interrupt(3)], patience=patience)
    assert (tmp_path / "best.weights.h5").exists() == (patience is not None)
    measured = []  # beside the validation of each epoch
    evaluate = keras.Model.evaluate

    def noted(model, *arguments, **settings):
        if "callbacks" not in settings:
            measured.append(settings)
        return evaluate(model, *arguments, **settings)

    monkeypatch.setattr(keras.Model, "evaluate", noted)
    fit(tmp_path, patience=patience)
    assert len(measured) == (0 if patience is None else 1)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_folder_that_cannot_be_removed_stays(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "disk")
    epochs, _ = fit(link)
    assert epochs == [0, 1, 2, 3, 4]
    assert link.is_dir() and not any(link.iterdir())


def test_what_is_not_the_trainings_own_stays(tmp_path):
    names = ("backup/a.h5", "last/notes.txt", "notes.txt")
    mine = [tmp_path / name for name in names]
    for file in mine:
        file.parent.mkdir(exist_ok=True)
        file.write_text("mine")
    fit(tmp_path, average=2)
    assert sorted(file for file in tmp_path.rglob("*") if file.is_file()) == sorted(
        mine
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("outputs", [1, 3])
def test_labels_are_smoothed(outputs, smoothing):
    activation = "sigmoid" if outputs == 1 else "softmax"
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(outputs, activation)]
    )
    compile_for_labels(model, keras.optimizers.Adam(1e-3), smoothing)
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(5, 2)), np.array([0, 1, 0, 1, 1])
    chances = model.predict_on_batch(rows)
    if outputs == 1:
        chances, given = np.concatenate([1 - chances, chances], axis=1), labels
    else:
        given = np.eye(3)[labels]
    count = chances.shape[1]
    wanted = (1 - smoothing) * np.eye(count)[labels] + smoothing / count
    expected = -(wanted * np.log(chances)).sum(axis=1).mean()
    loss, accuracy = model.test_on_batch(rows, given)
    assert loss == pytest.approx(expected, rel=1e-4)
    assert accuracy == pytest.approx((chances.argmax(axis=1) == labels).mean())
