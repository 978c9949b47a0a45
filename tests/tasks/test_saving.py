"""A task is saved whole or not at all, and what is no whole task is refused."""

import os
import shutil
from pathlib import Path

import keras
import pytest

from keras_transformer import TextClassifier
from keras_transformer.cli import main
from keras_transformer.tasks import saving

TEXTS, LABELS = (
    ["정말 재미있다", "참 좋은 영화", "너무 지루하다", "돈이 아깝다"],
    [1, 1, 0, 0],
)
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


@pytest.fixture(scope="module")
def classifier():
    keras.utils.set_random_seed(0)
    return TextClassifier.from_texts(
        TEXTS, LABELS, vocabulary_size=60, embed_dim=16, num_heads=2, dense_dim=16
    )


def test_saving_replaces_a_task_and_nothing_else(classifier, tmp_path, monkeypatch):
    classifier.save(tmp_path / "model")
    classifier.save(tmp_path / "model")
    assert sorted(os.listdir(tmp_path)) == ["model"]
    (tmp_path / "model" / "notes.txt").write_text("mine")
    (tmp_path / "latest").symlink_to(tmp_path / "model")
    classifier.save(tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "latest" / "notes.txt").read_text() == "mine"
    TextClassifier.load(tmp_path / "model")
    for inside, word in ((tmp_path / "model", "is"), (tmp_path / "model/in", "holds")):
        inside.mkdir(exist_ok=True)
        monkeypatch.chdir(inside)
        with pytest.raises(ValueError, match=f"{word} the folder that this program"):
            classifier.save(tmp_path / "model")
    TextClassifier.load(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.txt").write_text("years of work")
    with pytest.raises(ValueError, match="not a saved task.*Nothing was written"):
        classifier.save(tmp_path / "papers")
    assert (tmp_path / "papers" / "thesis.txt").read_text() == "years of work"


def test_a_save_that_cannot_take_its_place_leaves_everything_as_it_was(
    classifier, tmp_path, monkeypatch
):
    folder, rename = tmp_path / "model", Path.rename
    classifier.save(folder)
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("mine")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for stuck in ("b.txt", "new"):
        # As of a mount point, or of what another program holds open.
        def fail(path, target, stuck=stuck):
            if path.name == stuck and Path(target).parent.name != "old":
                raise PermissionError(f"{path} is in use")
            return rename(path, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", fail)
            with pytest.raises(PermissionError, match="in use"):
                classifier.save(folder)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert os.listdir(tmp_path) == ["model"]


def test_what_a_killed_save_had_moved_is_moved_on(classifier, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "PAUSE", 0)
    folder, work = tmp_path / "[모델]", tmp_path / ".saving-abc"
    old, new = work / "old" / folder.name, work / "new"
    classifier.save(folder)
    notes = {"a.txt": "mine", "b.txt": "too"}
    for name, text in notes.items():
        (folder / name).write_text(text)
    names = sorted(os.listdir(folder))
    texts = tmp_path / "texts.txt"
    texts.write_text("정말", "utf-8")
    for following in (
        lambda folder: not TextClassifier.load(folder),
        classifier.save,
        lambda folder: main(["predict", str(folder), str(texts)]),
    ):
        # As it lies when the process is killed between the two renames.
        shutil.copytree(folder, new, ignore=lambda *_: ["a.txt"])
        old.parent.mkdir()
        folder.rename(old)
        (old / "b.txt").unlink()  # it was moved already
        (old / "model.keras").write_bytes(b"older")  # what is new stays
        assert not following(folder)
        assert sorted(os.listdir(tmp_path)) == ["[모델]", "texts.txt"]
        assert sorted(os.listdir(folder)) == names
        assert {name: (folder / name).read_text() for name in notes} == notes
    # A save that came to its end, and a task that was removed since, stay so.
    old.parent.mkdir(parents=True)
    folder.rename(old)
    with pytest.raises(ValueError, match="is not a saved TextClassifier"):
        TextClassifier.load(folder)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda folder: (folder / "task.json").unlink(), "it has no task.json"),
        (lambda folder: (folder / "task.json").write_text("{"), "cannot be read"),
        (lambda folder: (folder / "task.json").write_text("[]"), "names no task"),
        (
            lambda folder: (folder / "task.json").write_text('{"task": "Translator"}'),
            "names no task or no files",
        ),
        (lambda folder: (folder / "tokenizer.model").unlink(), "is missing"),
        (lambda folder: (folder / "model.keras").write_bytes(b"cut"), "has 3 bytes"),
    ],
)
def test_a_damaged_folder_is_refused(classifier, tmp_path, damage, message):
    classifier.save(tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(ValueError, match=message):
        TextClassifier.load(tmp_path / "model")
