"""Every family is strict both ways: nothing is left over, nothing is missing."""

import json
import re

import numpy as np
import pytest
from tiny_checkpoints import make

from keras_transformer.pretrained import from_pretrained
from keras_transformer.pretrained.checkpoint import Checkpoint
from keras_transformer.pretrained.config import Config
from keras_transformer.pretrained.families import FAMILIES, find_family
from keras_transformer.pretrained.weight_map import fill

pytest.importorskip("transformers")
safetensors = pytest.importorskip("safetensors.numpy")
KEYS = ("bert-masked", "distilbert", "roberta", "xlm-roberta", "gpt2", "llama", "t5")
KEYS += ("bart", "marian")


class Shapes:
    """A checkpoint with names and shapes, whose weights nobody may read."""

    def __init__(self, shapes):
        self.shapes = shapes

    def read(self, name):
        raise AssertionError(f"{name} was read")


def refill(model, family, shapes):
    fill(
        model,
        Shapes(shapes),
        family.rules(model),
        rename=family.rename,
        tied=family.tied(model),
        ignored=family.ignored_of(model),
        zeros=family.zeros(model),
    )


@pytest.mark.parametrize("key", KEYS)
def test_every_tensor_is_needed_and_has_its_shape(key, tmp_path):
    make(key).save_pretrained(tmp_path)
    model, _ = from_pretrained(tmp_path, tokenizer=False)
    config, shapes = Config.read(tmp_path), Checkpoint(tmp_path).shapes
    family, model_class = find_family(config)
    family.settings(config, model_class, Checkpoint(tmp_path))
    needed = {
        name: shape
        for name, shape in shapes.items()
        if not any(re.fullmatch(p, family.rename(name)) for p in family.ignored)
    }
    assert len(needed) > 20
    for name, shape in needed.items():
        short = re.escape(family.rename(name))
        rest = {n: s for n, s in shapes.items() if n != name}
        with pytest.raises(ValueError, match=f"lacks the tensor '{short}'"):
            refill(model, family, rest)
        with pytest.raises(ValueError, match=f"'{re.escape(name)}' must have the sh"):
            refill(model, family, {**shapes, name: (shape[0] + 1, *shape[1:])})
        more = f"{name}_more"
        with pytest.raises(ValueError, match=f"has the tensor '{short}_more', for wh"):
            refill(model, family, {**shapes, more: shape})


@pytest.mark.parametrize("key", KEYS)
def test_what_does_not_fit_is_refused_before_a_weight_is_read(
    key, tmp_path, monkeypatch
):
    make(key).save_pretrained(tmp_path)
    monkeypatch.setattr(Checkpoint, "read", Shapes.read)
    path = tmp_path / "model.safetensors"
    whole = safetensors.load_file(path)
    name = next(n for n in sorted(whole) if re.search(r"\.\d+\..*weight", n))
    for tensors, message in (
        ({name: None}, "lacks the tensor '.*"),
        ({"more.weight": np.ones(2)}, "has the tensor 'more.weight', for which"),
        ({name: np.ones(3, "float32")}, f"'{name}' must have the shape"),
    ):
        changed = {n: x for n, x in {**whole, **tensors}.items() if x is not None}
        safetensors.save_file(changed, path, metadata={"format": "pt"})
        with pytest.raises(ValueError, match=message):
            from_pretrained(tmp_path, tokenizer=False)
    config = tmp_path / "config.json"
    values = json.loads(config.read_text("utf-8"))
    config.write_text(json.dumps({**values, "new_rotation": 3}))
    with pytest.raises(ValueError, match="settings that are not known: new_rotation=3"):
        from_pretrained(tmp_path, tokenizer=False)


def test_all_families_are_tested():
    types = {make(key).config.model_type for key in KEYS}
    assert types == {family.model_type for family in FAMILIES}


@pytest.mark.parametrize("key", ["llama-bare", "gpt2-bare"])
def test_a_model_without_a_head_has_to_tie_one(key, tmp_path):
    make(key, tie_word_embeddings=False).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="has no head.*nothing says how the model"):
        from_pretrained(tmp_path, tokenizer=False)


# What published files of these families have beside transformers' settings of today.
OLD_FILES = {
    "distilbert": {"tie_weights_": True},
    "marian": {
        "add_bias_logits": False,
        "add_final_layer_norm": False,
        "extra_pos_embeddings": 53685,
        "normalize_before": False,
        "normalize_embedding": False,
        "static_position_embeddings": True,
    },
    "bart": {
        "author": "someone",
        "do_blenderbot_90_layernorm": False,
        "extra_pos_embeddings": 2,
        "kobart_version": 2.0,
        "normalize_before": False,
        "normalize_embedding": True,
        "static_position_embeddings": False,
    },
}


# What published files have that no model reads; the last line of old full dumps.
IDLE = {
    "gpt2": {"n_special": 0, "predict_special_tokens": True, "license": "cc-by-nc-sa"},
    "llama": {
        "is_llama_config": True,
        "rope_interleaved": False,
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
        "max_sequence_length": 2048,
        "unsloth_fixed": True,
        "architectures": ["LLaMAForCausalLM"],
    },
    "t5": {
        "architectures": ["T5WithLMHeadModel"],
        "_attn_implementation_autoset": True,
    },
    "bert": {"eos_token_ids": 0, "xla_device": None, "decoder_start_token_id": None},
}


@pytest.mark.parametrize("key", IDLE)
def test_settings_that_no_model_reads_are_passed_over(key, tmp_path):
    make(key).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **IDLE[key]}))
    model, _ = from_pretrained(tmp_path, tokenizer=False)
    assert model.weights
    values = {**json.loads(path.read_text()), "xla_device": 1}  # null is not set
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="not known: xla_device=1"):
        from_pretrained(tmp_path, tokenizer=False)


def test_a_config_without_model_type_is_told_the_family_of_its_architecture():
    for family in FAMILIES:
        for name in family.architectures:
            said = f'no model_type.* "model_type": "{family.model_type}" for {name}; kn'
            with pytest.raises(ValueError, match=said):
                find_family(Config({"architectures": [name]}))
    for names in (None, [], ["GPT2ForTokens"]):
        with pytest.raises(ValueError, match="Add it to config.json; known are bert, "):
            find_family(Config({"architectures": names}))


@pytest.mark.parametrize("key", OLD_FILES)
def test_settings_of_old_files_are_read_and_held_to_what_is_computed(key, tmp_path):
    make(key).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, **OLD_FILES[key]}))
    from_pretrained(tmp_path, tokenizer=False)
    for name, value in OLD_FILES[key].items():
        if not isinstance(value, bool):
            continue
        other = {**values, **OLD_FILES[key], name: not value}
        path.write_text(json.dumps(other))
        with pytest.raises(ValueError, match=f"The config has {name}="):
            from_pretrained(tmp_path, tokenizer=False)
