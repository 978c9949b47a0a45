"""What an interrupted training left is taken as far as it is whole."""

import os

import keras
import numpy as np
import pytest

from cases.examples import quick
from keras_transformer.tasks.fitting import fit_model

X = np.arange(8, dtype="float32")[:, None]
DATA = (X, 2 * X)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return DATA


class Interrupt(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 3:
            raise KeyboardInterrupt


def fit(folder, callbacks=(), **settings):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e-3), loss="mse")
    settings = {"average": None, "patience": None, **settings}
    watch = dict(monitor="val_loss", mode="min", epochs=5, verbose=0)
    train, validation = Batches(), Batches()
    history = fit_model(
        model,
        train,
        validation,
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
    with pytest.raises(KeyboardInterrupt):
        fit(folder, [Interrupt()], average=average)
    for file in files:
        if (folder / file).is_file():  # `last` is there where it is averaged
            cut(folder / file)
    passed, weights = fit(folder, average=average)
    assert passed == epochs
    assert not folder.exists()
    _, whole = fit(tmp_path / "whole", average=average)
    if files != ["last/epoch-00002.weights.h5"]:  # one file less is averaged
        for ours, theirs in zip(weights, whole, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


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
