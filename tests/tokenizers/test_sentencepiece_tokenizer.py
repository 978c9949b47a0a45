"""SentencePieceTokenizer: ids (P24), text on its way through (P25), and the rest.

Sources: google/sentencepiece#770, #559, #4, #1079 (ids, size); #329, #650, #906
(normalization, spaces, bytes); google-research/bert#135 (NFD Hangul).
"""

import io
import itertools
import unicodedata

import numpy as np
import pytest
import sentencepiece as spm
from sentencepiece_examples import (
    CORPUS,
    SPACED,
    TWELVE,
    TYPES,
    foreign,
    odd_texts,
    plain,
    small,
    special_ids,
    trained,
)

from keras_transformer.tokenizers import SentencePieceTokenizer

# P24: ids


def test_by_default_padding_is_0_and_no_id_is_negative(tmp_path):
    tokenizer = trained()
    tokenizer.save(tmp_path / "spm.model")
    for one in (tokenizer, SentencePieceTokenizer.load(tmp_path / "spm.model")):
        model = spm.SentencePieceProcessor(str(tmp_path / "spm.model"))
        theirs = [model.pad_id(), model.unk_id(), model.bos_id(), model.eos_id()]
        assert special_ids(one) == theirs == [0, 1, 2, 3]
        assert one.vocabulary_size == one.vocab_size == model.vocab_size()
        assert [one.id_to_piece(i) for i in range(4)] == [
            "<pad>",
            "<unk>",
            "<s>",
            "</s>",
        ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_any_order_of_ids(order):
    names = ("pad_id", "unk_id", "bos_id", "eos_id")
    tokenizer = small(model_type="char", **dict(zip(names, order, strict=True)))
    assert special_ids(tokenizer) == list(order)
    ids = tokenizer.encode("어제 뷁", add_bos=True, add_eos=True)
    assert ids[0] == order[2] and ids[-1] == order[3]
    assert ids.count(order[1]) == 1 and order[0] not in ids
    assert tokenizer.decode(ids) == "어제 ⁇"


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"pad_id": 3}, [3, 0, 1, 2]),
        ({"eos_id": 1}, [0, 2, 3, 1]),
        ({"unk_id": 0}, [1, 0, 2, 3]),
        ({"pad_id": 1, "eos_id": 2}, [1, 0, 3, 2]),
        ({"bos_id": 9}, [0, 1, 9, 2]),
    ],
)
def test_ids_not_mentioned_take_the_smallest_free_ones(given, expected):
    assert special_ids(small(**given)) == expected


@pytest.mark.parametrize(
    "ids",
    [{"pad_id": 3, "eos_id": 3}, {"bos_id": -1}, {"pad_id": 10**6}, {"unk_id": "0"}],
)
def test_ids_that_clash_or_do_not_fit_are_refused(ids):
    with pytest.raises(ValueError, match=next(iter(ids)) + "|distinct"):
        small(**ids)


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_a_model_without_padding_gets_one_id_more(model_type, tmp_path):
    content = foreign(model_type=model_type)
    model = spm.SentencePieceProcessor(model_proto=content)
    assert model.pad_id() == -1
    tokenizer = SentencePieceTokenizer(content)
    new = model.vocab_size()
    assert tokenizer.pad_id == new and tokenizer.vocabulary_size == new + 1
    assert [tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id] == [0, 1, 2]
    ids = tokenizer.encode(CORPUS[:5] + ["뷁 🚀", ""], add_bos=True, add_eos=True)
    assert min(map(min, ids)) >= 0 and max(map(max, ids)) < new
    padded = tokenizer.pad(ids)
    assert padded.min() >= 0 and padded.max() == new
    assert tokenizer.decode(padded)[:5] == model.decode(model.encode(CORPUS[:5]))
    assert (
        tokenizer.id_to_piece(new) == "<pad>" and tokenizer.piece_to_id("<pad>") == new
    )
    stream = tokenizer.decode_stream()
    assert "".join(map(stream.put, padded[0])) + stream.end() == tokenizer.decode(
        padded[0]
    )
    tokenizer.save(tmp_path / "spm.model")
    assert (tmp_path / "spm.model").read_bytes() == content
    assert SentencePieceTokenizer.load(tmp_path / "spm.model").pad_id == new


def test_a_model_without_bos_says_so():
    tokenizer = SentencePieceTokenizer(foreign(bos_id=-1, eos_id=-1))
    assert tokenizer.bos_id is None and tokenizer.eos_id is None
    with pytest.raises(ValueError, match="add_bos.*no bos piece"):
        tokenizer.encode("오늘", add_bos=True)


@pytest.mark.parametrize("model_type", TYPES)
def test_a_small_corpus_gives_the_largest_vocabulary_and_a_warning(model_type):
    assert len(TWELVE) == 12
    with pytest.warns(UserWarning) as record:
        tokenizer = SentencePieceTokenizer.train(TWELVE, model_type=model_type)
    size = tokenizer.vocabulary_size
    assert size == plain(tokenizer).vocab_size() < 8000
    assert "8000" in str(record[0].message) and f" {size}," in str(record[0].message)
    assert record[0].filename == __file__
    assert max(map(max, tokenizer.encode(TWELVE))) < size
    with pytest.raises(RuntimeError, match="high"):
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(TWELVE),
            model_writer=io.BytesIO(),
            vocab_size=size + 30,
            model_type="bpe" if model_type == "bpe" else "unigram",
            pad_id=3,
            minloglevel=2,
        )


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_a_vocabulary_that_fits_has_the_size_asked_for(model_type, recwarn):
    size = trained(8000, model_type=model_type).vocabulary_size - 3
    tokenizer = SentencePieceTokenizer.train(CORPUS, size, model_type=model_type)
    assert tokenizer.vocabulary_size == size and not recwarn


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_a_vocabulary_too_small_names_the_smallest(byte_fallback):
    with pytest.raises(
        ValueError, match="at least [0-9]+.*vocabulary_size=20"
    ) as error:
        SentencePieceTokenizer.train(CORPUS, 20, byte_fallback=byte_fallback)
    smallest = int(str(error.value).split("at least ")[1].split(":")[0])
    tokenizer = SentencePieceTokenizer.train(
        CORPUS, smallest, byte_fallback=byte_fallback
    )
    assert tokenizer.vocabulary_size == smallest


# P25: text on its way through


@pytest.mark.parametrize("model_type", TYPES)
def test_compatibility_letters_stay_as_written(model_type):
    tokenizer = trained(model_type=model_type)
    assert tokenizer.decode(tokenizer.encode(CORPUS)) == CORPUS
    if model_type != "word":
        for text in ["ㅋㅋㅋ 재밌다 ㅠㅠ", "한글", "오늘ㅋㅋ"]:
            assert tokenizer.decode(tokenizer.encode(text)) == text
    alone = small(
        ["㈜ 봄 ︰ ㄱㅏ ㅋㅋㅋ 재밌다 ㅠㅠ 한글 ﬁ ½"], 60, model_type=model_type
    )
    text = "㈜ ︰ ㄱㅏ ㅋㅋㅋ 재밌다 ㅠㅠ 한글 ﬁ ½"
    assert alone.decode(alone.encode(text)) == text


@pytest.mark.parametrize("normalization", ["nfc", "nfkc"])
@pytest.mark.parametrize("preserve_whitespace", [False, True])
def test_decomposed_text_is_composed_when_training_and_encoding(
    normalization, preserve_whitespace
):
    arguments = dict(
        normalization=normalization, preserve_whitespace=preserve_whitespace
    )
    tokenizer = small([*TWELVE, "café 한글"], 150, **arguments)
    text = "오늘 한글 café"
    decomposed = unicodedata.normalize("NFD", text)
    assert decomposed != text
    assert tokenizer.encode(decomposed) == tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(decomposed)) == text
    texts = [unicodedata.normalize("NFD", text) for text in [*TWELVE, "café 한글"]]
    assert small(texts, 150, **arguments).serialized == tokenizer.serialized


def test_a_decomposed_user_symbol_is_found():
    tokenizer = small(user_defined_symbols=[unicodedata.normalize("NFD", "<끝>")])
    assert "<끝>" in tokenizer.pieces("오늘<끝>")


def test_nfkc_is_chosen_explicitly():
    tokenizer = small(["㈜봄 ㅋ", "(주) 봄"], 40, normalization="nfkc")
    assert tokenizer.encode("㈜봄") == tokenizer.encode("(주)봄")
    assert tokenizer.decode(tokenizer.encode("㈜봄 ㅋ")) == "(주)봄 \u110f"
    assert tokenizer.encode(" ㈜\t\n봄 ") == tokenizer.encode("(주) 봄")


@pytest.mark.parametrize(
    "model_type, byte_fallback",
    [*((kind, False) for kind in TYPES), *((kind, True) for kind in TYPES[:3])],
)
def test_encoding_what_was_decoded_gives_the_same_ids(model_type, byte_fallback):
    tokenizer = trained(400, model_type=model_type, byte_fallback=byte_fallback)
    for text in [*odd_texts(), SPACED, *CORPUS[:20], "", " "]:
        ids = tokenizer.encode(text)
        assert tokenizer.encode(tokenizer.decode(ids)) == ids, text


@pytest.mark.parametrize("model_type", ["unigram", "bpe", "char"])
def test_by_default_a_run_of_white_space_becomes_one_space(model_type):
    tokenizer = trained(model_type=model_type)
    for space in [
        "  ",
        "\t",
        "\n",
        "\r\n",
        "\u3000",
        "\u00a0",
        "\u2581",
        " \v\f\x1c\u2028",
    ]:
        text = f"{space}어제{space}a{space}"
        assert tokenizer.decode(tokenizer.encode(text)) == "어제 a"


@pytest.mark.parametrize("model_type", ["unigram", "bpe", "char"])
@pytest.mark.parametrize("texts", [CORPUS[:30], ["이어", "붙인낱말abc"]])
def test_preserved_white_space_comes_back_exactly(model_type, texts):
    tokenizer = small(texts, 500, model_type=model_type, preserve_whitespace=True)
    more = small(
        texts, 500, model_type=model_type, preserve_whitespace=True, byte_fallback=True
    )
    assert more.decode(more.encode(SPACED)) == SPACED
    for text in [SPACED, "\r\n a", " ", "   ", "\n\n", "\t\t b", "c c  c   c"]:
        text = text if texts[0] in CORPUS else text.replace("b", "a")
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert tokenizer.decode_stream().put(tokenizer.encode(text)[0]) == text[0]
    for text in odd_texts():
        text = text.replace("\u2581", "")
        assert more.decode(more.encode(text)) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("model_type", ["unigram", "bpe", "char"])
def test_byte_fallback_brings_back_what_training_never_saw(model_type):
    text = "깰 🚀"
    tokenizer = trained(400, model_type=model_type, byte_fallback=True)
    ids = tokenizer.encode(text)
    assert tokenizer.unk_id not in ids and tokenizer.decode(ids) == text
    assert tokenizer.pieces(text)[-4:] == [f"<0x{byte:02X}>" for byte in "🚀".encode()]
    without = trained(model_type=model_type)
    assert without.encode(text).count(without.unk_id) == 2
    assert without.decode(without.encode(text)) == "⁇ ⁇"


@pytest.mark.parametrize("normalization", ["nfc", "nfkc"])
@pytest.mark.parametrize("preserve_whitespace", [False, True])
def test_plain_sentencepiece_gives_the_same_ids(
    normalization, preserve_whitespace, tmp_path
):
    tokenizer = small(
        CORPUS[:60],
        normalization=normalization,
        preserve_whitespace=preserve_whitespace,
        user_defined_symbols=["<sep>"],
    )
    tokenizer.save(tmp_path / "spm.model")
    model = spm.SentencePieceProcessor(str(tmp_path / "spm.model"))
    for text in [*CORPUS[::20], SPACED, "a<sep>어제", *odd_texts()]:
        text = unicodedata.normalize("NFC", text)
        assert model.encode(text) == tokenizer.encode(text)
        assert model.encode(text, out_type=str) == tokenizer.pieces(text)
        assert model.decode(model.encode(text)) == tokenizer.decode(model.encode(text))


def test_the_ids_of_a_foreign_model_stay_its_authors():
    content = foreign(
        normalization_rule_name="identity", byte_fallback=True, vocab_size=400
    )
    model = spm.SentencePieceProcessor(model_proto=content)
    text = unicodedata.normalize("NFD", CORPUS[0])
    assert SentencePieceTokenizer(content).encode(text) == model.encode(text)
    composing = SentencePieceTokenizer(content, compose=True)
    assert composing.encode(text) == model.encode(CORPUS[0])
    again = SentencePieceTokenizer(composing.serialized)
    assert again.compose and again.encode(text) == composing.encode(text)
    assert SentencePieceTokenizer(again.serialized, compose=False).serialized == content


# Streaming


@pytest.mark.parametrize("model_type", TYPES)
@pytest.mark.parametrize("preserve_whitespace", [False, True])
def test_a_stream_joins_to_the_whole_text(model_type, preserve_whitespace):
    arguments = {"preserve_whitespace": preserve_whitespace, "byte_fallback": True}
    if model_type == "word":
        arguments = {}
    tokenizer = trained(400, model_type=model_type, **arguments)
    texts = [*odd_texts(60), *CORPUS[:3]]
    rows = tokenizer.encode(texts, add_bos=True, add_eos=True)
    stream = tokenizer.decode_stream()
    for text, row in zip(texts, rows, strict=True):
        put = [stream.put(id) for id in row]
        rest = stream.end()
        assert "".join(put) == tokenizer.decode(row) and rest == ""
        assert "\ufffd" not in "".join(put), text


@pytest.mark.parametrize("source", ["ours", "preserving", "foreign"])
def test_a_stream_of_any_ids_joins_to_the_whole_text(source):
    if source == "foreign":
        tokenizer = SentencePieceTokenizer(foreign(byte_fallback=True, vocab_size=400))
    else:
        keep = source == "preserving"
        tokenizer = trained(400, byte_fallback=True, preserve_whitespace=keep)
    rng = np.random.default_rng(0)
    space = tokenizer.piece_to_id("\u2581")
    parts = [tokenizer.piece_to_id(f"<0x{byte:02X}>") for byte in "깰".encode()]
    stream = tokenizer.decode_stream()
    for _ in range(200):
        row = rng.integers(0, tokenizer.vocabulary_size, size=rng.integers(12))
        spaces, halves = rng.random(len(row)) < 0.3, rng.random(len(row)) < 0.4
        row = np.where(spaces, space, row)
        row = np.where(halves, rng.choice(parts, len(row)), row)
        joined = "".join(stream.put(id) for id in row) + stream.end()
        assert joined == tokenizer.decode(row), row


def test_half_a_character_waits_for_its_end():
    tokenizer = trained(400, byte_fallback=True)
    stream = tokenizer.decode_stream()
    halves = tokenizer.encode("깰")[-3:]
    assert [stream.put(id) for id in halves] == ["", "", "깰"]
    assert [stream.put(id) for id in halves[:2]] == ["", ""]
    assert stream.put(tokenizer.piece_to_id("\u2581")) == "\ufffd\ufffd "
    assert stream.put(halves[0]) == "" and stream.end() == "\ufffd"
    with pytest.raises(ValueError, match="Id 999 "):
        stream.put(999)
