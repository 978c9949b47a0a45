"""P31: what is frozen stays frozen, and what is shared stays one, in files too.

Source: what users of keras.layers.MultiHeadAttention meet with trainable=False.
"""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.layers.base import BaseLayer, _sublayers
from keras_transformer.layers.recurrent_encoder import RecurrentEncoder

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


def variable_parts(layer):
    """Return the parts of a layer that have variables."""
    return [part for _, part in _sublayers(layer) if part.weights]


def set_parts(layer, trainable=False):
    """Freeze, or train, some parts of a layer, at every depth."""
    parts = variable_parts(layer)
    for part in parts[::2]:
        part.trainable = trainable
    for part in parts[1::2]:
        set_parts(part, trainable)


def trained(model):
    return [variable.path for variable in model.trainable_variables]


@pytest.mark.parametrize("whole", [True, False], ids=["trained", "frozen"])
@pytest.mark.parametrize("name", quick(EXAMPLES, ["stack"]))
def test_parts_unlike_the_whole_are_so_in_a_loaded_file(name, whole, tmp_path):
    example = EXAMPLES[name]
    layer = example.make()
    model = model_of(layer, example)
    layer.trainable = whole
    before = trained(model)
    set_parts(layer, trainable=not whole)
    assert (trained(model) != before) == bool(variable_parts(layer))
    again = reloaded(model, tmp_path)
    assert trained(again) == trained(model)
    assert len(again.weights) == len(model.weights)


@keras.saving.register_keras_serializable("cases")
class Holder(BaseLayer):
    """A user's layer, which holds layers in every way."""

    def __init__(self, attention=None, inner=None, **kwargs):
        super().__init__(**kwargs)
        self.attention = attention or keras.layers.MultiHeadAttention(2, 4, name="a")
        self._inner = inner or kt.FeedForward(8, 12, name="inner")
        self._hidden = keras.layers.Dense(8, name="hidden")
        self.chain = keras.Sequential(
            [keras.layers.Dense(8, name="first"), keras.layers.Dense(8, name="last")],
            name="chain",
        )
        self.named = {
            "one": keras.layers.Dense(8, name="one"),
            "more": [keras.layers.Dense(8, name="more")],
            "more/0": keras.layers.Dense(8, name="path"),
        }
        self.still = keras.layers.Dense(8, name="still", trainable=False)

    def in_order(self):
        yield from (self._inner, self._hidden, self.chain)
        yield from (self.named["one"], *self.named["more"], self.named["more/0"])
        yield self.still

    def build(self, inputs_shape):
        self.attention.build(inputs_shape, inputs_shape)
        for layer in self.in_order():
            layer.build(inputs_shape)

    def call(self, inputs):
        x = self.attention(inputs, inputs)
        for layer in self.in_order():
            x = layer(x)
        return x


def held(**arguments):
    layer, inputs = Holder(**arguments), keras.Input((None, 8))
    return layer, keras.Model(inputs, layer(inputs))


PARTS = {
    "composite": lambda layer: layer.attention,
    "of-composite": lambda layer: variable_parts(layer.attention)[1],
    "in-sequence": lambda layer: layer.chain.layers[0],
    "in-dict": lambda layer: layer.named["one"],
    "in-list-in-dict": lambda layer: layer.named["more"][0],
    "under-a-path": lambda layer: layer.named["more/0"],
    "underscore": lambda layer: layer._hidden,
    "of-underscore": lambda layer: layer._inner.intermediate,
}


@pytest.mark.parametrize("whole", [True, False], ids=["trained", "frozen"])
@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_found_however_it_is_held(name, whole, tmp_path):
    layer, model = held()
    layer.trainable = whole
    before = trained(model)
    PARTS[name](layer).trainable = not whole
    assert trained(model) != before
    assert trained(reloaded(model, tmp_path)) == trained(model)


def test_a_file_names_parts_by_attributes_and_places():
    layer, _ = held()
    for part in PARTS.values():
        part(layer).trainable = False
    paths = ["attention", "named/0", "named/1/0", "named/2", "chain/layers/0"]
    paths += ["still", "_hidden", "_inner/intermediate"]
    assert layer.get_build_config()["trainable"] == dict.fromkeys(paths, False)


def test_a_part_may_know_what_holds_it(tmp_path):
    layer, model = held()
    vars(layer._hidden)["whole"] = layer  # so that Keras does not track it
    layer._hidden.trainable = False
    assert trained(reloaded(model, tmp_path)) == trained(model)


@keras.saving.register_keras_serializable("cases")
class Scale(keras.layers.Layer):
    """Keras makes no difference for its variable where the layer is made frozen."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.factor = keras.Variable(2.0, name="factor")

    def call(self, inputs):
        return inputs * self.factor


def test_a_frozen_variable_without_add_weight_is_frozen_in_a_loaded_file(tmp_path):
    _, model = held(inner=Scale())
    model.layers[1]._inner.trainable = False
    assert "factor" not in str(trained(model))
    assert trained(reloaded(model, tmp_path)) == trained(model)


def test_a_part_that_is_made_frozen_can_be_trained_in_a_loaded_file(tmp_path):
    layer, model = held()
    assert len(trained(reloaded(model, tmp_path))) == len(model.weights) - 2
    layer.still.trainable = True
    assert len(trained(reloaded(model, tmp_path))) == len(model.weights)


def test_the_list_of_frozen_parts_of_older_files_is_read():
    layer = Holder()
    frozen = ["attention", "chain/layers/0", "still"]
    layer.build_from_config({"input_shape": (None, None, 8), "frozen": frozen})
    left = "".join(trained(layer))
    assert not any(f"/{name}/" in left for name in ("a", "first", "still"))
    assert all(f"/{name}/" in left for name in ("inner", "last", "one"))


@pytest.mark.slow
@pytest.mark.usefixtures("quick_quantizing")
def test_quantized_parts_are_found_however_they_are_held(tmp_path):
    _, model = held()
    model.quantize("int8")
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    assert_close(array(reloaded(model, tmp_path)(x)), array(model(x)))


@pytest.mark.parametrize("part", ["forward_layer", "backward_layer"])
def test_one_direction_is_frozen_in_a_loaded_file(part, tmp_path):
    layer, inputs = RecurrentEncoder(4, bidirectional=True), keras.Input((None, 8))
    model = keras.Model(inputs, layer(inputs))
    getattr(layer.recurrent_layers[0], part).trainable = False
    assert len(trained(model)) == 3
    assert trained(reloaded(model, tmp_path)) == trained(model)


def test_a_frozen_model_but_for_its_last_block_is_so_in_a_loaded_file(tmp_path):
    model = MODELS["language-model"].make(num_layers=3)
    model.decoder.trainable = False
    frozen = trained(model)
    model.decoder.blocks[-1].trainable = True
    assert len(trained(model)) > len(frozen)
    assert trained(reloaded(model, tmp_path)) == trained(model)


MODELS_OF_CLASSES = [name for name, model in MODELS.items() if model.is_class]


@pytest.mark.parametrize("name", quick(MODELS_OF_CLASSES, ["text-encoder"]))
def test_a_frozen_model_is_frozen_inside_another(name, tmp_path):
    model = MODELS[name].functional(trainable=False)
    assert not model.trainable_variables
    assert not reloaded(model, tmp_path).trainable_variables
    model = MODELS[name].functional()
    inner = max(model.layers, key=lambda layer: len(layer.weights))
    set_parts(inner)
    left = len(model.trainable_variables)
    assert left < len(model.weights)
    assert len(reloaded(model, tmp_path).trainable_variables) == left


def tied():
    table = keras.layers.ReversibleEmbedding(VOCABULARY, 8, name="table")
    ids = keras.Input((None,), dtype="int32")
    vectors = kt.PositionalEmbedding(9, VOCABULARY, 8, shared_embedding=table)(ids)
    return keras.Model(ids, kt.TokenHead(VOCABULARY, token_embedding=table)(vectors))


@pytest.mark.parametrize("table", [True, False], ids=["trained", "frozen"])
@pytest.mark.parametrize("index", [1, 2], ids=["embedding", "head"])
def test_a_part_of_two_layers_may_be_unlike_one_of_them(index, table, tmp_path):
    model = tied()
    model.layers[index].trainable = not table
    model.layers[2].token_embedding.trainable = table
    assert any("table" in path for path in trained(model)) == table
    assert trained(reloaded(model, tmp_path)) == trained(model)


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


def test_the_cost_of_a_config_does_not_double_with_each_level(tmp_path):
    asked = []

    class Counted(keras.layers.Dense):
        def get_config(self):
            asked.append(self.name)
            return super().get_config()

    layer = Counted(8)
    for _ in range(8):
        layer = Holder(inner=layer)
    layer.get_config()
    assert len(asked) == 1
    inputs = keras.Input((None, 8))
    keras.Model(inputs, layer(inputs)).save(tmp_path / "model.keras")
    assert len(asked) < 12
