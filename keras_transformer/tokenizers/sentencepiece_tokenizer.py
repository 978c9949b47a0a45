"""SentencePiece: subword ids learned from raw text, and the text back from them."""

import secrets
import threading
import warnings

import sentencepiece as spm

from keras_transformer.ops.checks import check_integer, check_number
from keras_transformer.tokenizers.checks import check_texts, id_rows, pad_rows
from keras_transformer.tokenizers.decode_stream import DecodeStream
from keras_transformer.tokenizers.model_file import (
    BPE,
    NFC_MARK,
    UNIGRAM,
    model_type,
    read_model,
    write_model,
)
from keras_transformer.tokenizers.sentencepiece_training import (
    SPACE,
    SPECIAL_PIECES,
    train_model,
)

_MOST_SEED = 2**32 - 2  # SentencePiece does not take the next one for a seed
_seeding = threading.Lock()  # the seed is one for the process


class SentencePieceTokenizer:
    """Turn text into ids of subword pieces, and ids into text.

    `decode(encode(text)) == text`, up to what `train` says of normalization. On NFC
    text the ids are those of plain `sentencepiece` with the same file; neighbouring
    unknown characters are together one `unk_id` in both.

    A model without a padding piece (SentencePiece's own default) gets one new id at
    the end: `vocabulary_size` is one more than the file's. The file stays as it is.

    Args:
        model: Path of a SentencePiece model file, or its content as bytes.
        compose: Whether text is composed to NFC before the model sees it. `None`: as
            the file says, which is `True` for models made by `train`, and `False`
            for others, whose ids stay those of their authors.

    Attributes:
        vocabulary_size: Number of ids V; also as `vocab_size`.
        pad_id: Id of padding, never -1.
        unk_id: Id of what no piece covers.
        bos_id: Id of a text's beginning; `None` if the model has none.
        eos_id: Id of a text's end; `None` if the model has none.
        serialized: The content of the model file, bytes.
        can_sample: Whether `encode` takes `sample=True`.

    Raises:
        FileNotFoundError: No such file.
        ValueError: The content is no whole SentencePiece model.

    Example:

    >>> texts = ["오늘 본 영화", "어제 본 연극", "내일 볼 영화"]
    >>> tokenizer = SentencePieceTokenizer.train(texts, 17)
    >>> ids = tokenizer.pad(tokenizer.encode(["오늘 본 연극", "영화"]))
    >>> tokenizer.decode(ids)
    ['오늘 본 연극', '영화']

    Source: Kudo and Richardson 2018, https://arxiv.org/abs/1808.06226 (chapter: 6)
    """

    def __init__(self, model, *, compose: bool | None = None):
        serialized, self._processor = read_model(model)
        content = serialized.removesuffix(NFC_MARK)
        marked = len(content) < len(serialized)
        self.compose = marked if compose is None else bool(compose)
        self.serialized = content + NFC_MARK * self.compose
        self.can_sample = model_type(content) in (UNIGRAM, BPE)
        special = (getattr(self._processor, f"{name}_id")() for name in SPECIAL_PIECES)
        pad, unk, bos, eos = (None if id < 0 else id for id in special)
        size = self._processor.get_piece_size()
        self.vocabulary_size = self.vocab_size = size + (pad is None)
        self.pad_id = size if pad is None else pad
        self.unk_id, self.bos_id, self.eos_id = unk, bos, eos

    @classmethod
    def train(
        cls,
        texts_or_path,
        vocabulary_size: int = 8000,
        *,
        model_type: str = "unigram",
        pad_id: int | None = None,
        unk_id: int | None = None,
        bos_id: int | None = None,
        eos_id: int | None = None,
        user_defined_symbols=(),
        byte_fallback: bool = False,
        character_coverage: float | None = None,
        normalization: str = "nfc",
        preserve_whitespace: bool = False,
        max_texts: int | None = None,
        seed: int = 0,
        verbose: bool = False,
        **options,
    ) -> "SentencePieceTokenizer":
        """Learn a vocabulary from texts.

        The same texts and arguments give the same model. A corpus too small for
        `vocabulary_size` gives the largest vocabulary that it can, and a warning.

        `decode(encode(text))` changes this: white space (`str.isspace`, and U+2581,
        SentencePiece's own sign for a space) is dropped at both ends, and a run of
        it elsewhere becomes one space; neighbouring unknown characters become one
        U+2047 (`⁇`). Encoding the result again gives the same ids.

        Args:
            texts_or_path: Iterable of strings, or path of a UTF-8 file whose lines
                are the texts.
            vocabulary_size: Number of ids V, special pieces included.
            model_type: `"unigram"`, `"bpe"`, `"char"` or `"word"`.
            pad_id: Id of padding. Of the four ids, those not given take the smallest
                free ones, in the order pad, unk, bos, eos: 0, 1, 2, 3 if none is
                given; after `pad_id=3` the others are 0, 1, 2.
            unk_id: Id of what no piece covers.
            bos_id: Id of a text's beginning.
            eos_id: Id of a text's end.
            user_defined_symbols: Strings that are always one piece each.
            byte_fallback: Whether unknown characters become their UTF-8 bytes (256
                more ids), and so come back, rather than `unk_id`.
            character_coverage: Share of the corpus's characters, 0.98 to 1, that the
                vocabulary holds; the rarest of the others are unknown. `None`: 0.9995
                from a million characters on (for Korean: of 2967 different ones in
                150,000 film reviews, 1791), 1 for less.
            normalization: `"nfc"` composes Hangul and accents, and keeps all else as
                written: `ㅋㅋㅋ`, `ㅠㅠ`, `㈜`. `"nfkc"` also replaces these (`㈜`
                by `(주)`, `ㅋ` by a conjoining letter), and adds 240 KB to the file;
                it makes `??` of U+2047, so that texts with unknown characters may
                not keep their ids when encoded again.
            preserve_whitespace: Whether spaces, tabs and newlines come back exactly
                (all but U+2581). Newline, tab and carriage return are then pieces.
            max_texts: Train on so many texts, chosen at random; `None` for all.
            seed: Seed of that choice.
            verbose: Whether SentencePiece prints its progress. This sets its log
                level for the process, and puts it back to its default.
            **options: More options of SentencePiece's trainer: `split_digits=True`.

        Returns:
            A `SentencePieceTokenizer`.

        Raises:
            TypeError: An item that is no string, such as the NaN of an empty cell.
            ValueError: No text, an argument out of range, or a `vocabulary_size`
                that does not hold the corpus's characters.
            FileNotFoundError: No such file.
        """
        model = train_model(
            texts_or_path,
            vocabulary_size=vocabulary_size,
            model_type=model_type,
            special_ids={"pad": pad_id, "unk": unk_id, "bos": bos_id, "eos": eos_id},
            user_defined_symbols=user_defined_symbols,
            byte_fallback=byte_fallback,
            character_coverage=character_coverage,
            normalization=normalization,
            preserve_whitespace=preserve_whitespace,
            max_texts=max_texts,
            seed=seed,
            verbose=verbose,
            options=options,
        )
        tokenizer = cls(model)
        if tokenizer.vocabulary_size < vocabulary_size:
            warnings.warn(
                f"The corpus is too small for vocabulary_size={vocabulary_size}. The "
                f"largest possible, {tokenizer.vocabulary_size}, was taken.",
                stacklevel=2,
            )
        return tokenizer

    @classmethod
    def load(cls, path, *, compose: bool | None = None) -> "SentencePieceTokenizer":
        """Read a model file; the same as the constructor."""
        return cls(path, compose=compose)

    def save(self, path):
        """Write the model file, whole or not at all; plain SentencePiece reads it."""
        write_model(path, self.serialized)

    def __reduce__(self):
        return type(self), (self.serialized,)

    def id_to_piece(self, id: int) -> str:
        """Return the piece of an id; U+2581 in it stands for a space."""
        ((id,),), _ = id_rows([id], self.vocabulary_size)
        if id == self._processor.get_piece_size():
            return SPECIAL_PIECES["pad"]
        return self._processor.id_to_piece(id)

    def piece_to_id(self, piece: str) -> int:
        """Return the id of a piece; `unk_id` if there is no such piece."""
        id = self._processor.piece_to_id(piece)
        unknown_pad = id == self.unk_id and piece == SPECIAL_PIECES["pad"]
        return self.pad_id if unknown_pad else id

    def pieces(self, texts):
        """Return the pieces of a text, or of each of several."""
        return self.encode(texts, out_type=str)

    def encode(
        self,
        texts,
        *,
        out_type: type = int,
        add_bos: bool = False,
        add_eos: bool = False,
        max_length: int | None = None,
        sample: bool = False,
        alpha: float = 0.1,
        nbest: int = -1,
        seed: int | None = None,
    ):
        """Turn texts into ids; several texts are shared out among all cores.

        Args:
            texts: A string, or an iterable of strings.
            out_type: `int` for ids, `str` for pieces.
            add_bos: Whether to put `bos_id` first.
            add_eos: Whether to put `eos_id` last.
            max_length: Most ids of a text, these two included; the text's end is cut
                off, `eos_id` is not. `None` for no limit.
            sample: Whether to draw the pieces at random (subword regularization).
            alpha: Unigram: the smaller, the more even the draw. BPE: share of merges
                left out.
            nbest: Unigram: draw from so many best; -1 for all.
            seed: Seed of the draws: in one process equal ones give equal pieces of
                equal texts in equal order; `sentencepiece` 0.2.3 draws otherwise in
                another. `None` for other draws in each call. (It sets the one seed
                that `sentencepiece` has for the process.)

        Returns:
            A list for one string, a list of lists for several.

        Raises:
            TypeError: An item that is no string.
            ValueError: An argument out of range, a `bos_id` or `eos_id` that the
                model has not, or half of a surrogate pair in a text.

        Source: Kudo 2018, https://arxiv.org/abs/1804.10959 (sampling)
        """
        if out_type not in (int, str):
            raise ValueError(f"`out_type` must be int or str. Received: {out_type!r}.")
        first, last = self._end("bos", add_bos), self._end("eos", add_eos)
        if out_type is str:
            first, last = map(self.id_to_piece, first), map(self.id_to_piece, last)
        first, last, kept = list(first), list(last), None
        if max_length is not None:
            ends = len(first) + len(last)
            kept = check_integer("max_length", max_length, max(1, ends)) - ends
        single = isinstance(texts, str)
        texts = check_texts([texts] if single else texts, self.compose)
        if sample:
            rows = self._draw(texts, out_type, alpha, nbest, seed)
        else:
            rows = self._processor.encode(texts, out_type=out_type, num_threads=-1)
        rows = [[*first, *row[:kept], *last] for row in rows]
        return rows[0] if single else rows

    def decode(self, ids):
        """Turn ids into text, leaving out `pad_id`, `bos_id` and `eos_id`.

        Rows are shared out among all cores.

        Args:
            ids: Ids of one text, or rows of ids: lists or arrays of integers. What
                comes after `eos_id` is text like the rest.

        Returns:
            A string, or a list of strings for rows.

        Raises:
            TypeError: Ids that are not integers.
            ValueError: An id outside the vocabulary.
        """
        rows, several = id_rows(ids, self.vocabulary_size)
        dropped = {self.pad_id, self.bos_id, self.eos_id}
        rows = [[id for id in row if id not in dropped] for row in rows]
        # SentencePiece takes a batch whose first row is empty for something else.
        filled = self._processor.decode([row for row in rows if row], num_threads=-1)
        texts = iter(filled)
        texts = [next(texts) if row else "" for row in rows]
        return texts if several else texts[0]

    def join(self, pieces) -> str:
        """Return the text of pieces; one that the model has not stands as it is."""
        pieces = list(pieces)
        text = self._processor.decode(pieces) if pieces else ""
        return text.replace(SPACE, " ")

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

        Raises:
            TypeError: Ids that are not integers.
            ValueError: A row longer than `length`, an id outside the vocabulary.
        """
        rows, several = id_rows(sequences, self.vocabulary_size)
        if not several and rows[0]:
            raise ValueError("`sequences` must be rows of ids. Received one row.")
        return pad_rows(rows if several else [], self.pad_id, length, side)

    def _end(self, name, add):
        id = getattr(self, f"{name}_id")
        if add and id is None:
            raise ValueError(f"`add_{name}=True`, but this model has no {name} piece.")
        return [id] if add else []

    def _draw(self, texts, out_type, alpha, nbest, seed):
        """Cut the texts at random, after the settings of subword regularization."""
        if not self.can_sample:
            raise ValueError(
                "`sample=True` needs a model of type 'unigram' or 'bpe': a text has "
                "only one way to be cut into characters or words."
            )
        check_number("alpha", alpha, at_least=0)
        if nbest != -1:
            check_integer("`nbest` (or -1 for all)", nbest, 2)
        check_integer("seed", seed, 0, _MOST_SEED, optional=True)
        if seed is None:
            seed = secrets.randbelow(_MOST_SEED)
        # SentencePiece's threads take the seed at their start. One thread: the draws
        # of several are not independent.
        with _seeding:
            spm.set_random_generator_seed(int(seed))
            return self._processor.encode(
                texts,
                out_type=out_type,
                enable_sampling=True,
                alpha=alpha,
                nbest_size=nbest,
                num_threads=1,
            )
