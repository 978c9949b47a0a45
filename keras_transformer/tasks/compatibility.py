"""Whether a language model and a tokenizer fit one another."""

import warnings

from keras import ops

from keras_transformer.generation.limits import own_settings
from keras_transformer.ops.checks import check_integer


def check_parts(model, tokenizer, *, max_length: int | None, add_bos: bool) -> int:
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
    # A tokenizer without a pad token has another's id for it, and pads nothing here.
    pads = "pad" in getattr(tokenizer, "special_tokens", {"pad": ""})
    if pads and model.pad_id not in (None, tokenizer.pad_id):
        raise ValueError(
            f"The model must have the tokenizer's pad_id={tokenizer.pad_id}, or None. "
            f"Received a model with pad_id={model.pad_id}."
        )
    if add_bos and tokenizer.bos_id is None:
        raise ValueError(
            "`add_bos=True`, but the tokenizer has no bos id. Pass add_bos=False."
        )
    limit = model.position_limit
    if max_length is None:
        return limit or 512
    check_integer("max_length", max_length, 2)
    if limit is not None and limit < max_length:
        raise ValueError(
            f"The model has positions for {limit} tokens, fewer than `max_length="
            f"{max_length}`. Pass max_length={limit}."
        )
    return max_length


def warn_of_shared_ids(model, tokenizer):
    """Warn the caller's caller if the model takes the ends of texts for padding."""
    ends = (tokenizer.bos_id, tokenizer.eos_id)
    if model.pad_id is not None and model.pad_id in ends:
        warnings.warn(
            f"Padding and the ends of texts have one id, {model.pad_id}. Here they are "
            "told apart by length. Where you call the model yourself, pass a "
            "`padding_mask`.",
            stacklevel=3,
        )


def known_ids(size: int):
    """Return a processor that forbids the ids that a tokenizer of `size` has not."""

    def forbid_unknown(logits, history):
        known = ops.arange(logits.shape[-1], dtype="int32") < size
        return ops.where(known, logits, float("-inf"))

    return forbid_unknown
