"""The benchmark of a language model beside an n-gram: the same pieces, one command."""

import language_model
import numpy as np
import pytest
from kneser_ney import KneserNey
from language_model import Clock, Notes, Stopwatch

from cases.helpers import slow_on
from keras_transformer import TextGenerator
from keras_transformer.datasets import load_reviews

pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


@pytest.fixture
def folder(tmp_path):
    """Files with the names and columns of NSMC's."""
    columns = ["id", "document", "label"]
    for name, part in load_reviews()._asdict().items():
        path = tmp_path / f"ratings_{name}.txt"
        part[columns][:300].to_csv(path, sep="\t", index=False, quoting=3)
    return tmp_path


@slow_on("jax", "tensorflow")
def test_one_command_trains_compares_and_goes_on(folder, capsys, monkeypatch):
    output = folder / "RESULTS.md"
    command = ["--quick", "--steps", "12", "--data", str(folder), "--seed", "1"]
    command += ["--work", str(folder / "work"), "--vocabulary-size", "900"]
    command += ["--minutes", "30"]
    language_model.main([*command, "--output", str(output)])
    printed = capsys.readouterr().out
    (run,) = (folder / "work").iterdir()
    notes = Notes(run / "notes.json")
    assert notes["done"] == notes["steps"] == 12 and not (run / "checkpoint").exists()
    section = output.read_text("utf-8")
    rows = [line.split(" | ") for line in section.splitlines() if line[:2] == "| "]
    names = ["| model", "| ---", "| Kneser-Ney, 5-gram", "| ours"]
    assert [row[0] for row in rows] == names
    assert "Samples:" in printed and "이 영화는" in printed

    # The figures are those of the library, of the pieces that it counts.
    generator = TextGenerator.load(run / "done")
    parts, _ = language_model.load(language_model.parse(command))
    for column, part in ((2, "validation"), (3, "test")):
        found = generator.evaluate(parts[part])
        assert float(rows[3][column]) == pytest.approx(
            found["bits_per_character"], abs=1e-3
        )
    assert float(rows[3][5]) == pytest.approx(found["perplexity"], rel=1e-3)
    assert float(rows[2][5]) < generator.tokenizer.vocabulary_size

    monkeypatch.setattr(TextGenerator, "fit", None)  # what is done is taken as it is
    monkeypatch.setattr(TextGenerator, "generate", lambda *_, **__: ["이 영화는"])
    language_model.main([*command, "--validation"])
    printed = capsys.readouterr().out
    again = [line.split(" | ") for line in printed.splitlines() if line[:2] == "| "]
    assert "test" not in again[0] and "validation" in again[0]
    assert [row[2] for row in again] == [row[2] for row in rows]


def test_texts_of_both_models_are_the_same_and_none_is_empty():
    decomposed = "가\u0301".encode().decode()
    texts = language_model.clean(
        [" 아주\t 좋다\n", "", "\u1112\u1161\u11ab", decomposed]
    )
    assert texts == ["아주 좋다", "한", decomposed]


def test_bits_are_those_of_each_text():
    rows = [[2, 5, 6, 3], [2, 5, 3], [2, 6, 6, 6, 3]]
    model = KneserNey(rows, 8, 2)
    bits = language_model.ngram_bits(model, rows)
    alone = [-model.log2_probabilities([row]).sum() for row in rows]
    np.testing.assert_allclose(bits, alone)
    assert language_model.per_character(bits, ["ab", "c", "def"]) == bits.sum() / 6
    mean, error = language_model.lower_by(bits - 3, bits, ["abc"] * 3)
    assert mean == pytest.approx(1) and error == pytest.approx(0)
    _, error = language_model.lower_by(np.zeros(3), np.array([1.0, 2, 3]), ["a"] * 3)
    assert error == pytest.approx(np.std([1, 2, 3]) / np.sqrt(3))


class Trained:
    stop_training = False


def call(callback, steps, monkeypatch, seconds=1.0):
    """Let a callback see steps that take so long, and return how many it let pass."""
    now = [0.0]
    monkeypatch.setattr(language_model.time, "perf_counter", lambda: now[0])
    callback.set_model(Trained())
    callback.on_train_begin()
    for step in range(steps):
        now[0] += 100.0 if step == 0 else seconds  # the first one compiles
        callback.on_train_batch_end(step)
        if callback.model.stop_training:
            break
    return step + 1


def test_a_step_is_measured_without_compiling(monkeypatch):
    stopwatch = Stopwatch(120)
    assert call(stopwatch, 99, monkeypatch) == 21
    assert stopwatch.seconds_per_step == 1


def test_the_clock_counts_earlier_runs(tmp_path, monkeypatch):
    notes = Notes(tmp_path / "notes.json")
    assert call(Clock(notes, 5, 1e9), 99, monkeypatch) == 5
    notes.add(tokenizer=30, calibration=20)
    clock = Clock(notes, 99, 200)
    assert call(clock, 99, monkeypatch) == 51
    clock.on_epoch_end(0)
    notes = Notes(tmp_path / "notes.json")  # of a later process
    assert notes["training"] == 150 and notes["done"] == 51
    assert call(Clock(notes, 60, 1e9), 99, monkeypatch) == 9


def test_the_planned_steps_fit_into_the_time(folder, monkeypatch):
    command = ["--quick", "--data", str(folder), "--vocabulary-size", "900"]
    options = language_model.parse([*command, "--minutes", "10"])
    (parts, _), notes = language_model.load(options), Notes(folder / "notes.json")
    language_model.prepare(parts["train"], folder / "start", notes, options)

    def fit(generator, texts, *, callbacks, **_):
        assert texts == parts["train"]
        callbacks[0].times = [100.0, 2.0, 2.0, 2.0]

    monkeypatch.setattr(TextGenerator, "fit", fit)
    language_model.plan(parts, folder / "start", notes, options)
    left = 600 - notes["tokenizer"] - 2 * notes["calibration"]
    assert 0.9 < 2 * notes["steps"] / left < 1
