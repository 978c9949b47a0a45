from functools import partial

import pytest
from word_examples import TARGET, TEXTS, small, train_tokenizer

from keras_transformer import WordSenses
from keras_transformer.tasks import word_vectors

SENSES = ["boat", "boat", "pear", "pear", "belly"]
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer()


def finder(tokenizer, senses=SENSES, words="배", **settings):
    encode = partial(word_vectors, small(tokenizer), tokenizer)
    return WordSenses(encode, TEXTS, words, senses, **settings)


def test_a_known_sentence_is_its_own_nearest(tokenizer):
    senses = finder(tokenizer, num_neighbors=1)
    assert senses.predict(TEXTS, "배") == SENSES
    assert senses.evaluate(TEXTS, "배", SENSES)["accuracy"] == 1.0


def test_each_word_has_its_own_accuracy(tokenizer):
    words = ["배", "배", "배를", "배", "배가"]
    senses = finder(tokenizer, words=words, num_neighbors=1)
    wrong = ["pear", "boat", "pear", "pear", "boat"]
    measured = senses.evaluate(TEXTS, words, wrong)
    assert measured["accuracy"] == 0.6
    assert measured["words"].to_dict("index") == {
        "배": {"sentences": 3, "accuracy": pytest.approx(2 / 3)},
        "배가": {"sentences": 1, "accuracy": 0.0},
        "배를": {"sentences": 1, "accuracy": 1.0},
    }


def test_the_nearest_vote_and_of_equal_votes_the_first_counts(tokenizer):
    senses = finder(tokenizer, num_neighbors=4)
    table = senses.nearest(TARGET, "배")
    assert list(table) == ["occurrence", "similarity", "sense", "sentence"]
    assert table["occurrence"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    known = dict(zip(TEXTS, SENSES, strict=True))
    assert [known[text] for text in table["sentence"]] == table["sense"].tolist()
    for occurrence, part in table.groupby("occurrence"):
        assert part["similarity"].is_monotonic_decreasing
        votes = part["sense"].value_counts()
        best = [s for s in part["sense"] if votes[s] == votes.max()]
        assert senses.sense_of(TARGET, "배")[occurrence] == best[0]


def test_what_does_not_fit_is_refused(tokenizer):
    with pytest.raises(ValueError, match="one word for each text"):
        finder(tokenizer, words=["배"])
    with pytest.raises(ValueError, match="one label for each text"):
        finder(tokenizer, SENSES[:2])
    with pytest.raises(ValueError, match="num_neighbors"):
        finder(tokenizer, num_neighbors=0)
    senses = finder(tokenizer)
    with pytest.raises(ValueError, match="No known sentence has the word '타'.*배"):
        senses.sense_of(TARGET, "타")
    with pytest.raises(ValueError, match="No token of the text begins"):
        senses.sense_of(TARGET, "말")
