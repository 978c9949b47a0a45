import keras
import numpy as np
import pytest

import keras_transformer as kt
from cases.helpers import array, assert_close, skip_without_float64
from support import check_layer

X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")


def test_it_keeps_the_laws_of_every_layer():
    check_layer("TokenHead")


def test_a_tied_head_is_the_transposed_table():
    table = keras.layers.ReversibleEmbedding(12, 8)
    head = kt.TokenHead(12, token_embedding=table, use_bias=True, scale=0.5)
    head.build((None, None, 8))
    head.bias.assign(np.arange(12.0))
    expected = 0.5 * X @ array(table.embeddings).T + np.arange(12.0)
    assert_close(head(X), expected.astype("float32"))


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "bfloat16"])
def test_logits_are_float32_under_every_policy(policy):
    table = keras.layers.ReversibleEmbedding(12, 8, dtype=policy)
    for settings in ({}, {"token_embedding": table, "use_bias": True}):
        logits = kt.TokenHead(12, dtype=policy, **settings)(X)
        assert keras.backend.standardize_dtype(logits.dtype) == "float32"


def test_logits_of_float64_stay_float64():
    skip_without_float64()
    table = keras.layers.ReversibleEmbedding(12, 8, dtype="float64")
    for settings in ({}, {"token_embedding": table, "use_bias": True}):
        logits = kt.TokenHead(12, dtype="float64", **settings)(X)
        assert keras.backend.standardize_dtype(logits.dtype) == "float64"


def test_a_table_of_another_vocabulary_is_refused():
    table = keras.layers.ReversibleEmbedding(11, 8)
    with pytest.raises(ValueError, match="ReversibleEmbedding of vocabulary_size=12"):
        kt.TokenHead(12, token_embedding=table)
