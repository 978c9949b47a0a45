"""Synthetic pairs: one right translation each, the same for the same seed."""

import re

import pytest

from keras_transformer.datasets import synthetic_pairs
from keras_transformer.datasets.synthetic_pairs import number_words

NUMERALS = {word: value for value, word in enumerate("영일이삼사오육칠팔구")}
UNITS = {"십": 10, "백": 100, "천": 1000}
LARGE = {"만": 10**4, "억": 10**8, "조": 10**12}
VERBS = dict(사="bought", 샀="bought", 팔="sold", 세="counted", 보="saw", 잃="lost")
VERBS["찾"] = "found"
NOUNS = dict(
    사과="apple",
    고양이="cat",
    꽃="flower",
    나무="tree",
    자동차="car",
    책="book",
    표="ticket",
    편지="letter",
)


def read_number(words):
    """Read Korean number words from left to right."""
    total = group = numeral = 0
    for letter in words.replace(" ", ""):
        if letter in NUMERALS:
            numeral = NUMERALS[letter]
        elif letter in UNITS:
            group, numeral = group + (numeral or 1) * UNITS[letter], 0
        else:
            total, group, numeral = total + (group + numeral or 1) * LARGE[letter], 0, 0
    return total + group + numeral


def translate(korean):
    """Translate by rules read off the text, not by the generator's."""
    clauses = []
    for clause in korean.split(", "):
        noun, *number, _, verb = clause.split(" ")
        value = read_number(" ".join(number))
        plural = "" if value == 1 else "s"
        clauses.append(f"{VERBS[verb[0]]} {value} {NOUNS[noun]}{plural}")
    return ", ".join(clauses)


@pytest.mark.parametrize(
    "number, words",
    [
        (0, "영"),
        (1, "일"),
        (10, "십"),
        (11, "십일"),
        (110, "백십"),
        (1000, "천"),
        (2024, "이천이십사"),
        (10_000, "만"),
        (11_111, "만 천백십일"),
        (20_317, "이만 삼백십칠"),
        (100_000, "십만"),
        (110_000, "십일만"),
        (100_000_000, "일억"),
        (100_010_000, "일억 만"),
        (10**12, "일조"),
        (
            9_999_999_999_999_999,
            "구천구백구십구조 구천구백구십구억 구천구백구십구만 구천구백구십구",
        ),
    ],
)
def test_numbers_are_written_as_koreans_write_them(number, words):
    assert number_words(number) == words
    assert read_number(words) == number


def test_every_target_is_the_translation_of_its_source():
    pairs = synthetic_pairs(0, 500, clauses=(1, 6), digits=16)
    for korean, english in pairs:
        assert translate(korean) == english
    back = synthetic_pairs(0, 500, clauses=(1, 6), digits=16, direction="to_words")
    assert back == [(english, korean) for korean, english in pairs]


def test_a_seed_gives_the_same_pairs_and_a_prefix_of_more():
    first = ("표 육백이십삼 장을 보았다", "saw 623 tickets")
    assert synthetic_pairs(0, 20) == synthetic_pairs(0, 30)[:20]
    assert synthetic_pairs(0, 1, clauses=1)[0] == first
    assert synthetic_pairs(1, 20) != synthetic_pairs(0, 20)
    assert synthetic_pairs(0, 0) == []


def test_clauses_and_digits_set_the_length():
    pairs = synthetic_pairs(0, 400, clauses=(2, 5), digits=3)
    counts = [english.count(",") + 1 for _, english in pairs]
    assert set(counts) == {2, 3, 4, 5}
    numbers = [n for _, english in pairs for n in re.findall(r"\d+", english)]
    assert {len(number) for number in numbers} == {1, 2, 3}
    (long,) = synthetic_pairs(0, 1, clauses=500)
    assert long[1].count(",") == 499
    assert translate(long[0]) == long[1]


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(count=-1), "`count` must be an integer of at least 0"),
        (dict(seed="a"), "`seed` must be an integer"),
        (dict(clauses=0), "be a positive integer. Received: the smallest of clauses=0"),
        (dict(clauses=(3, 2)), "the largest of `clauses` must be an integer of at"),
        (dict(digits=17), "`digits` must be an integer of at least 1 and at most 16"),
        (dict(direction="both"), "must be one of 'to_digits', 'to_words'"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        synthetic_pairs(**{"seed": 0, "count": 1, **settings})


def test_a_number_out_of_range_is_refused():
    with pytest.raises(ValueError, match="`number` must be an integer"):
        number_words(10**16)
