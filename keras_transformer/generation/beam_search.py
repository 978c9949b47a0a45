"""The best of many texts: several unfinished ones are kept at each step."""

import inspect
from dataclasses import dataclass
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.generation.inputs import as_rows, prepare
from keras_transformer.generation.limits import Limits
from keras_transformer.generation.loop import Search
from keras_transformer.generation.processors import History, log_probabilities
from keras_transformer.generation.rereading import Rereading
from keras_transformer.ops.checks import check_integer, check_number

_NEVER = -1e9  # the score of what does not exist; finite, so that sums stay so


class Hypothesis(NamedTuple):
    """One finished text of a beam search.

    Attributes:
        token_ids: The new tokens, the stop id included if there is one.
        score: Its log-probability, normalised by length and coverage.
    """

    token_ids: list[int]
    score: float


@dataclass(frozen=True, kw_only=True)
class Beams(Limits):
    """Settings of `beam_search`: those of `Limits`, and of the beams.

    A finished text of n tokens (the stop id counted) scores

    `log p / n**length_penalty` with `length_normalization="length"`,
    `log p / ((5 + n) / 6)**length_penalty` with `"gnmt"`,

    and `coverage_penalty * sum_s log(min(coverage_s, 1))` is added, where
    `coverage_s` is the attention that source token s got from all steps.

    Args:
        num_beams: Number of unfinished texts that are kept for each row.
        length_penalty: The exponent; above 0 favours longer texts.
        length_normalization: `"length"` (Hugging Face's) or `"gnmt"`.
        coverage_penalty: Factor of the coverage; 0 for none. The model's `step`
            must take `return_alignment`.
        early_stopping: `True` ends a row as soon as it has `num_beams` finished
            texts; `False` when none that is unfinished looks better at its present
            length; `"never"` when none can become better.

    Raises:
        ValueError: A setting out of range.

    Source: Wu et al. 2016, https://arxiv.org/abs/1609.08144
    """

    num_beams: int = 4
    length_penalty: float = 1.0
    length_normalization: str = "length"
    coverage_penalty: float = 0.0
    early_stopping: bool | str = False

    def __post_init__(self):
        super().__post_init__()
        check_integer("num_beams", self.num_beams)
        check_number("length_penalty", self.length_penalty)
        check_number("coverage_penalty", self.coverage_penalty, at_least=0)
        for name, choices in (
            ("length_normalization", ("length", "gnmt")),
            ("early_stopping", (True, False, "never")),
        ):
            value = getattr(self, name)
            # 1 and 0 are equal to True and False, and yet others.
            if not any(type(value) is type(c) and value == c for c in choices):
                raise ValueError(
                    f"`{name}` must be one of {', '.join(map(repr, choices))}. "
                    f"Received: {name}={value!r}."
                )

    @property
    def stops_early(self) -> bool:
        """Whether `num_beams` finished texts end a row; one beam is greedy search."""
        return self.early_stopping is True or self.num_beams == 1

    @property
    def static(self) -> tuple:
        """What a compiled search is made for."""
        return (
            *super().static,
            self.num_beams,
            self.length_normalization,
            self.coverage_penalty > 0,
            self.early_stopping,
        )

    def values(self) -> dict:
        """What may change from call to call without compiling anew."""
        return {
            **super().values(),
            "length_penalty": np.float32(self.length_penalty),
            "coverage_penalty": np.float32(self.coverage_penalty),
        }

    def normalized(self, score, length, values: dict):
        """Return the scores of texts of `length` tokens."""
        length = ops.cast(length, "float32")
        if self.length_normalization == "gnmt":
            length = (length + 5.0) / 6.0
        return score / ops.power(length, values["length_penalty"])

    def best_to_come(self, score, length, values: dict):
        """Estimate the score that an unfinished text of `length` may get."""
        if self.early_stopping == "never":
            # Scores are negative: a longer text loses less where lengths divide.
            longest = ops.where(
                values["length_penalty"] > 0, values["max_new_tokens"], length
            )
            return self.normalized(score, longest, values)
        return self.normalized(score, length, values)


def beam_search(
    model, inputs, *, jit_compile: bool = True, record=None, **settings
) -> list[list[Hypothesis]]:
    """Search for the most probable texts: `num_beams` are kept at each step.

    Equal to the search of Hugging Face's `generate` with the same settings: the
    processors change log-probabilities, and what they leave is summed to the score
    (normalised again with `renormalize_logits`). One beam is greedy search, as there:
    its processors change logits, as in `generate`, and the score is of the
    log-probabilities that the changed logits make. Compiled as `generate` is.

    Args:
        model: A model with `start` and `step`, such as `Seq2SeqTransformer`.
        inputs: Sources or prompts, as in `generate`.
        jit_compile: `False` runs the plain Python loop.
        record: An `AttentionRecord(model)`, which is filled with where each token of
            the best text of each row looked, as in `generate`.
        **settings: The fields of `Beams`: `num_beams`, `length_penalty`,
            `length_normalization`, `coverage_penalty`, `early_stopping`, and those
            of `Limits`: `max_new_tokens`, `min_new_tokens`, `repetition_penalty`,
            `no_repeat_ngram_size`, `processors`, `stop_ids`, `suppress_tokens`,
            `forced_bos_token_id`, `forced_eos_token_id`, `renormalize_logits`. What
            is not given is `model.generation`'s, and else their default.

    Returns:
        For each row, its finished texts, the best first: at most `num_beams`, and at
        least one unless every token was forbidden.

    Raises:
        ValueError: As in `generate`.

    Example:

    >>> model = LanguageModel(20, 1, 8, 2, 16)
    >>> model.build()
    >>> best, *others = beam_search(model, [[5, 6]], num_beams=2, max_new_tokens=4)[0]
    """
    settings = Beams.read("beam_search", settings, model)
    if settings.coverage_penalty > 0:
        _check_aligning(model)
    task = prepare(model, inputs, settings)
    rows, width = task.prompts["token_ids"].shape
    reading = Rereading(record, model)
    if settings.max_new_tokens == 0:
        found = [[Hypothesis([], 0.0)] for _ in range(rows)]
    else:
        found = _found(model, settings, task, rows, width, jit_compile)
    best = [row[0].token_ids if row else [] for row in found]
    reading.read(as_rows(inputs, model.pad_id), best)
    reading.finish(rows)
    return found


def _check_aligning(model):
    if "return_alignment" not in inspect.signature(model.step).parameters:
        raise ValueError(
            "`coverage_penalty` needs a model that tells where it looked in a source, "
            "whose `step` takes `return_alignment`, such as Seq2SeqTransformer. "
            f"Received: {type(model).__name__}. Leave it out."
        )


def _found(model, settings, task, rows, width, jit_compile):
    search = _search(model, settings, task, rows, width)
    values = {**settings.values(), "stop_ids": task.stop_ids}
    carry = search.run(task.inputs, task.prompts, values, jit_compile=jit_compile)
    tokens, scores, lengths = (
        ops.convert_to_numpy(carry["done"][name])
        for name in ("tokens", "scores", "lengths")
    )
    return [
        [
            Hypothesis(tokens[row, beam, :length].tolist(), float(scores[row, beam]))
            for beam, length in enumerate(lengths[row])
            if scores[row, beam] > _NEVER / 2
        ]
        for row in range(rows)
    ]


def _search(model, settings, task, rows, width):
    beams, slots = settings.num_beams, task.new_slots
    # With one stop id more than half of these go on; see Hugging Face's search.
    kept = max(2, 1 + len(task.stop_ids)) * beams
    pad = model.pad_id or 0
    covers = settings.coverage_penalty > 0

    def begin(inputs, prompts, values):
        state = model.start(inputs, task.slots)
        # The beams are alike at first: one may go on.
        scores = np.where(np.arange(beams) == 0, 0.0, _NEVER).astype("float32")
        carry = {
            "state": keras.tree.map_structure(_repeated, state),
            "prompts": prompts,
            "last": _repeated(prompts["token_ids"][:, -1]),
            "tokens": ops.full((rows, beams, slots), pad, "int32"),
            "scores": ops.convert_to_tensor(np.tile(scores, (rows, 1)), "float32"),
            "done": {
                "tokens": ops.full((rows, beams, slots), pad, "int32"),
                "scores": ops.full((rows, beams), _NEVER, "float32"),
                "lengths": ops.zeros((rows, beams), "int32"),
            },
            "open": ops.ones((rows,), "bool"),
            "new_tokens": ops.zeros((), "int32"),
            "values": values,
        }
        if covers:
            source = inputs["padding_mask"]
            carry["source"] = source
            carry["coverage"] = ops.zeros((rows, beams, source.shape[1]), "float32")
        return carry

    def _repeated(leaf):
        # Not `ops.repeat`: of a single row PyTorch makes views of the same memory.
        index = np.repeat(np.arange(rows), beams)
        index = ops.convert_to_tensor(index, "int32")
        return _rows(leaf, index) if len(leaf.shape) else leaf

    def advance(carry):
        values, count = carry["values"], carry["new_tokens"]
        logits, state, coverage = _step(carry)
        log_probs = _processed(ops.cast(logits, "float32"), _history(carry), values)
        vocabulary = log_probs.shape[-1]
        log_probs = ops.reshape(log_probs, (rows, beams, vocabulary))
        totals = ops.maximum(log_probs, _NEVER) + carry["scores"][..., None]
        totals = ops.reshape(totals, (rows, beams * vocabulary))
        scores, places = ops.top_k(totals, min(kept, beams * vocabulary))
        places = ops.cast(places, "int32")
        parents, token = places // vocabulary, places % vocabulary  # (B, kept)

        here = ops.arange(slots, dtype="int32") == count
        tokens = _pick(carry["tokens"], parents)
        tokens = ops.where(here, token[..., None], tokens)
        ends = ops.any(ops.equal(token[..., None], values["stop_ids"]), axis=-1)
        ends = ops.logical_or(ends, count + 1 >= values["max_new_tokens"])

        running = scores + _NEVER * ops.cast(ends, "float32")
        order = _best(running, beams)
        chosen = _pick(parents, order)  # (B, beams): the beam that each comes from
        new = {
            **carry,
            "tokens": _pick(tokens, order),
            "scores": _pick(running, order),
            "last": ops.reshape(_pick(token, order), (-1,)),
            "state": _moved(carry["state"], state, chosen),
            "new_tokens": count + 1,
        }
        final = settings.normalized(scores, count + 1, values)
        if covers:
            coverage = ops.reshape(coverage, (rows, beams, -1))
            covered = _pick(coverage, parents)
            final = final + values["coverage_penalty"] * _cover(covered, carry)
            new["coverage"] = _pick(covered, order)
        top = ops.arange(scores.shape[1], dtype="int32") < beams
        counts = ops.logical_and(ops.logical_and(ends, top), carry["open"][:, None])
        counts = ops.logical_and(counts, scores > _NEVER / 2)
        final = ops.where(counts, final, _NEVER)
        new["done"] = _merged(carry["done"], tokens, final, count + 1)
        new["open"] = ops.logical_and(carry["open"], _may_improve(new))
        return new

    def going(carry):
        room = carry["new_tokens"] < carry["values"]["max_new_tokens"]
        return ops.logical_and(room, ops.any(carry["open"]))

    def _step(carry):
        if not covers:
            logits, state = model.step(carry["last"], carry["state"])
            return logits, state, None
        logits, state, alignment = model.step(
            carry["last"], carry["state"], return_alignment=True
        )
        alignment = ops.reshape(ops.cast(alignment, "float32"), (rows, beams, -1))
        return logits, state, carry["coverage"] + alignment

    def _processed(logits, history, values):
        """Return log-probabilities, or what the processors make of them."""
        if beams == 1:  # as in greedy search, where processors change logits
            return log_probabilities(settings.apply(logits, history, values))
        return settings.apply(log_probabilities(logits), history, values)

    def _history(carry):
        count = carry["new_tokens"]
        prompts = keras.tree.map_structure(_repeated, carry["prompts"])
        tokens = ops.reshape(carry["tokens"], (rows * beams, slots))
        written = ops.arange(slots, dtype="int32") < count
        written = ops.broadcast_to(written, (rows * beams, slots))
        return History(
            ops.concatenate([prompts["token_ids"], tokens], axis=1),
            ops.concatenate([prompts["padding_mask"], written], axis=1),
            width + count,
            count,
        )

    def _moved(before, after, chosen):
        """Give each beam the state of the one that it goes on from."""
        offsets = ops.arange(rows, dtype="int32")[:, None] * beams
        index = ops.reshape(offsets + chosen, (-1,))

        def move(old, new):
            # What a step leaves as it was is alike for all beams of a row.
            return new if new is old or not len(new.shape) else _rows(new, index)

        return keras.tree.map_structure(move, before, after)

    def _cover(coverage, carry):
        source = carry["source"][:, None, :]
        logs = ops.log(ops.clip(coverage, 1e-9, 1.0))
        return ops.sum(ops.where(source, logs, 0.0), axis=-1)

    def _merged(done, tokens, scores, length):
        lengths = ops.broadcast_to(length, scores.shape)
        joined = {
            "tokens": ops.concatenate([done["tokens"], tokens], axis=1),
            "scores": ops.concatenate([done["scores"], scores], axis=1),
            "lengths": ops.concatenate([done["lengths"], lengths], axis=1),
        }
        order = _best(joined["scores"], beams)
        return {name: _pick(value, order) for name, value in joined.items()}

    def _may_improve(carry):
        alive = carry["scores"][:, 0] > _NEVER / 2  # a text is left to go on with
        worst = ops.min(carry["done"]["scores"], axis=1)  # _NEVER while not full
        full = worst > _NEVER / 2
        if settings.stops_early:
            return ops.logical_and(alive, ops.logical_not(full))
        best = settings.best_to_come(
            carry["scores"][:, 0], carry["new_tokens"], carry["values"]
        )
        better = ops.logical_or(ops.logical_not(full), best > worst)
        return ops.logical_and(alive, better)

    key = ("beams", settings.static, rows, width, slots, len(task.stop_ids))
    return Search(model, key, begin, advance, going)


def _best(scores, count):
    return ops.cast(ops.top_k(scores, count)[1], "int32")


def _pick(values, index):
    """Return `values[b, index[b, k]]` of values (B, K, ...)."""
    index = ops.reshape(index, (*index.shape, *[1] * (len(values.shape) - 2)))
    return ops.take_along_axis(values, index, axis=1)


def _rows(leaf, index):
    return ops.take(leaf, index, axis=0)
