"""Training with Keras's own callbacks: stop early, keep the best, go on again."""

import shutil
from pathlib import Path

import keras

MONITOR = "val_accuracy"


def fit_model(
    model,
    train,
    validation,
    *,
    epochs,
    patience,
    checkpoint_folder=None,
    callbacks=(),
    verbose="auto",
) -> keras.callbacks.History:
    """Fit a compiled model; see `TextClassifier.fit` for the arguments."""
    wired = list(callbacks)
    if patience is not None:
        stop = keras.callbacks.EarlyStopping(
            monitor=MONITOR, patience=patience, restore_best_weights=True
        )
        wired.append(stop)
    if checkpoint_folder is not None:
        folder = Path(checkpoint_folder)
        folder.mkdir(parents=True, exist_ok=True)
        best = folder / "best.weights.h5"
        keep = keras.callbacks.ModelCheckpoint(
            best,
            monitor=MONITOR,
            save_best_only=True,
            save_weights_only=True,
            initial_value_threshold=_score(model, best, validation),
        )
        wired += [keep, keras.callbacks.BackupAndRestore(folder / "backup")]
    history = model.fit(
        train,
        validation_data=validation,
        epochs=epochs,
        callbacks=wired,
        verbose=verbose,
    )
    if checkpoint_folder is not None:
        # Early stopping knows nothing of the epochs before an interruption.
        if patience is not None and best.is_file():
            model.load_weights(best)
        shutil.rmtree(folder)
    return history


def _score(model, weights, validation):
    """Return what the best weights of an interrupted training reached."""
    if not weights.is_file():
        return None
    model.load_weights(weights)  # `BackupAndRestore` puts the last ones back
    return model.evaluate(validation, return_dict=True, verbose=0)[
        MONITOR.removeprefix("val_")
    ]
