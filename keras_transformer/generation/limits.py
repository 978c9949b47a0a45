"""Settings that every search has: how long, and which tokens not."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from keras import ops

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
            them once, of `keras.ops` (else pass `jit_compile=False`).
        stop_ids: Ids that end a row; `model.stop_id` if not given.
        suppress_tokens: Ids that are never written.
        forced_bos_token_id: The id that is written first.
        forced_eos_token_id: The id that is written last, at `max_new_tokens`.
        renormalize_logits: Whether the scores of a beam search are log-probabilities
            again after the processors. The tokens of `generate` and `stream` are the
            same either way.

    What is not given is taken from `model.generation`, where a checkpoint's own
    settings are, and else is the default.

    Raises:
        ValueError: A setting out of range.
    """

    max_new_tokens: int = 64
    min_new_tokens: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    processors: Sequence[Callable] = ()
    stop_ids: int | Sequence[int] | None = None
    suppress_tokens: Sequence[int] = ()
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | None = None
    renormalize_logits: bool = False

    def __post_init__(self):
        check_integer("max_new_tokens", self.max_new_tokens, 0)
        check_integer("min_new_tokens", self.min_new_tokens, 0)
        check_integer("no_repeat_ngram_size", self.no_repeat_ngram_size, 0)
        check_number("repetition_penalty", self.repetition_penalty, above=0)
        if not isinstance(self.suppress_tokens, (list, tuple)):
            raise ValueError(
                "`suppress_tokens` must be a list of ids. Received: "
                f"suppress_tokens={self.suppress_tokens!r}."
            )
        for id in self.suppress_tokens:
            check_integer("suppress_tokens", id, 0)
        for name in ("forced_bos_token_id", "forced_eos_token_id"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), 0)
        several = isinstance(self.processors, (list, tuple))
        for processor in self.processors if several else [None]:
            if not callable(processor) or not isinstance(processor, Hashable):
                raise ValueError(
                    "`processors` must be a list of functions of (logits, history), "
                    "hashable since a search is compiled for them. Received: "
                    f"{processor if several else self.processors!r}."
                )

    @classmethod
    def read(cls, caller: str, settings: dict, model=None):
        """Make the settings that `caller` was given, and refuse any other.

        Args:
            caller: Name for the message.
            settings: What was given.
            model: Its `generation` is taken where nothing was given.
        """
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(settings) - set(known))
        if unknown:
            raise ValueError(
                f"`{caller}` has no setting {', '.join(map(repr, unknown))}. It has: "
                f"{', '.join(known)}."
            )
        own = own_settings(model).items()
        own = {name: value for name, value in own if name in known}
        return cls(**{**own, **settings})

    @property
    def static(self) -> tuple:
        """What a compiled search is made for."""
        return (
            self.repetition_penalty != 1,
            self.no_repeat_ngram_size,
            self.min_new_tokens > 0,
            tuple(self.processors),
            tuple(self.suppress_tokens),
            self.forced_bos_token_id,
            self.forced_eos_token_id,
            self.renormalize_logits,
        )

    def values(self) -> dict:
        """What may change from call to call without compiling anew."""
        return {
            "max_new_tokens": np.int32(self.max_new_tokens),
            "min_new_tokens": np.int32(self.min_new_tokens),
            "repetition_penalty": np.float32(self.repetition_penalty),
        }

    def apply(self, logits, history: History, values: dict):
        """Apply the processors that are on; a forced id wins over a suppressed one."""
        if self.repetition_penalty != 1:
            penalty = values["repetition_penalty"]
            logits = change.penalize_repetition(logits, history, penalty)
        if self.no_repeat_ngram_size:
            size = self.no_repeat_ngram_size
            logits = change.forbid_repeated_ngrams(logits, history, size)
        if self.suppress_tokens:
            logits = change.forbid_tokens(logits, self.suppress_tokens)
        if self.min_new_tokens:
            least, stop_ids = values["min_new_tokens"], values["stop_ids"]
            logits = change.forbid_early_stop(logits, history, least, stop_ids)
        written = history.new_tokens
        if self.forced_bos_token_id is not None:
            logits = change.force_token(
                logits, self.forced_bos_token_id, ops.equal(written, 0)
            )
        if self.forced_eos_token_id is not None:
            last = ops.equal(written + 1, values["max_new_tokens"])
            logits = change.force_token(logits, self.forced_eos_token_id, last)
        for processor in self.processors:
            logits = _checked(processor(logits, history), logits, processor)
        if self.renormalize_logits:
            logits = change.log_probabilities(logits)
        return logits


def own_settings(model) -> dict:
    """Return the settings that a model brings along, none if it has none."""
    return getattr(model, "generation", None) or {}


def ids_that_stop(model, stop_ids) -> list[int]:
    """Return the ids that end a text: those given, or the model's own, or none."""
    stop_ids = model.stop_id if stop_ids is None else stop_ids
    return [] if stop_ids is None else np.atleast_1d(stop_ids).tolist()


def _checked(changed, logits, processor):
    """Return what a processor returned; refuse what is no logits of that shape."""
    got, wanted = getattr(changed, "shape", ()), logits.shape
    if len(got) != 2 or any(
        None not in sizes and sizes[0] != sizes[1]
        for sizes in zip(got, wanted, strict=True)
    ):
        raise ValueError(
            "A function of `processors` must return logits of the shape that it was "
            f"given, {tuple(wanted)}. {processor!r} returned: {changed!r}."
        )
    return changed
