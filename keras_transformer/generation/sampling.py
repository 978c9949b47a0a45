"""How one token is chosen for each row: the most likely one, or a drawn one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from keras import ops

from keras_transformer.generation import processors as change
from keras_transformer.generation.limits import Limits
from keras_transformer.generation.processors import History
from keras_transformer.ops.checks import check_integer, check_number


@dataclass(frozen=True, kw_only=True)
class Sampling(Limits):
    """Settings of `generate` and `stream`: those of `Limits`, and of the drawing.

    Greedy, unless `temperature`, `top_k` or `top_p` asks for sampling.

    Args:
        temperature: Divides the logits before sampling; 0 is greedy. 1 if not given
            and `top_k` or `top_p` is.
        top_k: Sample from the `top_k` most likely tokens (and those as likely as the
            last); `None` or 0 for all. 1 is greedy.
        top_p: Sample from the fewest tokens whose probabilities sum to `top_p`.
        seed: Makes the sampling reproducible, on every backend alike. A row draws
            the same whatever the number of rows and `max_new_tokens`. Several
            seeds, one a row: each row draws as it would alone with its own. Global
            seeds are neither used nor changed.

    Raises:
        ValueError: A setting out of range.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | Sequence[int] | None = None

    def __post_init__(self):
        super().__post_init__()
        check_number("temperature", self.temperature, at_least=0, optional=True)
        check_number("top_p", self.top_p, above=0, at_most=1, optional=True)
        if self.top_k is not None:
            check_integer("top_k", self.top_k, 0)
        several = isinstance(self.seed, (list, tuple))
        for seed in self.seed if several else [self.seed]:
            if several or seed is not None:
                check_integer("seed", seed, 0)

    @property
    def sampled(self) -> bool:
        """Whether a token is drawn, not the most likely one taken."""
        if self.temperature == 0 or self.top_k == 1:
            return False
        asked = (self.temperature, self.top_k or None, self.top_p)
        return any(value is not None for value in asked)

    @property
    def static(self) -> tuple:
        """What a compiled search is made for."""
        drawn = (self.top_k or 0, self.top_p is not None) if self.sampled else None
        return (*super().static, drawn)

    def values(self) -> dict:
        """What may change from call to call without compiling anew."""
        # Not so small that a float32 becomes 0 or infinite.
        warmth = 1.0 if self.temperature is None else max(self.temperature, 1e-30)
        nucleus = 1.0 if self.top_p is None else self.top_p
        return {
            **super().values(),
            "temperature": np.float32(warmth),
            "top_p": np.float32(nucleus),
        }

    def uniforms(self, rows: int, length: int) -> np.ndarray:
        """Return numbers in [0, 1), one for each row and token."""
        if isinstance(self.seed, (list, tuple)):
            if len(self.seed) != rows:
                raise ValueError(
                    f"`seed` must be one for all rows, or one for each of the {rows}. "
                    f"Received: {len(self.seed)} seeds."
                )
            streams = [np.random.SeedSequence(own).spawn(1)[0] for own in self.seed]
        else:
            streams = np.random.SeedSequence(self.seed).spawn(rows)
        return np.stack(
            [np.random.default_rng(own).random(length, "float32") for own in streams]
        )

    def choose(self, logits, history: History, values: dict):
        """Return the next token (B,) of each row."""
        logits = self.apply(logits, history, values)
        if not self.sampled:
            return ops.cast(ops.argmax(logits, axis=-1), "int32")
        logits = logits - ops.max(logits, axis=-1, keepdims=True)
        logits = logits / values["temperature"]
        if self.top_k:
            logits = change.keep_top_k(logits, self.top_k)
        if self.top_p is not None:
            logits = change.keep_top_p(logits, values["top_p"])
        place = ops.reshape(history.new_tokens, (1,))
        uniforms = ops.take(values["uniforms"], place, axis=1)[:, 0]
        return change.draw(logits, uniforms)
