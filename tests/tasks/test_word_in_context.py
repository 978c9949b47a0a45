import numpy as np
import pytest

from keras_transformer.datasets import read_word_in_context
from keras_transformer.tasks import best_threshold, word_in_context

HEADER = "ID\tTarget\tSENTENCE1\tSENTENCE2\tANSWER\r\n"
ROWS = (
    "1\t배\t[배]를 타다.\t큰 [배]에 올랐다.\tTrue\r\n"
    "2\t방\t햇볕이 [방] 안을 비추다. \t불을 때 방바닥이 따뜻하다.\tFalse\r\n"
    "3\t동상\t금[동상]과 [동상]\t[동상]은 춥다\tFALSE\r\n"
)


def write(folder, rows=ROWS):
    file = folder / "pairs.tsv"
    file.write_text(HEADER + rows, "utf-8", newline="")
    return file


def length_and_start(texts, spans):
    """Vectors by hand: the angle is the word's first letter."""
    angles = np.array([start for start, _ in spans]) / 4
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_the_word_is_found_in_brackets_or_else_where_it_comes_first(tmp_path):
    pairs = read_word_in_context(write(tmp_path))
    assert pairs["same"].tolist() == [True, False, False]
    found = []
    for side in ("first", "second"):
        assert not pairs[side].str.contains(r"[\[\]]").any()
        for row in pairs.to_dict("records"):
            start, stop = row[f"{side}_span"]
            assert row[side][start:stop] == row["word"]
            found.append(start)
    assert found == [0, 4, 1, 2, 5, 0]


def test_what_is_no_pair_is_refused_with_its_line(tmp_path):
    for row, message in (
        ("1\t배\t[배]\t[배]\tmaybe\r\n", "line 2: ANSWER must be True or False"),
        ("1\t배\t[배]\t눈\tTrue\r\n", "line 2: no '배' in '눈'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_word_in_context(write(tmp_path, row))


def test_the_threshold_is_the_best_of_all():
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = rng.integers(0, 6, 12) / 5
        same = rng.random(12) < 0.5
        threshold, accuracy = best_threshold(values, same)
        assert np.mean((values >= threshold) == same) == accuracy
        tried = [np.mean((values >= t) == same) for t in np.arange(-0.1, 1.3, 0.2)]
        assert accuracy == pytest.approx(max(tried))


def test_the_cosine_is_measured_against_a_threshold_of_other_pairs(tmp_path):
    pairs = read_word_in_context(write(tmp_path))  # starts 0 4, 4 5, 1 0
    pairs = pairs.assign(same=[False, True, True])
    measured = word_in_context(length_and_start, pairs, pairs)
    assert measured["accuracy"] == measured["chosen"] == 1.0
    assert np.cos(1) < measured["threshold"] < np.cos(0.25)
    assert measured["majority"] == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="Received: 3 and 0"):
        word_in_context(length_and_start, pairs, pairs[:0])
