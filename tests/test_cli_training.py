"""The command line's trainings: what they print, and how they are interrupted."""

import re

import keras
import numpy as np
import pytest

from cases.helpers import Interrupt, slow_on
from keras_transformer.cli import main
from keras_transformer.tasks import TextClassifier

ROWS = [("정말 재미있다", 1), ("너무 지루하다", 0), ("좋은 영화", 1), ("아깝다", 0)]

pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A command that trains a small classifier; texts are cut the same each time."""
    from keras_transformer.tasks.recipes import CLASSIFIERS

    for name, value in dict(embed_dim=16, num_heads=2, dense_dim=16).items():
        monkeypatch.setitem(CLASSIFIERS["chapter"].settings, name, value)
    file = tmp_path / "reviews.tsv"
    rows = [f"{text} {i}\t{label}" for i in range(15) for text, label in ROWS]
    file.write_text("document\tlabel\n" + "\n".join(rows), encoding="utf-8")
    command = ["train", "--data", str(file), "--recipe", "chapter", "--epochs", "2"]
    return [*command, "--vocabulary-size", "60", "--output"]


@slow_on("tensorflow")
def test_what_was_interrupted_or_not_saved_goes_on_to_the_same(
    command, tmp_path, capsys, monkeypatch
):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    keras.utils.set_random_seed(1)
    with monkeypatch.context() as patch:
        save = TextClassifier.save

        def full(classifier, folder):
            if folder == whole:
                raise OSError(28, "No space left on device")
            save(classifier, folder)

        patch.setattr(TextClassifier, "save", full)
        assert main([*command, str(whole)]) == 2
    errors = capsys.readouterr().err
    assert "No space left on device" in errors and "with --resume" in errors
    assert not whole.exists()
    assert main([*command, str(whole), "--resume"]) == 0
    output = capsys.readouterr().out
    assert "Epoch" not in output  # it was trained already
    check_report(output, whole)

    keras.utils.set_random_seed(1)
    with monkeypatch.context() as patch:
        fit = TextClassifier.fit
        patch.setattr(
            TextClassifier,
            "fit",
            lambda *texts, **settings: fit(
                *texts, callbacks=[Interrupt(1)], **settings
            ),
        )
        assert main([*command, str(halves)]) == 130
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert "interrupted" in line and "with --resume" in line
    kept = sorted((tmp_path / ".halves-training").rglob("*"))
    assert main([*command, str(halves)]) == 2
    errors = capsys.readouterr().err
    assert ".halves-training' holds a training" in errors
    assert "--resume" in errors and "remove that folder" in errors
    assert sorted((tmp_path / ".halves-training").rglob("*")) == kept
    assert main([*command, str(halves), "--resume", "--recipe", "default"]) == 2
    errors = capsys.readouterr().err
    assert "has --recipe 'chapter', this command --recipe 'default'" in errors
    assert sorted((tmp_path / ".halves-training").rglob("*")) == kept
    assert main([*command, str(halves), "--resume"]) == 0
    assert "Epoch 2/2" in capsys.readouterr().out
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["halves", "reviews.tsv", "whole"]

    one, other = map(TextClassifier.load, (whole, halves))
    pairs = zip(one.model.get_weights(), other.model.get_weights(), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def check_report(output, folder):
    """The end of a training: accuracy, five samples, where everything lies."""
    assert re.search(r"^validation accuracy [01]\.\d{3}, F1 [01]\.\d{3}$", output, re.M)
    samples = re.findall(r"^[01] \([01]\.\d\d, true [01]\)  \S.*$", output, re.M)
    assert len(samples) == 5
    assert re.search(rf"^tokenizer +{folder}/tokenizer\.model$", output, re.M)
    assert (folder / "tokenizer.model").is_file()


class Task:
    """A task without a model."""

    def save(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "task.json").write_text("{}")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError("bad labels")])
def test_a_training_without_an_epoch_is_none(error, command, tmp_path, capsys, fake):
    """There is nothing to lose: the same command begins anew."""

    def fail(*texts, checkpoint_folder, **settings):
        checkpoint_folder.mkdir()
        raise error

    fake.fit = fail
    for _ in range(2):
        status = main([*command, str(tmp_path / "model")])
        errors = capsys.readouterr().err
        assert status == (2 if error is not KeyboardInterrupt else 130)
        assert "--resume" not in errors and "Traceback" not in errors
    assert not (tmp_path / "model").exists()


@pytest.fixture
def fake(monkeypatch):
    task = Task()
    task.tokenizer = type("Tokenizer", (), {"vocabulary_size": 60})
    monkeypatch.setattr(TextClassifier, "from_texts", lambda *_, **__: task)
    return task
