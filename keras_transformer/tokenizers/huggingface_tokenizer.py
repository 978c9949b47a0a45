"""Tokenizers in Hugging Face's format: BPE, WordPiece and Unigram files."""

import threading
from pathlib import Path

from keras_transformer.ops.checks import check_integer
from keras_transformer.tokenizers.checks import check_texts, id_rows, pad_rows
from keras_transformer.tokenizers.decode_stream import DecodeStream

SPECIAL = ("pad", "unk", "bos", "eos", "cls", "sep", "mask")


class HuggingFaceTokenizer:
    """Turn text into ids and back with a tokenizer of the package `tokenizers`.

    Normalization, special tokens, templates and offsets are those of the file.

    Args:
        tokenizer: Path of a `tokenizer.json`, its content as a string, or a
            `tokenizers.Tokenizer`.
        special_tokens: Role (`"pad"`, `"unk"`, `"bos"`, `"eos"`, `"cls"`, `"sep"`,
            `"mask"`) -> token, as in `special_tokens_map.json` without `_token`.

    Attributes:
        vocabulary_size: Number of ids V; also as `vocab_size`.
        pad_id: Id of padding; `eos_id`, or 0, if there is no pad token, so that
            masks must come from the lengths.
        unk_id: Id of what no token covers, or `None`; likewise `bos_id`, `eos_id`,
            `cls_id`, `sep_id` and `mask_id`.

    Raises:
        ImportError: The package `tokenizers` is missing.
        ValueError: The content is no tokenizer, or a special token is not in it.

    Example:

    >>> tokenizer = HuggingFaceTokenizer("tokenizer.json")  # doctest: +SKIP
    >>> tokenizer.decode(tokenizer.encode("hello"))  # doctest: +SKIP

    Source: https://huggingface.co/docs/tokenizers
    """

    def __init__(self, tokenizer, special_tokens: dict | None = None):
        self._tokenizer = _read(tokenizer)
        self._lock = threading.Lock()  # truncation is a setting, of all who encode
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        special_tokens = dict(special_tokens or {})
        for role, token in special_tokens.items():
            if role in SPECIAL and not self.has(token):
                raise ValueError(
                    f"The {role} token {token!r} is not in the tokenizer's vocabulary."
                )
        self.name_special_tokens(special_tokens)

    def name_special_tokens(self, special_tokens: dict, more=()):
        """Say which tokens are special; those not in the vocabulary get new ids.

        Args:
            special_tokens: Role -> token, as in the constructor.
            more: Special tokens without a role.

        Raises:
            ValueError: An unknown role.
        """
        unknown = sorted(set(special_tokens) - set(SPECIAL))
        if unknown:
            raise ValueError(
                f"`special_tokens` has the roles {unknown}. Known are {SPECIAL}."
            )
        for token in dict.fromkeys([*special_tokens.values(), *more]):
            if not self.has(token):
                self._tokenizer.add_special_tokens([token])
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        self.vocabulary_size = self.vocab_size = (
            max(vocabulary.values(), default=-1) + 1
        )
        self.special_tokens = dict(special_tokens)
        for role in SPECIAL:
            token = self.special_tokens.get(role)
            setattr(self, f"{role}_id", vocabulary.get(token))
        if self.pad_id is None:
            self.pad_id = self.eos_id or 0

    def set_normalizer(self, settings: dict):
        """Change settings of the normalizer, those that it has.

        Args:
            settings: Attribute -> value: `lowercase`, `strip_accents`, `clean_text`
                and `handle_chinese_chars` of BERT's normalizer.
        """
        normalizer = self._tokenizer.normalizer
        for name, value in settings.items():
            if hasattr(normalizer, name):
                setattr(normalizer, name, value)

    def has(self, token: str) -> bool:
        """Return whether a token is in the vocabulary."""
        return self._tokenizer.token_to_id(token) is not None

    @classmethod
    def load(cls, path, special_tokens: dict | None = None) -> "HuggingFaceTokenizer":
        """Read a `tokenizer.json`; the same as the constructor."""
        return cls(path, special_tokens)

    def save(self, path):
        """Write a `tokenizer.json`."""
        Path(path).write_text(self.serialized, "utf-8")

    @property
    def serialized(self) -> str:
        """The content of `tokenizer.json`."""
        return self._tokenizer.to_str()

    def __reduce__(self):
        return type(self), (self.serialized, self.special_tokens)

    def id_to_piece(self, id: int) -> str:
        """Return the token of an id."""
        ((id,),), _ = id_rows([id], self.vocabulary_size)
        return self._tokenizer.id_to_token(id)

    def piece_to_id(self, piece: str) -> int | None:
        """Return the id of a token; `unk_id` if there is no such token."""
        id = self._tokenizer.token_to_id(piece)
        return self.unk_id if id is None else id

    def encode(
        self,
        texts,
        pairs=None,
        *,
        out_type: type | str = int,
        add_special_tokens: bool = True,
        add_bos: bool = False,
        max_length: int | None = None,
    ):
        """Turn texts into ids, special tokens of the template included.

        Args:
            texts: A string, or an iterable of strings.
            pairs: A second text for each, for templates of two (BERT).
            out_type: `int` for ids, `str` for tokens, `"offsets"` for (start, end)
                in characters of the text, `"segments"` for segment ids.
            add_special_tokens: Whether the template's tokens are added.
            add_bos: Whether `bos_id` comes first, and the template is left out, as
                for a text to be written on.
            max_length: Most ids of a text, the template's included; what is too
                much is cut off the longer text's end.

        Returns:
            A list for one string, a list of lists for several.

        Raises:
            TypeError: An item that is no string.
            ValueError: An argument out of range, another number of pairs.
        """
        fields = {
            int: "ids",
            str: "tokens",
            "offsets": "offsets",
            "segments": "type_ids",
        }
        if out_type not in fields:
            raise ValueError(
                "`out_type` must be int, str, 'offsets' or 'segments'. Received: "
                f"{out_type!r}."
            )
        if add_bos:
            return self._from_bos(texts, pairs, out_type, max_length)
        single = isinstance(texts, str)
        rows = check_texts([texts] if single else texts, False)
        if pairs is not None:
            seconds = check_texts([pairs] if single else pairs, False)
            if len(seconds) != len(rows):
                raise ValueError(
                    f"There are {len(rows)} texts and {len(seconds)} in `pairs`."
                )
            rows = list(zip(rows, seconds, strict=True))
        if max_length is not None:
            least = self._tokenizer.num_special_tokens_to_add(pairs is not None)
            least = max(1, least) if add_special_tokens else 1
            max_length = check_integer("max_length", max_length, least)
        with self._lock:
            if max_length is not None:
                self._tokenizer.enable_truncation(max_length)
            try:
                encoded = self._tokenizer.encode_batch(
                    rows, add_special_tokens=add_special_tokens
                )
            finally:
                self._tokenizer.no_truncation()
        found = [list(getattr(row, fields[out_type])) for row in encoded]
        return found[0] if single else found

    def _from_bos(self, texts, pairs, out_type, max_length):
        if self.bos_id is None or out_type not in (int, str) or pairs is not None:
            raise ValueError(
                "`add_bos=True` needs a tokenizer with a bos token, ids or tokens as "
                "`out_type`, and no `pairs`."
            )
        rest = max_length if max_length is None else max(1, max_length - 1)
        found = self.encode(
            texts, out_type=out_type, add_special_tokens=False, max_length=rest
        )
        bos = self.bos_id if out_type is int else self.id_to_piece(self.bos_id)
        if isinstance(texts, str):
            return [bos, *found][:max_length]
        return [[bos, *row][:max_length] for row in found]

    def pieces(self, texts):
        """Return the tokens of a text, or of each of several."""
        return self.encode(texts, out_type=str)

    def decode(self, ids, skip_special_tokens: bool = True):
        """Turn ids into text.

        Args:
            ids: Ids of one text, or rows of ids: lists or arrays of integers.
            skip_special_tokens: Whether special tokens are left out.

        Returns:
            A string, or a list of strings for rows.
        """
        rows, several = id_rows(ids, self.vocabulary_size)
        texts = self._tokenizer.decode_batch(
            rows, skip_special_tokens=skip_special_tokens
        )
        return texts if several else texts[0]

    def decode_stream(self) -> DecodeStream:
        """Return a `DecodeStream`, which takes one id at a time."""
        return DecodeStream(self)

    def pad(self, sequences, length: int | None = None, side: str = "right"):
        """Fill lists of ids up with `pad_id` to one length.

        Args:
            sequences: Rows of ids.
            length: Length T; `None` for the longest row's.
            side: `"right"` or `"left"`: where the padding goes.

        Returns:
            int32 array (B, T).
        """
        rows, several = id_rows(sequences, self.vocabulary_size)
        if not several and rows[0]:
            raise ValueError("`sequences` must be rows of ids. Received one row.")
        return pad_rows(rows if several else [], self.pad_id, length, side)


def import_tokenizers():
    """Return the package `tokenizers`, which is an extra."""
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(
            "Tokenizers of Hugging Face's format need the package tokenizers. Install "
            "it: pip install 'keras-transformer-layers[pretrained]'."
        ) from error
    return tokenizers


def _read(tokenizer):
    Tokenizer = import_tokenizers().Tokenizer
    if isinstance(tokenizer, Tokenizer):
        return Tokenizer.from_str(tokenizer.to_str())  # truncation is set on a copy
    if not (isinstance(tokenizer, str) and tokenizer.lstrip().startswith("{")):
        path = Path(tokenizer)
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {str(path)!r}.")
        tokenizer = path.read_text("utf-8")
    try:
        return Tokenizer.from_str(tokenizer)
    except Exception as error:  # the package raises bare Exception
        raise ValueError(f"The content is no tokenizer.json: {error}.") from error
