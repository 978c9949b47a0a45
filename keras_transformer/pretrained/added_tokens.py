"""Tokens that stand beside a vocabulary: which they are, and their ids."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path

from keras_transformer.pretrained.config import read_json

# transformers' order, in which new tokens are given their ids.
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_WAYS_OUT = (
    "Open the folder with transformers and save its tokenizer as a tokenizer.json: "
    "AutoTokenizer.from_pretrained(folder).save_pretrained(new_folder). Or load the "
    "model alone: tokenizer=False."
)


@dataclass(frozen=True)
class AddedToken:
    """A token that a text is searched for before it is cut.

    Args:
        content: The token.
        id: Its id in the file; `None` for the next one that is free.
        special: Whether it is no text, and left out of what is decoded.
        lstrip: Whether it takes the spaces before it.
        rstrip: Whether it takes those after it.
        single_word: Whether it is found between other words alone.
        normalized: Whether it is searched for in the normalized text.
    """

    content: str
    id: int | None = None
    special: bool = True
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False


def special_tokens(folder, settings: dict) -> dict[str, str]:
    """Return role -> token, after both files that may name them.

    Args:
        folder: The folder, for `special_tokens_map.json`.
        settings: The content of `tokenizer_config.json`.
    """
    named = _named(folder, settings)
    found = {role: named.get(f"{role}_token") for role in ROLES}
    return {role: _token(value).content for role, value in found.items() if value}


def more_special_tokens(folder, settings: dict) -> list[str]:
    """Return the special tokens that have no role."""
    return [_token(value).content for value in _more(_named(folder, settings))]


def added_tokens(folder, settings: dict) -> list[AddedToken]:
    """Return all tokens that the files of a folder add to its vocabulary, or mark.

    `added_tokens_decoder` of `tokenizer_config.json` or, where that is not,
    `added_tokens.json`; then the special tokens, in transformers' order.
    """
    named = _named(folder, settings)
    roles = [value for role in ROLES if (value := named.get(f"{role}_token"))]
    special = {token.content: token for token in map(_token, [*roles, *_more(named)])}
    if "added_tokens_decoder" in settings:
        numbered = settings["added_tokens_decoder"].items()
        found = [_token({"special": False, **v}, int(id)) for id, v in numbered]
    else:
        found = [
            AddedToken(token, id, token in special, normalized=token not in special)
            for token, id in json_of(Path(folder) / "added_tokens.json").items()
        ]
    found.sort(key=lambda token: token.id)
    known = {token.content for token in found}
    return found + [token for name, token in special.items() if name not in known]


def add_to_tokenizer(tokenizer, added):
    """Add tokens to a tokenizer of the package `tokenizers`, which numbers them.

    Raises:
        ValueError: A token whose id in the file is another.
    """
    from tokenizers import AddedToken as Token

    for token in added:
        values = asdict(token)
        del values["id"]
        tokenizer.add_tokens([Token(values.pop("content"), **values)])
        _check_id(token, tokenizer.token_to_id(token.content))


def add_to_vocabulary(vocabulary: dict, added, roles: dict, keeps_spaces: bool):
    """Add tokens to a vocabulary, the next ids to those that it has not.

    Args:
        vocabulary: Piece -> id; it is added to.
        added: The tokens.
        roles: Role -> piece. Those of the vocabulary itself are not searched for,
            unless the files number them.
        keeps_spaces: Whether each space of a text becomes part of a piece.

    Returns:
        What is searched for in texts: the special tokens, the others.

    Raises:
        ValueError: A token whose id in the file is another, or that takes spaces.
    """
    special, words = [], []
    for token in added:
        new = token.content not in vocabulary
        if new:
            vocabulary[token.content] = max(vocabulary.values(), default=-1) + 1
        _check_id(token, vocabulary[token.content])
        if not new and token.id is None and token.content in roles.values():
            continue
        strips = (token.lstrip or token.rstrip) and keeps_spaces
        if strips or token.single_word:
            raise ValueError(
                f"The added token {token.content!r} takes spaces or is found between "
                "words alone (lstrip, rstrip, single_word), which a "
                f"MappedSentencePieceTokenizer cannot do. {_WAYS_OUT}"
            )
        (special if token.special else words).append(token.content)
    return special, words


def json_of(path) -> dict:
    """Return the content of a file, nothing if there is none."""
    return read_json(path) if path.is_file() else {}


def _check_id(token, id):
    if token.id not in (None, id):
        raise ValueError(
            f"The files add the token {token.content!r} with the id {token.id}, but "
            f"in this vocabulary it has the id {id}: new ids follow a vocabulary "
            "without a gap. Mend added_tokens.json, or added_tokens_decoder in "
            f"tokenizer_config.json. {_WAYS_OUT}"
        )


def _named(folder, settings):
    return {**settings, **json_of(Path(folder) / "special_tokens_map.json")}


def _more(named):
    extra = named.get("extra_special_tokens") or []
    extra = extra.values() if isinstance(extra, dict) else extra
    return [*(named.get("additional_special_tokens") or []), *extra]


def _token(value, id=None):
    """Read a token: a string, or an object with its flags."""
    if isinstance(value, str):
        return AddedToken(value, id)
    known = {field.name for field in fields(AddedToken)} - {"id"}
    return AddedToken(id=id, **{k: v for k, v in value.items() if k in known})
