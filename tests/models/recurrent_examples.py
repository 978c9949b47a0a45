"""Small recurrent translators, and what they read."""

import numpy as np

import keras_transformer as kt
from cases.helpers import randomize

VOCABULARY, UNITS = 12, 4
VARIANTS = {
    "2014": {},
    "2014-deep": dict(cell="lstm", num_layers=2, bidirectional=True),
    "2015": dict(attention="bahdanau"),
    "2015-deep": dict(
        attention="bahdanau",
        cell="lstm",
        num_layers=2,
        attention_units=3,
        output_units=5,
        source_vocabulary_size=13,
    ),
    "2015-one-way": dict(attention="bahdanau", bidirectional=False),
    "luong-dot": dict(attention="luong", score="dot", cell="lstm"),
    "luong-general": dict(attention="luong", bidirectional=True, num_layers=2),
    "luong-concat": dict(
        attention="luong", score="concat", attention_units=3, output_units=5
    ),
    "luong-dot-unfed": dict(attention="luong", score="dot", input_feeding=False),
    "luong-general-unfed": dict(
        attention="luong", cell="lstm", num_layers=2, input_feeding=False
    ),
    "luong-concat-unfed": dict(
        attention="luong",
        score="concat",
        bidirectional=True,
        input_feeding=False,
        share_embeddings=True,
    ),
}
ATTENDING = [name for name in VARIANTS if not name.startswith("2014")]
# One of each kind, for what costs seconds; and with a deep one of LSTM.
QUICK = ["2014", "2015", "luong-general"]
KINDS = [*QUICK, "2015-deep"]

# Padding on the right, nowhere, on the left, in between.
SOURCES = np.array([[5, 6, 7, 0, 0], [3, 4, 8, 9, 1], [0, 0, 5, 6, 7], [4, 0, 5, 0, 6]])
TARGETS = np.array([[2, 5, 6, 7], [2, 4, 0, 0], [0, 0, 2, 7], [2, 0, 9, 0]])


def make(variant, **more):
    """Return a translator with random weights."""
    model = kt.RecurrentSeq2Seq(
        VOCABULARY, 3, UNITS, name="translator", **{**VARIANTS[variant], **more}
    )
    model.build()
    return randomize(model)


def pair(sources=SOURCES, targets=TARGETS):
    """Return what a translator is called with."""
    return {"encoder_token_ids": sources, "decoder_token_ids": targets}
