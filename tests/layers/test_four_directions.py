"""The chapter's two axes: cross and self, additive and multiplicative."""

import numpy as np
import pytest

import keras_transformer as kt
from cases.helpers import array

RNG = np.random.default_rng(0)
TARGET = RNG.normal(size=(2, 3, 8)).astype("float32")
SOURCE = RNG.normal(size=(2, 5, 8)).astype("float32")
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], "bool")
LAYERS = {
    "additive": lambda: kt.BahdanauAttention(4),
    "additive, concatenated": lambda: kt.LuongAttention("concat"),
    "multiplicative": lambda: kt.LuongAttention("dot"),
    "multiplicative, general": lambda: kt.LuongAttention("general"),
    "multiplicative, scaled, of several heads": lambda: kt.MultiHeadAttention(2, 4),
}


@pytest.mark.parametrize("direction", ["cross", "self"])
@pytest.mark.parametrize("way", LAYERS)
def test_each_cell_is_called_masked_and_shows_its_weights(way, direction):
    layer = LAYERS[way]()
    query = TARGET if direction == "cross" else SOURCE
    context, weights = layer(
        query, SOURCE, value_mask=MASK, return_attention_scores=True
    )
    heads = (2,) if isinstance(layer, kt.MultiHeadAttention) else ()
    assert context.shape == query.shape
    assert weights.shape == (2, *heads, query.shape[1], 5)
    weights = array(weights)
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    hidden = np.broadcast_to(~MASK.reshape(2, *(1 for _ in heads), 1, 5), weights.shape)
    assert (weights[hidden] == 0).all() and (weights[~hidden] > 0).all()


@pytest.mark.parametrize("way", LAYERS)
def test_sources_of_another_batch_and_keys_of_another_length_are_refused(way):
    for arrays in (
        (TARGET[:1], SOURCE),
        (TARGET, SOURCE[:1]),
        (TARGET, SOURCE, SOURCE[:, :3]),
        (TARGET, SOURCE, SOURCE[:1]),
    ):
        with pytest.raises(ValueError, match="must have the same batch"):
            LAYERS[way]()(*arrays)
