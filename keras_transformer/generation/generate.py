"""One text for each row: greedy or sampled, whole or token by token."""

from collections.abc import Iterator

import numpy as np
from keras import ops

from keras_transformer.generation.inputs import as_rows, prepare
from keras_transformer.generation.loop import Search
from keras_transformer.generation.processors import History
from keras_transformer.generation.rereading import Rereading, until_stop
from keras_transformer.generation.sampling import Sampling


def generate(
    model, inputs, *, jit_compile: bool = True, record=None, **settings
) -> np.ndarray:
    """Write on from each prompt, or translate each source, token by token.

    A row gets the same greedy tokens whatever the other rows are, and however it
    is padded. The search is compiled once for each number of rows, each padded
    length (16, 24, 32, 48, ...) and each set of processors; other values of
    `temperature`, `top_p`, `repetition_penalty` and `seed` compile nothing anew.

    On TensorFlow and JAX without an accelerator, a search of 2 to 64 rows holds a
    transposed copy of the float32 kernels that its steps read, which makes them faster
    and is at most as large as the weights (`stream` makes none).

    Args:
        model: A model with `start` and `step`, such as `LanguageModel`.
        inputs: Prompts, or sources: a list of lists of ids; an array (B, S), padded
            on any side; or a dict of `"token_ids"` and `"padding_mask"`.
        jit_compile: `False` runs the plain Python loop.
        record: An `AttentionRecord(model)`, which is filled with where each token
            looked when it was written. The tokens are the same; afterwards they are
            read once more, uncompiled.
        **settings: The fields of `Sampling`: `max_new_tokens`, `min_new_tokens`,
            `temperature`, `top_k`, `top_p`, `repetition_penalty`,
            `no_repeat_ngram_size`, `processors`, `stop_ids`, `suppress_tokens`,
            `forced_bos_token_id`, `forced_eos_token_id`, `seed`. What is not given
            is `model.generation`'s, and else their default. `renormalize_logits` is
            taken too, for what a checkpoint brings along, and changes nothing here.

    Returns:
        int32 (B, T), the new tokens only. A row ends with its stop id, and is then
        filled with `model.pad_id` (0 if there is none).

    Raises:
        TypeError: `record` is no record.
        ValueError: A setting or an id out of range, an empty prompt, texts longer
            than the model's positions; a record of another model, a used one, or
            nothing to record.

    Example:

    >>> model = LanguageModel(20, 1, 8, 2, 16)
    >>> model.build()
    >>> tokens = generate(model, [[5, 6, 7], [8]], max_new_tokens=4)
    """
    settings = Sampling.read("generate", settings, model)
    reading = Rereading(record, model)
    search, values = _search(model, inputs, settings)
    tokens = np.zeros((values[0]["token_ids"].shape[0], 0), "int32")
    if settings.max_new_tokens:
        carry = search.run(*values, jit_compile=jit_compile)
        count = int(ops.convert_to_numpy(carry["new_tokens"]))
        width = values[1]["token_ids"].shape[1]
        # A copy: what JAX hands out cannot be written to.
        tokens = ops.convert_to_numpy(carry["tokens"])
        tokens = np.array(tokens[:, width : width + count])
    reading.read(
        as_rows(inputs, model.pad_id),
        [until_stop(row, values[2]["stop_ids"]) for row in tokens],
    )
    reading.finish(len(tokens))
    return tokens


def stream(
    model, inputs, *, jit_compile: bool = True, **settings
) -> Iterator[np.ndarray]:
    """Yield the tokens (B,) of each step as soon as they are chosen.

    Args:
        model: As in `generate`.
        inputs: As in `generate`.
        jit_compile: As in `generate`.
        **settings: As in `generate`.

    Returns:
        An iterator of int32 (B,): the next token of each row, `model.pad_id` where
        it has ended.

    Raises:
        ValueError: As in `generate`, at once and not with the first token.

    Example:

    >>> model = LanguageModel(20, 1, 8, 2, 16)
    >>> model.build()
    >>> tokens = [int(token[0]) for token in stream(model, [[5]], max_new_tokens=4)]
    """
    settings = Sampling.read("stream", settings, model)
    search, values = _search(model, inputs, settings)
    if settings.max_new_tokens == 0:
        return iter(())
    carries = search.steps(*values, jit_compile=jit_compile)
    next(carries)  # nothing is chosen yet
    return (ops.convert_to_numpy(carry["last"]) for carry in carries)


def _search(model, inputs, settings):
    task = prepare(model, inputs, settings)
    rows, width = task.prompts["token_ids"].shape
    pad = model.pad_id or 0

    def begin(inputs, prompts, values):
        padding = ops.full((rows, task.new_slots), pad, "int32")
        return {
            "state": model.start(inputs, task.slots),
            "tokens": ops.concatenate([prompts["token_ids"], padding], axis=1),
            "prompt_mask": prompts["padding_mask"],
            "last": prompts["token_ids"][:, -1],
            "finished": ops.zeros((rows,), "bool"),
            "new_tokens": ops.zeros((), "int32"),
            "values": values,
        }

    def advance(carry):
        values, count = carry["values"], carry["new_tokens"]
        logits, state = model.step(carry["last"], carry["state"])
        written = ops.arange(task.new_slots, dtype="int32") < count
        written = ops.broadcast_to(written, (rows, task.new_slots))
        mask = ops.concatenate([carry["prompt_mask"], written], axis=1)
        history = History(carry["tokens"], mask, width + count, count)
        token = settings.choose(ops.cast(logits, "float32"), history, values)
        token = ops.cast(ops.where(carry["finished"], pad, token), "int32")
        stops = ops.any(ops.equal(token[:, None], values["stop_ids"][None]), axis=-1)
        here = ops.arange(width + task.new_slots, dtype="int32") == width + count
        return {
            **carry,
            "state": state,
            "tokens": ops.where(here[None], token[:, None], carry["tokens"]),
            "last": token,
            "finished": ops.logical_or(carry["finished"], stops),
            "new_tokens": count + 1,
        }

    def going(carry):
        room = carry["new_tokens"] < carry["values"]["max_new_tokens"]
        return ops.logical_and(room, ops.logical_not(ops.all(carry["finished"])))

    key = ("generate", settings.static, rows, width, task.new_slots)
    uniforms = settings.uniforms(rows, task.new_slots)
    values = {**settings.values(), "stop_ids": task.stop_ids, "uniforms": uniforms}
    search = Search(model, key, begin, advance, going)
    return search, (task.inputs, task.prompts, values)
