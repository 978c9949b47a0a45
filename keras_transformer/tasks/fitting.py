"""Training with Keras's own callbacks: stop early, keep the best, go on again."""

import json
import random
import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import h5py
import keras
from keras.optimizers.schedules import CosineDecay, LearningRateSchedule

from keras_transformer.datasets import BucketedDataset
from keras_transformer.ops.checks import check_integer, check_number
from keras_transformer.tasks.encoding import masked_by_length
from keras_transformer.training import (
    InverseSquareRoot,
    KeepLast,
    Perplexity,
    TokenAccuracy,
    TokenCrossentropy,
    average_checkpoints,
)

BATCHES, LEAST_TOKENS, MOST_TOKENS = 64, 512, 4096
BEST = "best.weights.h5"  # those of the best epoch so far, with `patience`
DONE = "done.weights.h5"  # the weights in the end, of a training that is done


def batch_tokens(lengths) -> int:
    """Return `max_tokens` for rows of these lengths.

    Few rows make small batches, so that there are enough updates: 64 batches an
    epoch, of at least 512 tokens (or the longest row) and at most 4,096.

    Args:
        lengths: The length of each row, in tokens.
    """
    even = min(max(sum(lengths) // BATCHES, LEAST_TOKENS), MOST_TOKENS)
    return int(max(even, max(lengths)))


def token_batches(labels, *, inputs: dict, **settings) -> BucketedDataset:
    """Return batches for a model that predicts a token at each place.

    Args:
        labels: The ids that it is to predict, of each row.
        inputs: By the names of its inputs, the ids that it reads, of each row.
        **settings: Further settings of `BucketedDataset`.
    """
    inputs = masked_by_length(**inputs)
    return BucketedDataset(inputs, labels, pad_id=0, sample_weight="tokens", **settings)


def pair_batches(sources, inputs, targets, *, max_tokens=None, **settings):
    """Return batches of pairs for a model that reads a source and writes a target.

    Args:
        sources: The ids of each source.
        inputs: The ids that the decoder reads, of each pair.
        targets: The ids that it is to predict.
        max_tokens: The most tokens in a batch; if not given, as `batch_tokens` has it.
        **settings: Further settings of `BucketedDataset`.
    """
    if max_tokens is None:
        sides = zip(map(len, sources), map(len, inputs), strict=True)
        max_tokens = batch_tokens(list(map(max, sides)))
    inputs = {"encoder_token_ids": sources, "decoder_token_ids": inputs}
    return token_batches(targets, inputs=inputs, max_tokens=max_tokens, **settings)


def check_optimizer(model, optimizer, learning_rate, warmup_steps=None):
    """Refuse what is no optimizer, learning rate or warm-up, before any work.

    Args:
        model: The model that is to be trained.
        optimizer: See `TextClassifier.fit`.
        learning_rate: See `Translator.fit`.
        warmup_steps: See `Translator.fit`.

    Raises:
        ValueError: One that cannot be used, or that does not go with the others.
    """
    check_integer("warmup_steps", warmup_steps, optional=True)
    if not isinstance(learning_rate, LearningRateSchedule):
        check_number("learning_rate", learning_rate, above=0, optional=True)
    elif warmup_steps is not None:
        raise ValueError(
            "`warmup_steps` belongs to a `learning_rate` that is a number: a schedule "
            f"has its own warm-up. Received: warmup_steps={warmup_steps!r} and "
            f"learning_rate={learning_rate!r}."
        )
    if optimizer is None:
        return
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ValueError(
            "`optimizer` must be a Keras optimizer, such as "
            "keras.optimizers.Adam(1e-4, clipnorm=1.0). Received: "
            f"optimizer={optimizer!r}."
        )
    rates = {"learning_rate": learning_rate, "warmup_steps": warmup_steps}
    given = [f"{name}={value!r}" for name, value in rates.items() if value is not None]
    if given:
        raise ValueError(
            "An `optimizer` has its own learning rate. Received also: "
            f"{' and '.join(given)}. Give the rate, or a schedule, to the optimizer."
        )
    if optimizer.built and optimizer is not _own_optimizer(model):
        raise ValueError(
            "`optimizer` has been used already: one optimizer trains one model, and "
            "keeps its state. Make a new one, or pass the one that this model was "
            "trained with last."
        )


def _own_optimizer(model):
    """Return the optimizer that a model was compiled with.

    Under float16 Keras puts it into another one, which scales the loss.
    """
    optimizer = getattr(model, "optimizer", None)
    return getattr(optimizer, "inner_optimizer", optimizer)


def _compile(model, optimizer, loss, **metrics):
    """Compile a model; its own optimizer stays as it is, with the scale of the loss."""
    if optimizer is _own_optimizer(model):
        optimizer = model.optimizer
    model.compile(optimizer, loss, **metrics)


def token_optimizer(optimizer, learning_rate, warmup_steps, usual_rate, usual_warmup):
    """Return the optimizer that was given, or else that of the 2017 paper.

    Args:
        optimizer: See `TextClassifier.fit`; checked by `check_optimizer`.
        learning_rate: See `Translator.fit`; checked too.
        warmup_steps: See `Translator.fit`; checked too.
        usual_rate: In place of a `learning_rate` that is `None`.
        usual_warmup: In place of `warmup_steps` that are `None`.
    """
    if optimizer is not None:
        return optimizer
    rate = learning_rate
    if not isinstance(rate, LearningRateSchedule):
        peak = usual_rate if rate is None else rate
        steps = usual_warmup if warmup_steps is None else warmup_steps
        rate = InverseSquareRoot(peak, steps)
    return keras.optimizers.Adam(rate, beta_2=0.98, epsilon=1e-9)


def rise_and_fall(peak: float, updates: int, parts: int = 10) -> LearningRateSchedule:
    """Return a rate that rises to `peak`, and then falls to 0 along a cosine.

    Args:
        peak: The highest rate.
        updates: Number of updates.
        parts: It rises in the first of so many equal parts of them.
    """
    rise = max(1, updates // parts)
    fall = max(1, updates - rise)
    return CosineDecay(peak / rise, fall, warmup_target=peak, warmup_steps=rise)


def compile_for_tokens(model, optimizer, label_smoothing):
    """Compile a model that predicts tokens; see `Translator.fit`.

    Args:
        model: The model, whose outputs are logits (B, T, V).
        optimizer: From `token_optimizer`.
        label_smoothing: See `Translator.fit`.
    """
    metrics = [Perplexity(), TokenAccuracy()]
    loss = TokenCrossentropy(label_smoothing)
    _compile(model, optimizer, loss, weighted_metrics=metrics)


class _OwnBatches(keras.callbacks.Callback):
    """Give each epoch the batches and the order of its number.

    So a training that goes on in a later process sees what it would have seen (but
    for pieces drawn at random, see `SentencePieceTokenizer.encode`).
    """

    def __init__(self, data: BucketedDataset):
        super().__init__()
        self.data = data

    def on_epoch_begin(self, epoch, logs=None):
        self.data.set_epoch(epoch)
        # Keras's `fit` shuffles the batches' order by Python's own generator.
        random.seed(f"{self.data.seed} {epoch}")


def compile_for_labels(model, optimizer, label_smoothing):
    """Compile a model that predicts labels; see `TextClassifier.fit`.

    Args:
        model: The model, whose outputs are probabilities: (B, 1) of the second of two
            labels, or (B, n). It learns from labels (B,) of 0 and 1, or from one-hot
            ones (B, n).
        optimizer: The optimizer.
        label_smoothing: See `TextClassifier.fit`.
    """
    check_number("label_smoothing", label_smoothing, at_least=0, below=1)
    losses = keras.losses
    one = model.output_shape[-1] == 1
    loss = losses.BinaryCrossentropy if one else losses.CategoricalCrossentropy
    loss = loss(label_smoothing=label_smoothing)
    _compile(model, optimizer, loss, metrics=["accuracy"])


def fit_model(
    model,
    train,
    validation,
    *,
    monitor: str,
    mode: str,
    epochs,
    patience,
    average: int | None = None,
    checkpoint_folder=None,
    keep_checkpoints: bool = False,
    callbacks=(),
    verbose="auto",
) -> keras.callbacks.History:
    """Fit a compiled model; see `Translator.fit` for the arguments.

    Args:
        model: The compiled model.
        train: Batches to train on, a `BucketedDataset`.
        validation: Batches to watch.
        monitor: The value that `patience` watches.
        mode: `"max"` or `"min"`, which of its values is better.
        epochs: See `Translator.fit`.
        patience: See `Translator.fit`.
        average: See `Translator.fit`.
        checkpoint_folder: See `TextClassifier.fit`.
        keep_checkpoints: See `TextClassifier.fit`.
        callbacks: See `Translator.fit`.
        verbose: See `Translator.fit`.

    Raises:
        ValueError: A number out of range, or nowhere to keep checkpoints.
    """
    if keep_checkpoints and checkpoint_folder is None:
        raise ValueError(
            "`keep_checkpoints=True` needs a `checkpoint_folder`. Received: "
            "checkpoint_folder=None."
        )
    epochs = check_integer("epochs", epochs)
    patience = check_integer("patience", patience, 0, optional=True)
    average = check_integer("average", average, 0, optional=True)
    watch = {"monitor": monitor, "mode": mode}
    wired = [_OwnBatches(train), *callbacks]
    with ExitStack() as stack:
        folder = checkpoint_folder
        if folder is None and average:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
        folder = None if folder is None else Path(folder)
        if checkpoint_folder is not None:
            _drop_cut(folder)
            if (folder / DONE).is_file():
                history = _end_again(model, folder / DONE)
                if not keep_checkpoints:
                    _clear(folder)
                return history
            folder.mkdir(parents=True, exist_ok=True)
        best = None  # the file of the best weights, which early stopping goes back to
        if patience is not None:
            before = None  # the best value before an interruption
            if checkpoint_folder is not None:
                best = folder / BEST
                before = _score(model, best, validation, monitor)
                wired.append(
                    keras.callbacks.ModelCheckpoint(
                        best,
                        save_best_only=True,
                        save_weights_only=True,
                        initial_value_threshold=before,
                        **watch,
                    )
                )
            wired.append(
                keras.callbacks.EarlyStopping(
                    patience=patience,
                    restore_best_weights=not average,
                    baseline=before,
                    **watch,
                )
            )
        if checkpoint_folder is not None:
            wired.append(
                keras.callbacks.BackupAndRestore(
                    folder / "backup", double_checkpoint=True, delete_checkpoint=False
                )
            )
        last = KeepLast(folder / "last", average) if average else None
        try:
            history = model.fit(
                train,
                validation_data=validation,
                epochs=epochs,
                callbacks=[*wired, last] if last else wired,
                verbose=verbose,
            )
        finally:
            # `BackupAndRestore` leaves the epoch that it went on from, at which each
            # later `fit` of the model would begin.
            model._initial_epoch = None
        if last:
            average_checkpoints(model, last.files)
        elif best is not None and best.is_file():
            # Early stopping has no weights of the epochs before an interruption.
            model.load_weights(best)
        if keep_checkpoints:
            model.save_weights(folder / DONE)
        elif checkpoint_folder is not None:
            _clear(folder)
    return history


def _states(folder):
    """Return the files of Keras's backup, of weights and of the epoch: last, before."""
    names = ("latest.weights.h5", "training_metadata.json")
    last = [folder / "backup" / name for name in names]
    return last, [file.with_name(f"{file.name}.bkp") for file in last]


def _clear(folder):
    """Remove what `fit_model` wrote, and each folder that holds nothing else.

    A folder that cannot be removed, such as a link or a mounted one, stays.
    """
    last, before = _states(folder)
    epochs = folder.glob("last/epoch-*.weights.h5")
    for file in (folder / BEST, folder / DONE, *epochs, *last, *before):
        file.unlink(missing_ok=True)
    for place in (folder / "backup", folder / "last", folder):
        with suppress(OSError):
            place.rmdir()


def _drop_cut(folder):
    """Drop what a process that was killed left half written.

    Keras keeps two states: the one before takes the last one's place. Without any, the
    training begins anew. (Killed between the weights and the number of their epoch,
    which both are whole, it trains one epoch twice.)
    """
    epochs = folder.glob("last/epoch-*.weights.h5")
    for file in [folder / BEST, folder / DONE, *epochs]:
        if file.is_file() and not _is_whole(file):
            file.unlink()
    last, before = _states(folder)
    if all(map(_is_whole, last)):
        return
    if all(map(_is_whole, before)):
        for old, file in zip(before, last, strict=True):
            shutil.copy(old, file)
    else:
        _clear(folder)


def _is_whole(file):
    """Whether a file of weights or of JSON is there and can be read to its end."""
    try:
        if ".h5" in file.suffixes:
            h5py.File(file, "r").close()
        else:
            json.loads(file.read_text())
    except (OSError, ValueError):
        return False
    return True


def _score(model, weights, validation, monitor):
    """Return what the best weights of an interrupted training reached."""
    if not weights.is_file():
        return None
    _load(model, weights)  # `BackupAndRestore` puts the last ones back
    return model.evaluate(validation, return_dict=True, verbose=0)[
        monitor.removeprefix("val_")
    ]


def _end_again(model, weights):
    """Give a model what its training gave it, and return a history of no epochs."""
    _load(model, weights)
    history = keras.callbacks.History()
    history.on_train_begin()
    return history


def _load(model, weights):
    if not model.optimizer.built:  # Keras warns where it finds more state than here
        model.optimizer.build(model.trainable_variables)
    model.load_weights(weights)
