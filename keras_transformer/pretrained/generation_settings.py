"""How a checkpoint wants to be written with: its generation config, in and out.

`generation_config.json`, or `config.json` where there is none, become
`model.generation`, so that `generate` and `beam_search` do what transformers'
`generate` does. Two things have no place here. A language model's `max_length` and
`min_length` count its prompt too: give `max_new_tokens`. And transformers ends after
20 tokens where nothing is said, `generate` here after 64. What would change the text
and is not known is refused.
"""

from pathlib import Path

from keras_transformer.generation.sampling import Sampling
from keras_transformer.pretrained.config import read_json

FILE = "generation_config.json"
# Names that are the same here, with the values that change nothing.
_SAME = {
    "max_new_tokens": None,
    "min_new_tokens": 0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "renormalize_logits": False,
    "num_beams": 1,
    "length_penalty": 1.0,
    "early_stopping": False,
}
_DRAWN = {"temperature": 1.0, "top_k": 50, "top_p": 1.0}  # transformers' defaults
# Settings of ours that are not known there, with the values that change nothing.
_OURS = {"length_normalization": "length", "coverage_penalty": 0}
_FORCED = ("forced_bos_token_id", "forced_eos_token_id")
_LENGTHS = {"max_length": "max_new_tokens", "min_length": "min_new_tokens"}
# Settings that are not known here, with the values that change nothing.
_UNKNOWN = {
    "begin_suppress_tokens": [],
    "constraints": None,
    "diversity_penalty": 0.0,
    "dola_layers": None,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "exponential_decay_length_penalty": None,
    "force_words_ids": None,
    "guidance_scale": 1.0,
    "max_time": None,
    "num_beam_groups": 1,
    "penalty_alpha": 0.0,
    "sequence_bias": None,
    "stop_strings": None,
    "token_healing": False,
    "watermarking_config": None,
}
_UNKNOWN_DRAWN = {
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "min_p": None,
    "top_h": None,
    "typical_p": 1.0,
}
# What says nothing about the text of one prompt: outputs, speed, ids taken elsewhere.
_IDLE = frozenset(
    """_commit_hash _from_model_config transformers_version num_return_sequences
    output_attentions output_hidden_states output_scores output_logits
    return_dict_in_generate use_cache cache_implementation cache_config
    max_cache_len return_legacy_cache use_mtp remove_invalid_values bos_token_id
    pad_token_id is_assistant num_assistant_tokens num_assistant_tokens_schedule
    assistant_confidence_threshold assistant_early_exit prompt_lookup_num_tokens
    max_matching_ngram_size assistant_lookbehind target_lookbehind
    assistant_ensemble_weight speculation_type compile_config disable_compile
    continuous_batching_config low_memory prefill_chunk_size do_sample eos_token_id
    decoder_start_token_id bad_words_ids suppress_tokens""".split()
)


def read_generation(folder, config: dict, settings: dict, defaults: dict) -> dict:
    """Return the settings of a model, with those of its generation config.

    Args:
        folder: The checkpoint.
        config: The content of `config.json`.
        settings: The model's settings so far.
        defaults: What transformers' config class says where `config.json` does not.

    Raises:
        ValueError: A setting that is not known here and changes the text.
    """
    path = Path(folder) / FILE
    values = read_json(path) if path.is_file() else _of_config({**defaults, **config})
    _refuse_unknown(values, path.is_file())
    settings = dict(settings)
    found = {
        name: values[name]
        for name, idle in _SAME.items()
        if values.get(name, idle) not in (None, idle)
    }
    if values.get("do_sample"):
        if "num_beams" in found:
            raise _refused("do_sample=True with num_beams", found["num_beams"])
        drawn = {
            name: idle if values.get(name) is None else values[name]
            for name, idle in _DRAWN.items()
        }
        found |= {**drawn, "temperature": float(drawn["temperature"])}
    source = "start_id" in settings
    for name, ours in _LENGTHS.items():
        if source and values.get(name):  # the start id is counted there, not here
            found.setdefault(ours, max(values[name] - 1, 0))
    for name in _FORCED:
        if values.get(name) is not None:
            found[name] = _single(name, values[name])
    if not source and found.pop("forced_bos_token_id", None) is not None:
        raise _refused("forced_bos_token_id", values["forced_bos_token_id"])
    if never := _never(values):
        found["suppress_tokens"] = never
    stops = values.get("eos_token_id")
    if isinstance(stops, list) and len(stops) > 1:
        found["stop_ids"] = list(stops)
        stops = stops[0] if settings["stop_id"] not in stops else settings["stop_id"]
    if stops is not None:
        settings["stop_id"] = _single("eos_token_id", stops)
    if source and values.get("decoder_start_token_id") is not None:
        start = values["decoder_start_token_id"]
        settings["start_id"] = _single("decoder_start_token_id", start)
    return {**settings, "generation": found or None}


def _of_config(values):
    """Return what a config says of generation; old ones force bos by a flag."""
    if not values.get("force_bos_token_to_be_generated"):
        return values
    return {**values, "forced_bos_token_id": values.get("bos_token_id")}


def write_generation(model, bos_id: int | None = None) -> dict:
    """Return the content of `generation_config.json` for a model of ours.

    Args:
        model: The model.
        bos_id: Its tokenizer's id of a text's beginning.

    Raises:
        ValueError: A setting that has no place there and changes the text.
    """
    ours = model.generation or {}
    for name, idle in _OURS.items():
        if ours.pop(name, idle) != idle:
            raise _unwritten(name, model.generation[name])
    if model.start_id is None and ours.get("forced_bos_token_id") is not None:
        raise _unwritten("forced_bos_token_id", ours["forced_bos_token_id"])
    if ours.get("stop_ids") == []:
        raise _unwritten("stop_ids", [])
    values = {"eos_token_id": ours.pop("stop_ids", model.stop_id)}
    values |= {"pad_token_id": model.pad_id, "bos_token_id": bos_id}
    if model.start_id is not None:
        values["decoder_start_token_id"] = model.start_id
        if "max_new_tokens" in ours:
            # 'max_length' as transformers' own files have it, the start id included.
            values["max_length"] = ours.pop("max_new_tokens") + 1
    # A temperature of 0 and a top_k of 1 are greedy here, and an error there.
    if Sampling(**{name: ours.get(name) for name in _DRAWN}).sampled:
        if ours.get("num_beams", 1) > 1:  # it would draw beams
            drawn = [name for name in _DRAWN if ours.get(name) is not None]
            raise _unwritten(f"{', '.join(drawn)} and num_beams", ours["num_beams"])
        values |= {"do_sample": True, **_DRAWN, "top_k": 0}
    else:
        ours = {name: x for name, x in ours.items() if name not in _DRAWN}
    return {k: v for part in (values, ours) for k, v in part.items() if v is not None}


def _refuse_unknown(values, own_file):
    idle = dict(_UNKNOWN)
    if values.get("do_sample"):
        idle |= _UNKNOWN_DRAWN
    for name, neutral in idle.items():
        if values.get(name) and values[name] != neutral:
            raise _refused(name, values[name])
    if not own_file:  # the config's other settings are not of generation
        return
    known = {*idle, *_UNKNOWN_DRAWN, *_SAME, *_DRAWN, *_FORCED, *_LENGTHS, *_IDLE}
    for name in sorted(set(values) - known):
        if values[name] not in (None, False, [], {}):
            raise _refused(name, values[name])


def _never(values):
    """Return the ids that are never written, in both ways of saying it."""
    found = list(values.get("suppress_tokens") or ())
    for word in values.get("bad_words_ids") or ():
        if len(word) != 1:
            raise _refused("bad_words_ids", word, " A word must be one token.")
        found += word
    return sorted(set(found))


def _single(name, value):
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused(name, value)
    return value if value >= 0 else None


def _refused(name, value, more=""):
    return ValueError(
        f"The generation config has {name}={value!r}, which generation here has not."
        f"{more} The model is not loaded, since its texts would be others. Pass "
        f"generation=False to leave these settings out, or change {FILE}."
    )


def _unwritten(name, value):
    return ValueError(
        f"`model.generation` has {name}={value!r}, which {FILE} cannot say. Nothing "
        "was written. Set `model.generation` without it, save, and give it to the "
        "call that writes."
    )
