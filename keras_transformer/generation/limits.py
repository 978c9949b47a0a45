"""Settings that every search has: how long, and which tokens not."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from keras_transformer.generation import processors as change
from keras_transformer.generation.processors import History
from keras_transformer.ops.checks import check_integer, check_number


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What bounds a text, whatever the search.

    Args:
        max_new_tokens: The most tokens that a row gets.
        min_new_tokens: No stop id before there are this many tokens.
        repetition_penalty: Above 1, tokens of the prompt and the text become less
            likely (`penalize_repetition`).
        no_repeat_ngram_size: No n-gram of this size comes twice; 0 for no limit.
        processors: Further functions `(logits, history) -> logits`, applied after
            the others. A search is compiled for the very function objects: make
            them once.
        stop_ids: Ids that end a row; `model.stop_id` if not given.

    Raises:
        ValueError: A setting out of range.
    """

    max_new_tokens: int = 64
    min_new_tokens: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    processors: Sequence[Callable] = ()
    stop_ids: int | Sequence[int] | None = None

    def __post_init__(self):
        check_integer("max_new_tokens", self.max_new_tokens, 0)
        check_integer("min_new_tokens", self.min_new_tokens, 0)
        check_integer("no_repeat_ngram_size", self.no_repeat_ngram_size, 0)
        check_number("repetition_penalty", self.repetition_penalty, above=0)
        several = isinstance(self.processors, (list, tuple))
        for processor in self.processors if several else [None]:
            if not callable(processor) or not isinstance(processor, Hashable):
                raise ValueError(
                    "`processors` must be a list of functions of (logits, history), "
                    "hashable since a search is compiled for them. Received: "
                    f"{processor if several else self.processors!r}."
                )

    @classmethod
    def read(cls, caller: str, settings: dict):
        """Make the settings that `caller` was given, and refuse any other."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(settings) - set(known))
        if unknown:
            raise ValueError(
                f"`{caller}` has no setting {', '.join(map(repr, unknown))}. It has: "
                f"{', '.join(known)}."
            )
        return cls(**settings)

    @property
    def static(self) -> tuple:
        """What a compiled search is made for."""
        return (
            self.repetition_penalty != 1,
            self.no_repeat_ngram_size,
            self.min_new_tokens > 0,
            tuple(self.processors),
        )

    def values(self) -> dict:
        """What may change from call to call without compiling anew."""
        return {
            "max_new_tokens": np.int32(self.max_new_tokens),
            "min_new_tokens": np.int32(self.min_new_tokens),
            "repetition_penalty": np.float32(self.repetition_penalty),
        }

    def apply(self, logits, history: History, values: dict):
        """Apply the processors that are on, in Hugging Face's order."""
        if self.repetition_penalty != 1:
            penalty = values["repetition_penalty"]
            logits = change.penalize_repetition(logits, history, penalty)
        if self.no_repeat_ngram_size:
            size = self.no_repeat_ngram_size
            logits = change.forbid_repeated_ngrams(logits, history, size)
        if self.min_new_tokens:
            least, stop_ids = values["min_new_tokens"], values["stop_ids"]
            logits = change.forbid_early_stop(logits, history, least, stop_ids)
        for processor in self.processors:
            logits = processor(logits, history)
        return logits
