"""The dataloaders of the chapter's section 12, from every source."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import sentencepiece as spm

from keras_transformer.datasets import load_reviews, read_reviews

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
PARTS = ["train", "validation", "test"]


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(NOTEBOOKS)

    def run(source=None, small=None):
        for name, value in (("REVIEWS", source), ("SMALL", small)):
            variable = f"KERAS_TRANSFORMER_{name}"
            if value is None:
                monkeypatch.delenv(variable, raising=False)
            else:
                monkeypatch.setenv(variable, str(value))
        script = NOTEBOOKS / "load_text_class_example.py"
        return runpy.run_path(str(script))["dataloaders"]

    return run


def rows(dataset):
    """The set of its rows without their padding, each with its label."""
    return {
        (*np.trim_zeros(ids, "b").tolist(), "label", int(label))
        for batch, labels in dataset
        for ids, label in zip(batch, labels, strict=True)
    }


def sizes(dataloaders):
    return [len(dataset.order) for dataset in dataloaders.values()]


def write(path, count, start=0, labels=(0, 1)):
    lines = [f"영화 {start + i}편\t{labels[i % len(labels)]}" for i in range(count)]
    path.write_text("\n".join(["document\tlabel", *lines, ""]), encoding="utf-8")
    return path


def test_the_bundled_reviews_come_whole_with_plain_sentencepiece_ids(load):
    processor = spm.SentencePieceProcessor(str(NOTEBOOKS / "spm.model"))
    dataloaders, reviews = load(), load_reviews()._asdict()
    assert list(dataloaders) == PARTS
    for part, dataset in dataloaders.items():
        frame = reviews[part]
        assert len(dataset.order) == len(frame)
        expected = zip(
            processor.encode(frame["document"].tolist()), frame["label"], strict=True
        )
        assert rows(dataset) == {(*ids, "label", label) for ids, label in expected}
        for ids, labels in dataset:
            assert ids.dtype.kind == "i" and ids.ndim == 2 and len(labels) == len(ids)
            assert ids.min() >= 0 and ids.max() < 30000 and (ids[:, 0] > 0).all()
            assert set(labels.tolist()) <= {0, 1}


def test_small_is_small_and_the_same_each_time(load):
    one, again = load(small=1), load(small=1)
    assert sizes(one) == [128, 64, 64]
    assert [rows(one[part]) == rows(again[part]) for part in PARTS] == [True] * 3
    assert sizes(load(small=0)) == [len(part) for part in load_reviews()]


def test_a_file_is_split_into_three(load, tmp_path):
    dataloaders = load(write(tmp_path / "나의 리뷰.tsv", 100))
    assert list(dataloaders) == PARTS and sizes(dataloaders) == [80, 10, 10]
    parts = [rows(dataset) for dataset in dataloaders.values()]
    assert len(set.union(*parts)) == 100


def test_a_folder_has_a_file_for_each_part(load, tmp_path):
    for start, name in enumerate(("train.tsv", "valid_2.txt", "test.tsv")):
        write(tmp_path / name, 20 + start, 100 * start)
    (tmp_path / "README.txt").write_text("no table")
    assert sizes(load(tmp_path)) == [20, 21, 22]


def test_what_a_folder_lacks_is_taken_off_its_training_part(load, tmp_path):
    write(tmp_path / "train.tsv", 40)
    write(tmp_path / "test.tsv", 10, 100)
    assert sizes(load(tmp_path)) == [36, 4, 10]


def test_a_folder_with_the_files_of_nsmc(load, tmp_path):
    write(tmp_path / "ratings_train.txt", 40)
    write(tmp_path / "ratings_test.txt", 10, 100)
    dataloaders = load(tmp_path)
    assert list(dataloaders) == PARTS and sizes(dataloaders) == [36, 4, 10]


def test_a_long_review_is_cut_and_one_without_ids_left_out(load, tmp_path):
    file = write(tmp_path / "train.tsv", 30)
    long, empty = "영화 " * 600, "\u2581"
    with file.open("a", encoding="utf-8") as out:
        out.write(f"{long}\t1\n{empty}\t0\n")
    assert len(read_reviews(file)) == 32
    write(tmp_path / "valid.tsv", 4)
    write(tmp_path / "test.tsv", 4)
    dataloaders = load(tmp_path)
    assert sizes(dataloaders) == [31, 4, 4]
    assert max(ids.shape[1] for ids, _ in dataloaders["train"]) == 256
    assert all((ids[:, 0] > 0).all() for ids, _ in dataloaders["train"])


def test_bad_sources_are_refused_with_what_to_do(load, tmp_path):
    with pytest.raises(FileNotFoundError, match="KERAS_TRANSFORMER_REVIEWS names"):
        load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="ratings_train"):
        load(tmp_path)
    with pytest.raises(ValueError, match="must be 0 .* and 1"):
        load(write(tmp_path / "test.tsv", 40, labels=(1, 2)))
    with pytest.raises(ValueError, match="must be 0 .* and 1"):
        load(write(tmp_path / "test.tsv", 40, labels=(1,)))
    with pytest.raises(FileNotFoundError, match="no train.tsv"):
        load(tmp_path)
    write(tmp_path / "train.tsv", 40)
    write(tmp_path / "train_2.csv", 40)
    with pytest.raises(ValueError, match="train.tsv, train_2.csv"):
        load(tmp_path)
