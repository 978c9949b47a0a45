"""The examples in the docstrings run."""

import doctest
import importlib

import keras
import pytest

import keras_transformer as kt
from keras_transformer import tokenizers

MODULES = (
    "layers.positional_embedding",
    "layers.token_head",
    "models.language_model",
    "models.masked_language_model",
    "models.seq2seq_transformer",
    "models.text_encoder",
    "pretrained.families",
    "tokenizers.mapped_sentencepiece_tokenizer",
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name):
    module = importlib.import_module(f"keras_transformer.{name}")
    names = {"keras": keras, **vars(tokenizers), **vars(kt), **vars(module)}
    results = doctest.testmod(module, globs=names)
    assert results.failed == 0 and results.attempted > 0
