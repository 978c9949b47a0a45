import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from cases.helpers import arrays, assert_close, randomize
from keras_transformer.ops.attention import is_recording, recording

ATTENTIONS = {
    "bahdanau": lambda: kt.BahdanauAttention(4),
    "dot": lambda: kt.LuongAttention("dot"),
    "general": lambda: kt.LuongAttention("general"),
    "concat": lambda: kt.LuongAttention("concat", units=4),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_keys_projected_before_give_what_keys_give(name):
    rng = np.random.default_rng(0)
    query, value, key = (
        rng.normal(size=(2, n, 6)).astype("float32") for n in (3, 5, 5)
    )
    layer = ATTENTIONS[name]()
    layer.build(query.shape, value.shape, key.shape)
    randomize(layer)
    settings = dict(
        value_mask=np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], bool),
        return_attention_scores=True,
    )
    expected = layer(query, value, key, **settings)
    projected = layer.project_keys(ops.convert_to_tensor(key))
    ours = layer(query, value, projected_key=projected, **settings)
    assert_close(arrays(ours), arrays(expected))
    with pytest.raises(ValueError, match="`projected_key` stands in place of `key`"):
        layer(query, value, key, projected_key=projected)


def test_steps_inside_are_unrecorded_and_recording_goes_on_after():
    layer = kt.LuongAttention("dot")
    x = np.ones((1, 3, 4), "float32")
    with kt.record_attention(layer) as record:
        with recording(None):
            assert not is_recording()
            layer(x, x)
        layer(x[:, :2], x)
    (weights,) = next(iter(record.values()))
    assert weights.shape == (1, 2, 3)
