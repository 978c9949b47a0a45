"""What the models share: settings of their stacks, and their inputs."""

import inspect

from keras import ops

from keras_transformer.layers.base import as_integers
from keras_transformer.layers.transformer_stack import TransformerStack
from keras_transformer.ops import masks
from keras_transformer.ops.backend import is_traced, static_size

COMMON = ("name", "dtype", "trainable")


def keyword_only(layer_class) -> tuple[str, ...]:
    """Return the names of the settings of a class that are given by keyword only."""
    parameters = inspect.signature(layer_class).parameters.items()
    return tuple(name for name, p in parameters if p.kind is p.KEYWORD_ONLY)


# What a model leaves to its user; causality and cross-attention are its own.
STACK_SETTINGS = tuple(
    name
    for name in keyword_only(TransformerStack)
    if name not in ("causal", "cross_attention")
)


def setting_names(build) -> tuple[str, ...]:
    """Return the names of all settings of a model's class, or of its builder.

    Args:
        build: A model's class, or a function that builds a model.
    """
    parameters = inspect.signature(build).parameters.values()
    names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    if len(names) < len(parameters):  # **settings: those of a part, and of every model
        names += [*getattr(build, "part_settings", ()), *COMMON]
    return tuple(names)


def split_settings(model_class, settings: dict) -> tuple[dict, dict]:
    """Tell the settings of a model's stacks from those of every Keras model.

    Returns:
        The settings of `TransformerStack`, and `name`, `dtype`, `trainable`.

    Raises:
        ValueError: A setting of neither.
    """
    allowed = model_class.part_settings
    unknown = sorted(set(settings) - {*allowed, *COMMON})
    if unknown:
        raise ValueError(
            f"{model_class.__name__} has no setting {', '.join(map(repr, unknown))}. "
            "Beside the arguments in its own signature it takes those of "
            f"TransformerStack: {', '.join(allowed)}."
        )
    common = {name: settings[name] for name in COMMON if name in settings}
    return {k: v for k, v in settings.items() if k not in COMMON}, common


# Setting -> the one that it repeats if it is not given.
_REPEATED = {
    "attention_dropout": "dropout",
    "num_key_value_heads": "num_heads",
    "num_decoder_layers": "num_layers",
    "num_decoder_heads": "num_heads",
    "decoder_dense_dim": "dense_dim",
    "source_vocabulary_size": "vocabulary_size",
    "head_activation": "activation",
}


def effective_settings(settings: dict) -> dict:
    """Write a model's `get_config` so that equal models have equal settings.

    What is left to a default has the value that it stands for; what another setting
    makes idle is `None`.
    """
    settings = dict(settings)
    if settings.get("key_dim", 0) is None:
        settings["key_dim"] = settings["embed_dim"] // settings["num_heads"]
    for name, other in _REPEATED.items():
        if settings.get(name, 0) is None:
            settings[name] = settings[other]
    if settings.get("final_norm", 0) is None:
        settings["final_norm"] = settings["normalize_first"]
    if settings["attention_scale"] == settings["key_dim"] ** -0.5:
        settings["attention_scale"] = None
    if settings["positions"] != "learned":
        settings["sequence_length"] = None
    if settings["positions"] is None and "position_offset" in settings:
        settings["position_offset"] = None
    if settings["positions"] != "sinusoidal" and "position_layout" in settings:
        settings["position_layout"] = None
    return settings


def read_tokens(inputs, prefix: str = "", pad_id: int | None = None, first=False):
    """Take the ids and the padding mask of one sequence out of a model's inputs.

    Args:
        inputs: Dict with `<prefix>token_ids` (B, T) and perhaps
            `<prefix>padding_mask` (B, T); or the ids alone, for one sequence.
        prefix: `"encoder_"`, `"decoder_"` or nothing.
        pad_id: The id that is padding where there is no mask; `None` for none.
        first: Whether the first token is one even if it is `pad_id`, as in the
            decoders of T5 and Marian, which start with it.

    Returns:
        int32 ids (B, T), and a boolean mask (B, T) or `None`.

    Raises:
        ValueError: There are no ids, they have another rank, or the mask does not
            fit them.
    """
    name = f"{prefix}token_ids"
    if not isinstance(inputs, dict) and not prefix:
        inputs = {name: inputs}
    if not isinstance(inputs, dict) or name not in inputs:
        got = sorted(inputs) if isinstance(inputs, dict) else type(inputs).__name__
        raise ValueError(f"`inputs` must be a dict with {name!r}. Received: {got}.")
    ids = as_integers(name, inputs[name])
    if len(ids.shape) != 2:
        raise ValueError(
            f"`{name}` must have the shape (batch, time). Received shape "
            f"{tuple(ids.shape)}."
        )
    mask_name = f"{prefix}padding_mask"
    mask = inputs.get(mask_name)
    if mask is not None:
        mask = masks.check_padding(mask_name, mask, ids)
        return ids, ops.broadcast_to(mask, ops.shape(ids))
    if pad_id is None:
        return ids, None
    mask = masks.padding_mask(ids, pad_id)
    if first:
        mask = ops.logical_or(mask, ops.arange(ops.shape(ids)[1], dtype="int32") == 0)
    return ids, mask


def token_positions(model, ids, mask=None):
    """Number the tokens of each text, wherever its padding stands.

    Args:
        model: A `PositionedModel`.
        ids: (B, T).
        mask: Boolean (B, T), `False` for padding, which is not counted.

    Returns:
        int32 (T,), or (B, T) with a mask.

    Raises:
        ValueError: A text longer than the model's learned positions.
    """
    check_length(model, ids, mask)
    if mask is None:
        return ops.arange(ops.shape(ids)[1], dtype="int32")
    return ops.maximum(ops.cumsum(ops.cast(mask, "int32"), axis=1) - 1, 0)


def as_tokens(tokens):
    """Return one token id a row, (B,), as int32."""
    tokens = as_integers("tokens", tokens)
    if len(tokens.shape) != 1:
        raise ValueError(
            "`tokens` must be one id a row, of shape (batch,). Received shape "
            f"{tuple(tokens.shape)}."
        )
    return tokens


def as_column(tokens):
    """Return one token id a row, (B,), as ids (B, 1)."""
    return ops.expand_dims(as_tokens(tokens), 1)


def check_length(model, ids, mask=None):
    """Refuse a text that is longer than a model's learned positions.

    Padding is not counted where there is a mask, unless this has no values yet,
    inside a compiled function.
    """
    limit, length = model.position_limit, static_size(ids, 1)
    if limit is None or length is None or length <= limit:
        return
    if mask is not None and not is_traced(mask):
        length = _longest(mask)
    if length > limit:
        raise ValueError(
            f"A text of {length} tokens does not fit the model's learned positions, "
            f"`sequence_length={limit}`. Shorten it, or build the model with a larger "
            "`sequence_length` or with other `positions`."
        )


def check_slots(model, ids, mask, max_length: int):
    """Refuse a cache that is too short for the prompt or longer than the positions.

    Args:
        model: A `PositionedModel`.
        ids: Prompt (B, S), or `None`.
        mask: Its mask (B, S), or `None`.
        max_length: Number of slots.
    """
    length = 0 if ids is None else static_size(ids, 1)
    if length is None:
        return
    if length > max_length:
        raise ValueError(
            f"`max_length` must be at least the {length} tokens of the prompt. "
            f"Received: max_length={max_length}."
        )
    limit = model.position_limit
    if limit is None or max_length <= limit:
        return
    padded = mask is not None and length > 0
    if padded and is_traced(mask):
        return  # with padding it may fit: who compiles `start` knows the lengths
    longest = max_length - length + (_longest(mask) if padded else length)
    if longest > limit:
        raise ValueError(
            f"A prompt and new tokens of {longest} in all do not fit the model's "
            f"learned positions, `sequence_length={limit}`. Shorten the prompt, or "
            "ask for fewer tokens."
        )


def _longest(mask):
    counts = ops.sum(ops.cast(mask, "int32"), axis=1)
    return int(ops.convert_to_numpy(ops.max(counts, initial=0)))
