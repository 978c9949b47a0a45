"""Whether a model, its tokenizers and its labels fit one another."""

import warnings
from collections.abc import Sequence

from keras_transformer.generation.limits import own_settings
from keras_transformer.ops.checks import check_integer
from keras_transformer.tasks.texts import plain


def check_classifier_parts(
    model, tokenizer, labels: Sequence, max_length: int | None
) -> tuple[list, int | None]:
    """Refuse a classifier, a tokenizer and labels that do not fit one another.

    What the model says of itself counts: a model that hides padding by operations
    of its own may have any padding id.

    Returns:
        The labels as plain Python values, and `max_length`, or its default: the
        number of the model's positions, `None` if it has any number.

    Raises:
        ValueError: Fewer than two labels or equal ones, another number of outputs,
            fewer ids than the tokenizer's, another padding id, none of the tokenizer's
            own where the model hides one, fewer positions than `max_length`.
    """
    max_length = check_integer("max_length", max_length, optional=True)
    labels = [plain(label) for label in labels]
    if len(labels) < 2 or len(set(labels)) != len(labels):
        raise ValueError(
            "`labels` must be at least two different labels. Received: "
            f"labels={labels}."
        )
    wanted = 1 if len(labels) == 2 else len(labels)
    outputs = model.output_shape[-1]
    if outputs not in (wanted, len(labels)):
        raise ValueError(
            f"A model for {len(labels)} labels must have {wanted} outputs. This "
            f"one has {outputs}."
        )
    rows, pad_id, positions = _read_embedding(model)
    if rows is not None and tokenizer.vocabulary_size > rows:
        raise ValueError(
            f"The tokenizer has {tokenizer.vocabulary_size} ids, but the model's "
            f"embedding only {rows} rows. Use the tokenizer that it was built for."
        )
    if pad_id is not None and not _has_pad(tokenizer):
        raise ValueError(
            f"The model hides the id {pad_id}, but the tokenizer has no pad token: in "
            "texts that id is a token. Name a pad token, such as "
            'HuggingFaceTokenizer(file, {"pad": "<pad>"}), which must be in its '
            "vocabulary, and build the model with its pad_id and vocabulary_size."
        )
    if pad_id is not None and pad_id != tokenizer.pad_id:
        raise ValueError(
            f"The model must hide the tokenizer's pad_id={tokenizer.pad_id}. Received "
            f"a model that hides the id {pad_id}: it would attend to padding. Build "
            f"it with pad_id={tokenizer.pad_id}, or use the tokenizer that it was "
            "built for."
        )
    if max_length is None:
        return labels, positions
    _check_positions(positions, max_length)
    return labels, max_length


def _read_embedding(model):
    """Return the rows of a model's first embedding, its padding id, its positions.

    Each is `None` where the embedding does not say, or has any number.
    """
    for layer in _each_layer(model):
        rows = getattr(layer, "vocabulary_size", getattr(layer, "input_dim", None))
        if rows is None:
            continue
        # Keras's Embedding hides 0, or nothing.
        hidden = 0 if getattr(layer, "mask_zero", False) else None
        positions = getattr(layer, "sequence_length", None)
        if getattr(layer, "encoding", "learned") != "learned":
            positions = None  # sinusoids go on
        return (
            rows,
            getattr(layer, "pad_id", hidden),
            getattr(layer, "position_limit", positions),
        )
    return None, None, None


def _each_layer(model):
    yield model
    for layer in getattr(model, "layers", ()):
        yield from _each_layer(layer)


def check_translator_parts(model, source_tokenizer, target_tokenizer, max_length: int):
    """Refuse a model and tokenizers that do not fit one another.

    Raises:
        ValueError: A model that does not write step by step, fewer ids than the
            tokenizers', other special ids, fewer positions than `max_length`.
    """
    if any(not hasattr(model, name) for name in ("start", "step", "start_id")):
        raise ValueError(
            "`model` must be one that reads a source and writes step by step, with "
            "`start`, `step` and `start_id`, such as Seq2SeqTransformer. Received: "
            f"{type(model).__name__}."
        )
    source_size = getattr(model, "source_vocabulary_size", None)
    for tokenizer, size, side in (
        (source_tokenizer, source_size or model.vocabulary_size, "source"),
        (target_tokenizer, model.vocabulary_size, "target"),
    ):
        if tokenizer.vocabulary_size > size:
            raise ValueError(
                f"The {side} tokenizer has {tokenizer.vocabulary_size} ids, but the "
                f"model only {size}. Use the tokenizer that it was built for."
            )
    if source_tokenizer.pad_id != target_tokenizer.pad_id:
        raise ValueError(
            "Both tokenizers must have one pad_id. Received: "
            f"{source_tokenizer.pad_id} (source), {target_tokenizer.pad_id} (target)."
        )
    pad_id, bos_id, eos_id = (
        getattr(target_tokenizer, f"{name}_id") for name in ("pad", "bos", "eos")
    )
    ids = {
        "start_id": [bos_id, eos_id, pad_id],  # eos: BART's, pad: T5's and Marian's
        "stop_id": [eos_id],
        "pad_id": [pad_id],
    }
    other = {n: known for n, known in ids.items() if getattr(model, n) not in known}
    if other:
        got = ", ".join(f"{name}={getattr(model, name)}" for name in other)
        raise ValueError(
            f"The model must have the ids of the target tokenizer, {other}. Received a "
            f"model with {got}."
        )
    _check_positions(model.position_limit, max_length)


def check_generator_parts(
    model, tokenizer, *, max_length: int | None, add_bos: bool
) -> int:
    """Refuse a model and a tokenizer that do not fit one another.

    Returns:
        `max_length`, or its default.

    Raises:
        ValueError: A model that reads a source, fewer ids than the tokenizer's, other
            special ids, no bos id where texts are to begin with it, a `max_length`
            out of range.
    """
    if getattr(model, "start_id", -1) is not None:
        raise ValueError(
            "`model` must be a language model, which writes on from a prompt, such as "
            f"LanguageModel. Received: {type(model).__name__}."
        )
    size = tokenizer.vocabulary_size
    if model.pad_id is None and tokenizer.pad_id == size - 1:
        size -= 1  # an id that the tokenizer added, and that no text has
    if size > model.vocabulary_size:
        raise ValueError(
            f"The tokenizer has {size} ids, but the model only "
            f"{model.vocabulary_size}. Use the tokenizer that it was built for."
        )
    own = own_settings(model)
    stops = own.get("stop_ids", model.stop_id)
    if tokenizer.eos_id not in (stops if isinstance(stops, list) else [stops]):
        raise ValueError(
            f"The model must have the tokenizer's eos id, stop_id={tokenizer.eos_id}. "
            f"Received a model with stop_id={stops}."
        )
    # Without a pad token of its own it pads nothing here.
    if _has_pad(tokenizer) and model.pad_id not in (None, tokenizer.pad_id):
        raise ValueError(
            f"The model must have the tokenizer's pad_id={tokenizer.pad_id}, or None. "
            f"Received a model with pad_id={model.pad_id}."
        )
    if add_bos and tokenizer.bos_id is None:
        raise ValueError(
            "`add_bos=True`, but the tokenizer has no bos id. Pass add_bos=False."
        )
    if max_length is None:
        return model.position_limit or 512
    check_integer("max_length", max_length, 2)
    _check_positions(model.position_limit, max_length)
    return max_length


def _has_pad(tokenizer):
    """Whether a tokenizer has a pad token; without one another's id stands for it."""
    return "pad" in getattr(tokenizer, "special_tokens", {"pad": ""})


def warn_of_shared_ids(model, *ends):
    """Warn the caller's caller if the model takes the ends of texts for padding.

    Args:
        model: The model.
        *ends: The ids that begin or end texts; `None` for one that there is not.
    """
    if model.pad_id is not None and model.pad_id in ends:
        warnings.warn(
            f"Padding and the ends of texts have one id, {model.pad_id}. Here they are "
            "told apart by length. Where you call the model yourself, pass a "
            "`padding_mask`.",
            stacklevel=3,
        )


def _check_positions(limit, max_length):
    if limit is not None and limit < max_length:
        raise ValueError(
            f"The model has positions for {limit} tokens, fewer than `max_length="
            f"{max_length}`. Pass max_length={limit}."
        )
