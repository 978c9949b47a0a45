"""The bundled homonyms hold what data/README.md says of them."""

from pathlib import Path

from keras_transformer.datasets import load_homonyms, load_pairs

CHAPTER = "배 타고 배 먹으니 배 아프다"
README = Path(__file__).resolve().parents[1] / "data" / "README.md"


def grams(text, n):
    return {text[i : i + n] for i in range(len(text) - n + 1)}


def test_there_are_enough_of_each_sense_and_the_readme_counts_them():
    train, test = load_homonyms()
    assert len(train) + len(test) >= 2440
    text = README.read_text("utf-8")
    assert f"{len(train) + len(test)} Korean sentences" in text
    assert f"| train | {len(train)} |\n| test | {len(test)} |" in text
    assert train["word"].nunique() >= 12
    for part, least in ((train, 60), (test, 18)):
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

    def rest(row):
        return " ".join(t for t in row.sentence.split() if not t.startswith(row.word))

    parts = [[grams(rest(r), 3) for r in part.itertuples()] for part in (train, test)]
    everything = [own for part in parts for own in part]
    for own, sentence in zip(parts[1], test["sentence"], strict=True):
        others = (len(own & other) for other in everything if other is not own)
        assert max(others) <= 0.3 * len(own), sentence


def test_the_chapters_sentence_and_its_like_are_in_neither_part():
    for part in load_homonyms():
        boats = part[part["word"] == "배"]["sentence"]
        for row in boats:
            said = [hint for hint in ("타", "먹", "아프") if f"배 {hint}" in row]
            assert len(said) < 2 and "배 먹으니" not in row, row


def test_no_sentence_shares_much_with_the_chapters():
    chapter = grams(CHAPTER, 5)
    for part in load_homonyms():
        for sentence in part["sentence"]:
            own = grams(sentence, 5)
            assert len(own & chapter) <= 0.6 * min(len(own), len(chapter)), sentence


def test_the_further_texts_of_the_notebook_hold_no_sentence_that_is_asked():
    texts = load_pairs().train["source"]
    read = [grams(text, 3) for text in texts]
    for sentence in [*load_homonyms().test["sentence"], CHAPTER]:
        own = grams(sentence, 3)
        assert max(len(own & other) for other in read) <= 0.75 * len(own), sentence
