"""Prompts on their way into a search, and the text behind them on its way out."""

from collections.abc import Iterable, Iterator

import numpy as np
from keras import ops

from keras_transformer.generation.limits import ids_that_stop, own_settings
from keras_transformer.generation.sampling import Sampling
from keras_transformer.ops.checks import check_integer
from keras_transformer.tasks.encoding import encode_bare, length_batches

NEW_TOKENS = 64  # unless told otherwise
REPLACEMENT = "\ufffd"  # what bytes are decoded to that form no character


def read_prompts(model, tokenizer, prompts, *, add_bos: bool, max_new_tokens):
    """Return the ids of each prompt, and the most tokens that may follow each.

    Raises:
        ValueError: A prompt without tokens and no bos id, a prompt that leaves no
            positions for `max_new_tokens`.
    """
    if max_new_tokens is not None:
        check_integer("max_new_tokens", max_new_tokens, 0)
    rows = encode_bare(tokenizer, prompts, add_bos=add_bos)
    limit, counts = model.position_limit, []
    own = own_settings(model)
    wanted = own.get("max_new_tokens", NEW_TOKENS)
    for index, row in enumerate(rows):
        if not row:
            if tokenizer.bos_id is None:
                raise ValueError(
                    f"Prompt {index} is empty, and this tokenizer has no bos id to "
                    "begin with. Give it a word."
                )
            row.append(tokenizer.bos_id)
        least = 1 if max_new_tokens is None else max_new_tokens
        if limit is not None and len(row) + least > limit:
            raise ValueError(
                f"Prompt {index} has {len(row)} tokens, and {least} more are asked "
                f"for, but the model has positions for {limit}. Shorten the prompt, or "
                "lower `max_new_tokens`."
            )
        room = wanted if limit is None else min(wanted, limit - len(row))
        counts.append(room if max_new_tokens is None else max_new_tokens)
    return rows, counts


def read_settings(model, processors: tuple, settings: dict) -> tuple[dict, list]:
    """Check the settings of a search; return them, and the ids that end it.

    Args:
        model: The language model.
        processors: Functions that are applied after those of `settings`.
        settings: What `generate` was given, `jit_compile` perhaps among it.

    Raises:
        ValueError: An unknown setting, or a value out of range.
    """
    searched = {k: v for k, v in settings.items() if k != "jit_compile"}
    given = Sampling.read("generate", searched, model)
    if given.seed is not None:
        check_integer("seed", given.seed, 0)
    stop_ids = ids_that_stop(model, given.stop_ids)
    processors = (*given.processors, *processors)
    return {**settings, "processors": processors, "seed": given.seed}, stop_ids


def prompt_batches(rows, counts, batch_size: int) -> Iterator[tuple]:
    """Yield batches of prompts of near lengths that get equally many new tokens.

    Yields:
        The number of new tokens; the prompts' numbers; the same filled up as
        `length_batches` does.
    """
    for count in sorted(set(counts)):
        members = [index for index, own in enumerate(counts) if own == count]
        batches = length_batches([rows[index] for index in members], batch_size)
        for _, numbers, batch in batches:
            places = [members[number] for number in numbers]
            yield count, places, places + places[:1] * (len(batch) - len(places))


def place_seed(seed: int, place: int) -> int:
    """Return a seed for each place, so that equal prompts get different texts."""
    return int(np.random.SeedSequence([seed, place]).generate_state(1)[0])


class Continuation:
    """Decode the ids that follow a prompt.

    The texts of `put` and `end`, joined, are the continuation: behind the prompt as
    it was given, they read on. Bytes that form no character are left out.

    Args:
        tokenizer: A tokenizer with `decode_stream`.
        prompt: The prompt as it was given.
        ids: Its token ids.

    Example:

    >>> continuation = Continuation(tokenizer, "나는", tokenizer.encode("나는"))
    >>> text = "".join(map(continuation.put, ids)) + continuation.end()
    """

    def __init__(self, tokenizer, prompt: str, ids):
        self._stream = tokenizer.decode_stream()
        seen = "".join(map(self._stream.put, ids))
        # A space at the prompt's end that the tokenizer did not see stands there.
        self._has_space = prompt[-1:].isspace() and not seen[-1:].isspace()

    def put(self, id: int) -> str:
        """Take one id, and return the text that is certain with it, often `""`."""
        return self._clean(self._stream.put(id))

    def end(self) -> str:
        """Return what is left."""
        return self._clean(self._stream.end())

    def _clean(self, text):
        text = text.replace(REPLACEMENT, "")
        if text and self._has_space:
            text, self._has_space = text.removeprefix(" "), False
        return text


def known_ids(size: int):
    """Return a processor that forbids the ids that a tokenizer of `size` has not."""

    def forbid_unknown(logits, history):
        known = ops.arange(logits.shape[-1], dtype="int32") < size
        return ops.where(known, logits, float("-inf"))

    return forbid_unknown


def continue_text(
    tokenizer, prompt: str, ids, tokens: Iterable, stop_ids
) -> Iterator[str]:
    """Yield the text of the tokens that follow a prompt, piece by piece.

    Args:
        tokenizer: As in `Continuation`.
        prompt: As in `Continuation`.
        ids: As in `Continuation`.
        tokens: The ids of the continuation.
        stop_ids: The first of these ends it, and is no part of it.
    """
    continuation = Continuation(tokenizer, prompt, ids)
    for id in map(int, tokens):
        if id in stop_ids:
            break
        if piece := continuation.put(id):
            yield piece
    if piece := continuation.end():
        yield piece
