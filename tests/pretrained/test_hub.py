"""Ids of the hub: what is downloaded, and what its cache gives without a network."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny_checkpoints import make

import keras_transformer as kt
from cases.helpers import array, assert_close
from keras_transformer.pretrained import from_pretrained

pytest.importorskip("transformers")
hub = pytest.importorskip("huggingface_hub")
COMMITS = {"main": "1" * 40, "v2": "2" * 40}


@pytest.fixture
def folder(tmp_path):
    make("gpt2").save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


class Hub:
    """Downloads from a folder, by the library's own rules of patterns."""

    def __init__(self, repository, cache):
        self.repository = repository
        self.snapshot = cache / COMMITS["main"]
        self.asked = []

    def download(self, name, revision=None, allow_patterns=None, ignore_patterns=None):
        self.asked.append((name, revision))
        files = [path for path in self.repository.rglob("*") if path.is_file()]
        names = [path.relative_to(self.repository).as_posix() for path in files]
        for file in hub.utils.filter_repo_objects(
            names, allow_patterns=allow_patterns, ignore_patterns=ignore_patterns
        ):
            target = self.snapshot / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.repository / file, target)
        return str(self.snapshot)

    def downloaded(self):
        paths = [path for path in self.snapshot.rglob("*") if path.is_file()]
        return {path.relative_to(self.snapshot).as_posix() for path in paths}


def litter(folder):
    """Add what repositories hold beside the model."""
    for name in (
        "consolidated.safetensors",
        "adapter.safetensors",
        "pytorch_model.bin",
        "onnx/config.json",
        "onnx/model.safetensors",
        "original/tokenizer.model",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")


def test_the_hub_is_asked_for_ids_with_their_revision(folder, tmp_path, monkeypatch):
    litter(folder)
    fake = Hub(folder, tmp_path)
    monkeypatch.setattr(hub, "snapshot_download", fake.download)
    model, _ = from_pretrained("someone/tiny", revision="v1", tokenizer=False)
    assert fake.asked == [("someone/tiny", "v1")]
    assert isinstance(model, kt.LanguageModel)
    wanted = {"config.json", "generation_config.json", "model.safetensors"}
    assert fake.downloaded() == wanted


def test_of_several_files_those_of_the_index_are_downloaded(tmp_path, monkeypatch):
    folder = tmp_path / "sharded"
    theirs = make("gpt2")
    theirs.save_pretrained(folder, max_shard_size="2KB")
    shards = {path.name for path in folder.glob("*.safetensors")}
    assert len(shards) > 1
    litter(folder)
    fake = Hub(folder, tmp_path)
    monkeypatch.setattr(hub, "snapshot_download", fake.download)
    model, _ = from_pretrained("someone/tiny", tokenizer=False)
    # The second time for the commit of the first, should the branch move on.
    assert fake.asked == [("someone/tiny", None), ("someone/tiny", COMMITS["main"])]
    wanted = {"config.json", "generation_config.json", "model.safetensors.index.json"}
    assert fake.downloaded() == wanted | shards
    table = theirs.transformer.wte.weight.detach().numpy()
    assert_close(model.embedding.token_embedding.embeddings, table, atol=0)


def test_the_cache_is_read_without_a_network(folder, tmp_path, monkeypatch):
    cache = tmp_path / "hub"
    repository = cache / "models--someone--tiny"
    for name, commit in COMMITS.items():
        snapshot = repository / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / name).write_text(commit)
        more = {"max_shard_size": "2KB"} if name == "v2" else {}
        theirs = make("gpt2")
        theirs.transformer.wte.weight.data.fill_(float(commit[0]))
        theirs.save_pretrained(snapshot, **more)
        for file in list(snapshot.iterdir()):  # as the library lays its files out
            blob = repository / "blobs" / f"{name}-{file.name}"
            blob.parent.mkdir(exist_ok=True)
            file.rename(blob)
            file.symlink_to(Path("../../blobs") / blob.name)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    for revision, value in ((None, 1), ("main", 1), ("v2", 2), (COMMITS["v2"], 2)):
        model, _ = from_pretrained("someone/tiny", revision=revision, tokenizer=False)
        table = array(model.embedding.token_embedding.embeddings)
        assert np.unique(table) == [value]
    for name, revision in (("someone/tiny", "v3"), ("someone/absent", None)):
        with pytest.raises(FileNotFoundError, match="cached snapshot"):
            from_pretrained(name, revision=revision, tokenizer=False)
