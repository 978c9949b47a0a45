"""The recurrent translators are trained, in every dtype, and files keep them."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_transformer as kt
from cases.every_model import MODELS
from cases.examples import quick
from cases.helpers import (
    array,
    assert_close,
    fresh_process,
    skip_without_float64,
    slow_on,
)
from models.recurrent_examples import (
    KINDS,
    QUICK,
    SOURCES,
    TARGETS,
    VOCABULARY,
    make,
    pair,
)

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def test_a_config_with_one_table_makes_the_same_model():
    shared = {"share_embeddings": True, "source_vocabulary_size": VOCABULARY}
    given = {**MODELS["recurrent-2014"].complete(), **shared}
    model = kt.RecurrentSeq2Seq(**given)
    config = json.loads(json.dumps(model.get_config()))
    assert {name: config[name] for name in given} == given
    assert kt.RecurrentSeq2Seq.from_config(config).get_config() == model.get_config()


@pytest.mark.parametrize("variant", quick(KINDS, QUICK))
def test_build_alone_makes_all_variables(variant):
    model, called = make(variant), make(variant)
    called(pair())
    assert [w.path for w in model.weights] == [w.path for w in called.weights]
    assert all(w.path.startswith("translator/") for w in model.weights)
    symbolic = model.compute_output_spec(
        {name: keras.KerasTensor((None, None), "int32") for name in pair()}
    )
    assert symbolic.shape == (None, None, VOCABULARY)
    shapes = {name: ids.shape for name, ids in pair().items()}
    assert model.compute_output_shape(shapes) == called(pair()).shape


ON = """
import sys
import keras
import keras_transformer
from keras_transformer import generate
from models.recurrent_examples import SOURCES, TARGETS, pair

model = keras.models.load_model(sys.argv[1])
logits = keras.ops.convert_to_numpy(model(pair()))
print(repr(logits.ravel().tolist()))
print(generate(model, SOURCES, max_new_tokens=6).tolist())
print(int(model.optimizer.iterations))
print(float(model.train_on_batch(pair(), TARGETS)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("variant", KINDS)
def test_a_new_process_loads_it_and_trains_on(variant, tmp_path, monkeypatch):
    tests = Path(__file__).resolve().parents[1]
    monkeypatch.setenv("PYTHONPATH", str(tests))
    model = make(variant)
    model.compile(keras.optimizers.Adam(0.01), LOSS)
    for _ in range(2):
        model.train_on_batch(pair(), TARGETS)
    model.save(tmp_path / "model.keras")
    printed = fresh_process(ON, tmp_path / "model.keras").splitlines()[-4:]
    logits = np.reshape(json.loads(printed[0]), (*TARGETS.shape, VOCABULARY))
    np.testing.assert_allclose(logits, array(model(pair())), atol=1e-6)
    written = kt.generate(model, SOURCES, max_new_tokens=6)
    assert json.loads(printed[1]) == written.tolist()
    assert int(printed[2]) == 2
    loss = float(model.train_on_batch(pair(), TARGETS))
    assert abs(float(printed[3]) - loss) < 1e-5


@pytest.mark.slow
@pytest.mark.usefixtures("quick_quantizing")
def test_a_quantized_model_comes_back_from_a_file(tmp_path):
    model = make("2014-deep")
    plain = array(model(pair()))
    model.quantize("int8")
    quantized = array(model(pair()))
    assert 0 < np.abs(quantized - plain).max() < 0.1
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(pair()), quantized)


@slow_on("jax", "tensorflow")
@pytest.mark.parametrize(
    "policy", quick(["mixed_float16", "mixed_bfloat16", "float64"], ["mixed_float16"])
)
@pytest.mark.parametrize("variant", quick(KINDS, ["2015"]))
def test_every_policy_gives_full_logits_and_trains(variant, policy):
    skip_without_float64(policy)
    expected = array(make(variant)(pair()))
    model = make(variant, dtype=policy)
    logits = model(pair())
    wanted = "float64" if policy == "float64" else "float32"
    assert keras.backend.standardize_dtype(logits.dtype) == wanted
    tolerance = {"mixed_float16": 2e-2, "mixed_bfloat16": 1e-1, "float64": 1e-5}
    assert np.abs(array(logits) - expected).max() < tolerance[policy]
    state = model.start({"token_ids": pair()["encoder_token_ids"]}, 9)
    first, _ = model.step(keras.ops.convert_to_tensor(TARGETS[:, 0]), state)
    assert keras.backend.standardize_dtype(first.dtype) == wanted
    real = TARGETS[:, 0] != 0
    near = tolerance[policy] / 10 if wanted == "float32" else 1e-5
    assert_close(array(first)[real], array(logits)[real, 0], atol=near)
    for variable in model.trainable_variables:
        assert keras.backend.standardize_dtype(variable.dtype) == wanted
    model.compile("sgd", LOSS)
    before = [array(w).copy() for w in model.trainable_variables]
    assert np.isfinite(float(model.train_on_batch(pair(), TARGETS)))
    after = [array(w) for w in model.trainable_variables]
    assert all(np.isfinite(w).all() for w in after)
    assert any((a != b).any() for a, b in zip(after, before, strict=True))


@slow_on("jax")
@pytest.mark.parametrize("variant", quick(KINDS, ["2015"]))
def test_a_compiled_training_step_is_an_eager_one(variant):
    losses = []
    has_compiler = keras.backend.backend() != "torch"
    for settings in (dict(run_eagerly=True), dict(jit_compile=has_compiler)):
        model = make(variant)
        model.compile(keras.optimizers.SGD(0.1), LOSS, **settings)
        losses.append([model.train_on_batch(pair(), TARGETS) for _ in range(2)])
    assert losses[0][1] < losses[0][0]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
