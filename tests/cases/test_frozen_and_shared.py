"""What is frozen stays frozen, and what is shared stays one, in files too.

Source: what users of keras.layers.MultiHeadAttention meet with trainable=False.
"""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.layers.base import _sublayers

from .every_model import MODELS
from .examples import EXAMPLES, VOCABULARY, quick
from .helpers import array, assert_close, randomize


def model_of(layer, example):
    inputs = example.symbolic()
    return keras.Model(inputs, layer(*inputs))


def reloaded(model, tmp_path):
    model.save(tmp_path / "model.keras")
    return keras.models.load_model(tmp_path / "model.keras")


@pytest.mark.parametrize("name", quick(EXAMPLES, ["attention", "block", "positional"]))
def test_a_layer_made_frozen_is_not_trained(name, tmp_path):
    example = EXAMPLES[name]
    layer = example.make(trainable=False)
    model = model_of(layer, example)
    assert not model.trainable_variables
    assert not reloaded(model, tmp_path).trainable_variables
    count = len(model.weights)
    layer.trainable = True  # and may be trained later
    expected = model_of(example.make(), example)
    assert len(model.trainable_variables) == len(expected.trainable_variables)
    assert len(model.weights) == count


def freeze_parts(layer):
    """Freeze some parts of a layer, at every depth."""
    for _, part in list(_sublayers(layer))[::2]:
        part.trainable = False
    for _, part in list(_sublayers(layer))[1::2]:
        freeze_parts(part)


@pytest.mark.parametrize("name", quick(EXAMPLES, ["stack"]))
def test_frozen_parts_are_frozen_in_a_loaded_file(name, tmp_path):
    example = EXAMPLES[name]
    layer = example.make()
    model = model_of(layer, example)
    freeze_parts(layer)
    left = [v.path for v in model.trainable_variables]
    again = reloaded(model, tmp_path)
    assert [v.path for v in again.trainable_variables] == left
    assert len(again.weights) == len(model.weights)


MODELS_OF_CLASSES = [name for name, model in MODELS.items() if model.is_class]


@pytest.mark.parametrize("name", quick(MODELS_OF_CLASSES, ["text-encoder"]))
def test_a_frozen_model_is_frozen_inside_another(name, tmp_path):
    model = MODELS[name].functional(trainable=False)
    assert not model.trainable_variables
    assert not reloaded(model, tmp_path).trainable_variables
    model = MODELS[name].functional()
    inner = max(model.layers, key=lambda layer: len(layer.weights))
    freeze_parts(inner)
    left = len(model.trainable_variables)
    assert left < len(model.weights)
    assert len(reloaded(model, tmp_path).trainable_variables) == left


def tied():
    table = keras.layers.ReversibleEmbedding(VOCABULARY, 8)
    ids = keras.Input((None,), dtype="int32")
    vectors = kt.PositionalEmbedding(9, VOCABULARY, 8, shared_embedding=table)(ids)
    return keras.Model(ids, kt.TokenHead(VOCABULARY, token_embedding=table)(vectors))


def biased():
    bias = kt.RelativePositionBias(2)
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, 8)(ids)
    for _ in range(2):
        x = kt.TransformerStack(1, 8, 2, 16, position_bias=bias)(x)
    return keras.Model(ids, x)


@pytest.mark.parametrize("make", [tied, biased])
def test_a_part_of_two_layers_is_one_in_a_loaded_file(make, tmp_path):
    model = randomize(make())
    ids = np.array([[5, 6, 7], [4, 9, 2]])
    again = reloaded(model, tmp_path)
    assert again.count_params() == model.count_params()
    assert_close(array(again(ids)), array(model(ids)))
