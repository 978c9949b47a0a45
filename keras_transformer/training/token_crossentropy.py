"""What training a model that predicts tokens needs, beside Keras's own."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import keras
import numpy as np
from keras import ops

from keras_transformer.layers.base import PACKAGE
from keras_transformer.ops.checks import check_id, check_integer, check_number

__all__ = [
    "InverseSquareRoot",
    "KeepLast",
    "Perplexity",
    "TokenCrossentropy",
    "average_checkpoints",
    "mask_tokens",
    "shift_right",
    "token_losses",
]


def shift_right(
    sequences: Sequence, start_id: int | None = None, stop_id: int | None = None
) -> tuple[list[list[int]], list[list[int]]]:
    """Return what a decoder reads, and what it is to predict from it.

    `[a, b, c] -> inputs [start, a, b, c], labels [a, b, c, stop]`: at each place the
    label is the token after the one that is read. Without `start_id` and `stop_id`,
    as for a language model, `[a, b, c] -> [a, b], [b, c]`.

    Both are padded by their lengths, not by their values (`BucketedDataset` with
    `sample_weight="tokens"`), so a stop id that is also the padding id is learned.

    Args:
        sequences: Token ids of each text, without start and stop ids.
        start_id: Put before each input.
        stop_id: Put behind each label.

    Returns:
        Inputs and labels, lists of lists of equal lengths.

    Raises:
        ValueError: A row leaves nothing to predict.

    Example:

    >>> shift_right([[11, 12, 13]], start_id=2, stop_id=3)
    ([[2, 11, 12, 13]], [[11, 12, 13, 3]])
    """
    before = [] if start_id is None else [int(start_id)]
    behind = [] if stop_id is None else [int(stop_id)]
    whole = [[*before, *map(int, row), *behind] for row in sequences]
    for index, row in enumerate(whole):
        if len(row) < 2:
            raise ValueError(
                f"Row {index} of `sequences` is too short: with a start and a stop id "
                f"it must have at least 2 ids. Received: {list(row)}. Leave it out."
            )
    return [row[:-1] for row in whole], [row[1:] for row in whole]


def mask_tokens(
    sequences: Sequence,
    mask_token_id: int,
    vocabulary_size: int,
    *,
    unselectable_token_ids: Sequence[int] = (),
    mask_selection_rate: float | Sequence = 0.15,
    mask_token_rate: float = 0.8,
    random_token_rate: float = 0.1,
    seed: int = 0,
) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return what BERT reads, what it is to find, and where: its training task.

    Each id is chosen with the probability `mask_selection_rate`, and at least one of a
    row. Of the chosen, 80 % become `mask_token_id`, 10 % an id at random, and 10 % stay
    as they are, so that the model must doubt every word. The loss counts the chosen
    ones only:

    `[a, b, c, d] -> inputs [a, MASK, c, d], labels [a, b, c, d], weights [0, 1, 0, 0]`

    Each row has its own draw: `mask_tokens(rows * 10, ...)` gives ten masks of each
    text, as in the paper, for one call of `fit`.

    Args:
        sequences: Token ids of each text, rows of any length.
        mask_token_id: The id that hides another. It is never chosen or drawn.
        vocabulary_size: Number of token ids V; other ids are drawn from all of them.
        unselectable_token_ids: Ids that are never chosen or drawn: padding, unknown,
            first and last of a text; `None` among them is passed over.
        mask_selection_rate: Probability of an id to be chosen, more than 0 and at most
            1; or for each row a sequence of them, one for each id, where some are to
            be asked for more often.
        mask_token_rate: Share of the chosen that become `mask_token_id`.
        random_token_rate: Share of the chosen that become an id at random.
        seed: Equal seeds give equal masks.

    Returns:
        Inputs, labels and weights, lists of arrays of equal lengths, for
        `BucketedDataset(inputs, labels, sample_weight=weights)`.

    Raises:
        ValueError: An id that is no integer or outside the vocabulary, a rate out of
            range, a row without an id that may be chosen.

    Example:

    >>> inputs, labels, weights = mask_tokens([[11, 12, 13]], 4, 20)
    >>> data = BucketedDataset(inputs, labels, sample_weight=weights)

    Source: Devlin et al. 2019, https://arxiv.org/abs/1810.04805 (3.1, A.1)
    """
    vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
    kept = np.zeros(vocabulary_size, bool)
    for name, ids in (
        ("mask_token_id", [mask_token_id]),
        ("unselectable_token_ids", unselectable_token_ids),
    ):
        for id in ids:
            check_id(name, id, vocabulary_size, "vocabulary_size")
            if id is not None:
                kept[id] = True
    if mask_token_id is None:
        raise ValueError(
            "`mask_token_id` must be the id of a mask token. Received: None. Train the "
            "tokenizer with user_defined_symbols=['<mask>'], and pass "
            "tokenizer.piece_to_id('<mask>')."
        )
    check_number("mask_token_rate", mask_token_rate, at_least=0, at_most=1)
    check_number("random_token_rate", random_token_rate, at_least=0, at_most=1)
    if mask_token_rate + random_token_rate > 1 + 1e-9:
        raise ValueError(
            "`mask_token_rate` and `random_token_rate` must be together at most 1. "
            f"Received: {mask_token_rate!r} and {random_token_rate!r}."
        )
    sequences, rates = list(sequences), mask_selection_rate
    if not isinstance(rates, Iterable) or getattr(rates, "ndim", 1) == 0:
        check_number("mask_selection_rate", rates, above=0, at_most=1)
        rates = [rates] * len(sequences)
    rates = list(rates)
    if len(rates) != len(sequences):
        raise ValueError(
            "`mask_selection_rate` must be a number, or rates for each row. Received: "
            f"rates for {len(rates)} of {len(sequences)} rows."
        )
    others = np.flatnonzero(~kept)
    rng = np.random.default_rng(seed)
    inputs, labels, weights = [], [], []
    for index, row in enumerate(sequences):
        row, rate = np.asarray(row), np.asarray(rates[index], "float64")
        if row.size and row.dtype.kind not in "iu":
            raise ValueError(
                f"Ids must be integers. Row {index} of `sequences` is {row.tolist()}."
            )
        if (
            rate.ndim
            and rate.shape != row.shape
            or not ((rate > 0) & (rate <= 1)).all()
        ):
            raise ValueError(
                "`mask_selection_rate` must be more than 0 and at most 1, one for each "
                f"id. Received for row {index}: {rate.tolist()!r}."
            )
        if row.size and not 0 <= row.min() <= row.max() < vocabulary_size:
            raise ValueError(
                f"Ids must be from 0 to {vocabulary_size - 1}, less than "
                f"`vocabulary_size`. Row {index} of `sequences` is {row.tolist()}."
            )
        row = row.astype("int32")
        free = np.flatnonzero(~kept[row])
        if not free.size:
            raise ValueError(
                f"Row {index} of `sequences` has no id that may be hidden: "
                f"{row.tolist()}. Leave it out."
            )
        chosen = free[rng.random(free.size) < np.broadcast_to(rate, row.shape)[free]]
        if not chosen.size:
            chosen = rng.choice(free, 1)
        read, weight = row.copy(), np.zeros(row.size, "float32")
        draw = rng.random(chosen.size)
        read[chosen[draw < mask_token_rate]] = mask_token_id
        draw = draw - mask_token_rate
        drawn = chosen[(draw >= 0) & (draw < random_token_rate)]
        read[drawn] = rng.choice(others, drawn.size)
        weight[chosen] = 1
        inputs.append(read)
        labels.append(row)
        weights.append(weight)
    return inputs, labels, weights


@keras.saving.register_keras_serializable(package=PACKAGE)
class TokenCrossentropy(keras.losses.Loss):
    """Crossentropy of integer labels, a mean over tokens, smoothed.

    `loss = sum_t w_t (-(1 - e) log p_t[label_t] - e mean_v log p_t[v]) / sum_t w_t`
    with the label smoothing e.

    Masks: `sample_weight` (B, T) is 0 where there is padding. A mask that the
    logits carry counts as well.

    Args:
        label_smoothing: The share e of probability that goes to all tokens alike.
        name: Name of the loss.
        **kwargs: As in `keras.losses.Loss`.

    Call arguments:
        y_true: Labels (B, T), integers.
        y_pred: Logits (B, T, V).

    Raises:
        ValueError: `label_smoothing` outside [0, 1).

    Example:

    >>> loss = TokenCrossentropy(label_smoothing=0.1)
    >>> model.compile("adam", loss=loss, weighted_metrics=[Perplexity()])

    Source: Szegedy et al. 2016, https://arxiv.org/abs/1512.00567
    """

    def __init__(
        self, label_smoothing: float = 0.0, name: str = "token_crossentropy", **kwargs
    ):
        kwargs.setdefault("reduction", "mean_with_sample_weight")
        # Keras casts labels to the loss's dtype: half precision would round ids.
        kwargs.setdefault("dtype", "float32")
        super().__init__(name=name, **kwargs)
        check_number("label_smoothing", label_smoothing, at_least=0, below=1)
        self.label_smoothing = label_smoothing

    def call(self, y_true, y_pred):
        """Return the loss of each token, (B, T)."""
        return token_losses(y_true, y_pred, self.label_smoothing)

    def get_config(self):
        return {**super().get_config(), "label_smoothing": self.label_smoothing}


def token_losses(labels, logits, label_smoothing: float = 0.0):
    """Return the crossentropy of each token in float32, (B, T).

    No table of one-hot labels (B, T, V) is made.

    Args:
        labels: (B, T), integers.
        logits: (B, T, V).
        label_smoothing: See `TokenCrossentropy`.
    """
    logits = ops.cast(logits, "float32")
    index = ops.expand_dims(ops.cast(labels, "int32"), -1)
    chosen = ops.squeeze(ops.take_along_axis(logits, index, axis=-1), -1)
    losses = ops.logsumexp(logits, axis=-1) - chosen
    if label_smoothing:
        # mean(logits) - chosen is what smoothing moves from one token to all.
        losses = losses + label_smoothing * (chosen - ops.mean(logits, axis=-1))
    return losses


@keras.saving.register_keras_serializable(package=PACKAGE)
class Perplexity(keras.metrics.Mean):
    """`exp(mean loss of a token)`: among how many tokens the model wavers.

    Args:
        name: Name of the metric.
        **kwargs: As in `keras.metrics.Mean`.

    Call arguments:
        y_true: Labels (B, T), integers.
        y_pred: Logits (B, T, V).
        sample_weight: (B, T), 0 for padding: compile with `weighted_metrics`.

    Example:

    >>> model.compile("adam", TokenCrossentropy(), weighted_metrics=[Perplexity()])
    """

    def __init__(self, name: str = "perplexity", **kwargs):
        super().__init__(name=name, **kwargs)

    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(token_losses(y_true, y_pred), sample_weight)

    def result(self):
        return ops.exp(super().result())


@keras.saving.register_keras_serializable(package=PACKAGE)
class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate of the 2017 paper: a warm-up, then falling as 1 / sqrt(step).

    `rate(step) = peak * min(step / warmup_steps, sqrt(warmup_steps / step))`

    The paper's own, `embed_dim**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)`,
    has the peak `(embed_dim * warmup_steps)**-0.5`.

    Args:
        peak: The highest learning rate, reached after the warm-up.
        warmup_steps: Number of steps until then.

    Raises:
        ValueError: A value that is not positive.

    Example:

    >>> rate = InverseSquareRoot(peak=5e-4, warmup_steps=4000)
    >>> optimizer = keras.optimizers.Adam(rate, beta_2=0.98, epsilon=1e-9)

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
    """

    def __init__(self, peak: float, warmup_steps: int):
        check_number("peak", peak, above=0)
        self.peak = peak
        self.warmup_steps = check_integer("warmup_steps", warmup_steps)

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1.0  # Keras counts from 0
        warmup = float(self.warmup_steps)
        return self.peak * ops.minimum(step / warmup, ops.sqrt(warmup / step))

    def get_config(self):
        return {"peak": self.peak, "warmup_steps": self.warmup_steps}


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
        model: The built model; its weights are replaced.
        files: Weight files of the same model (`model.save_weights`).

    Raises:
        ValueError: No files, or a file of another model; the model keeps its
            weights.

    Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (6.1)
    """
    files = list(files)
    if not files:
        raise ValueError("`files` must be at least one weight file. Received none.")
    before = model.get_weights()
    total = [np.zeros(weight.shape, "float64") for weight in before]
    try:
        for file in files:
            model.load_weights(file)
            for index, weight in enumerate(model.get_weights()):
                total[index] += weight
    except Exception:
        model.set_weights(before)
        raise
    means = [part / len(files) for part in total]
    model.set_weights(
        [
            mean.astype(weight.dtype)
            if keras.backend.is_float_dtype(str(weight.dtype))
            else weight  # a seed's or a counter's state has no mean
            for mean, weight in zip(means, before, strict=True)
        ]
    )
