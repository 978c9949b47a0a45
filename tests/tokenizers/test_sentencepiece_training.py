"""Training SentencePiece models, and their files."""

import io
import os
import pickle
import tempfile
import unicodedata

import pytest
import sentencepiece as spm
from sentencepiece_examples import (
    CORPUS,
    TYPES,
    foreign,
    small,
    special_ids,
    trained,
)

from keras_transformer.tokenizers import SentencePieceTokenizer


@pytest.mark.parametrize("model_type", TYPES)
def test_list_generator_and_file_give_the_same_model(model_type, tmp_path):
    path = tmp_path / "말뭉치.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(CORPUS).encode())
    models = {
        small(texts, model_type=model_type).serialized
        for texts in (CORPUS, (text for text in CORPUS), path, str(path))
    }
    assert len(models) == 1


@pytest.mark.parametrize("item", [None, 1.0, float("nan"), b"a", 3, ["a"]])
def test_items_that_are_no_strings_are_named_by_index(item):
    for texts in (["a", "b", item], iter(["a", "b", item])):
        with pytest.raises(TypeError, match="Item 2 "):
            SentencePieceTokenizer.train(texts)
    with pytest.raises(TypeError, match="Item 2 "):
        trained().encode(["a", "b", item])
    if not isinstance(item, list):
        with pytest.raises(TypeError):
            trained().encode(item)


def test_half_a_surrogate_pair_is_named_by_index():
    with pytest.raises(ValueError, match="Item 1 "):
        SentencePieceTokenizer.train(["a", "\ud800"])
    with pytest.raises(ValueError, match="Item 0 "):
        trained().encode("\ud800")


@pytest.mark.parametrize(
    "texts", [[], [""], [" ", "\n\t", "\u2581", "\u2585"], iter([])]
)
def test_an_empty_corpus_is_refused(texts):
    with pytest.raises(ValueError, match="nothing to train on"):
        SentencePieceTokenizer.train(texts)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="없음.*pass a list"):
        SentencePieceTokenizer.train(tmp_path / "없음.txt")
    (tmp_path / "cp949.txt").write_bytes("한글".encode("cp949"))
    with pytest.raises(ValueError, match="not UTF-8"):
        SentencePieceTokenizer.train(str(tmp_path / "cp949.txt"))


def test_rare_characters_are_left_out_of_large_corpora_only():
    small_corpus = ["가나다라마 바사아자차" * 20] * 50 + ["희"]
    large_corpus = small_corpus[:-1] * 100 + ["희"]
    for texts, coverage, unknown in [
        (small_corpus, None, False),
        (small_corpus, 0.9995, True),
        (large_corpus, None, True),
        (large_corpus, 1, False),
    ]:
        tokenizer = small(texts, 30, model_type="char", character_coverage=coverage)
        assert (tokenizer.unk_id in tokenizer.encode("희")) == unknown


def test_the_space_is_known_however_rare():
    for texts in (["이어" * 3000], ["이어" * 3000, "이 어"]):
        tokenizer = small(texts, preserve_whitespace=True, character_coverage=0.98)
        assert tokenizer.decode(tokenizer.encode(" 이  어")) == " 이  어"


def test_long_texts_and_texts_with_the_trainers_signs_count():
    long = "한없이긴글" * 2000
    tokenizer = small([long, "▅▅ 빼지 말 것"], 99)
    assert tokenizer.unk_id not in tokenizer.encode("한없이긴글 빼지 말 것")


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"model_type": "wordpiece"}, "model_type='wordpiece'"),
        ({"normalization": "nfd"}, "normalization='nfd'"),
        ({"character_coverage": 99.95}, "character_coverage.*99.95"),
        ({"size": 0}, "vocabulary_size=0"),
        ({"size": 20.5}, "vocabulary_size=20.5"),
        ({"max_texts": 0}, "max_texts=0"),
        ({"model_type": "word", "byte_fallback": True}, "byte_fallback"),
        ({"model_type": "word", "preserve_whitespace": True}, "preserve_whitespace"),
        ({"user_defined_symbols": ["<s>"]}, "'<s>' is there already"),
        ({"user_defined_symbols": ["<a>", "<a>"]}, "'<a>' is there already"),
        ({"user_defined_symbols": ["a b"]}, "'a b' would never be found"),
        ({"user_defined_symbols": [""]}, "'' would never be found"),
        ({"vocab_size": 30}, "`train` sets vocab_size itself"),
        ({"no_such_option": 1}, "no_such_option"),
    ],
)
def test_arguments_out_of_range_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        small(**arguments)


def test_one_string_of_symbols_is_refused():
    with pytest.raises(TypeError, match="user_defined_symbols.*'<sep>'"):
        small(user_defined_symbols="<sep>")


def test_symbols_are_one_piece_and_options_reach_the_trainer():
    symbols = ["<sep>", ",", '"', "한글"]
    tokenizer = small(CORPUS, 250, user_defined_symbols=symbols, split_digits=True)
    pieces = tokenizer.pieces('어제<sep>한글, "a"')
    assert set(symbols) < set(pieces)
    assert [tokenizer.piece_to_id(s) for s in symbols] == [4, 5, 6, 7]
    assert small(control_symbols=["<mask>"]).piece_to_id("<mask>") == 4


def test_special_pieces_written_in_a_text_are_plain_text():
    tokenizer = trained(400, byte_fallback=True)
    ids = tokenizer.encode("<pad></s><0xEA>")
    assert not set(special_ids(tokenizer)) & set(ids)
    assert tokenizer.decode(ids) == "<pad></s><0xEA>"


@pytest.mark.parametrize("model_type", TYPES)
def test_training_is_reproducible(model_type):
    arguments = {"model_type": model_type, "max_texts": 50}
    models = [small(CORPUS, seed=seed, **arguments).serialized for seed in (0, 0, 1)]
    assert models[0] == models[1] != models[2]


@pytest.mark.parametrize("preserve_whitespace", [False, True])
def test_a_model_file_names_no_path(preserve_whitespace):
    tokenizer = small(preserve_whitespace=preserve_whitespace)
    assert tempfile.gettempdir().encode() not in tokenizer.serialized
    assert b"rule.tsv" not in tokenizer.serialized


def test_training_is_quiet_unless_asked(capfd):
    small()
    with pytest.raises(ValueError):
        SentencePieceTokenizer.train(CORPUS, 20)
    assert capfd.readouterr() == ("", "")
    # The log level is its default again.
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS), model_writer=io.BytesIO(), vocab_size=72
    )
    assert "trainer" in capfd.readouterr().err
    small(verbose=True)
    assert "trainer" in capfd.readouterr().err


@pytest.mark.parametrize("make", [trained, lambda: SentencePieceTokenizer(foreign())])
def test_reloaded_and_unpickled_are_the_same(make, tmp_path):
    tokenizer = make()
    path = tmp_path / "한글 폴더" / "모델.model"
    path.parent.mkdir()
    for target in (path, str(path)):
        tokenizer.save(target)
    assert os.listdir(path.parent) == [path.name]
    for again in (
        SentencePieceTokenizer.load(path),
        SentencePieceTokenizer(str(path)),
        SentencePieceTokenizer(tokenizer.serialized),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert again.serialized == tokenizer.serialized
        assert special_ids(again) == special_ids(tokenizer)
        texts = [*CORPUS, unicodedata.normalize("NFD", CORPUS[0])]
        assert again.encode(texts) == tokenizer.encode(texts)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "spm.model"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        trained().save(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["spm.model"]
    with pytest.raises(FileNotFoundError, match="no folder.*없음"):
        trained().save(tmp_path / "없음" / "spm.model")


def test_missing_and_broken_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no model file.*없음"):
        SentencePieceTokenizer(tmp_path / "없음.model")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    for content in (b"", pointer, b"PK\x03\x04", b"{}", bytes(100)):
        (tmp_path / "spm.model").write_bytes(content)
        with pytest.raises(ValueError, match=f"spm.model.*{len(content)} bytes"):
            SentencePieceTokenizer(tmp_path / "spm.model")
        with pytest.raises(ValueError, match="These .* bytes"):
            SentencePieceTokenizer(content)


def test_a_file_that_ends_too_early_is_never_half_loaded():
    content = foreign(normalization_rule_name="identity")
    whole = spm.SentencePieceProcessor(model_proto=content)
    loaded = 0
    for length in range(len(content)):
        try:
            tokenizer = SentencePieceTokenizer(content[:length])
        except ValueError:
            continue
        loaded += 1
        assert tokenizer.encode(CORPUS[0]) == whole.encode(CORPUS[0])
    assert loaded < 5
