import io

import numpy as np
import pytest

from cases.helpers import slow_on
from keras_transformer.cli import main

ROWS = [("정말 재미있다", 1), ("너무 지루하다", 0), ("좋은 영화", 1), ("아깝다", 0)]

pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


@pytest.fixture
def reviews(tmp_path):
    file = tmp_path / "reviews.tsv"
    rows = [f"{text} {i}\t{label}" for i in range(15) for text, label in ROWS]
    file.write_text("document\tlabel\n" + "\n".join(rows), encoding="utf-8")
    return file


def test_train_evaluate_and_predict(reviews, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "모델"
    command = ["train", "--data", str(reviews), "--output", str(folder)]
    command += ["--epochs", "2", "--vocabulary-size", "60"]
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "accuracy" in output and str(folder / "attention.png") in output
    assert (folder / "attention.png").is_file() and (folder / "model.keras").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reviews.tsv", "모델"]

    assert main(["evaluate", str(folder), str(reviews)]) == 0
    assert "accuracy" in capsys.readouterr().out

    texts = tmp_path / "texts.txt"
    texts.write_text("정말 재미있다\n\n너무 지루하다\n", encoding="utf-8")
    assert main(["predict", str(folder), str(texts)]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split("\t")[2] for line in lines]
    assert shown == ["정말 재미있다", "", "너무 지루하다"]
    assert all(0.5 <= float(line.split("\t")[1]) <= 1 for line in lines)


@pytest.fixture
def tiny_recipes(monkeypatch):
    from keras_transformer.tasks.recipes import GENERATORS

    for recipe in GENERATORS.values():
        for name, value in dict(num_layers=1, embed_dim=16, dense_dim=16).items():
            monkeypatch.setitem(recipe.settings, name, value)


@slow_on("jax", "tensorflow")
def test_generation_trains_evaluates_and_writes(
    reviews, tmp_path, capsys, tiny_recipes, monkeypatch
):
    pytest.importorskip("matplotlib")
    task, folder = ["--task", "generation"], tmp_path / "작가"
    command = ["train", *task, "--data", str(reviews), "--output", str(folder)]
    command += ["--epochs", "2", "--vocabulary-size", "60", "--sample", "정말"]
    assert main(command) == 0
    output = capsys.readouterr().out
    assert output.count("    '정말") == 2 and "validation: perplexity" in output
    assert (folder / "attention.png").is_file() and (folder / "model.keras").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["reviews.tsv", "작가"]

    assert main(["evaluate", *task, str(folder), str(reviews)]) == 0
    assert "bits a character (60 texts, " in capsys.readouterr().out

    prompts = tmp_path / "prompts.txt"
    prompts.write_text("정말\n\n너무\n", encoding="utf-8")
    command = ["predict", *task, "--max-new-tokens", "8", "--temperature", "1.5"]
    command += ["--seed", "1", str(folder)]
    assert main([*command, str(prompts)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[0].startswith("정말")
    assert lines[2].startswith("너무")
    stdin = io.TextIOWrapper(io.BytesIO("\ufeff정말\n".encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert main([*command, "--stream"]) == 0
    assert capsys.readouterr().out.splitlines() == lines[:1]
    assert main([*command, str(prompts), "--top-p", "7"]) == 2
    assert "--top-p 7.0" in capsys.readouterr().err


def test_texts_to_train_on_may_stand_one_a_line(tmp_path, capsys):
    file = tmp_path / "empty.txt"
    file.write_text("\n \n", encoding="utf-8")
    command = ["train", "--task", "generation", "--data", str(file)]
    assert main(command) == 2
    assert "has no texts" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command, message",
    [
        (["train", "--data", "none.tsv"], "none.tsv"),
        (["train", "--data", "{reviews}", "--text-column", "review"], "--text-column "),
        (["evaluate", "nowhere", "{reviews}"], "'nowhere' is not a saved"),
        (["predict", "{folder}"], "is not a saved TextClassifier"),
        (["train", "--data", "{reviews}", "--output", "{folder}"], "not a saved task"),
        (
            ["train", "--data", "{reviews}", "--epochs", "0"],
            "--epochs must be",
        ),
        (["train", "--resume", "--output", "{folder}/new"], "no training to go on"),
        (
            ["predict", "--task", "generation", "{folder}"],
            "a saved TextGenerator",
        ),
    ],
)
def test_mistakes_end_with_a_message_and_status_2(
    command, message, reviews, tmp_path, capsys
):
    names = {"reviews": reviews, "folder": tmp_path}
    assert main([part.format(**names) for part in command]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["reviews.tsv"]


def test_help_is_for_people(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    output = capsys.readouterr().out
    assert "--recipe" in output and "bundled" in output
    assert np.max([len(line) for line in output.splitlines()]) < 120


@pytest.fixture
def pairs(tmp_path):
    words = {"하나": "one", "둘": "two", "셋": "three", "넷": "four"}
    rows = [f"{a} {b}\t{words[a]} {words[b]}" for a in words for b in words]
    file = tmp_path / "pairs.tsv"
    file.write_text("ko\ten\n" + "\n".join(rows * 2), encoding="utf-8")
    return file


def test_translation_trains_evaluates_and_translates(
    pairs, tmp_path, capsys, monkeypatch
):
    pytest.importorskip("sacrebleu")
    pytest.importorskip("matplotlib")
    from keras_transformer.tasks.recipes import TRANSLATORS

    small = dict(num_layers=1, embed_dim=16, num_heads=2, dense_dim=16)
    for name, value in small.items():
        monkeypatch.setitem(TRANSLATORS["transformer"].settings, name, value)
    task, folder = ["--task", "translation"], tmp_path / "번역기"
    command = ["train", *task, "--data", str(pairs), "--output", str(folder)]
    assert main([*command, "--epochs", "1", "--vocabulary-size", "40"]) == 0
    output = capsys.readouterr().out
    assert "validation, " in output and "chrF" in output  # not what it was shown
    assert (folder / "model.keras").is_file() and (folder / "attention.png").is_file()

    # The folder says itself what it is.
    assert main(["evaluate", str(folder), str(pairs), "--num-beams", "1"]) == 0
    assert "BLEU" in capsys.readouterr().out
    texts = tmp_path / "texts.txt"
    texts.write_text("하나 둘\n\n셋\n", encoding="utf-8")
    assert main(["predict", *task, str(folder), str(texts), "--num-beams", "2"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 4 and lines[1] == ""  # a line for each line
    texts.write_bytes("하나 둘\n\n셋\n".encode() + "넷\n".encode("cp949"))
    command = ["predict", *task, str(folder), str(texts), "--num-beams", "2"]
    assert main(command) == 0
    output = capsys.readouterr()
    assert output.out.split("\n")[:3] == lines[:3]  # one bad line loses no other
    assert output.out.count("\n") == 4 and "not UTF-8 in line 4" in output.err
    texts.write_bytes("하나 둘\none\n셋\n".encode("cp949"))
    assert main(command) == 2
    assert "is not UTF-8 text" in capsys.readouterr().err

    again = ["train", *task, "--data", str(pairs), "--source-column", "en"]
    assert main(again) == 2
    assert "'en' twice" in capsys.readouterr().err
