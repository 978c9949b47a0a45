"""P8: a config holds every constructor argument, and only what JSON holds.

Sources: keras-team/keras-io#1884; keras-team/keras#19899; kpot/keras-transformer#22.
"""

import inspect
import json

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt

from .complete_examples import COMPLETE
from .examples import CORE, EXAMPLES, block, public_layers, quick
from .helpers import assert_close, copy_weights, fresh_process, randomize, slow_on

ALL = {**{f"{n}-complete": e for n, e in COMPLETE.items()}, **EXAMPLES}


QUICK = [name for name in ALL if name.endswith("-complete")]


@keras.saving.register_keras_serializable("cases")
def doubled(x):
    return 2 * x


@pytest.mark.parametrize("name", quick(ALL, QUICK))
def test_a_config_is_json_and_round_trips(name):
    layer = ALL[name].make()
    config = layer.get_config()
    written = json.loads(json.dumps(config))
    copy = type(layer).from_config(written)
    assert type(copy) is type(layer)
    assert copy.get_config() == config
    assert json.loads(json.dumps(copy.get_config())) == written


@pytest.mark.parametrize("name", quick(ALL, QUICK))
def test_a_config_names_every_constructor_argument(name):
    layer = ALL[name].make()
    parameters = inspect.signature(public_layers()[ALL[name].layer]).parameters
    named = {
        parameter.name
        for parameter in parameters.values()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    assert named | {"name", "dtype", "trainable"} <= set(layer.get_config())


@pytest.mark.parametrize("name", quick(COMPLETE, ["attention", "stack"]))
def test_a_layer_from_a_config_has_the_same_weights(name):
    layer = COMPLETE[name].make()
    copy = type(layer).from_config(layer.get_config())
    shapes = [x.shape for x in COMPLETE[name].arrays()]
    found = []
    for made in (layer, copy):
        made.build(*shapes)
        found.append(
            [(w.path, tuple(w.shape), w.dtype) for w in made.trainable_variables]
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("name", quick(ALL, QUICK))
def test_name_dtype_and_trainable_survive(name):
    layer = ALL[name].make(name="chosen", dtype="mixed_bfloat16", trainable=False)
    copy = type(layer).from_config(json.loads(json.dumps(layer.get_config())))
    assert copy.name == layer.name == "chosen"
    assert copy.dtype_policy == layer.dtype_policy
    assert copy.dtype_policy.name == "mixed_bfloat16"
    assert copy.trainable is layer.trainable is False
    if name in CORE:
        copy.build(*[x.shape for x in ALL[name].arrays()])
    assert not copy.trainable_variables


@pytest.mark.parametrize("name", quick(ALL, QUICK))
def test_reading_a_config_changes_neither_it_nor_the_layer(name):
    layer = ALL[name].make()
    config = layer.get_config()
    written = json.dumps(config)
    type(layer).from_config(config)
    assert json.dumps(config) == written
    assert json.dumps(layer.get_config()) == written


@pytest.mark.parametrize("name", quick(ALL, QUICK))
def test_an_unknown_argument_is_refused(name):
    with pytest.raises((TypeError, ValueError), match="unheard_of"):
        ALL[name].make(unheard_of=1)


@pytest.mark.parametrize("name", sorted(public_layers()))
def test_the_registered_name_leads_back_to_the_class(name):
    cls = public_layers()[name]
    registered = keras.saving.get_registered_name(cls)
    assert registered.split(">")[0] == "keras_transformer"
    assert keras.saving.get_registered_object(registered) is cls


def test_registered_names_are_unique():
    names = [keras.saving.get_registered_name(c) for c in public_layers().values()]
    assert len(set(names)) == len(names)


ACTIVATING = {
    "feed-forward": lambda a: kt.FeedForward(8, 12, activation=a),
    "gated": lambda a: kt.FeedForward(8, 12, activation=a, gated=True),
    "block": lambda a: kt.TransformerBlock(**block(activation=a)),
    "encoder": lambda a: kt.TransformerEncoder(**block(activation=a)),
    "decoder": lambda a: kt.TransformerDecoder(
        **block(activation=a, cross_attention=False)
    ),
    "stack": lambda a: kt.TransformerStack(**block(activation=a, num_layers=2)),
}


@pytest.mark.parametrize("activation", ["gelu", keras.activations.gelu, doubled])
@pytest.mark.parametrize("name", ACTIVATING)
def test_activations_round_trip(name, activation):
    layer = ACTIVATING[name](activation)
    config = json.loads(json.dumps(layer.get_config()))
    copy = type(layer).from_config(config)
    assert copy.get_config() == layer.get_config()
    if name == "feed-forward":
        x = EXAMPLES["encoder"].arrays()[0]
        expected = layer(x)
        copy(x)
        assert_close(copy_weights(layer, copy)(x), expected, atol=0)


@pytest.mark.parametrize("name", ACTIVATING)
def test_a_lambda_is_refused_when_saving_and_not_when_loading(name, tmp_path):
    with pytest.raises(ValueError, match="(?i)lambda"):
        layer = ACTIVATING[name](lambda x: x)
        model = keras.Sequential([keras.Input((None, 8)), layer])
        model.save(tmp_path / "model.keras")


@pytest.mark.parametrize("name", ACTIVATING)
def test_an_unknown_activation_is_refused_by_the_constructor(name):
    with pytest.raises(ValueError, match="gelly"):
        ACTIVATING[name]("gelly")


SETTINGS = {
    "kernel_initializer": ["he_normal", keras.initializers.RandomNormal(stddev=0.5)],
    "bias_initializer": ["ones", keras.initializers.Constant(0.25)],
    "kernel_regularizer": ["l2", keras.regularizers.L1L2(0.1, 0.2)],
    "bias_regularizer": ["l1", keras.regularizers.L2(0.5)],
    "kernel_constraint": ["non_neg", keras.constraints.MaxNorm(0.5)],
    "bias_constraint": ["non_neg", keras.constraints.MaxNorm(0.5)],
}


@pytest.mark.parametrize(
    ("argument", "value"),
    [(argument, value) for argument, values in SETTINGS.items() for value in values],
)
def test_settings_of_weights_reach_every_projection_and_round_trip(argument, value):
    layer = kt.MultiHeadAttention(2, 4, **{argument: value})
    layer.build((None, None, 8), (None, None, 8))
    for projection in ("query", "key", "value", "attention_output"):
        setting = getattr(getattr(layer, projection), argument)
        plain = keras.layers.EinsumDense("ab,bc->ac", 4, **{argument: value})
        assert setting.get_config() == getattr(plain, argument).get_config()
    copy = kt.MultiHeadAttention.from_config(json.loads(json.dumps(layer.get_config())))
    assert copy.get_config() == layer.get_config()


def test_numpy_numbers_do_not_spoil_a_config():
    try:
        layer = kt.TransformerEncoder(
            embed_dim=np.int64(8),
            num_heads=np.int32(2),
            dense_dim=np.int64(12),
            dropout=np.float32(0.25),
            layer_norm_epsilon=np.float64(1e-5),
        )
    except ValueError as error:
        assert "embed_dim" in str(error)  # refused at once, by name
        return
    config = json.loads(json.dumps(layer.get_config()))
    copy = kt.TransformerEncoder.from_config(config)
    assert copy.get_config() == layer.get_config()
    assert (copy.embed_dim, copy.dropout) == (8, 0.25)


@keras.saving.register_keras_serializable("cases")
class OwnEncoder(kt.TransformerEncoder):
    """A user's subclass that hands the rest on."""

    def __init__(self, factor=1.0, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, inputs, mask=None, **kwargs):
        return self.factor * super().call(inputs, mask=mask, **kwargs)


def test_a_users_subclass_keeps_our_arguments_and_its_own():
    layer = OwnEncoder(factor=3.0, **block(dropout=0.25))
    config = json.loads(json.dumps(layer.get_config()))
    for argument, value in {"factor": 3.0, **block(dropout=0.25)}.items():
        assert config[argument] == value
    copy = OwnEncoder.from_config(config)
    assert copy.get_config() == layer.get_config()
    assert copy.factor == 3.0


def test_a_copy_shares_no_plug_with_its_original():
    plug = kt.RelativePositionBias(2, num_buckets=8, max_distance=12)
    layer = kt.TransformerStack(**block(num_layers=2, position_bias=plug))
    copy = kt.TransformerStack.from_config(layer.get_config())
    assert copy.position_bias is not layer.position_bias
    assert type(copy.position_bias) is type(layer.position_bias)


def test_clone_model_makes_the_same_model():
    inputs = keras.Input((None, 8))
    model = keras.Model(inputs, kt.TransformerEncoder(**block())(inputs))
    clone = keras.models.clone_model(model)
    assert clone.layers[-1].get_config() == model.layers[-1].get_config()


LOADING = """
import sys
import numpy as np
import keras
import keras_transformer

model = keras.models.load_model(sys.argv[1])
inputs = np.load(sys.argv[2])
real = {name: inputs[name] for name in inputs.files}
flat = keras.tree.flatten(model.predict(real, verbose=0))
np.savez(sys.argv[3], *flat)
configs = [repr(layer.get_config()) for layer in model.layers]
print("\\n".join(configs))
"""


@slow_on("jax", "tensorflow")
def test_a_new_process_loads_all_layers_without_custom_objects(tmp_path):
    inputs, outputs, real = {}, [], {}
    for name, example in COMPLETE.items():
        symbolic = example.symbolic()
        result = example.make(name=name)(*symbolic)
        if isinstance(result, dict):  # positions in, positions out
            result = ops.cast(result["distances"], "float32")
        outputs.append(result)
        for index, (tensor, values) in enumerate(
            zip(symbolic, example.arrays(), strict=True)
        ):
            inputs[f"{name}_{index}"] = tensor
            real[f"{name}_{index}"] = values
    model = randomize(keras.Model(inputs, outputs))
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "inputs.npz", **real)
    files = [tmp_path / name for name in ("model.keras", "inputs.npz", "out.npz")]
    printed = fresh_process(LOADING, *files)
    loaded = np.load(tmp_path / "out.npz")
    expected = model.predict(real, verbose=0)
    assert_close([loaded[name] for name in loaded.files], expected)
    configs = [repr(layer.get_config()) for layer in model.layers]
    assert printed.splitlines()[-len(configs) :] == configs
