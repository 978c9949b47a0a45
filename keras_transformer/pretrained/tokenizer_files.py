"""The tokenizer of a folder in Hugging Face's format."""

import json
from pathlib import Path

from keras_transformer.pretrained.added_tokens import (
    add_to_tokenizer,
    add_to_vocabulary,
    added_tokens,
    json_of,
    more_special_tokens,
    special_tokens,
)
from keras_transformer.tokenizers import (
    HuggingFaceTokenizer,
    MappedSentencePieceTokenizer,
    SentencePieceTokenizer,
)
from keras_transformer.tokenizers.model_file import read_content, read_model
from keras_transformer.tokenizers.tokenizer_json import as_huggingface, template

_MODELS = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
_OWN_ROLES = ("pad", "unk", "bos", "eos")
# Settings of tokenizer_config.json that stand above tokenizer.json, and what they set
# there; these classes take the file as it is.
_NORMALIZER = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_LANGUAGES = ("source_lang", "target_lang")
_PLAIN = ("PreTrainedTokenizerFast", "TokenizersBackend")
# What a model is given of a text; transformers' classes for BERT add the segments, its
# plain class does or does not, after its version.
_INPUTS = ["input_ids", "attention_mask"]
_INPUTS_OF = {"bert": ["input_ids", "token_type_ids", "attention_mask"]}
# What transformers' classes add where no file says it.
_BERT = {
    "pad": "[PAD]",
    "unk": "[UNK]",
    "cls": "[CLS]",
    "sep": "[SEP]",
    "mask": "[MASK]",
}
_ROBERTA = {
    "bos": "<s>",
    "cls": "<s>",
    "eos": "</s>",
    "sep": "</s>",
    "pad": "<pad>",
    "unk": "<unk>",
    "mask": "<mask>",
}
_GPT2 = {"bos": "<|endoftext|>", "eos": "<|endoftext|>", "unk": "<|endoftext|>"}


def load_tokenizer(folder, config: dict):
    """Load the tokenizer of a folder, from whichever files it has.

    Args:
        folder: With `tokenizer.json`; or `vocab.json` and `merges.txt`; or
            `vocab.txt`; or a SentencePiece model.
        config: The content of `config.json`.

    Returns:
        A `HuggingFaceTokenizer` or a `MappedSentencePieceTokenizer`.

    Raises:
        FileNotFoundError: None of these files.
        ValueError: A vocabulary for each language, which are two tokenizers; an
            added token with another id than it would have, or that takes spaces
            where the tokenizer cannot; an end of texts that has no token.
    """
    folder, family = Path(folder), config.get("model_type")
    settings = json_of(folder / "tokenizer_config.json")
    named = special_tokens(folder, settings)
    if (folder / "tokenizer.json").is_file():
        more = more_special_tokens(folder, settings)
        tokenizer = _with_known(folder / "tokenizer.json", named, more)
        if settings.get("tokenizer_class") not in _PLAIN:
            tokenizer.set_normalizer(
                {o: settings[t] for t, o in _NORMALIZER.items() if t in settings}
            )
        return tokenizer
    if (folder / "source.spm").is_file():
        return _marian(folder, named, settings)
    for name in _MODELS:
        if (folder / name).is_file():
            return _sentencepiece(folder / name, family, named, config, settings)
    if (folder / "vocab.txt").is_file():
        return _wordpiece(folder / "vocab.txt", {**_BERT, **named}, settings)
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return _byte_level(folder, family, named, settings)
    raise FileNotFoundError(
        f"The folder {str(folder)!r} has no tokenizer: none of tokenizer.json, "
        f"vocab.json with merges.txt, vocab.txt, source.spm, {', '.join(_MODELS)}. "
        "To load the model alone, pass tokenizer=False."
    )


def save_tokenizer(tokenizer, folder, family: str = "", reads_source: bool = False):
    """Write a tokenizer's files, as transformers reads them.

    Args:
        tokenizer: One of `keras_transformer.tokenizers`.
        folder: Where they go.
        family: The model's `model_type`. It says whether transformers hands on the
            segments of pairs (BERT's alone); where it is not given, a template that
            numbers them does.
        reads_source: Whether the model is an encoder and a decoder. A
            `SentencePieceTokenizer`, which has no template, is given one: a source
            ends with eos, another text begins with bos.

    Raises:
        TypeError: A tokenizer of another package.
        ValueError: A `SentencePieceTokenizer` of a kind that the format has not.
    """
    folder = Path(folder)
    if isinstance(tokenizer, SentencePieceTokenizer):
        tokenizer = with_template(
            tokenizer, family, bos=not reads_source, eos=reads_source
        )
    if isinstance(tokenizer, HuggingFaceTokenizer):
        tokenizer.save(folder / "tokenizer.json")
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_input_names": _inputs(tokenizer, family),
        }
    elif isinstance(tokenizer, MappedSentencePieceTokenizer):
        settings = _save_mapped(tokenizer, folder)
    else:
        raise TypeError(
            "A tokenizer is saved if it is of keras_transformer.tokenizers. Received: "
            f"{type(tokenizer).__name__}."
        )
    special = {f"{r}_token": token for r, token in tokenizer.special_tokens.items()}
    _write(folder / "tokenizer_config.json", {**settings, **special})
    _write(folder / "special_tokens_map.json", special)


def _inputs(tokenizer, family):
    if not family and any(tokenizer.encode("a", "a", out_type="segments")):
        family = "bert"
    return _INPUTS_OF.get(family, _INPUTS)


def with_template(tokenizer, family: str = "", *, bos: bool, eos: bool):
    """Return a `SentencePieceTokenizer` as one whose texts have an end, or two.

    Its ids stay. Where a unigram model has ways of equal score to cut a text, such as
    the runs of `ㅋㅋㅋㅋㅋ`, each library may take another.

    Args:
        tokenizer: The tokenizer.
        family: The model's `model_type`. Marian's tokenizer is the model itself, once
            for sources and once for targets; others get a `tokenizer.json`.
        bos: Whether a text begins with bos.
        eos: Whether it ends with eos.

    Raises:
        ValueError: See `as_huggingface`.
    """
    if family != "marian":
        return as_huggingface(tokenizer, bos=bos, eos=eos)
    roles = {role: getattr(tokenizer, f"{role}_id") for role in _OWN_ROLES}
    roles = {r: tokenizer.id_to_piece(id) for r, id in roles.items() if id is not None}
    return MappedSentencePieceTokenizer(
        tokenizer.serialized,
        _numbered(map(tokenizer.id_to_piece, range(tokenizer.vocabulary_size))),
        roles,
        prefix=[roles["bos"]] if bos and "bos" in roles else [],
        suffix=[roles["eos"]] if eos and "eos" in roles else [],
        target_model=tokenizer.serialized,
    )


def _save_mapped(tokenizer, folder):
    settings = _save_model(tokenizer, folder)
    own = ("<extra_id_", ">>")  # what those kinds have without being told
    found = [p for p in [*tokenizer.whole, *tokenizer.words] if not p.startswith(own)]
    if found:
        settings["added_tokens_decoder"] = {
            str(tokenizer.vocabulary[piece]): {
                "content": piece,
                **dict.fromkeys(("lstrip", "rstrip", "single_word"), False),
                "normalized": False,
                "special": piece in tokenizer.whole,
            }
            for piece in found
        }
    return settings


def _save_model(tokenizer, folder):
    source, pieces = tokenizer.source, tokenizer.vocabulary
    if tokenizer.target is not source:
        source.save(folder / "source.spm")
        tokenizer.target.save(folder / "target.spm")
        _write(folder / "vocab.json", pieces)
        named = zip(_LANGUAGES, tokenizer.languages, strict=True)
        languages = {name: language for name, language in named if language}
        return {"tokenizer_class": "MarianTokenizer", **languages}
    if extra := sum(piece.startswith("<extra_id_") for piece in pieces):
        source.save(folder / "spiece.model")
        return {"tokenizer_class": "T5Tokenizer", "extra_ids": extra}
    if pieces.get(source.id_to_piece(3)) == 4:  # fairseq's order
        source.save(folder / "sentencepiece.bpe.model")
        return {"tokenizer_class": "XLMRobertaTokenizer"}
    source.save(folder / "tokenizer.model")
    return {
        "tokenizer_class": "LlamaTokenizer",
        "legacy": not tokenizer.space_once,
        "add_bos_token": bool(tokenizer.prefix),
        "add_eos_token": bool(tokenizer.suffix),
    }


def _with_known(path, named, more):
    """Read `tokenizer.json`; roles that no file names are told by their tokens.

    Special tokens that are named and not in it become new ids, as in transformers.
    """
    tokenizer = HuggingFaceTokenizer(path)
    if not named:
        guesses = (_BERT, _ROBERTA, _GPT2)
        named = next((g for g in guesses if all(map(tokenizer.has, g.values()))), {})
    tokenizer.name_special_tokens(named, more)
    return tokenizer


def _wordpiece(path, named, settings):
    from tokenizers.implementations import BertWordPieceTokenizer

    tokens = {f"{role}_token": token for role, token in named.items()}
    for role in ("bos", "eos"):
        tokens.pop(f"{role}_token", None)
    tokenizer = BertWordPieceTokenizer(
        str(path),
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        **tokens,
    )
    add_to_tokenizer(tokenizer, added_tokens(path.parent, settings))
    return HuggingFaceTokenizer(tokenizer.to_str(), named)


def _byte_level(folder, family, named, settings):
    from tokenizers.models import BPE

    from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors

    model = BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = Tokenizer(model)
    spaced = settings.get("add_prefix_space", False)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    tokenizer.decoder = decoders.ByteLevel()
    add_to_tokenizer(tokenizer, added_tokens(folder, settings))
    known = {**(_GPT2 if family == "gpt2" else _ROBERTA), **named}
    known = {r: t for r, t in known.items() if tokenizer.token_to_id(t) is not None}
    for role, token in known.items():
        special = AddedToken(
            token, lstrip=role == "mask", normalized=False, special=True
        )
        tokenizer.add_special_tokens([special])
    first, last = _ends(settings, known, bos=False)
    tokenizer.post_processor = template(first, last, tokenizer)
    if "sep" in known and "cls" in known:
        ends = [
            (known[role], tokenizer.token_to_id(known[role])) for role in ("sep", "cls")
        ]
        tokenizer.post_processor = processors.RobertaProcessing(
            *ends, add_prefix_space=spaced
        )
    return HuggingFaceTokenizer(tokenizer.to_str(), known)


def _sentencepiece(path, family, named, config, settings):
    own, processor = SentencePieceTokenizer(path), read_model(path)[1]
    size = processor.get_piece_size()  # without the padding that ours adds
    pieces = [processor.id_to_piece(id) for id in range(size)]
    added = added_tokens(path.parent, settings)
    keeps_spaces = not read_content(own.serialized).remove_spaces

    def mapped(table, roles, whole=(), **more):
        vocabulary = _numbered(table)
        special, words = add_to_vocabulary(vocabulary, added, roles, keeps_spaces)
        whole = dict.fromkeys([*whole, *special])
        return MappedSentencePieceTokenizer(
            path, vocabulary, roles, whole=whole, words=words, **more
        )

    if family == "xlm-roberta" or path.name == "sentencepiece.bpe.model":
        # fairseq's order: four special pieces, then the model's from its fourth on.
        table = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:], "<mask>"]
        special = {**_ROBERTA, **named}
        roles = {r: special[r] for r in _OWN_ROLES}
        return mapped(table, roles, ["<mask>"], prefix=["<s>"], suffix=["</s>"])
    roles = {
        role: own.id_to_piece(id)
        for role in ("unk", "bos", "eos")
        if (id := getattr(own, f"{role}_id")) is not None
    }
    if size > own.pad_id:
        roles["pad"] = own.id_to_piece(own.pad_id)
    roles |= {r: t for r, t in named.items() if r in _OWN_ROLES}
    if family == "t5":
        count = settings.get("extra_ids", 100)
        extra = [f"<extra_id_{i}>" for i in reversed(range(count))]
        room = config.get("vocab_size", size + count) - size
        extra = extra[len(extra) - room :] if room < count else extra
        return mapped([*pieces, *extra], roles, extra, suffix=["</s>"])
    first, last = _ends(settings, roles, bos=True)
    once = not settings.get("legacy", False)
    return mapped(pieces, roles, prefix=first, suffix=last, space_once=once)


def _ends(settings, roles, bos):
    """Return what stands before and after each text, after the tokenizer's config."""
    ends = []
    for role, default in (("bos", bos), ("eos", False)):
        asked = settings.get(f"add_{role}_token")
        if asked and role not in roles:
            raise ValueError(
                f"tokenizer_config.json has add_{role}_token=true, but the tokenizer "
                f"has no {role} token. Name one of its tokens there as {role}_token, "
                f"or set add_{role}_token to false."
            )
        wanted = default if asked is None else asked
        ends.append([roles[role]] if wanted and role in roles else [])
    return ends


def _marian(folder, named, settings):
    if settings.get("separate_vocabs"):
        raise ValueError(
            f"The folder {str(folder)!r} has a vocabulary for each language "
            "(separate_vocabs in tokenizer_config.json), and so takes two tokenizers. "
            "Load the model with tokenizer=False, make a MappedSentencePieceTokenizer "
            "of source.spm with vocab.json and one of target.spm with "
            "target_vocab.json, and pass both to Translator."
        )
    for name in ("vocab.json", "target.spm"):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"The folder {str(folder)!r} has source.spm, but not {name!r}, which "
                "belongs to it. Fetch the folder again, or load the model alone: "
                "tokenizer=False."
            )
    vocabulary = json_of(folder / "vocab.json")
    roles = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}
    roles = {role: piece for role, piece in roles.items() if piece in vocabulary}
    roles |= {r: t for r, t in named.items() if r in _OWN_ROLES}
    if "eos" not in roles:
        raise ValueError(
            f"The file {str(folder / 'vocab.json')!r} lacks the token '</s>', which "
            "ends each source. Name another one as eos_token in tokenizer_config.json."
        )
    languages = [piece for piece in vocabulary if piece.startswith(">>")]
    added = added_tokens(folder, settings)
    special, words = add_to_vocabulary(vocabulary, added, roles, keeps_spaces=False)
    return MappedSentencePieceTokenizer(
        folder / "source.spm",
        vocabulary,
        roles,
        suffix=[roles["eos"]],
        whole=dict.fromkeys([*languages, *special]),
        words=words,
        target_model=folder / "target.spm",
        languages=[settings.get(name) for name in _LANGUAGES],
    )


def _numbered(pieces):
    return {piece: id for id, piece in enumerate(pieces)}


def _write(path, values):
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", "utf-8")
