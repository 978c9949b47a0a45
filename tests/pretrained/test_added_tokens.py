"""Tokens beside a vocabulary, and the ends of texts, are those of transformers."""

import json

import pytest
from test_tokenizer_files import KINDS, sentencepiece_model, write_json

from keras_transformer.pretrained.tokenizer_files import load_tokenizer, save_tokenizer
from keras_transformer.tokenizers import HuggingFaceTokenizer

transformers = pytest.importorskip("transformers")
PIECES = [("[FILL]", True), ("<new>word", False)]
TEXTS = ["the film[FILL]was good", "[FILL] the <new>word end", "bad <x>end<x>", ""]
TEXTS += ["<x> <new>word<new>word was", "the film was good [FILL]"]


def change(folder, **settings):
    path = folder / "tokenizer_config.json"
    values = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    write_json(path, {**values, **settings})


def theirs_of(key, folder):
    return getattr(transformers, KINDS[key][1]).from_pretrained(folder)


def ours_of(key, folder):
    return load_tokenizer(folder, {"model_type": KINDS[key][0], "vocab_size": 900})


def write(key, folder):
    """Write the files of a kind, and return the next id."""
    KINDS[key][2](folder)
    return len(theirs_of(key, folder))


def decoder_of(first, **flags):
    plain = dict(lstrip=False, rstrip=False, single_word=False, normalized=False)
    return {
        str(first + i): {"content": piece, **plain, "special": special, **flags}
        for i, (piece, special) in enumerate(PIECES)
    }


def add(folder, first, file, role="pad"):
    change(folder, additional_special_tokens=["<x>"])
    if role:
        change(folder, **{f"{role}_token": "[FILL]"})
    else:
        change(folder, additional_special_tokens=["<x>", "[FILL]"])
    if file == "added_tokens.json":
        table = {piece: first + i for i, (piece, _) in enumerate(PIECES)}
        write_json(folder / file, table)
    else:
        change(folder, **{file: decoder_of(first)})


FILES = ("added_tokens.json", "added_tokens_decoder")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("key", [key for key in KINDS if key != "bert-cased"])
def test_added_tokens_have_their_ids_and_are_found_in_texts(key, file, tmp_path):
    (tmp_path / "files").mkdir(), (tmp_path / "saved").mkdir()
    first = write(key, tmp_path / "files")
    # XLM-R's class puts another name of padding at the first one's id.
    add(tmp_path / "files", first, file, None if key == "xlm-roberta" else "pad")
    ours, theirs = ours_of(key, tmp_path / "files"), theirs_of(key, tmp_path / "files")
    assert ours.piece_to_id("[FILL]") == first and ours.pad_id == theirs.pad_token_id
    assert ours.vocabulary_size == len(theirs) == first + 3
    expected = [theirs(text)["input_ids"] for text in TEXTS]
    assert ours.encode(TEXTS) == expected
    for row in expected:
        text = ours.decode(row)
        assert "[FILL]" not in text and "<x>" not in text
        assert text.count("<new>word") == row.count(first + 1)
        if key in ("llama", "gpt2", "roberta"):
            assert text == theirs.decode(row, skip_special_tokens=True)
    save_tokenizer(ours, tmp_path / "saved", KINDS[key][0])
    again = ours_of(key, tmp_path / "saved")
    assert again.encode(TEXTS) == expected and again.pad_id == ours.pad_id
    assert again.decode(expected) == ours.decode(expected)
    class_name = KINDS[key][1]
    if isinstance(ours, HuggingFaceTokenizer):
        class_name = "PreTrainedTokenizerFast"
    theirs = getattr(transformers, class_name).from_pretrained(tmp_path / "saved")
    assert [theirs(text)["input_ids"] for text in TEXTS] == expected


def test_a_role_that_no_file_numbers_is_the_next_id(tmp_path):
    first = write("llama", tmp_path)
    names = dict(pad_token="[FILL]", mask_token="<mask>")
    write_json(tmp_path / "special_tokens_map.json", names)
    ours, theirs = ours_of("llama", tmp_path), theirs_of("llama", tmp_path)
    assert ours.pad_id == theirs.pad_token_id == first
    assert ours.piece_to_id("<mask>") == theirs.mask_token_id == first + 1


@pytest.mark.parametrize("key", ["llama", "bert", "gpt2", "marian"])
def test_an_id_that_a_token_cannot_have_is_refused(key, tmp_path):
    first = write(key, tmp_path)
    change(tmp_path, added_tokens_decoder=decoder_of(first + 5))
    with pytest.raises(
        ValueError, match=rf"'\[FILL\]' with the id {first + 5}.*{first}:"
    ):
        ours_of(key, tmp_path)


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_a_token_that_takes_spaces_is_refused_where_spaces_are_kept(flag, tmp_path):
    first = write("llama", tmp_path)
    change(tmp_path, added_tokens_decoder=decoder_of(first, **{flag: True}))
    with pytest.raises(ValueError, match=r"'\[FILL\]' takes spaces.*tokenizer.json"):
        ours_of("llama", tmp_path)


def test_what_stood_before_a_text_stands_after_each_token_too_if_it_is_legacy(tmp_path):
    first = write("llama", tmp_path)
    add(tmp_path, first, "added_tokens.json")
    change(tmp_path, legacy=True)
    texts = ["the[FILL]film", "[FILL]the<x>film"]
    ours, theirs = ours_of("llama", tmp_path), theirs_of("llama", tmp_path)
    assert ours.encode(texts) == [theirs(text)["input_ids"] for text in texts]
    change(tmp_path, legacy=False)
    assert ours_of("llama", tmp_path).encode(texts) != ours.encode(texts)


@pytest.mark.parametrize("ends", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("key", ["gpt2", "roberta", "llama"])
def test_the_config_says_what_stands_before_and_after_texts(key, ends, tmp_path):
    (tmp_path / "saved").mkdir()
    write(key, tmp_path)
    change(tmp_path, add_bos_token=ends[0], add_eos_token=ends[1])
    ours, theirs = ours_of(key, tmp_path), theirs_of(key, tmp_path)
    assert ours.encode("the film") == theirs("the film")["input_ids"]
    if key != "llama":
        pair = theirs("the film", "good")["input_ids"]
        assert ours.encode("the film", "good") == pair
    save_tokenizer(ours, tmp_path / "saved")
    again = ours_of(key, tmp_path / "saved")
    assert again.encode("the film") == ours.encode("the film")


@pytest.mark.parametrize("named", ["PreTrainedTokenizerFast", "GPT2Tokenizer", None])
def test_a_tokenizer_json_says_it_itself(named, tmp_path):
    # transformers takes these two settings out where there is such a file.
    write("gpt2", tmp_path)
    theirs_of("gpt2", tmp_path).save_pretrained(tmp_path)
    plain = ours_of("gpt2", tmp_path).encode("the film")
    class_name = {"tokenizer_class": named} if named else {}
    change(tmp_path, add_bos_token=True, add_eos_token=True, **class_name)
    theirs = getattr(transformers, named or "GPT2Tokenizer").from_pretrained(tmp_path)
    found = ours_of("gpt2", tmp_path).encode("the film")
    assert found == theirs("the film")["input_ids"] == plain


def test_an_end_without_a_token_and_a_missing_file_are_named(tmp_path):
    (tmp_path / "llama").mkdir(), (tmp_path / "marian").mkdir()
    model = sentencepiece_model(60, eos_id=-1)
    (tmp_path / "llama" / "tokenizer.model").write_bytes(model)
    change(tmp_path / "llama", add_eos_token=True)
    with pytest.raises(ValueError, match="add_eos_token=true.* has no eos token"):
        ours_of("llama", tmp_path / "llama")

    write("marian", tmp_path / "marian")
    path = tmp_path / "marian" / "vocab.json"
    vocabulary = json.loads(path.read_text("utf-8"))
    vocabulary["</end>"] = vocabulary.pop("</s>")
    write_json(path, vocabulary)
    with pytest.raises(ValueError, match="vocab.json' lacks the token '</s>'"):
        ours_of("marian", tmp_path / "marian")
    for name in ("vocab.json", "target.spm"):
        (tmp_path / "marian" / name).rename(tmp_path / name)
        with pytest.raises(FileNotFoundError, match=f"source.spm, but not '{name}'"):
            ours_of("marian", tmp_path / "marian")
        (tmp_path / name).rename(tmp_path / "marian" / name)


def test_the_languages_of_a_translator_are_kept(tmp_path):
    (tmp_path / "saved").mkdir()
    write("marian", tmp_path)
    ours = ours_of("marian", tmp_path)
    save_tokenizer(ours, tmp_path / "saved")
    theirs = theirs_of("marian", tmp_path / "saved")
    assert (theirs.source_lang, theirs.target_lang) == ("en", "ko")
