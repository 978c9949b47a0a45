"""The recurrent translators are their papers' equations, alignments included.

Those of the papers' text: where the appendix of 2015 (A.2.2) has `s_{i-1}` in the
maxout, the text has `s_i`, and so have the models.
"""

import keras
import numpy as np
import pytest
import recurrent_by_hand
from parity_tools import to_numpy

import keras_transformer as kt
from models.recurrent_examples import (
    ATTENDING,
    SOURCES,
    TARGETS,
    VARIANTS,
    make,
    pair,
)

TOLERANCE = dict(atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_translator_is_its_papers_equations(variant):
    model = make(variant)
    logits = to_numpy(model(pair()))
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        expected, _ = recurrent_by_hand.translate(
            model, source[source != 0], target[target != 0]
        )
        np.testing.assert_allclose(logits[row][target != 0], expected, **TOLERANCE)


@pytest.mark.parametrize("variant", ATTENDING)
def test_the_recorded_alignments_are_the_papers(variant):
    model = make(variant)
    plain = to_numpy(model(pair()))
    with kt.record_attention(model) as record:
        recorded = to_numpy(model(pair()))
    np.testing.assert_allclose(recorded, plain, atol=1e-6)
    assert list(record) == ["decoder/attention"]
    (alignments,) = record["decoder/attention"]
    assert alignments.shape == (*TARGETS.shape, SOURCES.shape[1])
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        _, expected = recurrent_by_hand.translate(
            model, source[source != 0], target[target != 0]
        )
        ours = alignments[row][target != 0]
        np.testing.assert_allclose(ours[:, source != 0], expected, **TOLERANCE)
        assert not ours[:, source == 0].any()


def test_the_equations_by_hand_use_the_cells_of_keras():
    for cell in ("gru", "lstm"):
        model = make("2014", cell=cell)
        layer = model.decoder.recurrent_layers[0]
        x = np.linspace(-1, 1, layer.cell.kernel.shape[0])
        states = [np.linspace(0, 1, 4)] * (2 if cell == "lstm" else 1)
        expected = recurrent_by_hand.cell_step(layer.cell, x, states)
        given = [keras.ops.convert_to_tensor(s[None], "float32") for s in states]
        _, ours = layer.cell(keras.ops.convert_to_tensor(x[None], "float32"), given)
        for one, other in zip(ours, expected, strict=True):
            np.testing.assert_allclose(to_numpy(one)[0], other, **TOLERANCE)
