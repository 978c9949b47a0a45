"""Small tools shared by the case tests; none names a backend's own calls."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer
from keras_transformer.ops.backend import compiled

PACKAGE_FOLDER = Path(keras_transformer.__file__).resolve().parents[1]


class Interrupt(keras.callbacks.Callback):
    """Interrupt a training, as Ctrl-C does, at the beginning of an epoch."""

    def __init__(self, epoch: int):
        super().__init__()
        self.epoch = epoch

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.epoch:
            raise KeyboardInterrupt


def skip_without_float64(policy: str = "float64"):
    """Skip what asks for float64 where there is none."""
    if policy == "float64" and keras.backend.backend() == "jax":
        pytest.skip("JAX has float64 only when asked for at its start")


def array(tensor):
    """Return a tensor's values; floats as float32 at least."""
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if dtype in ("float16", "bfloat16"):
        tensor = ops.cast(tensor, "float32")
    return ops.convert_to_numpy(tensor)


def arrays(tree):
    """Return the values of all tensors of a nested structure, in a list."""
    return [array(tensor) for tensor in keras.tree.flatten(tree)]


def assert_close(ours, expected, atol=1e-5, **more):
    """Compare tensors, arrays or nested structures of them."""
    ours, expected = keras.tree.flatten(ours), keras.tree.flatten(expected)
    assert len(ours) == len(expected)
    for one, other in zip(ours, expected, strict=True):
        one = one if isinstance(one, np.ndarray) else array(one)
        other = other if isinstance(other, np.ndarray) else array(other)
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=atol, rtol=atol, **more)


def run(model, method, *tensors, **settings):
    """Call a method of a model; on JAX as one compiled function.

    Called as it is, JAX compiles each small operation on its own, which takes most of
    the time of a test. Tensors are given by position, on every backend.
    """
    assert not any(map(ops.is_tensor, settings.values())), "a tensor by name"
    function = partial(getattr(model, method), **settings)
    if keras.backend.backend() == "jax":
        function = compiled(function, model, ("run", method, *settings.items()))
    return function(*tensors)


def slow_on(*backends):
    """Mark a test as slow on these backends: the others hold its law quickly.

    Called as they are, JAX compiles each of a model's small operations on its own;
    TensorFlow takes seconds to trace and compile a search or a training step.
    """
    slow = keras.backend.backend() in backends
    return pytest.mark.slow if slow else lambda test: test


def randomize(layer, seed=0):
    """Give every trainable weight random values, norms and biases too."""
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_variables:
        values = rng.normal(scale=0.3, size=weight.shape)
        name = weight.path.rsplit("/", 1)[-1]
        weight.assign(values + 1.0 if name in ("gamma", "scale") else values)
    return layer


def copy_weights(source, target):
    """Give `target` the trainable weights of `source`."""
    pairs = zip(source.trainable_variables, target.trainable_variables, strict=True)
    for weight, copy in pairs:
        copy.assign(weight)
    return target


def first(result):
    """Return the main output of a call that may return scores as well."""
    return result[0] if isinstance(result, (tuple, list)) else result


class MaskProbe(keras.layers.Layer):
    """Keeps the mask that arrives with a tensor."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.seen = []

    def call(self, inputs, mask=None):
        self.seen.append(mask)
        return inputs


def twice(array):
    """Return a batch of two: the first row, and the same again."""
    return np.repeat(array[:1], 2, axis=0)


def carried_mask(tensor):
    """Return the mask that the next layer receives with this tensor."""
    probe = MaskProbe()
    probe(tensor)
    mask = probe.seen[-1]
    return None if mask is None else array(mask)


def gradients_of(model, eager=None):
    """Return a function of a batch that returns the gradient of every weight.

    It trains one step with rate 1 and takes the step back. The loss is a sum over
    samples, so a sample of weight 0 leaves no trace.
    """
    if eager is None:  # JAX is quick only when compiled, TensorFlow only when not
        eager = keras.backend.backend() != "jax"
    model.compile(
        optimizer=keras.optimizers.SGD(1.0),
        loss=keras.losses.MeanSquaredError(reduction="sum"),
        run_eagerly=eager,
    )

    def gradients(x, y, sample_weight=None):
        before = [array(weight).copy() for weight in model.trainable_variables]
        model.train_on_batch(x, y, sample_weight=sample_weight)
        after = [array(weight).copy() for weight in model.trainable_variables]
        for weight, old in zip(model.trainable_variables, before, strict=True):
            weight.assign(old)
        return [old - new for old, new in zip(before, after, strict=True)]

    return gradients


def fresh_process(code, *arguments):
    """Run Python code in a new process on the same backend; return its output."""
    return finish(start_process(code, *arguments))


def start_process(code, *arguments):
    """Start Python code in a new process on the same backend."""
    paths = [str(PACKAGE_FOLDER), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "KERAS_BACKEND": keras.backend.backend(),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    )


def finish(process):
    """Wait for a process and return what it printed."""
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output
