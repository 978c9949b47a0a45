"""P4 and P5 for every model: nobody sees the future, padding spoils no gradient.

Their sources stand in the files of these cases.
"""

import numpy as np
import pytest

from .every_model import MODELS
from .examples import quick
from .helpers import array, arrays, assert_close, gradients_of, run, slow_on, twice

LENGTH, CUTS = 17, (0, 7, 15)
WRITING = ["language-model", "translator", "recurrent-2014", "recurrent-luong"]


@pytest.mark.parametrize("rate", [0.0, 0.5])
@pytest.mark.parametrize("name", quick(WRITING, ["language-model", "translator"]))
def test_a_model_that_writes_sees_no_later_token(name, rate):
    example = MODELS[name]
    model = example.make(dropout=rate)
    ids = np.random.default_rng(0).integers(3, 12, (1 + len(CUTS), LENGTH))
    ids = ids.astype("int32")
    for row, cut in enumerate(CUTS, 1):
        ids[row, : cut + 1] = ids[0, : cut + 1]

    def call(ids, **more):
        if example.reads == "text":
            return array(run(model, "__call__", {"token_ids": ids, **more}))
        source = np.tile(np.array([[5, 6, 7]], "int32"), (len(ids), 1))
        inputs = {"encoder_token_ids": source, "decoder_token_ids": ids}
        inputs |= {f"decoder_{key}": value for key, value in more.items()}
        return array(run(model, "__call__", inputs))

    whole = call(ids)
    for outputs in (whole, call(ids, padding_mask=np.ones(ids.shape, bool))):
        for row, cut in enumerate(CUTS, 1):
            assert_close(outputs[row, : cut + 1], outputs[0, : cut + 1])
            assert np.abs(outputs[row, cut + 1 :] - outputs[0, cut + 1 :]).max() > 1e-3
    for length in (1, 2):
        assert_close(call(ids[:, :length]), whole[:, :length])


# A text, and one of padding only.
IDS = np.array([[5, 6, 7], [0, 0, 0]], "int32")
TARGETS = np.array([[2, 8, 9], [0, 0, 0]], "int32")


@slow_on("jax", "tensorflow")
@pytest.mark.parametrize("name", quick(MODELS, ["text-classifier", "language-model"]))
def test_a_text_of_padding_spoils_no_output_and_no_gradient(name):
    example = MODELS[name]
    model = example.trainable(dropout=0.0)
    both = example.inputs(IDS, TARGETS)
    alone = example.inputs(twice(IDS), twice(TARGETS))
    outputs = array(model(both))
    assert np.isfinite(outputs).all()
    assert_close(outputs[0], array(model(alone))[0])
    labels = np.ones(outputs.shape, "float32")
    weights = np.ones(outputs.shape[:-1], "float32")
    weights[1] = 0.0
    gradients = gradients_of(model)
    ours = gradients(both, labels, weights)
    assert all(np.isfinite(gradient).all() for gradient in ours)
    assert max(np.abs(gradient).max() for gradient in ours) > 1e-3
    # A second text of weight 0 leaves the first by itself.
    assert_close(ours, gradients(alone, labels, weights))
    for gradient in gradients(both, labels, weights * 0 + 1):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("name", quick(WRITING, ["language-model"]))
def test_padding_before_the_first_token_is_finite(name):
    left = np.array([[0, 0, 5], [0, 5, 6]], "int32")
    model = MODELS[name].make()
    for values in arrays(model(MODELS[name].inputs(left, left))):
        assert np.isfinite(values).all()
