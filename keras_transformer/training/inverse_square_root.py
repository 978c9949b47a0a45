"""The learning rate of the 2017 paper."""

import keras
from keras import ops

from keras_transformer.layers.base import PACKAGE
from keras_transformer.ops.checks import check_integer, check_number


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
