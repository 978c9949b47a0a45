"""P10: a name works everywhere, or is refused at once and everywhere alike.

Sources: keras-team/keras#16717, #19335; ageron/handson-ml2#67.
"""

import re

import keras
import numpy as np
import pytest

import keras_transformer as kt

from .examples import EXAMPLES, block, public_layers
from .helpers import assert_close, randomize

BAD = [
    "인코더_1",
    "블록",
    "caf\u00e9",
    "encoder 1",
    "encoder:1",
    "a/b",
    "a\\b",
    "a.b",
    "a\n",
    "",
    " a",
    "_a",
    "-a",
    "a*",
]
GOOD = ["encoder_1", "Encoder-1", "1st", "a", "A" * 40]
FIRST = {example.layer: example for example in reversed(EXAMPLES.values())}
ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("layer", sorted(public_layers()))
def test_a_bad_name_is_refused_by_the_constructor(layer, name):
    with pytest.raises(ValueError, match="name") as error:
        FIRST[layer].make(name=name)
    # The text names the value and the way out, and does not depend on the backend.
    assert repr(name) in str(error.value)
    assert "letters" in str(error.value) or "A-Z" in str(error.value)


@pytest.mark.parametrize("name", ["인코더", "a/b"])
def test_a_bad_name_in_a_config_is_refused(name):
    config = EXAMPLES["encoder"].make().get_config()
    with pytest.raises(ValueError, match="name"):
        kt.TransformerEncoder.from_config({**config, "name": name})


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("layer", sorted(public_layers()))
def test_a_good_name_is_kept(layer, name):
    assert FIRST[layer].make(name=name).name == name


@pytest.mark.parametrize("layer", sorted(public_layers()))
def test_names_made_by_us_are_good_names(layer):
    example = FIRST[layer]
    made = example.make()
    assert ALLOWED.fullmatch(made.name)
    made.build(*[x.shape for x in example.arrays()])
    for variable in made.variables:
        for part in variable.path.split("/"):
            assert ALLOWED.fullmatch(part), variable.path


def test_a_refused_name_leaves_no_trace_in_later_paths():
    for name in BAD:
        with pytest.raises(ValueError, match="name"):
            kt.TransformerEncoder(**block(), name=name)
    layer = kt.TransformerEncoder(**block(), name="after")
    layer.build((None, None, 8))
    assert all(v.path.startswith("after/") for v in layer.trainable_variables)


@pytest.mark.parametrize("kind", ["functional", "sequential"])
def test_good_names_are_saved_and_loaded_in_a_folder_in_hangul(kind, tmp_path):
    layers = [
        kt.PositionalEmbedding(9, 12, 8, name="1st"),
        kt.TransformerEncoder(**block(), name="Encoder-1"),
        kt.TransformerStack(**block(num_layers=1), name="A" * 40),
    ]
    x = inputs = keras.Input((None,), dtype="int32", name="문장")
    for layer in layers:
        x = layer(x)
    if kind == "functional":
        model = keras.Model(inputs, x)
    else:
        model = keras.Sequential([keras.Input((None,), dtype="int32"), *layers])
    randomize(model)
    folder = tmp_path / "모델 1"
    folder.mkdir()
    model.save(folder / "번역기.keras")
    model.save_weights(folder / "번역기.weights.h5")
    ids = np.array([[5, 6, 7], [8, 9, 0]], "int32")
    expected = model(ids)
    assert_close(keras.models.load_model(folder / "번역기.keras")(ids), expected)
    randomize(model, seed=1)
    model.load_weights(folder / "번역기.weights.h5")
    assert_close(model(ids), expected)


def test_two_layers_of_one_name_are_refused_by_keras():
    inputs = keras.Input((None, 8))
    x = kt.TransformerEncoder(**block(), name="same")(inputs)
    x = kt.TransformerEncoder(**block(), name="same")(x)
    with pytest.raises(ValueError, match="(?i)unique"):
        keras.Model(inputs, x)


def test_two_layers_of_one_name_in_a_users_model_keep_their_own_weights(tmp_path):
    class Pair(keras.Model):
        def __init__(self):
            super().__init__()
            self.one = kt.TransformerEncoder(**block(), name="same")
            self.two = kt.TransformerEncoder(**block(), name="same")

        def call(self, x):
            return self.two(self.one(x))

    (x,) = EXAMPLES["encoder"].arrays()
    model = Pair()
    model(x)
    randomize(model)
    expected = model(x)
    model.save_weights(tmp_path / "pair.weights.h5")
    other = Pair()
    other(x)
    other.load_weights(tmp_path / "pair.weights.h5")
    assert_close(other(x), expected)


def test_a_user_named_plug_keeps_its_name_inside_a_layer():
    plug = kt.RelativePositionBias(2, num_buckets=8, max_distance=12, name="far-near")
    stack = kt.TransformerStack(**block(num_layers=1, position_bias=plug), name="s")
    stack.build((None, None, 8))
    assert any("far-near" in v.path for v in stack.trainable_variables)
