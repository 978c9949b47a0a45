"""Reviews with labels: a user's own file, the bundled ones, and NSMC."""

import logging
import os
import re
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np
import pandas as pd

from keras_transformer.datasets.tables import bundled, open_table
from keras_transformer.ops.checks import check_choice

NSMC_URL = "https://raw.githubusercontent.com/e9t/nsmc/master/"
NSMC_FILES = {
    "train": ("ratings_train.txt", "ratings_train_rebuilt.txt"),
    "test": ("ratings_test.txt",),
}
# SHA-256 of the official files.
NSMC_HASHES = {
    "ratings_train.txt": "e03b7d14e9e41be8d464a28057cd25d7"
    "396c53e67aa7fd5f7e552c59b0ee2940",
    "ratings_test.txt": "8ac9f64052f11dbf6ae0acb5e038f03d"
    "90a76f0eda7820cfb3a92d02edfcebda",
}
DATA_VARIABLE = "KERAS_TRANSFORMER_DATA"

logger = logging.getLogger(__name__)


class Reviews(NamedTuple):
    """The three parts of a data set, each a table with `document` and `label`."""

    train: pd.DataFrame
    validation: pd.DataFrame
    test: pd.DataFrame


def read_reviews(
    path: str | os.PathLike,
    *,
    format: str | None = None,
    text_column: str = "document",
    label_column: str | None = "label",
    encoding: str = "utf-8",
    empty: str = "drop",
) -> pd.DataFrame:
    """Read texts and integer labels from a file with a header row.

    Texts come as they stand in the file: "NA", "nan" and "null" are texts, and
    in a TSV file a quote is a character like any other. A byte order mark, CRLF
    line ends and a missing last newline make no difference; gzip is unpacked.
    Wholly blank lines are skipped.

    Args:
        path: The file.
        format: `"tsv"` (columns between tabs, no quoting at all) or `"csv"`
            (commas, quoting: `"a ""word"", and more"`). By default the suffix
            decides: `.tsv` and `.txt` or `.csv`, with or without `.gz`.
        text_column: Name of the column of texts.
        label_column: Name of the column of integer labels; `None` for a file
            without labels.
        encoding: `"utf-8"`, or e.g. `"cp949"`, which Korean Windows writes.
        empty: `"drop"` leaves out the rows whose text is empty or blank, with
            their labels; `"keep"` keeps them.

    Returns:
        A pandas table with all columns of the file, numbered from 0: labels as
        int64, everything else as text. `.attrs["dropped"]` says how many rows
        without text were left out, `.attrs["files"]` which file was read.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A missing column, a row with too few or too many columns, a
            label that is no integer, bytes that are not in `encoding`: with the
            line number.

    Example:

    >>> frame = read_reviews("my_reviews.tsv")
    >>> texts, labels = frame["document"].tolist(), frame["label"].to_numpy()
    """
    path = Path(path)
    check_choice("empty", empty, ("drop", "keep"))
    columns = {"text_column": text_column, "label_column": label_column}
    header, rows, place = open_table(path, columns, format, encoding)

    table, labels, dropped = [], [], 0
    for line, row in rows:
        label = None
        if label_column is not None:
            label = _label(row[place[label_column]], label_column, line, path)
        if empty == "drop" and not row[place[text_column]].strip():
            dropped += 1
            continue
        table.append(row)
        labels.append(label)
    frame = pd.DataFrame(table, columns=header, dtype=str)
    if label_column is not None:
        frame[label_column] = np.array(labels, dtype="int64")
    frame.attrs.update(files=[str(path)], dropped=dropped)
    logger.info("%s: %d rows, %d without text dropped", path, len(frame), dropped)
    return frame


def load_reviews() -> Reviews:
    """Load the bundled Korean film reviews (`data/README.md` tells of them).

    Returns:
        `train`, `validation` and `test`, each a pandas table with the columns
        `id`, `document` and `label` (1 = positive, 0 = negative). No two texts
        of different parts are near duplicates.

    Example:

    >>> train, validation, test = load_reviews()
    >>> texts, labels = train["document"].tolist(), train["label"].to_numpy()
    """
    frame = read_reviews(bundled("reviews_ko.tsv"))
    parts = {}
    for name in Reviews._fields:
        part = frame[frame["split"] == name].drop(columns="split")
        parts[name] = part.reset_index(drop=True)
    return Reviews(**parts)


def load_nsmc(
    folder: str | os.PathLike | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Load the Naver sentiment movie corpus: 150,000 and 50,000 short reviews.

    Reads `ratings_train.txt` and `ratings_test.txt` (or the same with `.gz`)
    from `folder`, else from the folder that the environment variable
    KERAS_TRANSFORMER_DATA names, or their subfolder `nsmc`. Where neither is
    given it downloads both files into Keras's cache. A training set rebuilt from
    the raw reviews, `ratings_train_rebuilt.txt`, serves where the official file
    is missing; it has other rows, so name it with any figure.

    Args:
        folder: The folder with the two files.

    Returns:
        `(train, test)`, pandas tables with the columns `id`, `document` and
        `label` (1 = positive, 0 = negative). `.attrs["files"]` names the file
        that was read; rows without text are left out (`.attrs["dropped"]`).

    Raises:
        FileNotFoundError: The folder lacks a file.
        ConnectionError: The download failed, or brought something else.

    Example:

    >>> train, test = load_nsmc()
    >>> print(train.attrs["files"], len(train), len(test))

    Source: https://github.com/e9t/nsmc (CC0)
    """
    source = "folder"
    if folder is None and os.environ.get(DATA_VARIABLE):
        source, folder = DATA_VARIABLE, os.environ[DATA_VARIABLE]
    if folder is None:
        files = {part: _download(names[0]) for part, names in NSMC_FILES.items()}
    else:
        files = {
            part: _find(Path(folder), names, source)
            for part, names in NSMC_FILES.items()
        }
    return read_reviews(files["train"]), read_reviews(files["test"])


def _label(value, column, line, path):
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", value.strip()):
        raise ValueError(
            f"{path}, line {line}: expected an integer as {column!r}, found {value!r}. "
            "Number the classes from 0."
        )
    return int(value)


def _find(folder, names, source):
    for name in names:
        for place in (folder, folder / "nsmc"):
            for file in (place / name, place / f"{name}.gz"):
                if file.is_file():
                    return file
    raise FileNotFoundError(
        f"Expected {' or '.join(names)} (or the same with .gz) in {folder} or its "
        f"subfolder nsmc, which `{source}` names. Put the file there, or leave both "
        f"`folder` and {DATA_VARIABLE} unset to download it."
    )


def _download(name):
    try:
        file = keras.utils.get_file(
            name,
            origin=NSMC_URL + name,
            cache_subdir=os.path.join("datasets", "nsmc"),
            file_hash=NSMC_HASHES[name],
        )
    # Keras raises a bare Exception where the network fails, and a ValueError at
    # another file than the official one, such as a page of a proxy's; it fetches it
    # again the next time.
    except Exception as error:
        raise ConnectionError(
            f"Could not download {NSMC_URL + name}: {error}. Without network, put "
            "ratings_train.txt and ratings_test.txt into a folder and pass it: "
            f"load_nsmc(folder), or set {DATA_VARIABLE} to it."
        ) from error
    return Path(file)
