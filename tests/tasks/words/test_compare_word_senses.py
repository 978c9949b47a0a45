from functools import partial

import numpy as np
import pandas as pd
import pytest
from word_examples import TARGET, TEXTS, small, train_tokenizer

from keras_transformer.tasks import (
    ContextWords,
    WordSenses,
    compare_word_senses,
    embedding_vectors,
    word_vectors,
)

SENSES = ["boat", "boat", "pear", "pear", "belly"]
KNOWN = pd.DataFrame({"word": "배", "sense": SENSES, "sentence": TEXTS})
TEST = KNOWN.assign(sense=["boat", "boat", "pear", "boat", "boat"])
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer()


def compare(encoders, **settings):
    settings = dict(text=TARGET, word="배", num_neighbors=1) | settings
    return compare_word_senses(encoders, KNOWN, TEST, **settings)


def test_each_row_says_what_word_senses_says(tokenizer):
    model = small(tokenizer)
    encoders = {
        "read": partial(word_vectors, model, tokenizer),
        "bag": ContextWords(tokenizer, TEXTS, window=1),
    }
    table = compare(encoders)
    assert list(table) == ["accuracy", "1", "2", "3", "spread"]
    assert table.index.tolist() == ["read", "bag"]
    assert table.loc["read", "accuracy"] == 0.6  # each is its own nearest
    for name, encode in encoders.items():
        senses = WordSenses(encode, TEXTS, "배", SENSES, num_neighbors=1)
        row = table.loc[name]
        assert row[["1", "2", "3"]].tolist() == senses.sense_of(TARGET, "배")
        vectors = senses.vectors(TARGET, "배")
        lengths = np.linalg.norm(vectors, axis=1).max()
        apart = max(np.linalg.norm(a - b) for a in vectors for b in vectors)
        assert row["spread"] == pytest.approx(apart / lengths, rel=1e-4)


@pytest.mark.parametrize("hide", [False, True])
def test_without_positions_one_word_has_one_vector_in_a_text(tokenizer, hide):
    plain = small(tokenizer, positions=None)
    encoders = {
        "none": partial(word_vectors, plain, tokenizer, hide=hide),
        "learned": partial(word_vectors, small(tokenizer), tokenizer, hide=hide),
        "table": partial(embedding_vectors, plain, tokenizer),
    }
    table = compare(encoders)
    assert table.loc["table", "spread"] == 0
    assert table.loc["none", "spread"] < 1e-4 < table.loc["learned", "spread"]
    for name in ("none", "table"):
        assert table.loc[name, ["1", "2", "3"]].nunique() == 1


def test_a_table_without_a_column_is_refused():
    for frames in ((KNOWN.drop(columns="sense"), TEST), (KNOWN, TEST[["word"]])):
        with pytest.raises(ValueError, match="must have the columns word, sense"):
            compare_word_senses({}, *frames, text=TARGET, word="배")
