"""Makes `dataloaders` for the chapter's section 12: %run load_text_class_example.py

`dataloaders['train']`, `['validation']` and `['test']` serve `(ids, labels)`: ids
(B, T) of spm.model, padded with 0, and labels (B,): 1 = positive, 0 = negative.

Environment variables, read on each run:
    KERAS_TRANSFORMER_REVIEWS: Reviews to take instead of the bundled ones. A file
        with the columns `document` and `label` (.tsv, .txt or .csv, also with .gz);
        or a folder with such files whose names begin with train, valid and test; or
        a folder with NSMC's ratings_train.txt and ratings_test.txt. Of validation
        and test, what is missing becomes one tenth of the training part each.
    KERAS_TRANSFORMER_SMALL: 1 keeps 128 reviews for training and 64 in each other
        part, enough to see every cell run.
"""

import os
from pathlib import Path

import transformer  # noqa: F401  (first: it finds the package in a checkout)

from keras_transformer.datasets import (
    BucketedDataset,
    load_nsmc,
    load_reviews,
    read_reviews,
    split,
)
from keras_transformer.tokenizers import SentencePieceTokenizer

SOURCE = "KERAS_TRANSFORMER_REVIEWS"
FILES = {"train": "train", "validation": "valid", "test": "test"}
SMALL = {"train": 128, "validation": 64, "test": 64}
VOCABULARY_SIZE = 30000  # of the chapter's Embedding: every id must be below
MAX_LENGTH = 256  # tokens; longer reviews are cut off


def load_parts():
    """Returns the tables of reviews: part -> columns `document` and `label`."""
    if not os.environ.get(SOURCE):
        return load_reviews()._asdict()
    path = Path(os.environ[SOURCE]).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"{SOURCE} names {path}, where nothing is.")
    parts = read_folder(path) if path.is_dir() else {"train": read_reviews(path)}
    missing = [part for part in FILES if part not in parts]
    if missing:
        reviews = parts["train"]
        sizes = [1 - 0.1 * len(missing), *[0.1 for _ in missing]]
        rows = split(reviews["document"], reviews["label"], sizes)
        for part, chosen in zip(["train", *missing], rows, strict=True):
            parts[part] = reviews.iloc[chosen]
    return parts


def read_folder(folder):
    found = {}
    for part, start in FILES.items():
        files = [file for file in sorted(folder.iterdir()) if is_table(file, start)]
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise ValueError(
                f"{SOURCE} names the folder {folder}, where more than one file may be "
                f"the part {part!r}: {names}. Leave one, or name a single file."
            )
        if files:
            found[part] = read_reviews(files[0])
    if found and "train" not in found:
        raise FileNotFoundError(
            f"{SOURCE} names the folder {folder}, which has no train.tsv or train.csv."
        )
    return found or dict(zip(("train", "test"), load_nsmc(folder), strict=True))


def is_table(file, start):
    name = file.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    return name.startswith(start) and suffix in (".tsv", ".txt", ".csv")


def make_dataset(part, reviews, tokenizer):
    labels = set(reviews["label"])
    if labels != {0, 1} if part == "train" else not labels <= {0, 1}:
        raise ValueError(
            f"The labels of the part {part!r} must be 0 (negative) and 1 (positive). "
            f"Found: {sorted(labels)[:10]}."
        )
    if os.environ.get("KERAS_TRANSFORMER_SMALL") == "1":
        size = min(SMALL[part], len(reviews))
        reviews = reviews.sample(size, random_state=0)
    rows = tokenizer.encode(reviews["document"].tolist())
    # A review without any id would be all padding, and its mean not a number.
    pairs = [(row, y) for row, y in zip(rows, reviews["label"], strict=True) if row]
    return BucketedDataset(
        [row for row, _ in pairs],
        [label for _, label in pairs],
        max_length=MAX_LENGTH,
        shuffle=part == "train",
    )


def make_dataloaders():
    tokenizer = SentencePieceTokenizer.load(Path(__file__).with_name("spm.model"))
    if tokenizer.vocabulary_size > VOCABULARY_SIZE:
        raise ValueError(
            f"spm.model has {tokenizer.vocabulary_size} ids, more than the model's "
            f"vocabulary of {VOCABULARY_SIZE}. Train one with fewer."
        )
    parts, made = load_parts(), {}
    for part in FILES:
        made[part] = make_dataset(part, parts[part], tokenizer)
        print(f"{part}: 리뷰 {len(made[part].order)}개, 배치 {len(made[part])}개")
    return made


dataloaders = make_dataloaders()
