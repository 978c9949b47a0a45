"""The command line's trainings: what they print, and how they are interrupted."""

import argparse
import re

import keras
import numpy as np
import pytest

from cases.helpers import Interrupt, slow_on
from keras_transformer.cli import main
from keras_transformer.cli.files import train_task
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


def check_report(output, folder, part="validation"):
    """The end of a training: accuracy, five samples, where everything lies."""
    scores = rf"^{part} accuracy [01]\.\d{{3}}, F1 [01]\.\d{{3}}$"
    assert re.search(scores, output, re.M)
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
        assert [path.name for path in tmp_path.iterdir()] == ["reviews.tsv"]


def test_labels_to_test_on_that_none_was_trained_on_are_refused_at_once(
    command, tmp_path, capsys, fake
):
    test = tmp_path / "test.tsv"
    test.write_text("document\tlabel\n좋다\t1\n모르겠다\t7\n", encoding="utf-8")
    assert main([*command, str(tmp_path / "model"), "--test", str(test)]) == 2
    errors = capsys.readouterr().err
    assert re.search(r"test\.tsv has labels that no .*train on has: 7\. .*0, 1", errors)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "reviews.tsv",
        "test.tsv",
    ]


def test_the_seed_is_that_of_the_first_weights_too(tmp_path):
    def trained(seed):
        task = Task()

        def build():
            layer = keras.layers.Dense(3)
            layer.build((None, 2))
            task.weights = keras.ops.convert_to_numpy(layer.kernel)
            return task

        options = argparse.Namespace(
            seed=seed, epochs=1, resume=False, output=str(tmp_path / "model")
        )
        train_task(options, Task, build, lambda task, folder: None)
        return task.weights

    first = trained(3)
    np.testing.assert_array_equal(trained(3), first)
    assert np.abs(trained(4) - first).max() > 0


@pytest.mark.slow
def test_training_without_a_file_ends_with_a_summary(tmp_path, capsys):
    folder = tmp_path / "classifier"
    assert main(["train", "--epochs", "1", "--output", str(folder)]) == 0
    printed = capsys.readouterr()
    check_report(printed.out, folder, "test")
    assert re.search(r"reviews_ko\.tsv: [\d]+ rows, \d+ without text", printed.err)
    picture = re.search(r"^attention picture +(.*)$", printed.out, re.M)[1]
    assert picture == str(folder / "attention.png") or picture.startswith("none: ")


@pytest.fixture
def fake(monkeypatch):
    task = Task()
    task.tokenizer = type("Tokenizer", (), {"vocabulary_size": 60})
    monkeypatch.setattr(TextClassifier, "from_texts", lambda *_, **__: task)
    return task
