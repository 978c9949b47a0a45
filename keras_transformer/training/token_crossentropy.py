"""The loss of predicted tokens, the perplexity that it makes, and the accuracy."""

import keras
from keras import ops

from keras_transformer.layers.base import PACKAGE, CarriedMask
from keras_transformer.ops.checks import check_number


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


class _TokenMean(keras.metrics.Mean):
    """The weighted mean over tokens of what `measure` returns for each, (B, T).

    Each token counts alike, in batches of any length.
    """

    def __init__(self, name: str, **kwargs):
        super().__init__(name=name, **kwargs)
        self._carried_mask = CarriedMask(autocast=False)

    def update_state(self, y_true, y_pred, sample_weight=None):
        values = self.measure(y_true, y_pred)
        weights = ops.cast(self._carried_mask(y_pred), values.dtype)
        if sample_weight is not None:
            given = ops.cast(sample_weight, values.dtype)
            if len(given.shape) == 1:
                given = ops.expand_dims(given, 1)  # one for each text
            weights = weights * ops.broadcast_to(given, ops.shape(values))
        # In one row: Keras takes the mean of each row, so that short ones count more.
        super().update_state(ops.reshape(values, [-1]), ops.reshape(weights, [-1]))


@keras.saving.register_keras_serializable(package=PACKAGE)
class Perplexity(_TokenMean):
    """`exp(mean loss of a token)`: among how many tokens the model wavers.

    Each token counts alike, in batches of any length.

    Masks: as in `TokenCrossentropy`, the one that the logits carry counts.

    Args:
        name: Name of the metric.
        **kwargs: As in `keras.metrics.Mean`.

    Call arguments:
        y_true: Labels (B, T), integers.
        y_pred: Logits (B, T, V).
        sample_weight: (B, T), (1, T) or (B,), 0 for padding: compile with
            `weighted_metrics`.

    Example:

    >>> model.compile("adam", TokenCrossentropy(), weighted_metrics=[Perplexity()])
    """

    def __init__(self, name: str = "perplexity", **kwargs):
        super().__init__(name, **kwargs)

    def measure(self, labels, logits):
        """Return the loss of each token, (B, T)."""
        return token_losses(labels, logits)

    def result(self):
        return ops.exp(super().result())


@keras.saving.register_keras_serializable(package=PACKAGE)
class TokenAccuracy(_TokenMean):
    """The share of tokens that the model finds most likely where they stand.

    Each token counts alike, in batches of any length. (In Keras's
    `SparseCategoricalAccuracy` those of short batches count more.)

    Masks: as in `TokenCrossentropy`, the one that the logits carry counts.

    Args:
        name: Name of the metric.
        **kwargs: As in `keras.metrics.Mean`.

    Call arguments:
        y_true: As in `Perplexity`.
        y_pred: As in `Perplexity`.
        sample_weight: As in `Perplexity`.

    Example:

    >>> model.compile("adam", TokenCrossentropy(), weighted_metrics=[TokenAccuracy()])
    """

    def __init__(self, name: str = "accuracy", **kwargs):
        super().__init__(name, **kwargs)

    def measure(self, labels, logits):
        """Return 1 for each token that is found, 0 for any other, (B, T)."""
        found = ops.cast(ops.argmax(logits, axis=-1), "int32")
        return ops.cast(ops.equal(found, ops.cast(labels, "int32")), "float32")
