"""Whether a translating model and its tokenizers fit one another."""


def check_translator_parts(model, source_tokenizer, target_tokenizer, max_length: int):
    """Refuse a model and tokenizers that do not fit one another.

    Raises:
        ValueError: Fewer ids than the tokenizers', other special ids, fewer positions
            than `max_length`.
    """
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
    limit = model.position_limit
    if limit is not None and limit < max_length:
        raise ValueError(
            f"The model has positions for {limit} tokens, fewer than `max_length="
            f"{max_length}`. Pass max_length={limit}."
        )
