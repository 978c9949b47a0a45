import numpy as np
from keras import ops

from cases.helpers import array
from keras_transformer.ops.backend import scan_states


def test_a_scan_keeps_every_state_of_a_loop():
    inputs = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    first = {"sum": ops.zeros((2, 3)), "pair": [ops.ones((2, 1))]}

    def step(state, x):
        total = state["sum"] + x
        return {"sum": total, "pair": [state["pair"][0] * x[:, :1]]}

    states = scan_states(step, first, ops.convert_to_tensor(inputs))
    np.testing.assert_allclose(
        array(states["sum"]), np.cumsum(inputs, axis=1), rtol=1e-6
    )
    np.testing.assert_allclose(
        array(states["pair"][0]), np.cumprod(inputs[:, :, :1], axis=1), rtol=1e-6
    )
