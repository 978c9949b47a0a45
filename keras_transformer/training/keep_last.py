"""The weights of the last epochs as files, and their mean."""

from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_transformer.ops.checks import check_integer


class KeepLast(keras.callbacks.Callback):
    """Keep the weights of the last epochs as files, for `average_checkpoints`.

    Args:
        folder: Where the files go. Files of earlier epochs there are counted too, as
            when a training is resumed; those of later ones are removed.
        count: Number of epochs.

    Example:

    >>> model.fit(data, epochs=20, callbacks=[KeepLast("checkpoints", 5)])
    >>> average_checkpoints(model, sorted(Path("checkpoints").glob("*.weights.h5")))
    """

    def __init__(self, folder, count: int = 5):
        super().__init__()
        self.folder, self.count = Path(folder), check_integer("count", count)

    @property
    def files(self) -> list[Path]:
        """The files that are kept, the oldest first."""
        return sorted(self.folder.glob("epoch-*.weights.h5"))

    def on_epoch_end(self, epoch, logs=None):
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in self.files:  # of an earlier training, which went further
            if int(file.name.split(".")[0].removeprefix("epoch-")) > epoch:
                file.unlink()
        self.model.save_weights(self.folder / f"epoch-{epoch:05d}.weights.h5")
        for old in self.files[: -self.count]:
            old.unlink()


def average_checkpoints(model: keras.Model, files: Sequence):
    """Give a model the mean of the weights in several files.

    Args:
        model: The built model; its weights are replaced, and nothing else of it.
        files: Weight files of the same model (`model.save_weights`).

    Raises:
        ValueError: No files, or a file of another model; the model stays as it was.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (6.1)
    """
    files = list(files)
    if not files:
        raise ValueError("`files` must be at least one weight file. Received none.")
    optimizer = getattr(model, "optimizer", None)
    # A file brings the optimizer's state and the seeds' along, which have no mean.
    state = [*model.variables, *(optimizer.variables if optimizer else [])]
    before = [np.array(ops.convert_to_numpy(variable)) for variable in state]
    total = [np.zeros(weight.shape, "float64") for weight in model.weights]
    try:
        for file in files:
            model.load_weights(file)
            for index, weight in enumerate(model.get_weights()):
                total[index] += weight
    finally:
        for variable, value in zip(state, before, strict=True):
            variable.assign(value)
    for weight, part in zip(model.weights, total, strict=True):
        if keras.backend.is_float_dtype(weight.dtype):
            weight.assign(part / len(files))
