"""A saved folder says the ids of its tokenizer, and none that nobody knows."""

import json

import pytest
from tiny_checkpoints import make

import keras_transformer as kt
from keras_transformer.pretrained import from_pretrained, save_pretrained
from keras_transformer.tokenizers import HuggingFaceTokenizer

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
FILES = ("config.json", "generation_config.json")


def tokenizer(bos, eos):
    words = {f"word{id}": id for id in range(23)}
    model = tokenizers.models.WordLevel(words, unk_token="word3")
    roles = {"bos": f"word{bos}", "eos": f"word{eos}"}
    return HuggingFaceTokenizer(tokenizers.Tokenizer(model), roles)


def said(folder, name):
    return [json.loads((folder / file).read_text("utf-8")).get(name) for file in FILES]


@pytest.mark.parametrize("key", ["gpt2", "llama", "bart", "marian", "t5"])
def test_the_id_of_bos_is_the_tokenizers(key, tmp_path):
    make(key, bos_token_id=5, eos_token_id=1).save_pretrained(tmp_path / "theirs")
    model, _ = from_pretrained(tmp_path / "theirs", tokenizer=False)
    save_pretrained(model, tokenizer(5, 1), tmp_path / "ours")
    assert said(tmp_path / "ours", "bos_token_id") == [5, 5]
    assert said(tmp_path / "ours", "eos_token_id") == [1, 1]
    again, _ = from_pretrained(tmp_path / "ours", tokenizer=False)
    assert again.stop_id == model.stop_id == 1


@pytest.mark.parametrize("key", ["gpt2", "llama", "bart"])
def test_without_a_tokenizer_no_id_of_bos_is_said(key, tmp_path):
    make(key).save_pretrained(tmp_path / "theirs")
    model, _ = from_pretrained(tmp_path / "theirs", tokenizer=False)
    save_pretrained(model, None, tmp_path / "ours")
    assert said(tmp_path / "ours", "bos_token_id") == [None, None]
    config = transformers.AutoConfig.from_pretrained(tmp_path / "ours")
    assert config.bos_token_id is None  # not the one of the class
    assert config.eos_token_id == model.stop_id


def test_an_encoder_has_the_ids_of_its_tokenizer_too(tmp_path):
    make("roberta").save_pretrained(tmp_path / "theirs")
    model, _ = from_pretrained(tmp_path / "theirs", tokenizer=False)
    assert isinstance(model, kt.TextEncoder)
    save_pretrained(model, tokenizer(7, 8), tmp_path / "ours")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "ours")
    assert (config.bos_token_id, config.eos_token_id) == (7, 8)
    transformers.AutoModel.from_pretrained(tmp_path / "ours")
