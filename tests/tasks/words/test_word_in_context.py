import numpy as np
import pytest

from keras_transformer.datasets import read_word_in_context
from keras_transformer.tasks import best_threshold, evaluate_word_in_context

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


def test_other_brackets_than_the_words_are_passed_over(tmp_path):
    row = "1\t배\t[속보] 그는 [배]를 탔다\t담배[1] 그 [배를] 탔다\tTrue\r\n"
    (pair,) = read_word_in_context(write(tmp_path, row)).to_dict("records")
    assert pair["first"] == "속보 그는 배를 탔다" and pair["first_span"] == (6, 7)
    assert pair["second"] == "담배1 그 배를 탔다" and pair["second_span"] == (6, 8)
    row = "1\t주류\t[술집]에서 주류를 판다\t]주류[\tTrue\r\n"
    (pair,) = read_word_in_context(write(tmp_path, row)).to_dict("records")
    assert pair["first_span"] == (5, 7) and pair["second_span"] == (0, 2)


def test_what_is_no_pair_is_refused_with_its_line(tmp_path):
    for row, message in (
        ("1\t배\t[배]\t[배]\tmaybe\r\n", "line 2: ANSWER must be True or False"),
        ("1\t배\t[배]\t눈\tTrue\r\n", "line 2: no '배' in '눈'"),
        ("1\t배\t[배]\t큰 [눈]\tTrue\r\n", r"line 2: no '배' in '큰 \[눈\]'"),
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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_threshold_parts_values_that_are_next_to_each_other(dtype):
    for low in np.linspace(0.5, 0.9, 20).astype(dtype):
        values = np.array([low, np.nextafter(low, low + 1)])
        threshold, accuracy = best_threshold(values, [False, True])
        assert accuracy == 1.0
        assert float(values[0]) < threshold <= float(values[1])


def test_cosines_next_to_each_other_are_told_apart_on_the_same_pairs(tmp_path):
    pairs = read_word_in_context(write(tmp_path))[:2].assign(same=[False, True])
    for low in np.linspace(0.5, 0.9, 20).astype("float32"):
        near = np.array([low, np.nextafter(low, low + 1)], "float32")

        def encode(texts, spans, near=near):
            if texts == pairs["first"].tolist():
                return np.array([[1, 0]] * 2, "float32")
            return np.stack([near, np.sqrt(1 - near**2)], axis=1)

        measured = evaluate_word_in_context(encode, pairs, pairs)
        assert measured["accuracy"] == measured["chosen"]


def test_the_cosine_is_measured_against_a_threshold_of_other_pairs(tmp_path):
    pairs = read_word_in_context(write(tmp_path))  # starts 0 4, 4 5, 1 0
    pairs = pairs.assign(same=[False, True, True])
    measured = evaluate_word_in_context(length_and_start, pairs, pairs)
    assert measured["accuracy"] == measured["chosen"] == 1.0
    assert np.cos(1) < measured["threshold"] < np.cos(0.25)
    assert measured["majority"] == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="Received: 3 and 0"):
        evaluate_word_in_context(length_and_start, pairs, pairs[:0])


def test_texts_in_place_of_truth_values_are_refused(tmp_path):
    pairs = read_word_in_context(write(tmp_path))
    texts = pairs.assign(same=["True", "False", "False"])
    for choose, test, name in ((texts, pairs, "choose"), (pairs, texts, "test")):
        with pytest.raises(ValueError, match=f"'same' of `{name}` must hold truth"):
            evaluate_word_in_context(length_and_start, choose, test)
