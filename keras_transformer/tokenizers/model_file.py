"""The SentencePiece model file: read and checked whole, written whole."""

import os
import secrets
import struct
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import sentencepiece as spm

# Field 1000 of the file, which SentencePiece leaves to others and skips: "compose
# text to NFC before this model sees it".
NFC_MARK = b"\xc2\x3e\x15keras_transformer:nfc"
# Numbers of the fields, and of what stands in them: sentencepiece_model.proto in
# SentencePiece's source.
PIECE, TRAINER, NORMALIZER = 1, 2, 3
UNIGRAM, BPE, CHAR = 1, 2, 4  # kinds of models


class Kind(IntEnum):
    """Kinds of pieces."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Content:
    """What a model file says."""

    pieces: list[tuple[str, float, int]]  # with score and kind, by id
    model_type: int
    byte_fallback: bool
    space_after: bool  # whether a word's space stands after it
    rule: str  # name of the normalization
    charsmap: bytes  # the normalization itself, compiled
    add_prefix: bool  # whether a text begins with a space
    remove_spaces: bool  # whether those at the ends and further ones go


def read_model(model) -> tuple[bytes, spm.SentencePieceProcessor]:
    """Return content and processor of a model file, given as a path or as bytes."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        source, serialized = "These", bytes(model)
    else:
        source, path = f"The file {os.fspath(model)!r} has", Path(model)
        if not path.exists():
            raise FileNotFoundError(f"There is no model file {os.fspath(model)!r}.")
        serialized = path.read_bytes()
    processor, problem = spm.SentencePieceProcessor(), "it ends too early"
    try:
        processor.load_from_serialized_proto(serialized)
        # SentencePiece does not mind a file that is cut off between two fields: it
        # would have a smaller vocabulary. The normalizer comes after all pieces.
        whole = any(number == NORMALIZER for number, _ in _fields(serialized))
    except RuntimeError as error:
        whole, problem = False, str(error)
    if not whole:
        raise ValueError(
            f"{source} {len(serialized)} bytes that are no whole SentencePiece model: "
            f"{problem}. Fetch the file again (a file of some 130 bytes is a pointer "
            "of Git LFS)."
        )
    return serialized, processor


def write_model(path, serialized: bytes):
    """Write a model file beside its place, then move it there."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {str(path.parent)!r}.")
    temporary = path.with_name(f".spm-{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(serialized)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def model_type(serialized: bytes) -> int:
    """Return the kind of a model, without a look at its pieces."""
    trainer = dict(_fields(dict(_fields(serialized)).get(TRAINER, b"")))
    return trainer.get(3, UNIGRAM)


def read_content(serialized: bytes) -> Content:
    """Return what a whole model file says."""
    fields = list(_fields(serialized))
    trainer = dict(_fields(dict(fields).get(TRAINER, b"")))
    normalizer = dict(_fields(dict(fields).get(NORMALIZER, b"")))
    return Content(
        pieces=[_piece(dict(_fields(body))) for n, body in fields if n == PIECE],
        model_type=trainer.get(3, UNIGRAM),
        byte_fallback=bool(trainer.get(35, False)),
        space_after=bool(trainer.get(24, False)),
        rule=normalizer.get(1, b"").decode(),
        charsmap=normalizer.get(2, b""),
        add_prefix=bool(normalizer.get(3, True)),
        remove_spaces=bool(normalizer.get(4, True)),
    )


def _piece(fields):
    (score,) = struct.unpack("<f", fields.get(2, bytes(4)))
    return fields.get(1, b"").decode(), score, fields.get(3, Kind.NORMAL)


def without_rule_path(serialized: bytes, path: str) -> bytes:
    """Take out the path of the rule's file, which training writes into the model."""
    entry = b"\x32" + _varint(len(path.encode())) + path.encode()
    parts = []
    for number, body in _fields(serialized):
        body = body.replace(entry, b"") if number == NORMALIZER else body
        parts += [_varint(number << 3 | 2), _varint(len(body)), body]
    return b"".join(parts)


def without_prefix(serialized: bytes) -> bytes:
    """Return a model that puts no space before a text."""
    parts = []
    for number, body in _fields(serialized):
        # The last of equal fields counts: `add_dummy_prefix`, false.
        body += b"\x18\x00" if number == NORMALIZER else b""
        parts += [_varint(number << 3 | 2), _varint(len(body)), body]
    return b"".join(parts)


def _fields(message):
    """Yield number and value of the fields of a Protocol Buffers message."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        kind, size = tag & 7, 0
        if kind == 0:
            value, position = _read_varint(message, position)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                size, position = _read_varint(message, position)
            value = message[position : position + size]
            position += size
        yield tag >> 3, value


def _read_varint(message, position):
    number, shift = message[position] & 0x7F, 7
    while message[position] >= 0x80:
        position += 1
        number |= (message[position] & 0x7F) << shift
        shift += 7
    return number, position + 1


def _varint(number):
    digits = []
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])
