"""Encoding, sampling, padding and decoding with SentencePieceTokenizer."""

import ast
import importlib
from pathlib import Path

import numpy as np
import pytest
from sentencepiece_examples import (
    CORPUS,
    foreign,
    odd_texts,
    small,
    trained,
)

from keras_transformer.tokenizers import SentencePieceTokenizer


def test_many_texts_encode_like_each_alone():
    tokenizer = trained()
    texts = [*CORPUS, *odd_texts()]
    alone = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode(texts) == alone
    assert (
        tokenizer.encode(iter(texts))
        == tokenizer.encode(np.array(texts, object))
        == alone
    )
    assert tokenizer.decode(alone) == [tokenizer.decode(ids) for ids in alone]
    assert tokenizer.encode([]) == [] and tokenizer.encode("") == []


def test_texts_are_encoded_in_one_call_on_all_cores(monkeypatch):
    tokenizer = trained()
    texts = [*CORPUS, *odd_texts()]
    alone = [tokenizer.encode(text, add_bos=True) for text in texts]
    calls, encode = [], tokenizer._processor.encode

    def counted(batch, **settings):
        calls.append((len(batch), settings))
        return encode(batch, **settings)

    monkeypatch.setattr(tokenizer._processor, "encode", counted)
    assert tokenizer.encode(texts, add_bos=True) == alone
    assert calls == [(len(texts), {"out_type": int, "num_threads": -1})]


def test_bos_eos_and_max_length():
    tokenizer = trained()
    body = tokenizer.encode(CORPUS[0])
    assert tokenizer.encode(CORPUS[0], add_bos=True, add_eos=True) == [2, *body, 3]
    assert tokenizer.encode(CORPUS[0], add_bos=True, max_length=3) == [2, *body[:2]]
    assert tokenizer.encode(CORPUS[0], add_eos=True, max_length=3) == [*body[:2], 3]
    cut = tokenizer.encode(["", CORPUS[0]], add_bos=True, add_eos=True, max_length=2)
    assert cut == [[2, 3], [2, 3]]
    assert tokenizer.encode(CORPUS[0], max_length=10**6) == body
    pieces = tokenizer.encode(CORPUS[0], out_type=str, add_bos=True, add_eos=True)
    assert pieces == ["<s>", *tokenizer.pieces(CORPUS[0]), "</s>"]
    assert [tokenizer.piece_to_id(piece) for piece in pieces] == [2, *body, 3]
    with pytest.raises(ValueError, match="at least 2.*max_length=1"):
        tokenizer.encode(CORPUS[0], add_bos=True, add_eos=True, max_length=1)
    with pytest.raises(ValueError, match="max_length=0"):
        tokenizer.encode(CORPUS[0], max_length=0)
    with pytest.raises(ValueError, match="out_type"):
        tokenizer.encode(CORPUS[0], out_type="int")


def test_pieces_and_ids_belong_together():
    tokenizer = trained()
    for id in range(tokenizer.vocabulary_size):
        assert tokenizer.piece_to_id(tokenizer.id_to_piece(id)) == id
    assert tokenizer.piece_to_id("no such piece") == tokenizer.unk_id
    for id in (-1, tokenizer.vocabulary_size):
        with pytest.raises(ValueError, match=f"Id {id} "):
            tokenizer.id_to_piece(id)


def test_pad_gives_one_int32_array():
    tokenizer = small(pad_id=3)
    for rows in ([[5, 6, 7], [], [8]], [np.array([5, 6, 7]), np.array([], int), (8,)]):
        padded = tokenizer.pad(rows)
        assert type(padded) is np.ndarray and padded.dtype == np.int32
        assert padded.tolist() == [[5, 6, 7], [3, 3, 3], [8, 3, 3]]
    left = tokenizer.pad([[5, 6], [7]], length=4, side="left")
    assert left.tolist() == [[3, 3, 5, 6], [3, 3, 3, 7]]
    assert tokenizer.pad([]).shape == (0, 0) and tokenizer.pad([[]], 2).shape == (1, 2)
    assert tokenizer.pad(np.array([[5, 6]])).tolist() == [[5, 6]]
    with pytest.raises(ValueError, match="3 ids.*max_length=2"):
        tokenizer.pad([[5, 6, 7]], length=2)
    with pytest.raises(ValueError, match="one row"):
        tokenizer.pad([5, 6])
    with pytest.raises(ValueError, match="side.*'both'"):
        tokenizer.pad([[5]], side="both")
    with pytest.raises(ValueError, match="Id -1 "):
        tokenizer.pad([[5, -1]])


def test_decode_drops_special_ids_and_stops_nowhere():
    tokenizer = trained()
    one, two = tokenizer.encode("어제"), tokenizer.encode("오늘")
    ids = [2, *one, 3, 0, 0, *two, 3, 0]
    assert tokenizer.decode(ids) == "어제 오늘"
    for kind in (np.int64, np.int32, np.uint16):
        assert tokenizer.decode(np.array(ids, kind)) == "어제 오늘"
        assert tokenizer.decode(np.array([ids, ids], kind)) == ["어제 오늘"] * 2
    assert tokenizer.decode([np.array(one), [], two]) == ["어제", "", "오늘"]
    assert (
        tokenizer.decode(list(np.array(one))) == tokenizer.decode(tuple(one)) == "어제"
    )
    assert tokenizer.decode([]) == "" and tokenizer.decode([[]]) == [""]
    assert tokenizer.decode(np.zeros((0, 3), int)) == []
    assert tokenizer.decode(one[0]) == tokenizer.decode(one[:1])


@pytest.mark.parametrize("added_pad", [False, True])
def test_rows_are_decoded_in_one_call_like_each_alone(added_pad, monkeypatch):
    tokenizer = trained()
    if added_pad:  # an id that SentencePiece does not know
        tokenizer = SentencePieceTokenizer(foreign())
        assert tokenizer.pad_id == tokenizer.vocabulary_size - 1
    rows = tokenizer.encode([*CORPUS, *odd_texts()])
    ends = [tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id]
    rows = [[], ends, *rows, *(ends + row + ends[:1] for row in rows), [], ends[:1]]
    alone = [tokenizer.decode(row) for row in rows]
    calls, decode = [], tokenizer._processor.decode

    def counted(batch, **settings):
        calls.append(settings)
        return decode(batch, **settings)

    monkeypatch.setattr(tokenizer._processor, "decode", counted)
    assert tokenizer.decode(rows) == alone
    assert tokenizer.decode(tokenizer.pad(rows)) == alone
    assert tokenizer.decode([np.array(row, "int64") for row in rows]) == alone
    assert calls == [{"num_threads": -1}] * 3
    assert tokenizer.decode([[], ends]) == ["", ""]


@pytest.mark.parametrize("id", [-1, -100, 10**6])
def test_ids_outside_the_vocabulary_are_named(id):
    for ids in ([4, id], [[4], [5, id]], np.array([[4, id]])):
        with pytest.raises(ValueError, match=f"Id {id} .*{trained().vocabulary_size}"):
            trained().decode(ids)


@pytest.mark.parametrize(
    "ids", [[4.0], np.array([4.0]), ["가"], [[4], 5], [True], [None]]
)
def test_ids_that_are_no_integers_are_refused(ids):
    with pytest.raises(TypeError, match="Ids must be integers"):
        trained().decode(ids)


@pytest.mark.parametrize(
    "model_type, nbest", [("unigram", -1), ("unigram", 8), ("bpe", -1)]
)
def test_samples_differ_and_mean_the_same_text(model_type, nbest):
    tokenizer = trained(model_type=model_type)

    def draw(texts=CORPUS, **arguments):
        return tokenizer.encode(texts, sample=True, nbest=nbest, **arguments)

    assert draw() != draw() and tokenizer.decode(draw()) == CORPUS
    rows = draw(add_bos=True, add_eos=True, max_length=4)
    assert all(row[0] == 2 and row[-1] == 3 and len(row) <= 4 for row in rows)
    texts = {tuple(draw(CORPUS[0])) for _ in range(30)}
    assert len(texts) > 1 and {tokenizer.decode(ids) for ids in texts} == {CORPUS[0]}
    pieces = draw(CORPUS[0], out_type=str)
    assert tokenizer.decode([tokenizer.piece_to_id(p) for p in pieces]) == CORPUS[0]
    assert draw(seed=1) == draw(seed=1) != draw(seed=2)
    same = draw([CORPUS[0]] * 30, seed=1)
    assert len(set(map(tuple, same))) > 1  # a seed for the call, not for the text
    assert draw() != draw()  # and none left behind


def test_sampling_that_cannot_be_is_refused():
    assert trained().can_sample and trained(model_type="bpe").can_sample
    for model_type in ("char", "word"):
        assert not trained(model_type=model_type).can_sample
        with pytest.raises(ValueError, match="'unigram' or 'bpe'"):
            trained(model_type=model_type).encode("오늘", sample=True)
    wrong = [{"alpha": -1}, {"alpha": float("nan")}, {"alpha": "a"}, {"nbest": 0}]
    for arguments in (*wrong, {"seed": -1}, {"seed": 2**32}, {"seed": 0.5}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            trained().encode("오늘", sample=True, **arguments)


MODULES = sorted(
    path.stem
    for path in Path(
        importlib.import_module("keras_transformer.tokenizers").__path__[0]
    ).glob("*.py")
)


@pytest.mark.parametrize("name", MODULES)
def test_tokenizers_need_no_keras(name):
    name = "keras_transformer.tokenizers" + ("" if name == "__init__" else f".{name}")
    module = importlib.import_module(name)
    for node in ast.walk(ast.parse(Path(module.__file__).read_text("utf-8"))):
        names = [alias.name for alias in getattr(node, "names", [])]
        assert not {"keras", "tensorflow", "torch", "jax"} & {
            name.split(".")[0] for name in [*names, getattr(node, "module", None) or ""]
        }
