"""A SentencePiece model and its `tokenizer.json` cut texts alike."""

import random
import unicodedata

import pytest
from sentencepiece_examples import CORPUS, ODD, SPACED, foreign, small, trained

from keras_transformer.pretrained.tokenizer_files import load_tokenizer, save_tokenizer
from keras_transformer.tokenizers import SentencePieceTokenizer

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
}


def texts_for(key):
    """Texts of the corpus, and of every odd character; not special pieces."""
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
        "깰" * 9,
    ]
    rows += [unicodedata.normalize("NFD", row) for row in CORPUS[:9]]
    if key == "nfkc":  # there, `Precompiled` takes accents and spaces together
        rows = [row for row in rows if row in CORPUS]
    if key.startswith("foreign"):  # a sign for a space that nothing has made a space
        rows = [row.replace("\u2581", "") for row in rows]
    return [row for row in rows if "<s>" not in row and "<pad>" not in row]


@pytest.mark.parametrize("key", MODELS)
def test_transformers_reads_a_saved_model_as_the_same_ids(key, tmp_path):
    ours, texts = MODELS[key](), texts_for(key)
    save_tokenizer(ours, tmp_path, "gpt2")
    again = load_tokenizer(tmp_path, {"model_type": "gpt2"})
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    begin = [] if ours.bos_id is None else [ours.bos_id]
    for text in texts:
        ids = theirs(text)["input_ids"]
        assert again.encode(text) == ids, text
        # A run of one character has several ways of equal score, in any order.
        assert sorted(ids) == sorted(begin + ours.encode(text)), text
        if ours.unk_id not in ids:
            decoded = ours.decode(ids)
            assert theirs.decode(ids, skip_special_tokens=True) == decoded, text
    assert again.vocabulary_size == ours.vocabulary_size <= len(theirs)
    for role in ("pad", "unk", "bos", "eos"):
        id = getattr(ours, f"{role}_id")
        assert getattr(again, f"{role}_id") == getattr(theirs, f"{role}_token_id") == id


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"model_type": "word"}, "whole words"),
        ({"model_type": "bpe", "user_defined_symbols": ["<가>"]}, "such as '<가>'"),
        ({"treat_whitespace_as_suffix": True}, "spaces after words"),
    ],
)
def test_a_model_that_the_format_has_not_is_refused(settings, problem, tmp_path):
    with pytest.raises(ValueError, match=f"{problem}.*tokenizer=None"):
        save_tokenizer(small(**settings), tmp_path, "gpt2")
    assert not list(tmp_path.iterdir())
