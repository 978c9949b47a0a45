"""Labelled texts from files, and their batches."""

from keras_transformer.datasets.bucketed_dataset import BucketedDataset
from keras_transformer.datasets.reviews import (
    Reviews,
    load_nsmc,
    load_reviews,
    read_reviews,
)
from keras_transformer.datasets.splits import split

__all__ = [
    "BucketedDataset",
    "Reviews",
    "load_nsmc",
    "load_reviews",
    "read_reviews",
    "split",
]
