"""Files of reviews, the bundled and the public ones, and splits."""

import gzip
import hashlib
import sys
import unicodedata

import keras
import numpy as np
import pandas as pd
import pytest

from keras_transformer.datasets import (
    load_nsmc,
    load_reviews,
    read_reviews,
    reviews,
    split,
)

HEADER = "id\tdocument\tlabel\n"
NSMC_LIKE = (
    HEADER + '1\t"굿 영화\t1\n2\t\t0\n3\t재밌다\t1\n4\t최고" 추천\t1\n5\tNA\t0\n'
)


@pytest.fixture
def write(tmp_path):
    def write(content, name="reviews.tsv", encoding="utf-8"):
        path = tmp_path / name
        data = content if isinstance(content, bytes) else content.encode(encoding)
        path.write_bytes(data)
        return path

    return write


def rows_of(frame):
    return list(zip(frame["document"], frame["label"], strict=True))


def test_quotes_empty_texts_and_words_for_nothing_stay_what_they_are(write):
    frame = read_reviews(write(NSMC_LIKE))
    expected = [('"굿 영화', 1), ("재밌다", 1), ('최고" 추천', 1), ("NA", 0)]
    assert rows_of(frame) == expected
    assert frame["id"].tolist() == ["1", "3", "4", "5"]
    assert frame.index.tolist() == [0, 1, 2, 3]
    assert frame["label"].dtype == "int64"
    assert all(isinstance(text, str) for text in frame["document"])
    assert frame.attrs["dropped"] == 1

    kept = read_reviews(write(NSMC_LIKE), empty="keep")
    assert rows_of(kept) == [expected[0], ("", 0), *expected[1:]]
    assert kept.attrs["dropped"] == 0


@pytest.mark.parametrize(
    "word", ["NA", "nan", "NaN", "null", "None", "N/A", "-", "1.0"]
)
@pytest.mark.parametrize("name, mark", [("r.tsv", "\t"), ("r.csv", ",")])
def test_words_for_missing_values_are_texts(write, word, name, mark):
    content = f"document{mark}label\n{word}{mark}1\n"
    assert rows_of(read_reviews(write(content, name))) == [(word, 1)]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.rstrip(b"\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n").rstrip(),
        lambda data: data.replace(b"\n", b"\r"),
        lambda data: data.replace(b"\n", b"\n\n"),
        lambda data: gzip.compress(data),
    ],
    ids=["last newline", "BOM", "CRLF", "all three", "CR", "blank lines", "gzip"],
)
def test_how_lines_end_and_files_begin_makes_no_difference(write, change):
    expected = read_reviews(write(NSMC_LIKE))
    changed = read_reviews(write(change(NSMC_LIKE.encode())))
    pd.testing.assert_frame_equal(changed, expected)


def test_only_newlines_end_a_line(write):
    text = "한 줄\u2028아직\x85같은\x0b줄\x1c이다"
    assert rows_of(read_reviews(write(f"document\tlabel\n{text}\t1\n"))) == [(text, 1)]


def test_csv_quoting_is_real(write):
    content = (
        'label,document\n1,"hello, there"\n0,"그는 ""아니""라고 했다"\n'
        '1,"두 줄\n한 칸"\n0,중간 " 따옴표\n1,""\n'
    )
    frame = read_reviews(write(content, "reviews.csv"))
    texts = ["hello, there", '그는 "아니"라고 했다', "두 줄\n한 칸", '중간 " 따옴표']
    assert rows_of(frame) == list(zip(texts, [1, 0, 1, 0], strict=True))
    assert frame.attrs["dropped"] == 1


def test_format_follows_the_suffix_or_the_argument(write):
    plain, gzipped = NSMC_LIKE, gzip.compress(NSMC_LIKE.encode())
    for content, name in [
        (plain, "r.TSV"),
        (plain, "r.txt"),
        (gzipped, "r.tsv.gz"),
        (gzipped, "r.txt.gz"),
    ]:
        assert len(read_reviews(write(content, name))) == 4
    assert len(read_reviews(write(plain, "reviews.data"), format="tsv")) == 4
    with pytest.raises(ValueError, match="'reviews.data' does not tell .*format='tsv'"):
        read_reviews(write(plain, "reviews.data"))
    with pytest.raises(ValueError, match="`format` must be one of 'tsv', 'csv'"):
        read_reviews(write(plain), format="xlsx")


def test_columns_are_found_by_name(write):
    content = "점수\t후기\t날짜\n1\t좋다\t2024\n0\t별로\t2025\n"
    frame = read_reviews(write(content), text_column="후기", label_column="점수")
    assert frame["후기"].tolist() == ["좋다", "별로"]
    assert frame["점수"].tolist() == [1, 0]
    assert frame["날짜"].tolist() == ["2024", "2025"]
    unlabelled = read_reviews(write(content), text_column="후기", label_column=None)
    assert unlabelled["후기"].tolist() == ["좋다", "별로"]


def test_other_encodings_are_read_when_named(write):
    path = write(NSMC_LIKE, encoding="cp949")
    expected = rows_of(read_reviews(write(NSMC_LIKE, "utf-8.tsv")))
    assert rows_of(read_reviews(path, encoding="cp949")) == expected
    with pytest.raises(ValueError, match='line 2: .* not utf-8 .*encoding="cp949"'):
        read_reviews(path)
    with pytest.raises(ValueError, match='encoding="utf-16"'):
        read_reviews(write(NSMC_LIKE, encoding="utf-16"))
    # Korean in UTF-8 is mostly no CP949.
    with pytest.raises(ValueError, match='not cp949 text. .*encoding="utf-8"'):
        read_reviews(write(HEADER + "1\t재밌다\t1\n"), encoding="cp949")
    with pytest.raises(ValueError, match="`encoding` must be .*'cp9494'"):
        read_reviews(path, encoding="cp9494")


def test_labels_may_be_any_integers(write):
    content = "document\tlabel\na\t-1\nb\t 12 \nc\t+3\nd\t007\n"
    assert read_reviews(write(content))["label"].tolist() == [-1, 12, 3, 7]


@pytest.mark.parametrize(
    "content, message",
    [
        (HEADER + "1\t좋다\n", r"line 2: expected 3 columns .*found 2"),
        (HEADER + "1\t좋다\t1\n\n2\t또\t본다\t1\n", r"line 4: .*found 4; is there a"),
        (HEADER + "1\t좋다\t긍정\n", r"line 2: expected an integer .*'긍정'"),
        (HEADER + "1\t좋다\t1\n2\t또\t1.0\n", r"line 3: expected an integer .*'1.0'"),
        (HEADER + "1\t좋다\t\n", r"line 2: expected an integer as 'label', found ''"),
        (HEADER + "1\t\tx\n", r"line 2: expected an integer"),
        (HEADER + "1\t좋다\t１\n", r"expected an integer"),
        (HEADER + f"1\t좋다\t{'9' * 30}\n", r"expected an integer"),
        (
            "id\ttext\tlabel\n1\ta\t1\n",
            r"no column 'document'. .*'text'.* text_column=",
        ),
        ("id\tdocument\ty\n1\ta\t1\n", r"no column 'label'. .*'y'.* label_column="),
        ("document,label\na,1\n", r"no column 'document'.*format='csv'"),
        ("document\tlabel\tlabel\na\t1\t1\n", r"more than one column .*'label'"),
        ("", r"is empty. Expected a header"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_reviews(write(content))


@pytest.mark.parametrize(
    "content, message",
    [
        (
            'document,label\na,1\n"열린 따옴표,1\nb,0\n',
            r"begins in line 3.*format='tsv'",
        ),
        ('document,label\n"두\n줄",1\nb\n', r"line 4: expected 2 columns .*found 1"),
        ('document,label\n"두\n줄",1\nb,x\n', r"line 4: expected an integer"),
        ('document,label\n"a"b,1\n', r"begins in line 2"),
    ],
)
def test_what_is_wrong_in_csv_is_named_with_its_line(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_reviews(write(content, "reviews.csv"))


def test_missing_and_damaged_files_are_named(tmp_path, write):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_reviews(tmp_path / "none.tsv")
    with pytest.raises(FileNotFoundError, match="It is a folder"):
        read_reviews(tmp_path, format="tsv")
    damaged = gzip.compress(NSMC_LIKE.encode())[:-9]
    with pytest.raises(ValueError, match="incomplete gzip file"):
        read_reviews(write(damaged, "r.tsv.gz"))


def test_a_header_alone_is_an_empty_table(write):
    frame = read_reviews(write(HEADER))
    assert list(frame.columns) == ["id", "document", "label"] and len(frame) == 0
    assert frame["label"].dtype == "int64"


def test_bundled_reviews_come_in_three_parts():
    reviews = load_reviews()
    for part in reviews:
        assert list(part.columns) == ["id", "document", "label"]
        assert part.index.tolist() == list(range(len(part)))
    assert len(reviews.train) > len(reviews.test) > len(reviews.validation) > 0


def test_bundled_data_is_found_when_installed(tmp_path, monkeypatch):
    module = sys.modules["keras_transformer.datasets.tables"]
    package = tmp_path / "site-packages" / "keras_transformer"
    monkeypatch.setattr(module, "__file__", str(package / "datasets" / "tables.py"))
    with pytest.raises(FileNotFoundError, match="Install .* again"):
        load_reviews()
    (package / "data").mkdir(parents=True)
    rows = "a\t좋다\t1\ttrain\nb\t별로\t0\tvalidation\nc\t싫다\t0\ttest\n"
    file = package / "data" / "reviews_ko.tsv"
    file.write_text(f"id\tdocument\tlabel\tsplit\n{rows}", "utf-8")
    assert [part["id"].tolist() for part in load_reviews()] == [["a"], ["b"], ["c"]]
    assert load_reviews().train.attrs["files"] == [str(file.resolve())]


@pytest.mark.parametrize("place", ["", "nsmc"])
@pytest.mark.parametrize("by_variable", [False, True])
def test_nsmc_is_read_from_a_folder(tmp_path, monkeypatch, place, by_variable):
    monkeypatch.delenv("KERAS_TRANSFORMER_DATA", raising=False)
    folder = tmp_path / place
    folder.mkdir(exist_ok=True)
    train, test = folder / "ratings_train_rebuilt.txt.gz", folder / "ratings_test.txt"
    train.write_bytes(gzip.compress(NSMC_LIKE.encode()))
    test.write_text(HEADER + "1\t좋다\t1\n", "utf-8")
    argument = tmp_path
    if by_variable:
        monkeypatch.setenv("KERAS_TRANSFORMER_DATA", str(tmp_path))
        argument = None
    loaded = load_nsmc(argument)
    assert [len(part) for part in loaded] == [4, 1]
    assert [part.attrs["files"] for part in loaded] == [[str(train)], [str(test)]]
    assert loaded[0].attrs["dropped"] == 1
    # The official file comes first.
    official = folder / "ratings_train.txt"
    official.write_text(HEADER + "1\t싫다\t0\n", "utf-8")
    assert load_nsmc(argument)[0].attrs["files"] == [str(official)]
    test.unlink()
    with pytest.raises(FileNotFoundError, match="Expected ratings_test.txt"):
        load_nsmc(argument)


def test_nsmc_is_downloaded_where_no_folder_is_given(tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_TRANSFORMER_DATA", raising=False)

    def get_file(fname, origin, **kwargs):
        assert origin == f"https://raw.githubusercontent.com/e9t/nsmc/master/{fname}"
        (tmp_path / fname).write_text(NSMC_LIKE, "utf-8")
        return str(tmp_path / fname)

    monkeypatch.setattr(keras.utils, "get_file", get_file)
    train, test = load_nsmc()
    assert train.attrs["files"] == [str(tmp_path / "ratings_train.txt")]
    assert test.attrs["files"] == [str(tmp_path / "ratings_test.txt")]

    def fail(fname, origin, **kwargs):
        raise Exception("URL fetch failure")

    monkeypatch.setattr(keras.utils, "get_file", fail)
    with pytest.raises(
        ConnectionError, match=r"URL fetch failure.*load_nsmc\(folder\)"
    ):
        load_nsmc()


def test_another_file_than_the_official_one_is_no_download(tmp_path, monkeypatch):
    monkeypatch.delenv("KERAS_TRANSFORMER_DATA", raising=False)
    server, get_file = tmp_path / "server", keras.utils.get_file
    server.mkdir()
    for name in ("ratings_train.txt", "ratings_test.txt"):
        (server / name).write_text("<html>Log in to the network</html>", "utf-8")
    monkeypatch.setattr(reviews, "NSMC_URL", f"{server.as_uri()}/")
    monkeypatch.setattr(
        keras.utils,
        "get_file",
        lambda *names, **settings: get_file(*names, cache_dir=tmp_path, **settings),
    )
    with pytest.raises(ConnectionError, match="corrupted.*load_nsmc.folder."):
        load_nsmc()
    hashes = {
        name: hashlib.sha256(NSMC_LIKE.encode()).hexdigest()
        for name in reviews.NSMC_HASHES
    }
    monkeypatch.setattr(reviews, "NSMC_HASHES", hashes)
    for file in server.iterdir():
        file.write_bytes(NSMC_LIKE.encode())
    assert len(load_nsmc()[0]) == 4  # the page is not taken from the cache


def test_the_official_test_file_has_its_hash(data_folder):
    data = gzip.decompress((data_folder / "nsmc/ratings_test.txt.gz").read_bytes())
    expected = reviews.NSMC_HASHES["ratings_test.txt"]
    assert hashlib.sha256(data).hexdigest() == expected


def test_nsmc_has_all_its_rows(data_folder):
    train, test = load_nsmc(data_folder)
    assert (len(train), len(test)) == (150_000, 49_997)
    assert test.attrs["dropped"] == 3  # of the official 50,000
    assert set(train["label"]) == set(test["label"]) == {0, 1}
    assert train["label"].sum() == 75_000


def texts_and_labels(count=200):
    rng = np.random.default_rng(1)
    texts = [f"글 {n}" for n in rng.integers(0, count // 2, count)]
    texts += ["  글\t7 ", unicodedata.normalize("NFD", "글 7")]
    return texts, [
        *rng.choice(["가", "나", "다"], count, p=[0.6, 0.3, 0.1]),
        "가",
        "가",
    ]


@pytest.mark.parametrize("parts", [(0.8, 0.1, 0.1), (-1, 20, 30), (0.5, 0.5), (1.0,)])
def test_equal_texts_stay_on_one_side(parts):
    texts, labels = texts_and_labels()
    found = split(texts, labels, parts)
    assert sorted(np.concatenate(found)) == list(range(len(texts)))
    sides = {}
    for side, rows in enumerate(found):
        assert (np.diff(rows) > 0).all()
        for row in rows:
            key = " ".join(unicodedata.normalize("NFC", texts[row]).split())
            assert sides.setdefault(key, side) == side


def test_parts_have_the_sizes_and_shares_asked_for():
    labels = [0] * 603 + [1] * 301 + [2] * 99
    found = split(map(str, range(1003)), labels, (0.7, 0.2, 0.1), seed=3)
    assert [len(rows) for rows in found] == [702, 201, 100]
    for rows, share in zip(found, (0.7, 0.2, 0.1), strict=True):
        counts = np.bincount(np.array(labels)[rows])
        assert np.abs(counts - share * np.array([603, 301, 99])).max() <= 1
    sizes = [len(rows) for rows in split(map(str, range(50)), None, (-1, 7, 13))]
    assert sizes == [30, 7, 13]
    # With equal texts sizes are kept as nearly.
    texts, labels = texts_and_labels()
    sizes = [len(rows) for rows in split(texts, labels, (142, 30, 30))]
    assert np.abs(np.array(sizes) - (142, 30, 30)).max() <= 6


def test_a_split_depends_on_its_seed_alone():
    texts, labels = texts_and_labels()
    np.random.seed(1)
    first = split(texts, labels, seed=5)
    state = np.random.get_state()[1].copy()
    again = split(texts, labels, seed=5)
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, split(texts, labels, seed=6)))
    assert np.array_equal(np.random.get_state()[1], state)


@pytest.mark.parametrize("text", [None, float("nan"), 3, ["글"], b"text"])
def test_what_is_no_text_is_named_with_its_index(text):
    with pytest.raises(TypeError, match=r"Expected texts. .* at index 1"):
        split(["글", text, "또"], [0, 1, 1])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((["a", "b"], [0]), "2 texts and 1 labels"),
        ((["a", "b"], [0, None]), "label at index 1 is missing"),
        ((["a", "b"], None, (0.5, 0.6)), "add up to 1.*Received: parts=.0.5, 0.6"),
        ((["a", "b"], None, (1, 2)), "add up to the number of texts, 2"),
        ((["a", "b"], None, (-1, 2)), "must be positive"),
        ((["a", "b"], None, (-1, -1)), "must be positive"),
        ((["a", "b"], None, ()), "must be positive"),
        ((["a", "b"], None, (0.8, 0.1, 0.1)), "would be empty: 2 texts"),
        ((["a", "a ", "a"], None, (0.5, 0.5)), "would be empty: 3 texts, of which 1"),
        (([], None), "would be empty|add up"),
    ],
)
def test_what_cannot_be_split_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        split(*arguments)
