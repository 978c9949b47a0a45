"""SentencePiece models whose ids are not the model's own: T5, XLM-R, Marian."""

import re

from keras_transformer.ops.checks import check_integer
from keras_transformer.tokenizers.checks import id_rows, pad_rows
from keras_transformer.tokenizers.decode_stream import DecodeStream
from keras_transformer.tokenizers.model_file import without_prefix
from keras_transformer.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer


class MappedSentencePieceTokenizer:
    """Cut text with a SentencePiece model, and number the pieces by another table.

    `ids = [*prefix, *map(vocabulary, pieces(text)), *suffix]`

    One text at a time: pairs of texts and offsets are what a `tokenizer.json` of the
    same model gives (`HuggingFaceTokenizer`).

    Args:
        model: Path or content of the SentencePiece model.
        vocabulary: Piece -> id.
        special_tokens: Role (`"pad"`, `"unk"`, `"bos"`, `"eos"`) -> piece.
        prefix: Pieces before each text.
        suffix: Pieces after each text.
        whole: Special pieces that stand in a text as they are (`<extra_id_0>`,
            `>>de<<`).
        words: Pieces that do too and are text, which decoding keeps.
        space_once: Whether the space that the model puts before a text stands at its
            beginning alone, and not after each of these pieces too (Llama).
        target_model: Model that joins pieces, if it is another (Marian's).
        languages: Names of the languages of sources and targets, for the files.

    Attributes:
        vocabulary_size: Number of ids V; also as `vocab_size`.
        pad_id: Id of padding; `eos_id`, or 0, if there is no such piece.
        unk_id: Id of what no piece covers; likewise `bos_id`, `eos_id`.

    Raises:
        ValueError: A special piece that is not in the vocabulary.

    Example:

    >>> model = SentencePieceTokenizer.train(["가 나 다"], 8, model_type="char")
    >>> table = {"<unk>": 0, "▁": 1, "나": 2, "</s>": 3}
    >>> tokenizer = MappedSentencePieceTokenizer(
    ...     model.serialized, table, {"unk": "<unk>", "eos": "</s>"}, suffix=["</s>"])
    >>> tokenizer.encode("나")
    [1, 2, 3]
    """

    def __init__(
        self,
        model,
        vocabulary: dict,
        special_tokens: dict,
        *,
        prefix=(),
        suffix=(),
        whole=(),
        words=(),
        space_once: bool = False,
        target_model=None,
        languages=(None, None),
    ):
        self.source = SentencePieceTokenizer(model)
        self.target = self.source
        if target_model is not None:
            self.target = SentencePieceTokenizer(target_model)
        self.vocabulary = dict(vocabulary)
        self.special_tokens = dict(special_tokens)
        self.prefix, self.suffix = list(prefix), list(suffix)
        self.whole, self.words = list(whole), list(words)
        self.space_once, self.languages = bool(space_once), list(languages)
        special = [
            *self.special_tokens.values(),
            *self.prefix,
            *self.suffix,
            *self.whole,
        ]
        for piece in [*special, *self.words]:
            if piece not in self.vocabulary:
                raise ValueError(f"The piece {piece!r} is not in the vocabulary.")
        self._pieces = {id: piece for piece, id in self.vocabulary.items()}
        self.vocabulary_size = self.vocab_size = max(self._pieces) + 1
        for role in ("pad", "unk", "bos", "eos"):
            piece = self.special_tokens.get(role)
            setattr(self, f"{role}_id", self.vocabulary.get(piece))
        if self.pad_id is None:
            self.pad_id = self.eos_id or 0
        self._hidden = {self.vocabulary[piece] for piece in special}
        self._hidden.discard(self.unk_id)
        found = sorted({*self.whole, *self.words}, key=len, reverse=True)
        pattern = "|".join(map(re.escape, found))
        self._whole = re.compile(f"({pattern})") if found else None
        self._after = self.source  # what cuts the text after one of these
        if self.space_once and found:
            self._after = SentencePieceTokenizer(without_prefix(self.source.serialized))

    def id_to_piece(self, id: int) -> str:
        """Return the piece of an id."""
        ((id,),), _ = id_rows([id], self.vocabulary_size)
        return self._pieces.get(id, "")

    def piece_to_id(self, piece: str) -> int | None:
        """Return the id of a piece; `unk_id` if there is no such piece."""
        return self.vocabulary.get(piece, self.unk_id)

    def encode(
        self,
        texts,
        *,
        out_type: type = int,
        add_special_tokens: bool = True,
        add_bos: bool = False,
        max_length: int | None = None,
        target: bool = False,
    ):
        """Turn texts into ids.

        Args:
            texts: A string, or an iterable of strings.
            out_type: `int` for ids, `str` for pieces.
            add_special_tokens: Whether `prefix` and `suffix` are added.
            add_bos: Whether `bos_id` comes first, and `prefix` and `suffix` are left
                out, as for a text to be written on.
            max_length: Most ids of a text, these included.
            target: Whether the texts are of the language that is translated to, and
                cut with `target_model`.

        Returns:
            A list for one string, a list of lists for several.

        Raises:
            TypeError: An item that is no string.
            ValueError: An argument out of range.
        """
        if out_type not in (int, str):
            raise ValueError(f"`out_type` must be int or str. Received: {out_type!r}.")
        first = self.prefix if add_special_tokens else []
        last = self.suffix if add_special_tokens else []
        if add_bos:
            if self.bos_id is None:
                raise ValueError("`add_bos=True`, but this tokenizer has no bos id.")
            first, last = [self.id_to_piece(self.bos_id)], []
        kept = None
        if max_length is not None:
            ends = len(first) + len(last)
            kept = check_integer("max_length", max_length, max(1, ends)) - ends
        single = isinstance(texts, str)
        model = self.target if target else self.source
        rows = [self._cut(text, model) for text in ([texts] if single else texts)]
        rows = [[*first, *row[:kept], *last] for row in rows]
        if out_type is int:
            rows = [[self.piece_to_id(piece) for piece in row] for row in rows]
        return rows[0] if single else rows

    def pieces(self, texts):
        """Return the pieces of a text, or of each of several."""
        return self.encode(texts, out_type=str)

    def decode(self, ids, skip_special_tokens: bool = True):
        """Turn ids into text.

        Args:
            ids: Ids of one text, or rows of ids: lists or arrays of integers.
            skip_special_tokens: Whether special pieces are left out.

        Returns:
            A string, or a list of strings for rows.
        """
        rows, several = id_rows(ids, self.vocabulary_size)
        texts = [self._join(row, skip_special_tokens) for row in rows]
        return texts if several else texts[0]

    def decode_stream(self) -> DecodeStream:
        """Return a stream that takes one id at a time."""
        return DecodeStream(self)

    def pad(self, sequences, length: int | None = None, side: str = "right"):
        """Fill lists of ids up with `pad_id` to one length: int32 array (B, T)."""
        rows, several = id_rows(sequences, self.vocabulary_size)
        if not several and rows[0]:
            raise ValueError("`sequences` must be rows of ids. Received one row.")
        return pad_rows(rows if several else [], self.pad_id, length, side)

    def _cut(self, text, model):
        if self._whole is None or not isinstance(text, str):
            return model.pieces([text])[0]
        first, *rest = self._whole.split(text)
        pieces = model.pieces(first)
        after = self._after if model is self.source else model
        for index, part in enumerate(rest):
            pieces += after.pieces(part) if index % 2 else [part]
        return pieces

    def _join(self, ids, skip):
        parts, run = [], []
        for id in ids:
            piece = self._pieces.get(id, "")
            if not piece or (skip and id in self._hidden):
                continue
            if id in self._hidden:
                parts += [self.target.join(run), piece]
                run = []
            else:
                run.append(piece)
        parts.append(self.target.join(run))
        text = " ".join(part for part in parts if part)
        # A piece that the other model has not keeps its space.
        return text if self.target is self.source else text.strip()
