"""Attention that cannot be recorded is named."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_transformer as kt


class Wrapped(layers.Layer):
    """A user's layer that hides foreign layers in a private list and a dict."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._hidden = [layers.Attention(name="dot")]
        self.table = {"a": layers.AdditiveAttention(name="additive")}

    def call(self, x):
        return self.table["a"]([self._hidden[0]([x, x]), x])


class OwnAttention(layers.Layer):
    """A user's layer that is made of ours."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = kt.MultiHeadAttention(2, 4, name="inner")

    def call(self, x):
        return self.inner(x, x)


def test_attention_of_other_libraries_is_named_as_not_recorded():
    x = inputs = keras.Input((None, 8))
    x = layers.MultiHeadAttention(2, 4, name="keras_heads")(x, x)
    x = layers.GroupQueryAttention(4, 4, 2, name="keras_groups")(x, x)
    x = kt.TransformerEncoder(8, 2, 12, name="encoder")(x)
    x = Wrapped(name="wrapped")(x)
    x = OwnAttention(name="own")(x)
    model = keras.Model(inputs, x, name="mixed")
    with kt.record_attention(model) as record:
        model(np.ones((1, 3, 8), "float32"))
    assert list(record) == ["encoder/self_attention", "own/inner"]
    assert sorted(record.not_recorded) == [
        "keras_groups",
        "keras_heads",
        "wrapped/additive",
        "wrapped/dot",
    ]
    with pytest.raises(KeyError, match="Not recorded: .*'keras_heads'"):
        record["keras_heads"]


def test_attention_of_keras_hub_is_named_as_not_recorded():
    hub = pytest.importorskip("keras_hub")
    model = keras.Sequential(
        [
            keras.Input((None, 8)),
            hub.layers.TransformerEncoder(12, 2, name="theirs"),
            kt.TransformerEncoder(8, 2, 12, name="ours"),
        ]
    )
    with kt.record_attention(model) as record:
        model(np.ones((1, 3, 8), "float32"))
    assert list(record) == ["ours/self_attention"]
    assert record.not_recorded == ["theirs/self_attention_layer"]


class Compiling(keras.Model):
    """Attention, and beside it attention in a part that the model compiles itself."""

    def __init__(self):
        super().__init__(name="compiling")
        self.outside = kt.MultiHeadAttention(2, 4, name="outside")
        self.inside = kt.MultiHeadAttention(2, 4, name="inside")

    def call(self, x):
        x = self.outside(x, x)
        return compiled_by_backend(lambda x: self.inside(x, x))(x)


def compiled_by_backend(function):
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function)


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="it compiles nothing")
def test_attention_in_a_part_that_is_compiled_is_named_as_not_recorded():
    model = Compiling()
    x = np.ones((1, 3, 8), "float32")
    model(x)
    with kt.record_attention(model) as record:
        model(x)
    assert list(record) == ["outside"]
    assert record.not_recorded == ["inside"]
    with pytest.raises(KeyError, match="Not recorded: 'inside'"):
        record["inside"]
    with pytest.raises(RuntimeError, match="midway"), kt.record_attention(model) as one:
        model(x)
        raise RuntimeError("midway")
    assert one.not_recorded == []


class Listed(layers.Layer):
    """A user's layer whose `layers` are no list of layers."""

    def __init__(self):
        super().__init__(name="listed")
        self.layers = {"a": kt.MultiHeadAttention(2, 4, name="a")}

    def call(self, x):
        return self.layers["a"](x, x)


def test_a_layer_may_have_layers_of_any_form():
    layer = Listed()
    with kt.record_attention(layer) as record:
        layer(np.ones((1, 3, 8), "float32"))
    assert list(record) == ["a"]


@pytest.mark.parametrize("alone", [True, False])
def test_a_model_of_foreign_attention_alone_is_refused_by_name(alone):
    x = np.ones((1, 3, 8), "float32")
    layer = layers.MultiHeadAttention(2, 4, name="heads")
    inputs = keras.Input((None, 8))
    model = layer if alone else keras.Model(inputs, layer(inputs, inputs))
    with pytest.raises(RuntimeError, match="Not recorded: 'heads'"):
        with kt.record_attention(model):
            layer(x, x)
