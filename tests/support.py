"""`check_layer`: what must hold for every layer, whatever it computes."""

import json
import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import ops

from cases.complete_examples import COMPLETE
from cases.examples import EXAMPLES, Example, shape
from cases.helpers import arrays, assert_close, randomize

ALL = {**EXAMPLES, **{f"complete-{key}": value for key, value in COMPLETE.items()}}
TOLERANCE = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 1e-1}


def check_layer(name: str):
    """Check every example of the layer class `name`: config, shapes, files, dtypes."""
    examples = {key: example for key, example in ALL.items() if example.layer == name}
    assert examples, f"tests/cases/examples.py has no example of {name}"
    for key, example in examples.items():
        check_config(example)
        check_build(example)
        if not key.startswith("complete"):
            check_shapes(example)
            check_compiled_and_saved(example)
            check_half_precision(example)


def check_config(example: Example):
    """The config is plain JSON and makes the same layer again."""
    layer = example.make(name="first-1", trainable=False, dtype="mixed_bfloat16")
    config = json.loads(json.dumps(layer.get_config()))
    again = type(layer).from_config(config)
    assert again.get_config() == layer.get_config()
    assert again.name == "first-1" and not again.trainable
    assert again.dtype_policy.name == "mixed_bfloat16"


def check_build(example: Example):
    """`build` alone makes all variables, with the paths that a call gives them."""
    built, called = example.make(name="layer"), example.make(name="layer")
    shapes = [x.shape for x in example.symbolic()]
    built.build(*shapes)
    called(*example.arrays())
    assert [w.path for w in built.weights] == [w.path for w in called.weights]
    assert [w.shape for w in built.weights] == [w.shape for w in called.weights]


def check_shapes(example: Example):
    """One build serves any length, and the shape formula tells the truth."""
    layer = example.make()
    symbolic = layer(*example.symbolic())
    for time, length in ((4, 5), (1, 7), (7, 1)):
        inputs = example.arrays(T=time, S=length)
        outputs = layer(*inputs)
        real = keras.tree.map_structure(lambda x: tuple(x.shape), outputs)
        formula = layer.compute_output_shape(*(x.shape for x in inputs))
        assert formula == real
        wanted = example.output
        wanted = wanted if isinstance(wanted, dict) else {"": wanted}
        real = real if isinstance(real, dict) else {"": real}
        assert real == {k: shape(v, T=time, S=length) for k, v in wanted.items()}
    for known, real in zip(
        keras.tree.flatten(symbolic), keras.tree.flatten(outputs), strict=True
    ):
        assert len(known.shape) == len(real.shape)
        assert all(a in (None, b) for a, b in zip(known.shape, real.shape, strict=True))


def check_compiled_and_saved(example: Example):
    """Eager, compiled and reloaded: the same numbers."""
    model = functional(example)
    inputs = example.arrays()
    eager = arrays(model(inputs))
    model.compile(jit_compile=keras.backend.backend() != "torch")
    predicted = keras.tree.flatten(model.predict(inputs, verbose=0))
    for one, other in zip(eager, predicted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.keras"
        model.save(file)
        assert_close(keras.models.load_model(file)(inputs), eager, atol=1e-6)


def check_half_precision(example: Example):
    """Half precision computes in its dtype, keeps float32 weights, and is near."""
    inputs = example.arrays()
    expected = arrays(functional(example)(inputs))
    for dtype in ("bfloat16", "float16"):
        model = functional(example, dtype=f"mixed_{dtype}")
        outputs = keras.tree.flatten(model(inputs))
        for output, reference in zip(outputs, expected, strict=True):
            kind = keras.backend.standardize_dtype(output.dtype)
            assert kind == dtype or example.layer in ("AlibiBias", "TokenHead")
            scale = max(1.0, float(np.abs(reference).max()))
            value = ops.convert_to_numpy(ops.cast(output, "float32"))
            assert np.abs(value - reference).max() <= TOLERANCE[dtype] * scale
        for variable in model.trainable_variables:
            assert keras.backend.standardize_dtype(variable.dtype) == "float32"


def functional(example: Example, **arguments):
    """Return a functional model of the one layer, with fixed random weights."""
    inputs = example.symbolic()
    model = keras.Model(inputs, example.make(name="layer", **arguments)(*inputs))
    return randomize(model)
