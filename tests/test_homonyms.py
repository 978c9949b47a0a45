"""The bundled homonyms hold what data/README.md says of them."""

from pathlib import Path

from keras_transformer.datasets import load_homonyms

README = Path(__file__).resolve().parents[1] / "data" / "README.md"


def test_there_are_enough_of_each_sense_and_the_readme_counts_them():
    train, test = load_homonyms()
    assert len(train) + len(test) >= 800
    text = README.read_text("utf-8")
    assert f"{len(train) + len(test)} Korean sentences" in text
    assert f"| train | {len(train)} |\n| test | {len(test)} |" in text
    assert train["word"].nunique() >= 12
    for part, least in ((train, 15), (test, 5)):
        counts = part.groupby(["word", "sense"]).size()
        assert counts.min() >= least
        assert (counts.groupby("word").size() >= 2).all()
    assert set(train["word"]) == set(test["word"])


def test_the_word_begins_exactly_one_token_and_no_sentence_comes_twice():
    train, test = load_homonyms()
    for part in (train, test):
        for row in part.itertuples():
            tokens = [t for t in row.sentence.split() if t.startswith(row.word)]
            assert len(tokens) == 1, row.sentence
    sentences = [*train["sentence"], *test["sentence"]]
    assert len(set(sentences)) == len(sentences)


def test_held_out_sentences_share_little_with_any_other():
    train, test = load_homonyms()

    def grams(row):
        rest = " ".join(t for t in row.sentence.split() if not t.startswith(row.word))
        return {rest[i : i + 3] for i in range(len(rest) - 2)}

    others = [grams(row) for row in train.itertuples()]
    for row in test.itertuples():
        own = grams(row)
        assert max(len(own & other) for other in others) <= 0.2 * len(own), row.sentence
    assert not any("배 타고 배 먹으니" in text for text in train["sentence"])
