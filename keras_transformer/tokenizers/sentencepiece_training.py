"""Training of SentencePiece models: checked arguments in, a model file's bytes out."""

import io
import os
import random
import re
import tempfile
from pathlib import Path

import sentencepiece as spm

from keras_transformer.ops.checks import check_choice, check_integer
from keras_transformer.tokenizers.checks import check_texts
from keras_transformer.tokenizers.model_file import NFC_MARK, without_rule_path

SPECIAL_PIECES = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
SPACE = "\u2581"  # SentencePiece's own sign for a space
UNKNOWN = "\u2047"  # what unknown characters come back as
LARGE_CORPUS = 1_000_000  # characters


def train_model(
    texts_or_path,
    *,
    vocabulary_size,
    model_type,
    special_ids,
    user_defined_symbols,
    byte_fallback,
    character_coverage,
    normalization,
    preserve_whitespace,
    max_texts,
    seed,
    verbose,
    options,
) -> bytes:
    """Return the content of a model file; arguments as `SentencePieceTokenizer.train`.

    `special_ids` has the keys `"pad"`, `"unk"`, `"bos"`, `"eos"`.
    """
    check_integer("vocabulary_size", vocabulary_size)
    check_choice("model_type", model_type, ("unigram", "bpe", "char", "word"))
    check_choice("normalization", normalization, ("nfc", "nfkc"))
    if character_coverage is not None and not 0.98 <= character_coverage <= 1:
        raise ValueError(
            "`character_coverage` must lie between 0.98 and 1, or be None. Received: "
            f"character_coverage={character_coverage!r}."
        )
    if model_type == "word" and (byte_fallback or preserve_whitespace):
        raise ValueError(
            "`model_type='word'` knows whole words between spaces only: it takes "
            "neither `byte_fallback` nor `preserve_whitespace`. Use 'unigram' or 'bpe'."
        )
    settings = {
        "vocab_size": vocabulary_size,
        "model_type": model_type,
        **_free_ids(special_ids, vocabulary_size),
        "user_defined_symbols": _symbols(user_defined_symbols, preserve_whitespace),
        "byte_fallback": byte_fallback,
        "add_dummy_prefix": not preserve_whitespace,
        "remove_extra_whitespaces": not preserve_whitespace,
        "allow_whitespace_only_pieces": preserve_whitespace,
        "required_chars": SPACE,
        "hard_vocab_limit": False,
        # The trainer would leave longer texts out without a word.
        "max_sentence_length": 2**30,
        # With spaces around it (the trainer's default) it would encode to more than
        # it came from; a word model's unknowns take the space before them along.
        "unk_surface": f" {UNKNOWN}" if model_type == "word" else UNKNOWN,
        "minloglevel": 0 if verbose else 2,
    }
    ours = {*settings, "normalization_rule_name", "normalization_rule_tsv"}
    if taken := sorted(ours & set(options)):
        raise ValueError(
            f"`train` sets {', '.join(taken)} itself, from its own arguments. Remove "
            "what you passed under these names."
        )
    texts = _corpus(texts_or_path)
    if max_texts is not None and check_integer("max_texts", max_texts) < len(texts):
        chosen = random.Random(seed).sample(range(len(texts)), max_texts)
        texts = [texts[index] for index in sorted(chosen)]
    if preserve_whitespace and not any(" " in text for text in texts):
        texts.append(" ")  # a required character must be there
    if character_coverage is None:
        # 0.9995 of a few thousand characters leaves out those that are there once.
        large = sum(map(len, texts)) >= LARGE_CORPUS
        character_coverage = 0.9995 if large else 1.0
    settings["character_coverage"] = character_coverage
    with tempfile.TemporaryDirectory() as folder:
        rule = _rule(normalization, preserve_whitespace, Path(folder))
        model = _run(texts, {**settings, **rule, **options})
        path = rule.get("normalization_rule_tsv")
        return (without_rule_path(model, path) if path else model) + NFC_MARK


def _free_ids(ids, vocabulary_size):
    """Give ids that are `None` the smallest free ones, in their order."""
    given = [id for id in ids.values() if id is not None]
    for name, id in ids.items():
        if id is not None:
            check_integer(f"{name}_id", id, 0)
    if len(set(given)) < len(given) or max(given, default=0) >= vocabulary_size:
        raise ValueError(
            "Special ids must be distinct and below `vocabulary_size`. Received: "
            f"{ids}, vocabulary_size={vocabulary_size}."
        )
    free = iter(sorted(set(range(len(ids) + len(given))) - set(given)))
    return {f"{k}_id": next(free) if id is None else id for k, id in ids.items()}


def _symbols(symbols, preserve_whitespace):
    if isinstance(symbols, str):
        raise TypeError(
            "`user_defined_symbols` must be a list of strings. Received one string: "
            f"{symbols!r}."
        )
    symbols = check_texts(symbols, compose=True)
    for symbol in symbols:
        if not symbol or " " in symbol or SPACE in symbol:
            raise ValueError(
                f"The user-defined symbol {symbol!r} would never be found: symbols "
                "must not be empty, nor hold a space."
            )
        if symbol in SPECIAL_PIECES.values() or symbols.count(symbol) > 1:
            raise ValueError(
                f"The user-defined symbol {symbol!r} is there already. Leave it out."
            )
    return (
        list(dict.fromkeys([*"\n\t\r", *symbols])) if preserve_whitespace else symbols
    )


def _corpus(texts_or_path):
    """Read the texts; those without a character are left out."""
    if isinstance(texts_or_path, (str, os.PathLike)):
        try:
            with open(texts_or_path, encoding="utf-8-sig") as file:
                texts_or_path = [line.removesuffix("\n") for line in file]
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"There is no file {os.fspath(texts_or_path)!r}. To train on texts, "
                "pass a list of them."
            ) from error
        except UnicodeDecodeError as error:
            raise ValueError(
                f"The file {os.fspath(texts_or_path)!r} is not UTF-8 ({error}). "
                "Read it with its own encoding, and pass the lines."
            ) from error
    # U+2585 is the trainer's sign for rare characters: it would leave the whole text
    # out without a word.
    texts = [text.replace("\u2585", " ") for text in check_texts(texts_or_path, True)]
    texts = [text for text in texts if text.replace(SPACE, " ").strip()]
    if not texts:
        raise ValueError("There is nothing to train on: the corpus has no text.")
    return texts


def _rule(normalization, preserve_whitespace, folder):
    if normalization == "nfkc":
        # The second rule also makes spaces of tabs and newlines.
        name = "nfkc" if preserve_whitespace else "nmt_nfkc"
        return {"normalization_rule_name": name}
    if preserve_whitespace:
        return {"normalization_rule_name": "identity"}
    spaces = [code for code in range(0x10000) if chr(code).isspace() and code != 0x20]
    rule = folder / "rule.tsv"
    rule.write_text("".join(f"{code:x}\t20\n" for code in [*spaces, ord(SPACE)]))
    return {"normalization_rule_tsv": str(rule)}


def _run(texts, settings):
    model = io.BytesIO()
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(texts), model_writer=model, **settings
        )
    except (OSError, RuntimeError, ValueError) as error:
        if needed := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
            raise ValueError(
                f"This corpus needs a `vocabulary_size` of at least {needed[1]}: one "
                "id for each of its characters and special pieces. Received: "
                f"vocabulary_size={settings['vocab_size']}. Raise it, or lower "
                "`character_coverage`."
            ) from error
        raise ValueError(f"SentencePiece refuses to train: {error}") from error
    finally:
        spm.set_min_log_level(0)
    return model.getvalue()
