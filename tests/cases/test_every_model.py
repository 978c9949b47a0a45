"""P6, P8, P10, P11 and P15 for every model: the laws that hold for layers.

Their sources stand in the files of these cases.
"""

import inspect
import json
import re
import shutil

import keras
import numpy as np
import pytest

import keras_transformer as kt

from .every_model import IDS, MODELS, QUICK, TARGETS
from .examples import quick
from .helpers import array, arrays, assert_close, skip_without_float64, slow_on
from .test_p10_names import BAD

CLASSES = [name for name, example in MODELS.items() if example.is_class]
ONE_EACH = list({MODELS[name].model: name for name in CLASSES}.values())
BUILT = [name for name in MODELS if name not in CLASSES]


def test_the_table_has_every_model():
    public = {
        name
        for name in kt.__all__
        if name.startswith("build_")
        or (
            isinstance(getattr(kt, name), type)
            and issubclass(getattr(kt, name), keras.Model)
        )
    }
    assert {example.model for example in MODELS.values()} == public


def parameters(example):
    """Return name -> default of every argument, those of a part included."""
    cls = example.constructor
    found = dict(inspect.signature(cls).parameters)
    for source in (kt.TextEncoder, kt.TransformerStack):
        for name, parameter in inspect.signature(source).parameters.items():
            if name in getattr(cls, "part_settings", ()):
                found.setdefault(name, parameter)
    if example.model == "Seq2SeqTransformer":
        found.pop("position_bias", None)
    return {
        name: parameter.default
        for name, parameter in found.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }


@pytest.mark.parametrize("name", ONE_EACH)
def test_every_argument_survives_the_config(name):
    example = MODELS[name]
    given, defaults = example.complete(), parameters(example)
    assert set(given) == set(defaults)
    same = {key for key, value in given.items() if value == defaults[key]}
    assert same <= {"share_embeddings"}
    model = example.constructor(
        **given, name="first-1", trainable=False, dtype="mixed_bfloat16"
    )
    config = json.loads(json.dumps(model.get_config()))
    for key, value in given.items():
        if isinstance(value, keras.layers.Layer):
            assert config[key]["config"] == json.loads(json.dumps(value.get_config()))
        else:
            assert config[key] == value, key
    copy = type(model).from_config(config)
    assert copy.get_config() == model.get_config()
    assert copy.name == "first-1" and not copy.trainable
    assert copy.dtype_policy.name == "mixed_bfloat16"


@slow_on("jax", "tensorflow")
@pytest.mark.parametrize("name", BUILT)
def test_every_argument_of_a_builder_is_in_the_config(name):
    example = MODELS[name]
    base, complete = example.arguments(), example.complete()
    assert set(complete) == set(parameters(example))
    plain = without_counters(example.constructor(**base))
    for key, value in complete.items():
        model = example.constructor(**{**base, key: value})
        assert without_counters(model) != plain, key
    model = example.constructor(**complete)
    copy = type(model).from_config(json.loads(json.dumps(model.get_config())))
    assert without_counters(copy) == without_counters(model)


def without_counters(model):
    """Return the config without the counters in names that Keras chose."""
    text = json.dumps(model.get_config(), sort_keys=True)
    return re.sub(r"(not_equal)(_\d+)", r"\1", text)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", MODELS)
def test_a_bad_name_is_refused_by_every_model(name, bad):
    with pytest.raises(ValueError, match="`name` must consist of ASCII") as error:
        MODELS[name].constructor(**{**MODELS[name].arguments(), "name": bad})
    assert repr(bad) in str(error.value)


POLICIES = ["float32", "float64", "mixed_float16", "mixed_bfloat16"]
PAIRS = [(name, policy) for name in MODELS for policy in POLICIES]
QUICK_PAIRS = [
    ("text-classifier", "mixed_float16"),
    ("recurrent-2014", "mixed_bfloat16"),
    ("language-model", "float64"),
]


@slow_on("jax", "tensorflow")
@pytest.mark.parametrize("name, policy", quick(PAIRS, QUICK_PAIRS))
def test_every_model_trains_one_step_under_every_policy(name, policy):
    skip_without_float64(policy)
    keras.config.set_dtype_policy(policy)
    if policy == "float64":  # Keras adds up losses in floatx
        keras.config.set_floatx(policy)
    example = MODELS[name]
    model = example.trainable()
    optimizer = keras.optimizers.SGD(0.1)
    if policy == "mixed_float16":  # else the first steps only search for a scale
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=64.0)
    # The first failed in JAX's compiler, and JAX is quick only when compiled.
    compiled = policy == "mixed_float16" or keras.backend.backend() == "jax"
    model.compile(optimizer, "mse", run_eagerly=not compiled)
    outputs = model(example.inputs())
    dtype = keras.backend.standardize_dtype(outputs.dtype)
    full = "float64" if policy == "float64" else "float32"
    compute = keras.config.dtype_policy().compute_dtype
    assert dtype == (compute if name == "text-encoder" else full)
    rng = np.random.default_rng(0)
    targets = rng.normal(size=tuple(outputs.shape)).astype("float32")
    before = arrays(model.trainable_variables)
    before = [values.copy() for values in before]
    assert np.isfinite(float(model.train_on_batch(example.inputs(), targets)))
    unmoved = []
    for weight, old in zip(model.trainable_variables, before, strict=True):
        assert keras.backend.standardize_dtype(weight.dtype) == full
        assert np.isfinite(array(weight)).all()
        if np.all(array(weight) == old):
            unmoved.append(weight.path)
    # Adding one number to all keys of a softmax changes nothing: no gradient. And
    # no output of tokens reaches the pooler.
    still = ("key/bias", "pooler/kernel", "pooler/bias")
    assert all(path.endswith(still) for path in unmoved), unmoved


@pytest.mark.parametrize("name", quick(MODELS, QUICK))
def test_a_summary_shows_the_true_shape_of_every_model(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    model, lines = MODELS[name].functional(), []
    model.summary(expand_nested=True, line_length=200, print_fn=lines.append)
    assert str(model.output.shape) in "\n".join(lines)
    outputs = model.predict(MODELS[name].inputs(), verbose=0)
    known = model.output.shape
    assert len(known) == outputs.ndim
    assert all(a in (None, b) for a, b in zip(known, outputs.shape, strict=True))


@pytest.mark.parametrize("name", quick(MODELS, ["text-encoder"]))
def test_every_model_can_be_plotted(name, tmp_path):
    pytest.importorskip("pydot")
    if shutil.which("dot") is None:
        pytest.skip("needs the program dot (graphviz)")
    file = tmp_path / "model.png"
    keras.utils.plot_model(
        MODELS[name].functional(), file, show_shapes=True, expand_nested=True
    )
    assert file.stat().st_size > 0


@pytest.mark.parametrize("name", MODELS)
def test_patterns_of_a_layout_map_find_the_weights_of_every_model(name):
    model = MODELS[name].make()
    mesh = keras.distribution.DeviceMesh((1,), ("model",), devices=["cpu:0"])
    for pattern, count in MODELS[name].paths.items():
        layout = keras.distribution.LayoutMap(mesh)
        layout[pattern] = (None,)
        found = [v.path for v in model.variables if layout[v.path]]
        assert len(found) == count, (pattern, [v.path for v in model.variables])
    paths = [variable.path for variable in model.variables]
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("policy", quick(POLICIES[::3], ["mixed_bfloat16"]))
@pytest.mark.parametrize("name", quick(MODELS, QUICK[1:]))
def test_ids_of_every_dtype_give_the_same(name, policy):
    keras.config.set_dtype_policy(policy)
    example = MODELS[name]
    model = example.make(vocabulary_size=400)
    for ids, dtypes in (
        (np.where(IDS == 5, 257, IDS), ["int64", "uint16", "float32", "float64"]),
        (IDS, ["int8", "uint8", "int16", "uint32"]),
    ):
        inputs = example.inputs(ids, TARGETS)
        if name == "text-encoder":
            inputs = {"token_ids": ids, "segment_ids": (ids > 6).astype("int32")}
        expected = arrays(model(inputs))
        for dtype in dtypes:
            ours = keras.tree.map_structure(lambda x, to=dtype: x.astype(to), inputs)
            ours = model(ours)
            assert_close(keras.tree.flatten(ours), expected, atol=0)


@pytest.mark.parametrize("ids", ["token_ids", "segment_ids"])
def test_ids_of_half_precision_or_with_fractions_are_refused(ids):
    model = MODELS["text-encoder"].make()
    inputs = {"token_ids": IDS, "segment_ids": IDS * 0}
    for wrong in (inputs[ids].astype("float16"), inputs[ids] + np.float32(0.5)):
        with pytest.raises(ValueError, match=f"`{ids}` must be integers"):
            model({**inputs, ids: wrong})
