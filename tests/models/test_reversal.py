"""Translators learn by heart to turn rows round, and write what they have learned."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from cases.examples import quick
from cases.helpers import array, slow_on
from keras_transformer.training import TokenCrossentropy, shift_right

PAD, START, STOP, SYMBOLS, LONGEST = 0, 2, 3, 12, 8
SHARED = dict(vocabulary_size=4 + SYMBOLS, embed_dim=32, start_id=START, stop_id=STOP)
MODELS = {
    "transformer": lambda: kt.Seq2SeqTransformer(
        num_layers=1, num_heads=4, dense_dim=64, dropout=0.0, **SHARED
    ),
    "2014": lambda: kt.RecurrentSeq2Seq(units=96, attention=None, **SHARED),
    "2015": lambda: kt.RecurrentSeq2Seq(units=32, attention="bahdanau", **SHARED),
    "luong": lambda: kt.RecurrentSeq2Seq(units=32, attention="luong", **SHARED),
}


def rows(count=24):
    """Rows of 1 to 8 symbols."""
    draw = np.random.default_rng(0)
    lengths = [1 + index % LONGEST for index in range(count)]
    found = {tuple(draw.integers(4, 4 + SYMBOLS, n).tolist()) for n in lengths}
    return sorted(found)


def padded(lists):
    return np.array([[*row, *[PAD] * (LONGEST + 1 - len(row))] for row in lists])


@slow_on("tensorflow")
@pytest.mark.parametrize("name", quick(MODELS, ["transformer"]))
def test_it_learns_by_heart_and_writes_what_it_has_learned(name):
    sources = rows()
    read, wanted = shift_right([row[::-1] for row in sources], START, STOP)
    inputs = {
        "encoder_token_ids": padded(sources),
        "decoder_token_ids": padded(read),
    }
    labels = padded(wanted)
    counted = labels != PAD
    model = MODELS[name]()
    model(inputs)
    model.compile(keras.optimizers.Adam(0.01), TokenCrossentropy())
    weights = counted.astype("float32")
    for _ in range(15):
        for _ in range(20):
            model.train_on_batch(inputs, labels, weights)
        right = array(model(inputs)).argmax(axis=-1) == labels
        if right[counted].all():
            break
    assert right[counted].all()  # teacher-forced
    written = kt.generate(model, [list(row) for row in sources], max_new_tokens=9)
    np.testing.assert_array_equal(written, labels)
