"""The benchmark of the translator: its clock, its scores, and runs that go on."""

import json

import numpy as np
import pandas as pd
import provenance
import pytest
import translator
import translator_scores
from translator import Clock
from translator_scores import RETRIEVAL

from keras_transformer import Translator

pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


class Trained:
    stop_training = False


@pytest.fixture
def now(monkeypatch):
    """A clock that stands until it is moved."""
    moment = [0.0]
    monkeypatch.setattr(translator.time, "perf_counter", lambda: moment[0])
    return moment


def steps(clock, now, count, seconds=2.0):
    """Let a clock see steps that take so long, and return how many it let pass."""
    clock.set_model(Trained())
    clock.on_train_begin()
    for step in range(count):
        now[0] += seconds
        clock.on_train_batch_end(step)
        if clock.model.stop_training:
            break
    return step + 1


def test_the_time_ends_a_training_in_the_middle_of_an_epoch(tmp_path, now):
    assert steps(Clock(tmp_path / "time.json", 1), now, 99) == 30


def test_a_killed_epoch_was_not_free(tmp_path, now):
    file = tmp_path / "time.json"
    assert steps(Clock(file, 1), now, 12) == 12  # and killed: no epoch ended
    assert json.loads(file.read_text()) == {"seconds": 24.0, "epochs": 0}
    clock = Clock(file, 1)
    assert steps(clock, now, 99) == 18
    clock.on_epoch_end(0, logs := {})
    assert logs == {"minutes": 1.0}
    assert json.loads(file.read_text()) == {"seconds": 60.0, "epochs": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["time.json"]


def test_the_time_is_noted_once_a_second_and_not_with_each_step(tmp_path, now):
    clock, noted = Clock(tmp_path / "time.json", 1), []

    def note(seconds):
        noted.append(seconds)
        clock.noted = seconds

    clock.note = note
    steps(clock, now, 50, seconds=0.125)
    assert noted == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_the_curve_goes_on_in_a_later_session(tmp_path):
    epochs = [*range(30), *range(29, 45)]  # killed after 30, which is trained again
    frame = pd.DataFrame({"epoch": epochs, "minutes": np.arange(len(epochs)) / 8})
    for name in ("perplexity", "val_perplexity", "val_accuracy"):
        frame[name] = np.linspace(9, 1, len(epochs))
    frame.to_csv(tmp_path / "curve.csv", index=False)
    lines = translator.curve(tmp_path / "curve.csv").splitlines()[2:]
    shown = [int(line.split()[1]) for line in lines]
    assert shown == list(range(3, 46, 3))
    assert lines[-1] == "| 45 | 5.625 | 1.000 | 1.000 | 1.000 |"
    assert lines[9] == "| 30 | 3.750 | 3.667 | 3.667 | 3.667 |", "the later of the two"


TEN_PAIRS = [
    ("tatoeba", "train", "나는 간다.", "I go."),
    ("tatoeba", "train", "제가 갑니다.", "I go."),
    ("tatoeba", "train", "비가 온다.", "It rains."),
    ("tatoeba", "train", "비가 와.", "It rains."),
    ("tatoeba", "train", "잘 자.", "Good night."),
    ("tatoeba", "train", "눈이 온다.", "It snows."),
    ("xnli", "train", "비가 옵니다.", "it rains"),
    ("sts_human", "train", "새가 난다.", "A bird flies."),
    ("news", "train", "주가가 올랐다.", "Stocks rose."),
    ("jhe", "test", "새가 날아간다.", "A bird flies!"),
]


@pytest.mark.parametrize("flipped", [False, True])
def test_no_sentence_of_pairs_of_many_sources_is_on_two_sides(flipped, monkeypatch):
    monkeypatch.setattr(translator, "HELD_OUT", 2)
    columns = ["corpus", "split", "source", "target"]
    frame = pd.DataFrame(TEN_PAIRS, columns=columns)
    parts = translator.ko_en_parts(frame, flipped)
    assert list(parts) == ["train", "validation", "test jhe", "test tatoeba"]
    english = "source" if flipped else "target"
    held = [parts[name] for name in list(parts)[1:]]
    assert held[1][english].tolist() == ["A bird flies!"]
    for part in held:
        assert len(part) and not part["corpus"].isin(["xnli", "sts_human"]).any()
    for column in ("source", "target"):
        sides = [set(part[column].map(translator.fold)) for part in parts.values()]
        assert sum(map(len, sides)) == len(set().union(*sides))
    train = parts["train"]
    assert "sts_human" not in set(train["corpus"])  # as the test has it
    assert "news" not in set(train["corpus"])
    everyday = sum((part["corpus"] == "tatoeba").sum() for part in parts.values())
    assert everyday == 6
    first = parts["test jhe"].iloc[0]
    assert first["target" if flipped else "source"] == "새가 날아간다."


def test_bleu_of_words_is_of_lower_case_words_and_not_of_pieces():
    metric = translator_scores.words_metric()
    cut = ["the man , who sat , saw a dog ."]
    assert metric.corpus_score(["The man, who sat, saw a dog."], [cut]).score > 99.9
    signature = str(metric.get_signature())
    assert "case:lc" in signature and "tok:13a" in signature


def test_bins_of_length_hold_every_text_once():
    texts = [" ".join("x" * n) for n in (1, 2, 2, 3, 5, 8, 8, 13, 21)]
    bins = translator_scores.length_bins(texts)
    assert [name for name, _ in bins] == ["1-2", "3-5", "6-8", "9-21"]
    assert sorted(np.concatenate([rows for _, rows in bins])) == list(range(9))
    ((name, rows),) = translator_scores.length_bins(["a b", "c d"])
    assert name == "2" and list(rows) == [0, 1]


def bins(bleu):
    short = {"pairs": 3, "bleu": bleu, "chrf": 2 * bleu}
    return {"1-2": short, "3-9": {"pairs": 1, "bleu": 0.0, "chrf": 1.5}}


def run(recipe, seed, bleu, minutes=5.0, units=8):
    row = {"test": "test", "pairs": 4, "chrf": 30.0, "words": bleu + 1, "seconds": 1.0}
    rows = [
        {**row, "by": by, "bleu": score, "bins": bins(score)}
        for by, score in (
            (RETRIEVAL, 99.0),
            ("greedy", bleu - 1),
            ("5 beams", bleu),
        )
    ]
    key = {"name": "bundled", "minutes": minutes, "recipe": recipe, "seed": seed}
    key |= {"model": [["units", units]], "fit": []}
    return {"key": key, "seconds": 60 * minutes, "scores": rows}


def test_recipes_are_compared_as_measured(tmp_path):
    runs = [run("transformer", 0, 20.0), run("2015", 0, 25.0), run("2014", 0, 9.0)]
    runs += [run("transformer", 1, 26.0), run("transformer", 0, 22.0, units=9)]
    runs += [run("2015", 1, 23.5), run("luong", 0, 71.0, minutes=9)]
    for index, each in enumerate(runs):
        (tmp_path / str(index)).mkdir()
        (tmp_path / str(index) / "test-scores.json").write_text(json.dumps(each))
    text = translator_scores.comparison(tmp_path, runs[1]["key"], "test-scores.json")
    rows = [line for line in text.splitlines() if "5 beams" in line]
    assert [row.split(" | ")[:3] for row in rows] == [
        ["| 2015", "units=8", "0"],
        ["| 2015", "units=8", "1"],
        ["| transformer", "units=8", "0"],  # 23.00 in the mean
        ["| transformer", "units=8", "1"],
        ["| transformer", "units=9", "0"],
        ["| 2014", "units=8", "0"],
    ]
    assert "| 2015 | units=8 | 0 | 5.0 | 5 beams | 25.00 | 30.00 | 26.00 |" in rows
    assert "| recipe | settings | seed | score | 1-2 (3) | 3-9 (1) |" in text
    assert "| 2015 | units=8 | 1 | BLEU | 23.50 | 0.00 |" in text
    assert "| 2015 | units=8 | 1 | chrF | 47.00 | 1.50 |" in text
    first = "2015 units=8 (25.00), 2017 units=9 (22.00), 2017 units=8 (20.00), 2014"
    assert f"with seed 0, by BLEU: {first} units=8 (9.00)." in text
    assert "seed 1, by BLEU: 2017 units=8 (26.00), 2015 units=8 (23.50)." in text
    assert "71.00" not in text and "99.00" not in text, "other time; retrieval"


def test_the_published_figure_stands_beside_ours_with_its_conditions():
    options = translator.parse(["multi30k", "--data", "."])
    found = {"scores": run("transformer", 0, 30.0)["scores"]}
    text = translator_scores.published(options, found)
    for part in ("41.02", "two GPUs", "8,000 updates", "tokenised", "5 beams 31.00"):
        assert part in text
    assert RETRIEVAL not in text
    assert translator_scores.published(translator.parse(["bundled"]), found) == ""


def test_runs_of_other_seeds_pairs_and_programs_keep_apart(monkeypatch):
    first, second = (
        translator.parse(["bundled", "--seed", seed, *more])
        for seed, more in (("0", []), ("1", ["--validation"]))
    )
    assert len({translator.title(first), translator.title(second)}) == 2
    parts = translator.load(first)
    key = translator.key_of(first, parts)
    fewer = {**parts, "train": parts["train"][:-1]}
    assert key == translator.key_of(first, parts)
    assert key["pairs"] != translator.key_of(first, fewer)["pairs"]
    monkeypatch.setattr(provenance, "code_hash", lambda *parts: "another program")
    assert key["program"] != translator.key_of(first, parts)["program"]


def test_the_hash_of_code_is_of_what_it_does(tmp_path):
    file = tmp_path / "ops" / "add.py"
    file.parent.mkdir()

    def hashed(text):
        file.write_text(text)
        return provenance.code_hash("ops", package=tmp_path)

    first = hashed('"""Add."""\n\ndef add(x, y):\n    """A sum."""\n    return x + y\n')
    assert hashed("def add(x,  y):  # a sum\n    return (x + y)\n") == first
    assert hashed("def add(x, y):\n    return x - y\n") != first
    with pytest.raises(ValueError, match="no Python files"):
        provenance.code_hash("layers", package=tmp_path)


@pytest.mark.slow
def test_one_command_trains_goes_on_and_compares(tmp_path, capsys, monkeypatch):
    output = tmp_path / "RESULTS.md"
    command = ["bundled", "--recipe", "2015", "--minutes", "0.02", "--beams", "1"]
    command += ["--model", "units=8", "embed_dim=8", "--fit", "max_tokens=256"]
    command += ["--work", str(tmp_path / "work"), "--output", str(output)]
    whole = translator.load(translator.parse(["bundled"]))
    few = {name: part[:12] for name, part in whole.items()}
    few["train"] = whole["train"][:200]
    monkeypatch.setattr(translator, "load", lambda options: few)
    translator.main(command)
    capsys.readouterr()
    (folder,) = (tmp_path / "work").iterdir()
    assert json.loads((folder / "time.json").read_text())["seconds"] >= 1.2
    section = output.read_text("utf-8")
    assert "bundled, ko to en, 2015, seed 0" in section
    assert "The validation curve" in section and "Order as measured" in section
    assert f"| test | 12 | {RETRIEVAL} |" in section and "BLEU of words" in section
    assert f"| {RETRIEVAL} | chrF |" in section, "by length"
    monkeypatch.setattr(Translator, "fit", None)  # what is done is taken as it is
    translator.main([*command, "--rows", "3"])
    assert f"| test | 3 | {RETRIEVAL} |" in capsys.readouterr().out
