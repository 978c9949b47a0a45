"""What holds for the recurrent encoder and decoder, whose calls hand states on."""

import inspect
import json

import keras
import numpy as np
import pytest
from keras import ops

from cases.helpers import array, assert_close, randomize, run
from keras_transformer.layers.recurrent_decoder import RecurrentDecoder
from keras_transformer.layers.recurrent_encoder import RecurrentEncoder

X = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("float32")
Y = np.random.default_rng(1).normal(size=(2, 3, 6)).astype("float32")
MASK = np.array([[True] * 5, [True, True, True, False, False]])
COMMON = dict(units=3, cell="lstm", num_layers=2, dropout=0.25, seed=7)
# Every constructor argument with a value other than the default.
COMPLETE = {
    RecurrentEncoder: dict(**COMMON, bidirectional=True),
    RecurrentDecoder: dict(
        **COMMON,
        attention="luong",
        score="concat",
        attention_units=5,
        input_feeding=False,
        output_units=6,
        two_way_source=True,
    ),
}
KINDS = {
    "2014": dict(cell="lstm", num_layers=2, two_way_source=True),
    "2015": dict(attention="bahdanau", output_units=5, two_way_source=True),
    "luong": dict(attention="luong"),
    "luong-unfed": dict(attention="luong", input_feeding=False, num_layers=2),
}


@pytest.mark.parametrize("layer_class", COMPLETE)
def test_every_argument_survives_the_config(layer_class):
    given = COMPLETE[layer_class]
    parameters = dict(inspect.signature(layer_class).parameters)
    del parameters["kwargs"]
    assert set(given) == set(parameters)
    assert all(given[name] != p.default for name, p in parameters.items())
    layer = layer_class(
        **given, name="first-1", trainable=False, dtype="mixed_bfloat16"
    )
    config = json.loads(json.dumps(layer.get_config()))
    assert {name: config[name] for name in given} == given
    copy = layer_class.from_config(config)
    assert copy.get_config() == layer.get_config()
    assert copy.name == "first-1" and not copy.trainable
    assert copy.dtype_policy.name == "mixed_bfloat16"


def pair(kind, **more):
    """Return an encoder and a decoder of one kind, with random weights."""
    settings = {**KINDS[kind], **more}
    encoder = RecurrentEncoder(
        3,
        cell=settings.get("cell", "gru"),
        num_layers=settings.get("num_layers", 1),
        bidirectional=settings.get("two_way_source", False),
        name="encoder",
        **more,
    )
    decoder = RecurrentDecoder(3, **settings, name="decoder")
    encoder.build((None, None, 4))
    decoder.build((None, None, 6))
    return randomize(encoder), randomize(decoder)


def started(encoder, decoder):
    outputs, states = encoder(X, mask=MASK)
    return decoder.start(outputs, states, ops.convert_to_tensor(MASK))


@pytest.mark.parametrize("kind", KINDS)
def test_build_alone_makes_all_variables_and_the_shapes_are_true(kind):
    built, decoder = (pair(kind)[1] for _ in range(2))
    encoder, _ = pair(kind)
    outputs = decoder(Y, *started(encoder, decoder))
    assert [w.path for w in decoder.weights] == [w.path for w in built.weights]
    assert all(w.path.startswith("decoder/") for w in decoder.weights)
    assert decoder.compute_output_shape(Y.shape) == tuple(outputs.shape)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_the_whole_sentence_eager_and_compiled(kind):
    encoder, decoder = pair(kind)
    carry, memory = started(encoder, decoder)
    whole = array(run(decoder, "__call__", ops.convert_to_tensor(Y), carry, memory))
    for time in range(Y.shape[1]):
        step = ops.convert_to_tensor(Y[:, time])
        outputs, weights, carry = run(decoder, "step", step, carry, memory)
        assert_close(outputs, whole[:, time])
        assert (weights is None) == (kind == "2014")
        if weights is not None:
            assert not array(weights)[1, 3:].any()
            np.testing.assert_allclose(array(weights).sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("kind", ["2014", "luong"])
def test_half_precision_computes_in_it_and_is_near(kind):
    encoder, decoder = pair(kind)
    expected = array(decoder(Y, *started(encoder, decoder)))
    halves = pair(kind, dtype="mixed_bfloat16")
    outputs = halves[1](Y, *started(*halves))
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    assert np.abs(array(outputs) - expected).max() < 0.1
    for variable in halves[1].trainable_variables:
        assert keras.backend.standardize_dtype(variable.dtype) == "float32"
