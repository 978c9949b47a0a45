"""What the parity tests share: random numbers, equal weights, comparisons."""

import keras
import numpy as np

# One set of sizes for all files: JAX compiles every operation anew for new shapes.
BATCH, TIME, SOURCE, WIDTH, HEADS, HIDDEN = 2, 5, 6, 8, 2, 12


def numbers(seed, *shape):
    """Return normal float32 numbers of `shape`."""
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def real(lengths, size):
    """Return the padding mask (B, size) of sequences of these `lengths`."""
    return np.arange(size)[None, :] < np.asarray(lengths)[:, None]


def lower_triangle(size):
    """Return the causal mask (size, size), written with loops."""
    mask = np.zeros((size, size), dtype=bool)
    for query in range(size):
        for key in range(query + 1):
            mask[query, key] = True
    return mask


def to_numpy(tensor):
    """Return `tensor` as a numpy array, whatever its backend."""
    return np.asarray(keras.ops.convert_to_numpy(tensor))


def randomize(layer, seed=0):
    """Give every weight of a built Keras layer a random value, and return them."""
    generator = np.random.default_rng(seed)
    values = [
        generator.normal(scale=0.4, size=weight.shape).astype("float32")
        for weight in layer.weights
    ]
    layer.set_weights(values)
    return values


def share_weights(theirs, ours, seed=0):
    """Randomize `theirs` and hand its weights to `ours`."""
    randomize(theirs, seed)
    ours.set_weights(theirs.get_weights())


def assert_same(ours, theirs, where=None, tolerance=1e-5):
    """Assert that two arrays agree, at the leading positions `where` is true."""
    ours, theirs = to_numpy(ours), to_numpy(theirs)
    assert ours.shape == theirs.shape
    if where is not None:
        ours, theirs = ours[where], theirs[where]
    assert ours.size > 0
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def carrying(values, mask):
    """Return `values`, zeroed where `mask` is false, as a tensor with that mask."""
    return keras.layers.Masking()(values * mask[..., None])


def mask_of(tensor):
    """Return the mask that `tensor` hands to the next layer, or None."""
    seen = []

    class Probe(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.supports_masking = True

        def build(self, input_shape):
            self.built = True

        def call(self, inputs, mask=None):
            seen.append(mask)
            return inputs

    Probe()(tensor)
    return None if seen[-1] is None else to_numpy(seen[-1]).astype(bool)


def after_one_step(model, inputs, targets, sample_weight=None):
    """Return the weights after one step of plain gradient descent of rate one.

    The weights move by exactly the gradient, so that equal weights before and
    after mean equal gradients, on every backend.
    """
    model.compile(keras.optimizers.SGD(1.0), loss="mse")
    model.train_on_batch(inputs, targets, sample_weight=sample_weight)
    return model.get_weights()


def assert_same_gradients(ours, theirs, inputs, targets, sample_weight=None):
    """Assert that one step moves every weight of both models alike."""
    before = theirs.get_weights()
    for mine, other in zip(ours.get_weights(), before, strict=True):
        np.testing.assert_array_equal(mine, other)
    moved_ours = after_one_step(ours, inputs, targets, sample_weight)
    moved_theirs = after_one_step(theirs, inputs, targets, sample_weight)
    assert any(
        np.abs(after - start).max() > 1e-3
        for after, start in zip(moved_theirs, before, strict=True)
    )
    for mine, other in zip(moved_ours, moved_theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)
