"""Delimited files as they stand: every text kept, every fault with its line."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.ops.checks import check_choice

FORMATS = {".tsv": "tsv", ".txt": "tsv", ".csv": "csv"}


def open_table(path: Path, columns: dict, format: str | None, encoding: str):
    """Return the header, the rows and the wanted columns' places of a file.

    Args:
        path: The file, with a header row; perhaps gzipped.
        columns: Name of an argument -> name of the column that it asks for, or
            `None`.
        format: `"tsv"`, `"csv"` or `None`, by the suffix.
        encoding: The file's encoding.

    Returns:
        The header; an iterator of (line number, columns), as many as in the header;
        a dict from name to place.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It cannot be read, or lacks a column.
    """
    if format is None:
        name = path.name.lower().removesuffix(".gz")
        format = FORMATS.get(Path(name).suffix)
        if format is None:
            raise ValueError(
                f"The suffix of {path.name!r} does not tell the format (.tsv, .txt "
                "or .csv). Pass format='tsv' or format='csv'."
            )
    check_choice("format", format, ("tsv", "csv"))
    text = read_text(path, encoding)
    rows = _tsv_rows(text) if format == "tsv" else _csv_rows(text, path)
    _, header = next(rows, (1, None))
    if header is None:
        raise ValueError(f"{path} is empty. Expected a header row and rows below it.")
    place = _columns(header, columns, format, path)
    return header, _checked(rows, header, path), place


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the text of a file, perhaps gzipped, without a byte order mark."""
    return _decode(_read_bytes(path), encoding, path)


def bundled(name: str) -> Path:
    """A file of data/: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "data", package.parent / "data"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(
        f"The bundled {name} is missing: it should be in {package / 'data'}. Install "
        "keras-transformer-layers again."
    )


def _checked(rows, header, path) -> Iterator:
    for line, row in rows:
        if len(row) != len(header):
            extra = "; is there a stray separator?" if len(row) > len(header) else ""
            raise ValueError(
                f"{path}, line {line}: expected {len(header)} columns as in the header "
                f"({', '.join(header)}), found {len(row)}{extra}"
            )
        yield line, row


def _read_bytes(path):
    if not path.is_file():
        what = "It is a folder" if path.is_dir() else "There is no such file"
        raise FileNotFoundError(f"Expected a file at {path}. {what}.")
    data = path.read_bytes()
    # By content, since browsers unpack some files and keep the name.
    if data[:2] != b"\x1f\x8b":
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(
            f"{path} is a damaged or incomplete gzip file ({error}). Get it again."
        ) from error


def _decode(data, encoding, path):
    try:
        text = data.decode(encoding)
    except LookupError as error:
        raise ValueError(
            f"`encoding` must be one that Python knows. Received: "
            f"encoding={encoding!r}. Use 'utf-8' or 'cp949'."
        ) from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fitting = [name for name in ("utf-8", "cp949") if _fits(data, name)]
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            fitting = ["utf-16"]
        advice = "Save it as UTF-8, or name its encoding, e.g. "
        advice = "It reads as one with " if fitting else advice
        name = fitting[0] if fitting else "cp949"
        raise ValueError(
            f"{path}, line {line}: the bytes are not {encoding} text. {advice}"
            f'encoding="{name}".'
        ) from error
    return text.removeprefix("\ufeff")


def _fits(data, encoding):
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _tsv_rows(text):
    """Yields (line number, columns). Only newlines end a line: U+2028 is text."""
    if "\n" not in text:
        text = text.replace("\r", "\n")
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if line:
            yield number, line.split("\t")


def _csv_rows(text, path):
    """Yields (number of the first line, columns)."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"{path}, in the row that begins in line {line}: {error}. A quote at the "
            'start of a text must be closed, and quotes inside it doubled (""). For a '
            "file without quoting pass format='tsv'."
        ) from error


def _columns(header, wanted, format, path):
    """The place of each wanted column."""
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise ValueError(f"{path}, line 1: more than one column is named {twice[0]!r}.")
    place = {name: index for index, name in enumerate(header)}
    for argument, name in wanted.items():
        if name is not None and name not in place:
            other = {"tsv": "csv", "csv": "tsv"}[format]
            raise ValueError(
                f"{path}, line 1: no column {name!r}. Its columns are: "
                f"{', '.join(map(repr, header))}. Name the right one with {argument}="
                + (f", or try format={other!r}." if len(header) == 1 else ".")
            )
    return place
