"""Tokenizers of a folder give the ids of transformers, and survive being saved."""

import io
import json
import pickle

import numpy as np
import pytest
import sentencepiece

from keras_transformer.pretrained.tokenizer_files import load_tokenizer, save_tokenizer
from keras_transformer.tokenizers import (
    HuggingFaceTokenizer,
    MappedSentencePieceTokenizer,
    SentencePieceTokenizer,
    huggingface_tokenizer,
)

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

CORPUS = ["the film was good and the end was bad", "영화가 정말 좋았다"] * 5
CORPUS += ["a longer text, with commas; and words!"] * 5
TEXTS = ["the film was good", "영화가 좋았다 ☃", "A longer TEXT, with; words!", ""]
TEXTS += ["good <extra_id_0> film", "bad<mask> end", "the<mask>"]


def sentencepiece_model(size, **settings):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        **settings,
    )
    return model.getvalue()


def write_t5(folder):
    ids = dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "spiece.model").write_bytes(sentencepiece_model(60, **ids))


def write_xlm_roberta(folder):
    (folder / "sentencepiece.bpe.model").write_bytes(sentencepiece_model(60))


def write_llama(folder):
    model = sentencepiece_model(
        400,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
    )
    (folder / "tokenizer.model").write_bytes(model)
    write_json(folder / "tokenizer_config.json", {"add_bos_token": True})


def write_marian(folder):
    pieces = ["</s>", "<unk>"]
    for name, size in (("source", 50), ("target", 60)):
        model = sentencepiece_model(size)
        (folder / f"{name}.spm").write_bytes(model)
        tokenizer = SentencePieceTokenizer(model)
        own = map(tokenizer.id_to_piece, range(3, tokenizer.vocabulary_size - 1))
        pieces += [piece for piece in own if piece not in pieces]
    pieces += [">>ko<<", "<pad>"]
    write_json(folder / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    languages = {"source_lang": "en", "target_lang": "ko"}
    write_json(folder / "tokenizer_config.json", languages)


def write_byte_level(special):
    def write(folder):
        level = tokenizers.pre_tokenizers.ByteLevel
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = level(add_prefix_space=False)
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=special,
            initial_alphabet=level.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(CORPUS, trainer)
        tokenizer.model.save(str(folder))

    return write


def write_bert(lowercase):
    def write(folder):
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        model = tokenizers.models.WordPiece(unk_token="[UNK]")
        tokenizer = tokenizers.Tokenizer(model)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        trainer = tokenizers.trainers.WordPieceTrainer(
            vocab_size=120, special_tokens=special, show_progress=False
        )
        tokenizer.train_from_iterator(CORPUS, trainer)
        tokenizer.model.save(str(folder))
        settings = {"do_lower_case": lowercase}
        write_json(folder / "tokenizer_config.json", settings)

    return write


def write_json(path, values):
    path.write_text(json.dumps(values), "utf-8")


ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
# Key -> (family, class of transformers, what writes the files).
KINDS = {
    "t5": ("t5", "T5Tokenizer", write_t5),
    "xlm-roberta": ("xlm-roberta", "XLMRobertaTokenizer", write_xlm_roberta),
    "llama": ("llama", "LlamaTokenizer", write_llama),
    "marian": ("marian", "MarianTokenizer", write_marian),
    "gpt2": ("gpt2", "GPT2Tokenizer", write_byte_level(["<|endoftext|>"])),
    "roberta": ("roberta", "RobertaTokenizer", write_byte_level(ROBERTA)),
    "bart": ("bart", "BartTokenizer", write_byte_level(ROBERTA)),
    "bert": ("bert", "BertTokenizer", write_bert(True)),
    "bert-cased": ("bert", "BertTokenizer", write_bert(False)),
}


def make(key, folder):
    """Return our tokenizer and that of transformers, of the same files."""
    family, class_name, write = KINDS[key]
    write(folder)
    theirs = getattr(transformers, class_name).from_pretrained(folder)
    return load_tokenizer(folder, {"model_type": family, "vocab_size": 200}), theirs


@pytest.mark.parametrize("key", KINDS)
def test_ids_are_those_of_transformers(key, tmp_path):
    ours, theirs = make(key, tmp_path)
    texts = TEXTS + ([">>ko<< the film"] if key == "marian" else [])
    for text in texts:
        assert ours.encode(text) == theirs(text)["input_ids"], text
    ids = ours.encode(texts)
    assert ids == [ours.encode(text) for text in texts]
    assert ours.decode(ids[0]) == theirs.decode(ids[0], skip_special_tokens=True)
    assert ours.decode(ours.pad(ids))[1] == ours.decode(ids[1])
    assert ours.pieces(texts[0]) == theirs.convert_ids_to_tokens(ids[0])
    assert [ours.piece_to_id(piece) for piece in ours.pieces(texts[0])] == ids[0]
    for role in ("pad", "eos", "unk"):
        known = getattr(theirs, f"{role}_token_id")
        if known is not None and getattr(ours, f"{role}_id") is not None:
            assert getattr(ours, f"{role}_id") == known


@pytest.mark.parametrize("key", KINDS)
def test_a_saved_tokenizer_gives_the_same_ids_here_and_there(key, tmp_path):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    ours, _ = make(key, tmp_path / "a")
    save_tokenizer(ours, tmp_path / "b")
    family, class_name, _ = KINDS[key]
    again = load_tokenizer(tmp_path / "b", {"model_type": family, "vocab_size": 200})
    if isinstance(ours, HuggingFaceTokenizer):
        class_name = "PreTrainedTokenizerFast"
    theirs = getattr(transformers, class_name).from_pretrained(tmp_path / "b")
    for text in TEXTS:
        assert again.encode(text) == theirs(text)["input_ids"] == ours.encode(text)
    assert again.special_tokens == ours.special_tokens


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "gpt2", ""])
def test_a_saved_tokenizer_hands_on_what_the_model_takes(family, tmp_path):
    # transformers' plain class has segments in its version 4, and none in 5.
    (tmp_path / "saved").mkdir()
    kind = "bert" if family in ("distilbert", "") else family
    ours, theirs = make(kind, tmp_path)
    save_tokenizer(ours, tmp_path / "saved", family)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "saved")
    pair = theirs("the film", "was good")
    if family == "distilbert":
        del pair["token_type_ids"]
    assert again.model_input_names == list(pair)
    found = again("the film", "was good")
    assert dict(found) == dict(pair)
    assert ("token_type_ids" in found) == (family in ("bert", ""))


@pytest.mark.parametrize("key", ["gpt2", "t5", "bert"])
def test_a_stream_joins_to_the_decoded_text(key, tmp_path):
    ours, _ = make(key, tmp_path)
    ids = ours.encode("the film 영화가 좋았다 was good")
    stream = ours.decode_stream()
    parts = [stream.put(id) for id in ids] + [stream.end()]
    assert "".join(parts) == ours.decode(ids)
    assert "\ufffd" not in "".join(parts)
    assert sum(map(bool, parts)) > 2


def test_pairs_offsets_and_segments_come_from_the_library(tmp_path):
    ours, theirs = make("bert", tmp_path)
    pair = theirs("good", "the film")
    assert ours.encode("good", "the film") == pair["input_ids"]
    segments = ours.encode("good", "the film", out_type="segments")
    assert segments == pair["token_type_ids"]
    text = "the film was good"
    for (start, end), piece in zip(
        ours.encode(text, out_type="offsets"), ours.pieces(text), strict=True
    ):
        assert text[start:end] == ("" if piece.startswith("[") else piece.strip("#"))
    assert len(ours.encode(text, max_length=4)) == 4
    assert len(ours.encode(text)) > 4  # the limit is of that call alone
    bare = ours.encode(text, add_special_tokens=False)
    assert [ours.cls_id, *bare, ours.sep_id] == ours.encode(text)


@pytest.mark.parametrize("key", ["bert", "roberta", "bart", "t5", "xlm-roberta"])
def test_pairs_and_offsets_of_a_tokenizer_json_are_those_of_transformers(key, tmp_path):
    _, theirs = make(key, tmp_path)
    (tmp_path / "fast").mkdir()
    theirs.save_pretrained(tmp_path / "fast")
    ours = load_tokenizer(tmp_path / "fast", {"model_type": KINDS[key][0]})
    assert isinstance(ours, HuggingFaceTokenizer)
    for text, second in (
        ("the film", "was good"),
        ("영화가  좋았다 ☃", "A Longer; text"),
    ):
        pair = theirs(text, second, return_offsets_mapping=True)
        assert ours.encode(text, second) == pair["input_ids"]
        offsets = ours.encode(text, second, out_type="offsets")
        assert offsets == list(map(tuple, pair["offset_mapping"]))
        single = theirs(text, return_offsets_mapping=True)["offset_mapping"]
        assert ours.encode(text, out_type="offsets") == list(map(tuple, single))


def test_pieces_of_either_language_are_joined_as_in_transformers(tmp_path):
    ours, theirs = make("marian", tmp_path)
    left_out = {ours.unk_id, ours.piece_to_id(">>ko<<")}
    ids = [id for id in range(ours.vocabulary_size) if id not in left_out]
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert "\u2047" not in ours.decode(ids)


def test_a_tokenizer_json_is_read_and_pickled(tmp_path):
    ours, theirs = make("roberta", tmp_path)
    theirs.save_pretrained(tmp_path / "fast")
    fast = load_tokenizer(tmp_path / "fast", {})
    assert fast.encode(TEXTS) == ours.encode(TEXTS)
    assert fast.special_tokens["mask"] == "<mask>"
    assert pickle.loads(pickle.dumps(fast)).encode(TEXTS) == fast.encode(TEXTS)
    plain = HuggingFaceTokenizer.load(tmp_path / "fast" / "tokenizer.json")
    assert plain.encode(TEXTS) == fast.encode(TEXTS) and plain.pad_id == 0


def test_named_special_tokens_are_known_or_new_as_in_transformers(
    tmp_path, monkeypatch
):
    ours, theirs = make("gpt2", tmp_path)
    (tmp_path / "fast").mkdir()
    ours.save(tmp_path / "fast" / "tokenizer.json")
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"}
    settings |= {"eos_token": "<|endoftext|>", "additional_special_tokens": ["<x>"]}
    write_json(tmp_path / "fast" / "tokenizer_config.json", settings)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "fast")
    parsed, read = [], huggingface_tokenizer._read
    with monkeypatch.context() as patch:
        patch.setattr(
            huggingface_tokenizer, "_read", lambda x: parsed.append(x) or read(x)
        )
        fast = load_tokenizer(tmp_path / "fast", {})
    assert len(parsed) == 1  # megabytes in a real one
    assert fast.pad_id == theirs.pad_token_id and fast.eos_id == theirs.eos_token_id
    assert fast.vocabulary_size == len(theirs)
    text = "the film<x>[PAD] was good"
    assert fast.encode(text) == theirs(text)["input_ids"]
    assert fast.decode(fast.encode(text)) == theirs.decode(
        theirs(text)["input_ids"], skip_special_tokens=True
    )


def test_the_tokenizer_config_decides_about_case_as_in_transformers(tmp_path):
    # https://github.com/huggingface/transformers/issues/10650
    ours, _ = make("bert", tmp_path)
    ours.save(tmp_path / "tokenizer.json")  # lower case
    config = tmp_path / "tokenizer_config.json"
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
    write_json(config, settings)
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path)
    cased, text = load_tokenizer(tmp_path, {}), "the FILM was good"
    assert cased.encode(text) == theirs(text)["input_ids"] != ours.encode(text)
    assert pickle.loads(pickle.dumps(cased)).encode(text) == cased.encode(text)
    write_json(config, {**settings, "tokenizer_class": "PreTrainedTokenizerFast"})
    assert load_tokenizer(tmp_path, {}).encode(text) == ours.encode(text)


def test_a_vocabulary_for_each_language_takes_two_tokenizers(tmp_path):
    # https://github.com/huggingface/transformers/pull/15831
    write_marian(tmp_path)
    pieces = list(json.loads((tmp_path / "vocab.json").read_text("utf-8")))
    pieces[2:-2] = reversed(pieces[2:-2])
    tables = {"source": json.loads((tmp_path / "vocab.json").read_text("utf-8"))}
    tables["target"] = {piece: id for id, piece in enumerate(pieces)}
    write_json(tmp_path / "target_vocab.json", tables["target"])
    settings = {"source_lang": "en", "target_lang": "ko", "separate_vocabs": True}
    write_json(tmp_path / "tokenizer_config.json", settings)
    with pytest.raises(ValueError, match="takes two tokenizers.*tokenizer=False"):
        load_tokenizer(tmp_path, {"model_type": "marian"})
    roles = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
    source, target = (
        MappedSentencePieceTokenizer(
            tmp_path / f"{side}.spm", table, roles, suffix=["</s>"]
        )
        for side, table in tables.items()
    )
    theirs = transformers.MarianTokenizer.from_pretrained(tmp_path)
    found = theirs(TEXTS[0], text_target=TEXTS[1])
    assert source.encode(TEXTS[0]) == found["input_ids"]
    assert target.encode(TEXTS[1]) == found["labels"] != source.encode(TEXTS[1])


def test_wrong_files_and_arguments_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no tokenizer.*tokenizer=False"):
        load_tokenizer(tmp_path, {})
    (tmp_path / "tokenizer.json").write_text('{"version": 1', "utf-8")
    with pytest.raises(ValueError, match="is no tokenizer.json"):
        load_tokenizer(tmp_path, {})
    (tmp_path / "b").mkdir()
    ours, _ = make("bert", tmp_path / "b")
    for call, error, message in (
        (lambda: ours.encode([None]), TypeError, "Item 0 is None"),
        (lambda: ours.encode(["a"], ["b", "c"]), ValueError, "1 texts and 2 in"),
        (lambda: ours.encode("a", max_length=1), ValueError, "`max_length` must be"),
        (lambda: ours.encode("a", out_type=float), ValueError, "`out_type` must be"),
        (lambda: ours.decode([999]), ValueError, "Id 999 is outside the vocabulary"),
        (lambda: ours.pad([1, 2]), ValueError, "must be rows of ids"),
        (lambda: HuggingFaceTokenizer("no.json"), FileNotFoundError, "no file 'no.j"),
        (
            lambda: HuggingFaceTokenizer(ours.serialized, {"pad": "<p>"}),
            ValueError,
            "pad token '<p>' is not in",
        ),
        (
            lambda: HuggingFaceTokenizer(ours.serialized, {"start": "[CLS]"}),
            ValueError,
            "has the roles",
        ),
        (lambda: save_tokenizer(object(), tmp_path), TypeError, "Received: object"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_padding_stands_on_either_side(tmp_path):
    ours, _ = make("t5", tmp_path)
    rows = ours.pad([[3, 4], [5]], length=3, side="left")
    assert np.array_equal(rows, [[0, 3, 4], [0, 0, 5]])
    assert ours.encode("the film was good", max_length=3)[-1] == ours.eos_id


def test_a_text_to_be_written_on_begins_with_bos_and_has_no_template():
    words = {"<s>": 0, "</s>": 1, "a": 2, "b": 3}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="a"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    model.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    roles = {"bos": "<s>", "eos": "</s>"}
    tokenizer = HuggingFaceTokenizer(model, roles)
    assert tokenizer.encode("a b") == [0, 2, 3, 1]
    assert tokenizer.encode("a b", add_bos=True) == [0, 2, 3]
    assert tokenizer.encode(["a b", ""], add_bos=True) == [[0, 2, 3], [0]]
    assert tokenizer.encode("a b a", add_bos=True, max_length=2) == [0, 2]
    assert tokenizer.encode("b", add_bos=True, out_type=str) == ["<s>", "b"]
    with pytest.raises(ValueError, match="needs a tokenizer with a bos token"):
        HuggingFaceTokenizer(model).encode("a", add_bos=True)
