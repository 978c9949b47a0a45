"""A SentencePiece model in the form of a `tokenizer.json`, with the same ids."""

from keras_transformer.tokenizers.huggingface_tokenizer import HuggingFaceTokenizer
from keras_transformer.tokenizers.model_file import (
    BPE,
    CHAR,
    UNIGRAM,
    Kind,
    read_content,
)
from keras_transformer.tokenizers.sentencepiece_training import SPACE, SPECIAL_PIECES

# A piece that no text should be cut into; its id is used in other ways.
_NEVER = -1000.0


def as_huggingface(tokenizer, *, bos: bool, eos: bool) -> HuggingFaceTokenizer:
    """Return a `SentencePieceTokenizer` as a `HuggingFaceTokenizer` of the same ids.

    There, text that spells a special piece (`</s>`) becomes that piece, as it does in
    each `tokenizer.json`.

    Args:
        tokenizer: The tokenizer.
        bos: Whether a text begins with bos, if there is one.
        eos: Whether a text ends with eos, if there is one.

    Raises:
        ValueError: A model that the package `tokenizers` cannot follow.
    """
    from tokenizers import AddedToken, Tokenizer

    content = read_content(tokenizer.serialized)
    _check(content)
    ids = {role: getattr(tokenizer, f"{role}_id") for role in SPECIAL_PIECES}
    roles = {r: tokenizer.id_to_piece(id) for r, id in ids.items() if id is not None}
    pieces = list(content.pieces)
    if tokenizer.vocabulary_size > len(pieces):  # the padding that ours adds
        pieces.append((roles["pad"], 0.0, Kind.CONTROL))
    made = Tokenizer(_model(content, pieces, tokenizer.unk_id))
    made.normalizer = _normalizer(content, tokenizer.compose)
    made.decoder = _decoder(content)
    special = [p for p, _, kind in pieces if kind in (Kind.CONTROL, Kind.UNKNOWN)]
    made.add_special_tokens([AddedToken(p, normalized=False) for p in special])
    first = [roles["bos"]] if bos and "bos" in roles else []
    last = [roles["eos"]] if eos and "eos" in roles else []
    made.post_processor = _template(first, last, made)
    return HuggingFaceTokenizer(made, roles)


def _check(content):
    kinds = {kind for _, _, kind in content.pieces}
    symbols = [p for p, _, k in content.pieces if k == Kind.USER_DEFINED and len(p) > 1]
    if content.model_type not in (UNIGRAM, BPE, CHAR):
        problem = "is one of whole words"
    elif content.space_after or Kind.UNUSED in kinds:
        problem = "puts spaces after words, or has pieces that are not used"
    elif symbols and content.model_type != UNIGRAM:
        problem = f"has symbols such as {symbols[0]!r} and is not unigram"
    else:
        return
    raise ValueError(
        "Hugging Face's format has no tokenizer with the ids of this one, which "
        f"{problem}. Train one with model_type='unigram', or pass tokenizer=None to "
        "save the model alone."
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
    if kind == Kind.USER_DEFINED:
        return len(piece) * best - 0.1
    return _NEVER if kind == Kind.BYTE else score


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
    if content.rule.endswith("nfkc"):
        steps.append(normalizers.NFKC())
    # `Precompiled` takes a character and the accents after it for one, and no Hangul
    # for more than one: what it would change there is changed before.
    if content.rule == "user_defined" and compose:  # the rule of `train`
        spaces = rf"[\s\x{{1c}}-\x{{1f}}{SPACE}]"
        steps.append(normalizers.Replace(Regex(spaces), " "))
    elif content.charsmap:
        steps.append(normalizers.Precompiled(content.charsmap))
    if content.remove_spaces:
        steps += [
            normalizers.Replace(Regex(" +"), " "),
            normalizers.Replace(Regex(r"\A | \z"), ""),
        ]
    if content.add_prefix:
        steps.append(normalizers.Prepend(SPACE))
    return normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])


def _decoder(content):
    from tokenizers import decoders

    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if content.add_prefix:
        steps.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(steps)


def _template(first, last, tokenizer):
    from tokenizers.processors import TemplateProcessing

    special = [(piece, tokenizer.token_to_id(piece)) for piece in first + last]
    return TemplateProcessing(
        single=[*first, "$A", *last],
        pair=[*first, "$A", *last, *first, "$B", *last],
        special_tokens=special,
    )
