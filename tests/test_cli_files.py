"""What the command line makes of files: encodings, formats, faults."""

import re
import sys

import pandas as pd
import pytest

from keras_transformer.cli import main
from keras_transformer.cli.files import read_lines

TASKS = ["classification", "generation", "translation"]
TABLE = "document\tlabel\tko\ten\n좋은 영화\t1\t하나\tone\n나쁜 영화\t0\t둘\ttwo\n"
ONE_LABEL = "document\tlabel\n" + "".join(f"참 좋다 {i}\t1\n" for i in range(20))


class Stub:
    """A trained task of any kind, which keeps what it is given."""

    def predict(self, texts, table, verbose):
        self.work(texts, verbose)
        return pd.DataFrame({"label": 1, "probability": 0.5, "text": texts})

    def generate(self, texts, verbose, **settings):
        return self.work(texts, verbose)

    def translate(self, texts, num_beams, verbose):
        return self.work(texts, verbose)

    def evaluate(self, texts, *labels, verbose=0):
        if isinstance(texts, pd.DataFrame):
            texts = texts[["source", "target"]].to_numpy().tolist()
        self.work(texts, verbose)
        confusion = pd.DataFrame([[1]])
        scores = dict.fromkeys(["accuracy", "f1", "bleu", "chrf", "perplexity"], 1.0)
        signatures = dict(bleu_signature="", chrf_signature="")
        more = dict(bits_per_character=1.0, tokens=2, confusion=confusion)
        return {**scores, **signatures, **more}

    def work(self, texts, verbose):
        self.given = list(texts)
        if verbose:
            print("progress")
        return [f"<{text}>" for text in texts]


@pytest.fixture
def stub(monkeypatch):
    stub = Stub()
    for name in ("TextClassifier", "TextGenerator", "Translator"):
        monkeypatch.setattr(f"keras_transformer.tasks.{name}.load", lambda _: stub)
    return stub


@pytest.mark.parametrize("task", TASKS)
def test_progress_goes_to_standard_error(task, stub, tmp_path, capsys, monkeypatch):
    file = tmp_path / "texts.txt"
    file.write_text("하나\n둘\n", encoding="utf-8")
    command = ["predict", "--task", task, "model", str(file)]
    assert main(command) == 0
    quiet = capsys.readouterr()
    assert "progress" not in quiet.err  # no terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(command) == 0
    shown = capsys.readouterr()
    assert shown.out == quiet.out and quiet.out.count("\n") == 2
    assert "progress" in shown.err


def test_a_translation_with_line_breaks_is_one_line(stub, tmp_path, capsys):
    file = tmp_path / "texts.txt"
    file.write_text("하나\n둘\n", encoding="utf-8")
    stub.work = lambda texts, verbose: ["one\nand\r\ntwo\u2028three\n", "two"]
    assert main(["predict", "--task", "translation", "model", str(file)]) == 0
    assert capsys.readouterr().out == "one and two three\ntwo\n"


@pytest.mark.parametrize("task", TASKS)
def test_files_of_another_encoding_and_name(task, stub, tmp_path, capsys):
    """What a message advises, the command line has."""
    texts = tmp_path / "texts.txt"
    texts.write_bytes("하나\n둘\n셋\n".encode("cp949"))
    command = ["predict", "--task", task, "model", str(texts)]
    assert main(command) == 2
    assert "not UTF-8 text" in (message := capsys.readouterr().err)
    assert "--encoding cp949" in message
    assert main([*command, "--encoding", "cp949"]) == 0
    assert stub.given == ["하나", "둘", "셋"]
    assert main([*command, "--encoding", "cp94"]) == 2
    assert "--encoding must be" in capsys.readouterr().err

    table = tmp_path / "table.dat"
    table.write_bytes(TABLE.encode("cp949"))
    command = ["evaluate", "--task", task, "model", str(table)]
    assert main([*command, "--format", "tsv"]) == 2
    assert '--encoding "cp949"' in capsys.readouterr().err
    assert main([*command, "--encoding", "cp949", "--format", "tsv"]) == 0
    pairs = [["하나", "one"], ["둘", "two"]]
    expected = pairs if task == "translation" else ["좋은 영화", "나쁜 영화"]
    assert stub.given == expected
    if task != "generation":  # there it has one text a line
        capsys.readouterr()
        assert main([*command, "--encoding", "cp949"]) == 2
        assert "--format 'tsv' or --format 'csv'" in capsys.readouterr().err


@pytest.mark.parametrize("task", TASKS)
def test_what_was_read_is_said(task, stub, tmp_path, capsys):
    table = tmp_path / "table.tsv"
    table.write_text(TABLE + "\t1\t\tthree\n", encoding="utf-8")
    assert main(["evaluate", "--task", task, "model", str(table)]) == 0
    printed = capsys.readouterr()
    assert f"{table}: 2 rows, 1 without text left out" in printed.err
    assert "without text" not in printed.out


@pytest.mark.parametrize("task", TASKS)
def test_a_picture_that_cannot_be_is_an_error(task, stub, tmp_path, capsys):
    from keras_transformer.tasks.explanation import NothingToSee

    texts = tmp_path / "texts.txt"
    texts.write_text("하나\n", encoding="utf-8")
    command = ["predict", "--task", task, "model", str(texts), "--explain", "a.txt"]

    def explain(text):
        raise error

    stub.explain = explain
    error = ValueError("Format 'txt' is not supported")
    assert main(command) == 2
    assert "Format 'txt' is not supported" in capsys.readouterr().err
    error = NothingToSee("no tokens")
    assert main(command) == 0
    assert "attention picture   none: no tokens" in capsys.readouterr().err
    texts.write_text("\n", encoding="utf-8")
    assert main(command) == 0
    assert "none: no text has tokens" in capsys.readouterr().err


def test_one_bad_line_in_a_thousand_loses_no_other(tmp_path, capsys):
    file = tmp_path / "texts.txt"
    rows = [b"text %d" % number for number in range(1000)]
    rows[499] = "café".encode("latin-1")
    file.write_bytes(b"\n".join(rows) + b"\n")
    lines = read_lines(str(file))
    assert lines[499] == "caf\ufffd" and len(lines) == 1000
    assert [line.encode() for line in lines[:499] + lines[500:]] == (
        rows[:499] + rows[500:]
    )
    assert "not UTF-8 in line 500," in capsys.readouterr().err
    for row in range(0, 1000, 3):
        rows[row] = "café".encode("latin-1")
    file.write_bytes(b"\n".join(rows) + b"\n")
    assert len(read_lines(str(file))) == 1000
    few = "1, 4, 7, 10, 13, 16, 19, 22, 25, 28, ..., read as"
    assert few in capsys.readouterr().err
    for row in range(0, 1000, 2):
        rows[row] = "café".encode("latin-1")
    file.write_bytes(b"\n".join(rows))
    with pytest.raises(ValueError, match="is not UTF-8 text.*--encoding"):
        read_lines(str(file))


def test_lines_are_those_of_the_encoding(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("하나\r\n\r\n둘", encoding="utf-16", newline="")
    assert read_lines(str(file), "utf-16") == ["하나", "", "둘"]
    file.write_text("하나\n둘\n", encoding="utf-8-sig")
    assert read_lines(str(file)) == ["하나", "둘"]
    file.write_bytes(b"\xff\xfea\x00\n")  # half of a newline
    with pytest.raises(ValueError, match="is not UTF-16 text"):
        read_lines(str(file), "utf-16")
    for text in ("good film\n좋아\nbad\n", "one\ntwo\n"):
        for encoding in ("utf-16", "utf-16-le"):  # with and without a mark
            file.write_bytes(text.encode(encoding))
            with pytest.raises(ValueError, match="is not UTF-8 text.*or utf-16"):
                read_lines(str(file))
    file.write_bytes("하나\n".encode("utf-8-sig") + b"\xff\n" + "둘\n셋".encode())
    assert read_lines(str(file), "utf-8-sig") == ["하나", "\ufffd", "둘", "셋"]
    file.write_bytes(b"good film\nba\0d\nfine\n")  # a fault of one line
    assert read_lines(str(file)) == ["good film", "ba\0d", "fine"]
    file.write_bytes(b"")
    assert read_lines(str(file)) == []
    for encoding in ("klingon", "undefined", "rot13"):
        with pytest.raises(ValueError, match=f"must be one that.*: {encoding}"):
            read_lines(str(file), encoding)


@pytest.fixture
def trained(tmp_path):
    """A folder that looks like an earlier training's."""
    folder = tmp_path / "model"
    folder.mkdir()
    text = '{"task": "TextClassifier", "files": {"model.keras": 9}}'
    (folder / "task.json").write_text(text)
    (folder / "model.keras").write_bytes(b"trai")
    return folder


@pytest.mark.parametrize(
    "text, task, message",
    [
        ("document\tlabel\n좋다\tgood\n", "classification", "line 2.*'good'"),
        (ONE_LABEL, "classification", "labels are 1. .*two labels"),
        ("document\tlabel\n", "classification", "has no texts"),
        ("document\tlabel\n", "generation", "has no texts"),
        ("ko\ten\n", "translation", "has no pairs"),
    ],
)
def test_bad_data_is_named_and_nothing_overwritten(
    text, task, message, trained, tmp_path, capsys
):
    data = tmp_path / "data.tsv"
    data.write_text(text, encoding="utf-8")
    before = {path.name: path.read_bytes() for path in trained.iterdir()}
    command = ["train", "--task", task, "--data", str(data), "--output", str(trained)]
    assert main(command) == 2
    assert re.search(message, capsys.readouterr().err)
    assert {path.name: path.read_bytes() for path in trained.iterdir()} == before
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["data.tsv", "model"]


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_truncated_folder_is_named(command, trained, tmp_path, capsys):
    data = tmp_path / "data.tsv"
    data.write_text("document\tlabel\n좋다\t1\n", encoding="utf-8")
    assert main([command, str(trained), str(data)]) == 2
    output = capsys.readouterr()
    assert "model.keras' has 4 bytes, but 9 bytes were saved" in output.err
    assert not output.out
