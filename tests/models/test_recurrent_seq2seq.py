"""Laws of the recurrent translators: steps, padding, state, recording, settings."""

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from cases.examples import quick
from cases.helpers import array, arrays, assert_close, run, slow_on
from keras_transformer.ops.backend import compiled
from models.recurrent_examples import (
    ATTENDING,
    KINDS,
    QUICK,
    SOURCES,
    TARGETS,
    VARIANTS,
    make,
    pair,
)

SOURCE = {"token_ids": SOURCES}
# Every id of the targets is a token, 0 before and between others too.
UNPADDED = {**pair(), "decoder_padding_mask": np.ones(TARGETS.shape, bool)}


def steps(model, state, targets):
    """Yield what `step` returns for each column of the targets."""
    for tokens in targets.T:
        logits, state, *more = model.step(
            ops.convert_to_tensor(tokens), state, model.attention is not None
        )
        yield logits, state, *more


@pytest.mark.parametrize("variant", quick(VARIANTS, QUICK))
def test_steps_give_the_teacher_forced_logits_and_alignments(variant):
    model = make(variant)
    if model.attention is None:
        expected, aligned = array(model(UNPADDED)), None
    else:
        with kt.record_attention(model) as record:
            expected = array(model(UNPADDED))
        aligned = record["decoder/attention"][0]
    for time, (logits, _, *alignment) in enumerate(
        steps(model, model.start(SOURCE, 9), TARGETS)
    ):
        assert_close(logits, expected[:, time])
        if alignment:
            assert_close(alignment[0], aligned[:, time])


@pytest.mark.parametrize("variant", quick(KINDS, QUICK))
def test_compiled_steps_are_eager_steps(variant):
    model = make(variant)
    start = compiled(lambda inputs: model.start(inputs, 9), model)
    step = compiled(model.step, model)
    tokens = ops.convert_to_tensor(TARGETS[:, 0])
    state = start({"token_ids": ops.convert_to_tensor(SOURCES)})
    eager_state = model.start(SOURCE, 9)
    assert_close(state, eager_state)
    assert_close(step(tokens, state), model.step(tokens, eager_state))


@pytest.mark.parametrize("variant", quick(KINDS, QUICK))
def test_a_step_changes_no_memory_and_the_state_of_every_row(variant):
    model = make(variant)
    state = model.start(SOURCE, 9)
    _, state = model.step(ops.convert_to_tensor(TARGETS[:, 0]), state)
    before = arrays(state["carry"])
    _, after = model.step(ops.convert_to_tensor([0, 5, 0, 6]), state)
    for name, leaf in state["memory"].items():
        assert after["memory"][name] is leaf
    for old, new in zip(before, arrays(after["carry"]), strict=True):
        assert (new != old).any(axis=1).all()  # what reads 0 reads a token


@pytest.mark.parametrize("variant", quick(VARIANTS, QUICK))
def test_padding_on_either_side_changes_nothing(variant):
    model = make(variant)
    alone = array(run(model, "__call__", pair(SOURCES[1:2], np.array([[2, 5, 6]]))))
    for side in ((0, 2), (2, 0)):
        padded = pair(
            np.pad(SOURCES[1:2], ((0, 0), side)),
            np.pad([[2, 5, 6]], ((0, 0), side)),
        )
        logits = array(model(padded))[:, side[0] : 3 + side[0]]
        assert_close(logits, alone)


def test_a_mask_says_what_is_padding_whatever_its_id():
    model = make("2015", pad_id=None)
    masks = {
        "encoder_padding_mask": SOURCES != 0,
        "decoder_padding_mask": TARGETS != 0,
    }
    masked = array(model({**pair(SOURCES + (SOURCES == 0), TARGETS), **masks}))
    expected = array(make("2015")(pair()))
    assert_close(masked[TARGETS != 0], expected[TARGETS != 0])
    plain = array(model(pair()))  # no mask at all: 0 is a token like any other
    assert np.abs(plain - expected).max() > 1e-3


@pytest.mark.parametrize("variant", quick(VARIANTS, QUICK))
def test_empty_sources_are_finite_and_change_no_other_row(variant):
    model = make(variant)
    some = array(
        run(model, "__call__", pair(np.where([[0], [1], [1], [1]], SOURCES, 0)))
    )
    assert np.isfinite(some).all()
    real = (TARGETS != 0)[1:]
    assert_close(some[1:][real], array(run(model, "__call__", pair()))[1:][real])
    none = array(run(model, "__call__", pair(np.zeros_like(SOURCES))))
    assert np.isfinite(none).all()
    shortest = array(run(model, "__call__", pair(np.zeros((4, 0), "int32"))))
    assert_close(shortest, none)


@pytest.mark.parametrize("variant", ["2015", "luong-general", "luong-dot-unfed"])
def test_steps_record_one_row_each(variant):
    model = make(variant)
    with kt.record_attention(model) as whole:
        model(UNPADDED)
    with kt.record_attention(model) as record:
        list(steps(model, model.start(SOURCE, 9), TARGETS))
    rows = record["decoder/attention"]
    assert [row.shape for row in rows] == [(4, 1, 5)] * TARGETS.shape[1]
    assert_close(np.concatenate(rows, axis=1), whole["decoder/attention"][0])


def test_a_fixed_vector_has_nothing_to_record():
    model = make("2014")
    with pytest.raises(RuntimeError, match="No attention"):
        with kt.record_attention(model):
            model(pair())
    with pytest.raises(ValueError, match="attention=None, and therefore no alignment"):
        model.step(ops.convert_to_tensor([2]), model.start(SOURCE, 9), True)


@pytest.mark.parametrize("variant", ["2015", "luong-general", "luong-concat"])
def test_the_sources_keys_are_projected_once(variant, monkeypatch):
    model = make(variant)
    layer, calls = model.decoder.attention_layer, []
    project = layer.project_keys
    monkeypatch.setattr(
        layer, "project_keys", lambda key: calls.append(1) or project(key)
    )
    model(pair())
    list(steps(model, model.start(SOURCE, 9), TARGETS))
    assert len(calls) == 2


@slow_on("tensorflow")
def test_dropout_works_in_training_alone_and_follows_its_seed():
    def outputs(training, seed=1):
        model = make("luong-general", dropout=0.5, seed=seed)
        return array(model(pair(), training=training))

    assert_close(outputs(False), make("luong-general")(pair()))
    assert np.abs(outputs(True) - outputs(False)).max() > 1e-3
    assert_close(outputs(True), outputs(True))
    assert np.abs(outputs(True) - outputs(True, seed=2)).max() > 1e-3


REFUSED = [
    (dict(cell="rnn"), "`cell` must be one of 'gru', 'lstm'"),
    (dict(attention="loung"), "`attention` must be one of None, 'bahdanau', 'luong'"),
    (dict(attention="luong", score="dots"), "must be one of 'dot', 'general', 'concat"),
    (dict(score="dot"), "`score` is a setting of another attention"),
    (dict(attention="bahdanau", input_feeding=True), "`input_feeding` is a setting"),
    (dict(attention="luong", attention_units=3), "`attention_units` is a setting"),
    (dict(attention="luong", score="dot", bidirectional=True), "one-way encoder"),
    (dict(share_embeddings=True, source_vocabulary_size=9), "one vocabulary"),
    (dict(units=0), "`units` must be a positive integer"),
    (dict(source_vocabulary_size=0), "`source_vocabulary_size` must be a positive"),
    (dict(num_layers=0), "`num_layers` must be a positive integer"),
    (dict(dropout=1.0), "`dropout` must be a finite number"),
    (dict(stop_id=12), "`stop_id` must be an id below `vocabulary_size`.*stop_id=12"),
    (dict(start_id=None), "`start_id` must be"),
    (dict(start_id=0), "`pad_id` must be neither"),
]


@pytest.mark.parametrize("settings, message", REFUSED)
def test_wrong_settings_are_refused(settings, message):
    arguments = {"vocabulary_size": 12, "embed_dim": 3, "units": 4, **settings}
    with pytest.raises(ValueError, match=message):
        kt.RecurrentSeq2Seq(**arguments)


@pytest.mark.parametrize(
    "inputs, message",
    [
        (SOURCES, "must be a dict with 'encoder_token_ids'"),
        ({"encoder_token_ids": SOURCES}, "must be a dict with 'decoder_token_ids'"),
        (pair(SOURCES[0]), r"must have the shape \(batch, time\)"),
        ({**pair(), "encoder_padding_mask": TARGETS != 0}, "`encoder_padding_mask`"),
    ],
)
def test_wrong_inputs_are_refused(inputs, message):
    model = make("2014")
    with pytest.raises(ValueError, match=message):
        model.call(inputs)


def test_tokens_of_a_step_have_one_axis():
    model = make("2014")
    with pytest.raises(ValueError, match="one id a row"):
        model.step(TARGETS[:, :1], model.start(SOURCE, 9))


def test_attending_variants_are_all_but_those_of_2014():
    assert set(VARIANTS) - set(ATTENDING) == {"2014", "2014-deep"}
