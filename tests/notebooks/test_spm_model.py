"""The committed spm.model: what the chapter's cells and the notebooks count on."""

import runpy
from pathlib import Path

import pytest
import sentencepiece as spm

from keras_transformer.datasets import read_reviews
from keras_transformer.tokenizers import SentencePieceTokenizer

REPOSITORY = Path(__file__).resolve().parents[2]
NOTEBOOKS = REPOSITORY / "notebooks"
FILE = NOTEBOOKS / "spm.model"


@pytest.fixture
def processor(monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)
    return spm.SentencePieceProcessor("spm.model")


def korean_texts():
    columns = {"reviews": "document", "translation": "ko", "homonyms": "sentence"}
    files = sorted((REPOSITORY / "data").glob("*.tsv"))
    assert len(files) == len(columns)
    texts = []
    for file in files:
        column = columns[file.name.split("_")[0]]
        texts += list(read_reviews(file, text_column=column, label_column=None)[column])
    return texts


def test_it_stays_small():
    assert FILE.stat().st_size <= 400_000


def test_the_special_ids_are_the_first(processor):
    special = [processor.pad_id(), processor.unk_id()]
    special += [processor.bos_id(), processor.eos_id()]
    assert special == [0, 1, 2, 3]


def test_the_vocabulary_is_within_the_chapters(processor):
    assert processor.get_piece_size() == 8000 < 30000


def test_a_homonym_is_one_id_three_times(processor):
    sentence = "배 타고 배 먹으니 배 아프다"
    ids = processor.encode(sentence)
    pear = processor.piece_to_id("\u2581배")
    assert ids.count(pear) == 3 and ids[0] == pear
    assert processor.unk_id() not in ids
    assert processor.decode(ids) == sentence


def test_no_bundled_text_has_an_unknown_piece(processor):
    for ids in processor.encode(korean_texts()):
        assert ids and processor.unk_id() not in ids


def test_ours_and_plain_sentencepiece_give_the_same_ids(processor):
    texts = korean_texts()[:500]
    assert SentencePieceTokenizer.load(FILE).encode(texts) == processor.encode(texts)


def test_it_is_what_the_script_makes_of_todays_data(processor):
    script = NOTEBOOKS / "make_spm_model.py"
    made = runpy.run_path(str(script))["train"]()
    pieces = {processor.id_to_piece(i) for i in range(processor.get_piece_size())}
    again = {made.id_to_piece(i) for i in range(made.vocabulary_size)}
    # With other versions of SentencePiece a few rare pieces may differ.
    assert len(pieces & again) >= 0.99 * len(pieces), f"run {script.name} again"
