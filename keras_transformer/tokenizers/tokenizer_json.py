"""A SentencePiece model in the form of a `tokenizer.json`, with the same ids."""

import re

from keras_transformer.tokenizers.huggingface_tokenizer import (
    HuggingFaceTokenizer,
    import_tokenizers,
)
from keras_transformer.tokenizers.model_file import (
    BPE,
    CHAR,
    UNIGRAM,
    Kind,
    read_content,
)
from keras_transformer.tokenizers.sentencepiece_training import SPACE, SPECIAL_PIECES

_FROM_TEXT = (Kind.NORMAL, Kind.USER_DEFINED)  # kinds of pieces that texts are cut into


def as_huggingface(tokenizer, *, bos: bool, eos: bool) -> HuggingFaceTokenizer:
    """Return a `SentencePieceTokenizer` as a `HuggingFaceTokenizer` of the same ids.

    What differs: text that spells a special piece (`</s>`) becomes that piece, as in
    each `tokenizer.json`. Unknown characters and bytes that are no whole character are
    decoded by the rules of the package `tokenizers`. Where a unigram model has ways of
    equal score to cut a text, such as the runs of `ㅋㅋㅋㅋㅋ`, each library may take
    another.

    Args:
        tokenizer: The tokenizer.
        bos: Whether a text begins with bos, if there is one.
        eos: Whether a text ends with eos, if there is one.

    Raises:
        ImportError: The package `tokenizers` is missing.
        ValueError: A model that it cannot follow.
    """
    package = import_tokenizers()
    content = read_content(tokenizer.serialized)
    ids = {role: getattr(tokenizer, f"{role}_id") for role in SPECIAL_PIECES}
    roles = {r: tokenizer.id_to_piece(id) for r, id in ids.items() if id is not None}
    pieces = list(content.pieces)
    if tokenizer.vocabulary_size > len(pieces):  # the padding that ours adds
        pieces.append((roles["pad"], 0.0, Kind.CONTROL))
    normalizer = _normalizer(content, tokenizer.compose)
    _check(content, pieces, normalizer)
    made = package.Tokenizer(_model(content, pieces, tokenizer.unk_id))
    made.normalizer, made.decoder = normalizer, _decoder(content)
    if content.model_type == UNIGRAM:
        made.pre_tokenizer = _cut_apart(pieces)
    special = [p for p, _, kind in pieces if kind in (Kind.CONTROL, Kind.UNKNOWN)]
    made.add_special_tokens([package.AddedToken(p, normalized=False) for p in special])
    first = [roles["bos"]] if bos and "bos" in roles else []
    last = [roles["eos"]] if eos and "eos" in roles else []
    made.post_processor = template(first, last, made)
    return HuggingFaceTokenizer(made, roles)


def _check(content, pieces, normalizer):
    """Refuse a model that the package `tokenizers` cannot follow."""
    names = [piece for piece, _, _ in pieces]
    symbols = [piece for piece, _, kind in pieces if kind == Kind.USER_DEFINED]
    whole = [s for s in symbols if len(s) > 1 and content.model_type != UNIGRAM]
    prefix = SPACE if content.add_prefix else ""
    other = [s for s in symbols if normalizer.normalize_str(s) != prefix + s]
    if content.model_type not in (UNIGRAM, BPE, CHAR):
        problem = "is one of whole words: train a model_type='unigram'"
    elif content.space_after:
        problem = "puts spaces after words: train it without treat_whitespace_as_suffix"
    elif unused := [p for p, _, kind in pieces if kind == Kind.UNUSED]:
        problem = f"has pieces that are not used, such as {unused[0]!r}"
    elif len(set(names)) < len(names):
        problem = f"has {names[-1]!r} for something else than padding"
    elif whole:
        problem = f"has symbols such as {whole[0]!r}: train a model_type='unigram'"
    elif other:
        problem = f"has symbols that its normalization changes, such as {other[0]!r}"
    else:
        return
    raise ValueError(
        "Hugging Face's format has no tokenizer with the ids of this one, which "
        f"{problem}. Or save the model without its tokenizer."
    )


def _model(content, pieces, unk_id):
    from tokenizers import models

    if content.model_type == UNIGRAM:
        normal = [score for _, score, kind in pieces if kind == Kind.NORMAL]
        best = max(normal, default=0.0)
        scores = [(piece, _score(piece, *rest, best)) for piece, *rest in pieces]
        return models.Unigram(scores, unk_id, content.byte_fallback)
    return models.BPE(
        {piece: id for id, (piece, _, _) in enumerate(pieces)},
        _merges(pieces) if content.model_type == BPE else [],
        unk_token=pieces[unk_id][0],
        fuse_unk=True,
        byte_fallback=content.byte_fallback,
    )


def _score(piece, score, kind, best):
    """Return the score of a piece in a unigram model.

    Symbols of the user's are not weighed against other pieces: SentencePiece takes one
    to be worth as many of the best as it has characters.
    """
    return len(piece) * best - 0.1 if kind == Kind.USER_DEFINED else score


def _cut_apart(pieces):
    """Cut text that spells a piece which no text becomes, after its first character.

    SentencePiece keeps such pieces (`</s>`, the byte `<0xEA>`) out of texts; the
    package's unigram model would find them, as it finds all others.
    """
    from tokenizers import Regex, pre_tokenizers

    kept = [piece for piece, _, kind in pieces if kind not in _FROM_TEXT]
    spelled = "|".join(f"{re.escape(p[0])}(?={re.escape(p[1:])})" for p in kept)
    return pre_tokenizers.Split(Regex(spelled), "isolated")


def _merges(pieces):
    """Return the pairs that pieces are made of, those of the best pieces first."""
    known = {piece: score for piece, score, kind in pieces if kind == Kind.NORMAL}
    return [
        (piece[:cut], piece[cut:])
        for piece in sorted(known, key=known.get, reverse=True)
        for cut in range(1, len(piece))
        if piece[:cut] in known and piece[cut:] in known
    ]


def _normalizer(content, compose):
    from tokenizers import Regex, normalizers

    steps = [normalizers.NFC()] if compose else []
    # `Precompiled` takes a character and the accents after it for one, and no Hangul
    # for more than one: what it would change there is changed before.
    if "nfkc" in content.rule:
        steps.append(normalizers.NFKC())
    if compose and content.rule == "user_defined":  # the rule of `train`
        spaces = rf"[\s\x{{1c}}-\x{{1f}}{SPACE}]"
        steps.append(normalizers.Replace(Regex(spaces), " "))
    if content.charsmap:
        steps.append(normalizers.Precompiled(content.charsmap))
    if content.remove_spaces:
        for pattern, other in ((" +", " "), (r"\A | \z", "")):
            steps.append(normalizers.Replace(Regex(pattern), other))
    if content.add_prefix:
        steps.append(normalizers.Prepend(SPACE))
    return normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])


def _decoder(content):
    from tokenizers import decoders

    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if content.add_prefix or content.remove_spaces:
        most = 2**16 if content.remove_spaces else 1
        steps.append(decoders.Strip(" ", most, 0))
    return decoders.Sequence(steps)


def template(first, last, tokenizer):
    """Return what puts pieces before and after each text."""
    from tokenizers import processors

    special = [(piece, tokenizer.token_to_id(piece)) for piece in first + last]
    return processors.TemplateProcessing(
        single=[*first, "$A", *last],
        pair=[*first, "$A", *last, *first, "$B", *last],
        special_tokens=special,
    )
