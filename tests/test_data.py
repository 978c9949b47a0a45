"""The bundled reviews and pairs hold what data/README.md says of them."""

import itertools
import re
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path

import pandas as pd
import pytest

from keras_transformer.datasets import load_nsmc, load_reviews, read_reviews

DATA = Path(__file__).resolve().parents[1] / "data"
FILE = DATA / "reviews_ko.tsv"
PARTS = ("train", "validation", "test")


@pytest.fixture(scope="module")
def reviews():
    return read_reviews(FILE)


@pytest.fixture(scope="module")
def linear_model():
    """TF-IDF and logistic regression, trained on the training part."""
    text = pytest.importorskip("sklearn.feature_extraction.text")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    vectorizer = text.TfidfVectorizer(
        analyzer="char_wb", ngram_range=(1, 4), min_df=3, sublinear_tf=True
    )
    train = load_reviews().train
    model = make_pipeline(vectorizer, LogisticRegression(C=4, max_iter=1000))
    return model.fit(train["document"], train["label"])


def fold(text):
    return " ".join(unicodedata.normalize("NFC", text).split())


def letters(text):
    """As `fold`, without spaces, punctuation and case."""
    return re.sub(r"[\W_]+", "", fold(text).lower())


def shared(texts, form):
    """Yields i, j, and how many 5-grams both have, the shorter has, either has."""
    grams = [
        {text[k : k + 5] for k in range(max(1, len(text) - 4))}
        for text in map(form, texts)
    ]
    holders = defaultdict(list)
    for index, own in enumerate(grams):
        for gram in own:
            holders[gram].append(index)
    both = Counter()
    for indices in holders.values():
        both.update(itertools.combinations(indices, 2))
    for (i, j), count in both.items():
        smaller = min(len(grams[i]), len(grams[j]))
        yield i, j, count, smaller, len(grams[i] | grams[j])


def test_the_file_is_plain(reviews):
    data = FILE.read_bytes()
    text = data.decode("utf-8")
    assert data.endswith(b"\n") and b"\r" not in data and b"\xef\xbb\xbf" not in data
    assert list(reviews.columns) == ["id", "document", "label", "split"]
    assert text.count("\n") == len(reviews) + 1 and reviews.attrs["dropped"] == 0
    assert all(document == fold(document) for document in reviews["document"])
    assert reviews["id"].is_unique
    assert reviews["id"].str.fullmatch("[A-E][0-9]{4}").all()
    assert set(reviews["label"]) == {0, 1} and set(reviews["split"]) == set(PARTS)


def test_there_are_enough_reviews_and_as_many_of_each_label(reviews):
    assert len(reviews) >= 4000
    counts = reviews.groupby(["split", "label"]).size()
    assert counts["test"].sum() >= 800 and counts["validation"].sum() >= 400
    for part in PARTS:
        assert counts[part][0] == counts[part][1]


def test_the_readme_counts_what_is_there(reviews):
    text = (DATA / "README.md").read_text("utf-8")
    counts = reviews.groupby(["split", "label"]).size()
    for part in PARTS:
        negative, positive = counts[part][0], counts[part][1]
        row = f"| {part} | {negative} | {positive} | {negative + positive} |"
        assert row in text
    each = reviews["label"].value_counts()
    assert f"| all | {each[0]} | {each[1]} | {len(reviews)} |" in text
    assert f"{len(reviews):,} short Korean film reviews" in text
    for slice_, count in reviews["id"].str[0].value_counts().items():
        assert re.search(rf"\| {slice_} \| [^|]+ \| {count} \|", text), slice_


def test_the_loader_gives_the_parts_of_the_file(reviews):
    for part, frame in load_reviews()._asdict().items():
        expected = reviews[reviews["split"] == part].drop(columns="split")
        pd.testing.assert_frame_equal(frame, expected.reset_index(drop=True))


@pytest.mark.parametrize("form", [fold, letters])
def test_no_two_reviews_are_near_duplicates_nor_leak_between_parts(reviews, form):
    texts, sides = reviews["document"].tolist(), reviews["split"].tolist()
    for i, j, count, smaller, union in shared(texts, form):
        assert count / union <= 0.6, (texts[i], texts[j])
        if sides[i] != sides[j]:
            assert count / smaller <= 0.6, (texts[i], texts[j])


def test_the_reviews_are_no_template_mush(reviews):
    openings = Counter(" ".join(t.split()[:2]) for t in reviews["document"])
    assert max(openings.values()) <= 25, openings.most_common(3)
    assert len(openings) / len(reviews) >= 0.85
    lengths = reviews["document"].str.len()
    assert (lengths < 12).sum() >= 200 and (lengths > 100).sum() >= 50
    # No cue word gives the label away.
    for cue in ("재밌", "지루", "최고", "아깝"):
        share = reviews["label"][reviews["document"].str.contains(cue)].mean()
        assert 0.1 <= share <= 0.9, (cue, share)


def test_a_linear_model_finds_them_neither_trivial_nor_hopeless(linear_model):
    test = load_reviews().test
    accuracy = linear_model.score(test["document"], test["label"])
    assert 0.75 <= accuracy <= 0.93


@pytest.mark.slow
def test_what_is_learnt_from_them_carries_over_to_real_reviews(
    linear_model, data_folder
):
    _, test = load_nsmc(data_folder)
    assert linear_model.score(test["document"], test["label"]) >= 0.62


def test_the_folder_stays_under_two_megabytes():
    assert sum(f.stat().st_size for f in DATA.rglob("*") if f.is_file()) < 2_000_000


@pytest.fixture(scope="module")
def pairs():
    return read_reviews(
        DATA / "translation_ko_en.tsv", text_column="ko", label_column=None
    )


def test_the_pairs_are_many_and_the_readme_counts_them(pairs):
    assert list(pairs.columns) == ["id", "ko", "en", "split"]
    assert len(pairs) >= 3000 and pairs["id"].is_unique
    assert pairs["ko"].is_unique and pairs["en"].is_unique
    text = (DATA / "README.md").read_text("utf-8")
    assert f"{len(pairs):,} Korean-English sentence pairs" in text
    for part, count in pairs["split"].value_counts().items():
        assert f"| {part} | {count} |" in text


def test_the_pairs_are_of_many_kinds(pairs):
    """Questions, numbers and long sentences, in what is trained on and in the test."""
    for part, count in (("train", 15), ("test", 5)):
        rows = pairs[pairs["split"] == part]
        asked = rows[["ko", "en"]].apply(
            lambda side: side.str.contains("?", regex=False)
        )
        assert (asked["ko"] & asked["en"]).mean() > 0.1
        for column in ("ko", "en"):
            assert rows[column].str.contains(r"\d").sum() >= count
        assert (rows["en"].str.len() > 100).sum() >= count
    openings = Counter(" ".join(text.split()[:2]) for text in pairs["ko"])
    assert len(openings) / len(pairs) >= 0.8


@pytest.mark.parametrize("column", ["ko", "en"])
def test_held_out_pairs_share_little_with_any_other(pairs, column):
    texts, sides = pairs[column].tolist(), pairs["split"].tolist()
    for i, j, count, smaller, _ in shared(texts, fold):
        held_out = {sides[i], sides[j]} != {"train"}
        assert not held_out or count / smaller <= 0.6, (texts[i], texts[j])
