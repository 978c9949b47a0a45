"""A compiled step of training does to every layer what an eager one does."""

import keras
import numpy as np
import pytest

from cases.examples import EXAMPLES
from cases.helpers import randomize

# These have nothing to train.
FIXED = ("pooling", "sinusoidal", "rotary", "alibi", "luong-dot")
# This one has no batch: the stack that holds it is trained.
ALONE = ("relative",)
TRAINED = [name for name in EXAMPLES if not name.startswith((*FIXED, *ALONE))]


@pytest.mark.slow
@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="Keras does not compile on PyTorch"
)
@pytest.mark.parametrize("name", TRAINED)
def test_a_compiled_step_of_training_is_an_eager_one(name):
    example = EXAMPLES[name]
    arrays, trained = example.arrays(), []
    for settings in (dict(run_eagerly=True), dict(jit_compile=True)):
        inputs = example.symbolic()
        outputs = keras.tree.flatten(example.make(name="layer")(*inputs))[0]
        model = randomize(keras.Model(inputs, outputs))
        model.compile(keras.optimizers.SGD(0.1), "mse", **settings)
        before = model.get_weights()
        model.train_on_batch(arrays, np.zeros(model(arrays).shape, "float32"))
        trained.append(model.get_weights())
    changes = []
    for old, eager, compiled in zip(before, *trained, strict=True):
        changes.append(np.abs(eager - old).max())
        np.testing.assert_allclose(compiled, eager, atol=1e-5)
    assert max(changes) > 1e-4
