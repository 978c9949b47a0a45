"""A SentencePiece model and its `tokenizer.json` cut texts alike."""

import random
import sys
import unicodedata

import pytest
from sentencepiece_examples import CORPUS, ODD, SPACED, foreign, small, trained

from keras_transformer.pretrained.tokenizer_files import load_tokenizer, save_tokenizer
from keras_transformer.tokenizers import SentencePieceTokenizer
from keras_transformer.tokenizers.tokenizer_json import as_huggingface

transformers = pytest.importorskip("transformers")

MODELS = {
    "unigram": lambda: trained(),
    "bpe": lambda: trained(model_type="bpe"),
    "char": lambda: trained(model_type="char"),
    "bytes": lambda: trained(600, byte_fallback=True),
    "bpe-bytes": lambda: trained(600, model_type="bpe", byte_fallback=True),
    "spaces": lambda: small(preserve_whitespace=True),
    "bpe-spaces": lambda: small(preserve_whitespace=True, model_type="bpe"),
    "nfkc": lambda: trained(normalization="nfkc"),
    "symbols": lambda: small(user_defined_symbols=["<가>", "오늘"]),
    "other-ids": lambda: trained(pad_id=3),
    "foreign": lambda: SentencePieceTokenizer(foreign()),
    "foreign-bpe": lambda: SentencePieceTokenizer(
        foreign(model_type="bpe", normalization_rule_name="identity")
    ),
    "foreign-folding": lambda: SentencePieceTokenizer(
        foreign(normalization_rule_name="nmt_nfkc_cf")
    ),
}
SPELLED = ["<s>", "</s>", "<pad>", "<unk>"]


def texts_for(key):
    """Texts of the corpus, and of every odd character; none spells a special piece."""
    draw = random.Random(0)
    rows = ["".join(draw.choices(ODD, k=draw.randint(1, 12))) for _ in range(500)]
    rows += [
        *CORPUS,
        "",
        " ",
        SPACED,
        "\u00a0\u0301가",
        "\r\n가",
        "오늘 <가>오늘",
        "IS",
    ]
    rows += [unicodedata.normalize("NFD", row) for row in CORPUS[:9]]
    rows += ["오늘 <0xEA>", "<0x41> b", "IS"]
    if key == "foreign-bpe":  # it strips the sign for a space, where that is text
        rows = [row.replace("\u2581", "") for row in rows]
    return [row for row in rows if not any(piece in row for piece in SPELLED)]


@pytest.mark.parametrize("key", MODELS)
def test_transformers_reads_a_saved_model_as_the_same_ids(key, tmp_path):
    ours = MODELS[key]()
    save_tokenizer(ours, tmp_path, "gpt2")
    again = load_tokenizer(tmp_path, {"model_type": "gpt2"})
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    begin = [] if ours.bos_id is None else [ours.bos_id]
    for text in texts_for(key):
        ids = theirs(text)["input_ids"]
        assert again.encode(text) == ids, text
        expected = begin + ours.encode(text)
        if key == "symbols":  # of so few texts that pieces have equal scores
            ids, expected = sorted(ids), sorted(expected)
        assert ids == expected, text
        if ours.unk_id not in ids:
            decoded = ours.decode(expected)
            assert theirs.decode(expected, skip_special_tokens=True) == decoded, text
    spaced = [ours.piece_to_id("\u2581")] * 2 + ours.encode("오늘")
    assert again.decode(spaced) == ours.decode(spaced)
    assert again.vocabulary_size == ours.vocabulary_size <= len(theirs)
    for role in ("pad", "unk", "bos", "eos"):
        id = getattr(ours, f"{role}_id")
        assert getattr(again, f"{role}_id") == getattr(theirs, f"{role}_token_id") == id


@pytest.mark.parametrize("key", ["nfkc", "foreign"])
def test_what_normalization_makes_a_special_piece_of_is_text(key):
    ours = MODELS[key]()
    theirs = as_huggingface(ours, bos=True, eos=True)
    for text in ("좋다＜/s＞", "＜pad＞", "가<\x01/s>"):
        ids = [id for id in ours.encode(text) if id != ours.unk_id]
        found = [id for id in theirs.encode(text)[1:-1] if id != ours.unk_id]
        assert found == ids, text


def padded_twice():
    return SentencePieceTokenizer(foreign(user_defined_symbols="<pad>"))


@pytest.mark.parametrize(
    "make, problem",
    [
        (lambda: small(model_type="word"), "whole words: train a"),
        (lambda: small(model_type="bpe", user_defined_symbols=["<가>"]), "'<가>': tr"),
        (lambda: small(user_defined_symbols=["㈜"], normalization="nfkc"), "as '㈜'"),
        (lambda: small(treat_whitespace_as_suffix=True), "spaces after words"),
        (padded_twice, "'<pad>' for something else"),
    ],
)
def test_a_model_that_the_format_has_not_is_refused(make, problem, tmp_path):
    with pytest.raises(ValueError, match=f"{problem}.*without its tokenizer"):
        save_tokenizer(make(), tmp_path, "gpt2")
    assert not list(tmp_path.iterdir())


def test_without_the_package_a_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match="pip install"):
        save_tokenizer(trained(), tmp_path, "gpt2")
