"""Sentence pairs of a translator: a user's own files, and the bundled ones."""

import os
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from keras_transformer.datasets.tables import bundled, open_table, read_text


class Pairs(NamedTuple):
    """The three parts of a data set, each a table with `source` and `target`."""

    train: pd.DataFrame
    validation: pd.DataFrame
    test: pd.DataFrame


def read_pairs(
    path: str | os.PathLike,
    target_path: str | os.PathLike | None = None,
    *,
    format: str | None = None,
    source_column: str = "source",
    target_column: str = "target",
    encoding: str = "utf-8",
) -> pd.DataFrame:
    """Read sentence pairs from one table, or from two files line by line.

    Texts come as they stand in the file. Pairs of which a side is empty are left
    out.

    Args:
        path: A .tsv or .csv file with a header row; or the source sentences, one
            a line, if `target_path` is given. Perhaps gzipped.
        target_path: The target sentences, one a line.
        format: As in `read_reviews`, for a table.
        source_column: Name of the column of sources, for a table.
        target_column: Name of the column of targets, for a table.
        encoding: The files' encoding.

    Returns:
        A pandas table with the columns `source` and `target`, and all others of
        the file. `.attrs["dropped"]` says how many pairs were left out,
        `.attrs["files"]` which files were read.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Files of different length, a missing column, a row with too few
            or too many columns: with the line number.

    Example:

    >>> pairs = read_pairs("train.ko", "train.en")
    >>> sources, targets = pairs["source"].tolist(), pairs["target"].tolist()
    """
    path = Path(path)
    files = [str(path)]
    if target_path is None:
        columns = {"source_column": source_column, "target_column": target_column}
        if source_column == target_column:
            raise ValueError(
                "`source_column` and `target_column` must be two columns. Received: "
                f"{source_column!r} twice."
            )
        header, rows, _ = open_table(path, columns, format, encoding)
        taken = {"source", "target"} & set(header) - {source_column, target_column}
        if taken:
            raise ValueError(
                f"{path} has a column {sorted(taken)[0]!r} beside those asked for, "
                f"{source_column!r} and {target_column!r}, which are called 'source' "
                "and 'target' here. Rename it in the file."
            )
        frame = pd.DataFrame([row for _, row in rows], columns=header, dtype=str)
        frame = frame.rename(columns={source_column: "source", target_column: "target"})
    else:
        files.append(str(target_path))
        sources = _lines(path, encoding)
        targets = _lines(Path(target_path), encoding)
        if len(sources) != len(targets):
            lacking = path if len(sources) < len(targets) else target_path
            raise ValueError(
                f"{path} and {target_path} must have as many lines. Received: "
                f"{len(sources)} and {len(targets)}; {lacking} ends after line "
                f"{min(len(sources), len(targets))}."
            )
        frame = pd.DataFrame({"source": sources, "target": targets}, dtype=str)
    blank = (frame["source"].str.strip() == "") | (frame["target"].str.strip() == "")
    frame = frame[~blank].reset_index(drop=True)
    frame.attrs.update(files=files, dropped=int(blank.sum()))
    return frame


def load_pairs(source: str = "ko", target: str = "en") -> Pairs:
    """Load the bundled Korean-English sentence pairs (`data/README.md`).

    Args:
        source: Language to translate from, `"ko"` or `"en"`.
        target: Language to translate into.

    Returns:
        `train`, `validation` and `test`, each a pandas table with the columns
        `id`, `source` and `target`.

    Raises:
        ValueError: Other languages, or the same twice.

    Example:

    >>> train, validation, test = load_pairs("ko", "en")
    >>> sources, targets = train["source"].tolist(), train["target"].tolist()
    """
    if {source, target} != {"ko", "en"}:
        raise ValueError(
            "The bundled pairs are of 'ko' and 'en'. Received: "
            f"source={source!r}, target={target!r}."
        )
    frame = read_pairs(
        bundled("translation_ko_en.tsv"), source_column=source, target_column=target
    )
    return Pairs(
        *(
            frame[frame["split"] == name].drop(columns="split").reset_index(drop=True)
            for name in Pairs._fields
        )
    )


def _lines(path, encoding):
    lines = [line.removesuffix("\r") for line in read_text(path, encoding).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines
