import keras
import numpy as np

from keras_transformer.ops.backend import infers_shapes, is_traced, static_size


def test_a_layer_knows_that_keras_infers_its_shapes():
    seen = []

    class Own(keras.layers.Layer):
        def call(self, inputs):
            size = static_size(inputs, 1)
            seen.append((infers_shapes(), is_traced(inputs), isinstance(size, int)))
            return inputs

    inputs = keras.Input((None,))
    layer = Own()
    layer(inputs)
    assert set(seen) == {(True, True, False)}
    seen.clear()
    layer(np.zeros((1, 3), "float32"))
    assert seen == [(False, False, True)]
    assert static_size(inputs, 1) is None
    assert static_size(keras.Input((5,)), 1) == 5
