"""A null in a config says that a setting is not set, where transformers agrees."""

import json

import pytest
from tiny_checkpoints import inputs, main, make, run, valid

from cases.helpers import assert_close
from keras_transformer.pretrained import from_pretrained
from keras_transformer.pretrained.config import FIXED, Config

pytest.importorskip("transformers")
KEYS = ("bert-masked", "distilbert", "roberta", "xlm-roberta", "gpt2", "llama", "t5")
KEYS += ("bart", "marian")
# Settings that are true by default; transformers refuses a null or takes it for false.
UNTOLD = [("gpt2", "scale_attn_weights"), ("t5", "scale_decoder_outputs")]


def change(folder, without=(), **settings):
    path = folder / "config.json"
    values = {**json.loads(path.read_text()), **settings}
    path.write_text(json.dumps({n: x for n, x in values.items() if n not in without}))


def loaded(folder):
    return from_pretrained(folder, tokenizer=False)[0]


def assert_same(theirs, ours, batch):
    expected = valid(main(run(theirs, batch)), batch)
    assert_close(valid(main(ours(batch)), batch), expected, atol=1e-4)


@pytest.fixture
def required(monkeypatch):
    """The names of the settings that must have a value which is computed."""
    names, require = set(), Config.require

    def noting(config, name, *allowed, **more):
        names.add(name)
        return require(config, name, *allowed, **more)

    monkeypatch.setattr(Config, "require", noting)
    return names


@pytest.mark.parametrize("key", KEYS)
def test_a_null_says_that_a_setting_is_not_set(key, tmp_path, required):
    theirs = make(key)
    theirs.save_pretrained(tmp_path)
    loaded(tmp_path)
    names = (required | set(FIXED)) - {name for _, name in UNTOLD}
    change(tmp_path, **dict.fromkeys(names))
    assert_same(theirs, loaded(tmp_path), inputs(key, theirs))


@pytest.mark.parametrize("key", KEYS)
def test_transformers_takes_a_null_for_the_same_where_it_takes_one(
    key, tmp_path, required
):
    theirs = make(key)
    theirs.save_pretrained(tmp_path)
    loaded(tmp_path)
    change(tmp_path, **{n: None for n in required if not hasattr(theirs.config, n)})
    again = type(theirs).from_pretrained(tmp_path).eval()
    assert_same(again, loaded(tmp_path), inputs(key, theirs))


@pytest.mark.parametrize("name", FIXED)
def test_another_value_is_refused(name, tmp_path):
    make("bert").save_pretrained(tmp_path)
    change(tmp_path, **{name: "other"})
    with pytest.raises(ValueError, match=f"has {name}='other', which this library"):
        loaded(tmp_path)


@pytest.mark.parametrize("key", ["t5", "t5-1.1"])
def test_t5_scales_its_head_unless_the_config_says_false(key, tmp_path):
    theirs = make(key)
    theirs.save_pretrained(tmp_path)
    change(tmp_path, ["scale_decoder_outputs"], tie_word_embeddings=None)
    again = type(theirs).from_pretrained(tmp_path).eval()
    assert again.config.scale_decoder_outputs
    assert_same(again, loaded(tmp_path), inputs(key, theirs))


@pytest.mark.parametrize(
    "key, name",
    [
        ("bert-free", "tie_word_embeddings"),
        ("gpt2-free", "tie_word_embeddings"),
        ("marian-separate", "share_encoder_decoder_embeddings"),
    ],
)
def test_a_null_is_refused_where_the_tensors_say_that_it_is_false(key, name, tmp_path):
    make(key).save_pretrained(tmp_path)
    change(tmp_path, **{name: None})
    with pytest.raises(ValueError, match="but the checkpoint has other values|must ha"):
        loaded(tmp_path)


@pytest.mark.parametrize("key, name", UNTOLD)
def test_a_null_is_refused_where_the_tensors_say_nothing(key, name, tmp_path):
    make(key).save_pretrained(tmp_path)
    change(tmp_path, **{name: None})
    with pytest.raises(ValueError, match=f"{name}=None.* has True or False"):
        loaded(tmp_path)
