"""Training with Keras's own callbacks: stop early, keep the best, go on again."""

from pathlib import Path

import keras


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
        wired.append(
            keras.callbacks.EarlyStopping(
                monitor="val_accuracy", patience=patience, restore_best_weights=True
            )
        )
    if checkpoint_folder is not None:
        folder = Path(checkpoint_folder)
        folder.mkdir(parents=True, exist_ok=True)
        wired.append(
            keras.callbacks.ModelCheckpoint(
                folder / "best.keras", save_best_only=True, monitor="val_accuracy"
            )
        )
        wired.append(keras.callbacks.BackupAndRestore(folder / "backup"))
    return model.fit(
        train,
        validation_data=validation,
        epochs=epochs,
        callbacks=wired,
        verbose=verbose,
    )
