"""Pairs of sentences with one word, and whether it has one sense in both."""

import re
from pathlib import Path

import pandas as pd

from keras_transformer.datasets.tables import open_table

COLUMNS = ("Target", "SENTENCE1", "SENTENCE2", "ANSWER")
ANSWERS = {"true": True, "false": False}


def read_word_in_context(path: str | Path) -> pd.DataFrame:
    """Read a file of the word-in-context task, as KoBEST has it.

    Args:
        path: A table with the columns `Target`, `SENTENCE1`, `SENTENCE2` and
            `ANSWER` (True or False). The word stands in [brackets], the first ones
            that begin with it; where no such are, it is the first place with it.

    Returns:
        A pandas table with the columns `word`; `first` and `second`, the sentences
        without brackets; `first_span` and `second_span`, the word's first letter and
        its last + 1; and `same`, true or false.

    Raises:
        FileNotFoundError: No such file.
        ValueError: A column that is not there, an answer that is neither, a sentence
            without the word; with its line.

    Example:

    >>> pairs = read_word_in_context("kobest_wic/test.tsv")

    Source: Jang et al. 2022, https://arxiv.org/abs/2204.04541
    """
    path = Path(path)
    columns = {name: name for name in COLUMNS}
    _, rows, place = open_table(path, columns, None, "utf-8")
    found = []
    for line, cells in rows:
        word, *sentences, answer = (cells[place[name]].strip() for name in COLUMNS)
        if answer.lower() not in ANSWERS:
            raise ValueError(
                f"{path}, line {line}: ANSWER must be True or False. Received: "
                f"{answer!r}."
            )
        first, second = (
            _span(text, word, f"{path}, line {line}") for text in sentences
        )
        found.append((word, *first, *second, ANSWERS[answer.lower()]))
    names = ["word", "first", "first_span", "second", "second_span", "same"]
    return pd.DataFrame(found, columns=names)


def _span(text, word, where):
    """The text without brackets, and the place of the word."""
    plain = _without_brackets(text)
    if not word or word not in plain:
        raise ValueError(f"{where}: no {word!r} in {text!r}.")
    marked = re.search(rf"\[({re.escape(word)}[^][]*)\]", text)
    if marked:
        start, stop = (len(_without_brackets(text[:end])) for end in marked.span(1))
    else:  # KoBEST has a row with brackets around another word
        start = plain.index(word)
        stop = start + len(word)
    return plain, (start, stop)


def _without_brackets(text):
    return text.replace("[", "").replace("]", "")
