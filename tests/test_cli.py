import numpy as np
import pytest

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


@pytest.mark.parametrize(
    "command, message",
    [
        (["train", "--data", "none.tsv"], "none.tsv"),
        (["train", "--data", "{reviews}", "--text-column", "review"], "review"),
        (["evaluate", "nowhere", "{reviews}"], "'nowhere' is not a saved"),
        (["predict", "{folder}"], "is not a saved TextClassifier"),
        (["train", "--data", "{reviews}", "--output", "{folder}"], "not a saved task"),
        (
            ["train", "--data", "{reviews}", "--epochs", "0"],
            "--epochs must be",
        ),
        (["train", "--resume", "--output", "{folder}/new"], "is not a saved"),
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
