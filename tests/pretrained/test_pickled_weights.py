"""Pickled weights are refused, and the way out that is told loses no weight."""

import json
import re

import pytest
from test_hub import Hub
from tiny_checkpoints import inputs, main, make, run, valid

from cases.helpers import assert_close
from keras_transformer.pretrained import from_pretrained
from keras_transformer.pretrained.families import FAMILIES

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
hub = pytest.importorskip("huggingface_hub")
ADVICE = (
    r"neither 'model.safetensors' nor .*Python pickle.*transformers\.(\w+)"
    r"\.from_pretrained\(source\).*AutoTokenizer\.from_pretrained\(source\)"
)


def pickled(key, folder):
    """Write a model of transformers as they all were: its weights pickled."""
    theirs = make(key)
    theirs.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), folder / "pytorch_model.bin")
    return theirs


def told(source):
    with pytest.raises(FileNotFoundError, match=ADVICE) as found:
        from_pretrained(source, tokenizer=False)
    return re.search(ADVICE, str(found.value))[1]


@pytest.mark.parametrize("key", ["marian", "t5-1.1", "bert-masked", "llama"])
def test_what_is_converted_as_told_has_every_weight(key, tmp_path):
    theirs = pickled(key, tmp_path / "old")
    their_class = getattr(transformers, told(tmp_path / "old"))
    their_class.from_pretrained(tmp_path / "old").save_pretrained(tmp_path / "new")
    ours, _ = from_pretrained(tmp_path / "new", tokenizer=False)
    batch = inputs(key, theirs)
    expected = valid(main(run(theirs, batch)), batch)
    assert_close(valid(main(ours(batch)), batch), expected, atol=1e-4)


def test_a_repository_of_the_hub_is_told_the_same(tmp_path, monkeypatch):
    pickled("gpt2", tmp_path / "repository")
    fake = Hub(tmp_path / "repository", tmp_path)
    monkeypatch.setattr(hub, "snapshot_download", fake.download)
    assert told("someone/tiny") == "GPT2LMHeadModel"
    assert "pytorch_model.bin" not in fake.downloaded()


def test_the_class_that_is_told_is_one_of_today(tmp_path):
    pickled("t5", tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text("utf-8"))
    for names in (["T5WithLMHeadModel"], [], None):
        path.write_text(json.dumps({**values, "architectures": names}))
        assert told(tmp_path) == "T5ForConditionalGeneration"
    for family in FAMILIES:
        for name in family.architectures:
            today = family.renamed.get(name, name)
            assert getattr(transformers, today).__name__ == today
