"""Labelled texts and sentence pairs, and their batches."""

from keras_transformer.datasets.bucketed_dataset import BucketedDataset
from keras_transformer.datasets.homonyms import Homonyms, load_homonyms
from keras_transformer.datasets.pairs import Pairs, load_pairs, read_pairs
from keras_transformer.datasets.reviews import (
    Reviews,
    load_nsmc,
    load_reviews,
    read_reviews,
)
from keras_transformer.datasets.splits import split
from keras_transformer.datasets.synthetic_pairs import synthetic_pairs
from keras_transformer.datasets.word_in_context import read_word_in_context

__all__ = [
    "BucketedDataset",
    "Homonyms",
    "Pairs",
    "Reviews",
    "load_homonyms",
    "load_nsmc",
    "load_pairs",
    "load_reviews",
    "read_pairs",
    "read_reviews",
    "read_word_in_context",
    "split",
    "synthetic_pairs",
]
