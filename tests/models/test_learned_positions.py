"""Learned positions have an end, and every model says so."""

import keras
import numpy as np
import pytest
from model_examples import SIZES, random_ids

import keras_transformer as kt

SHORT = dict(sequence_length=4, positions="learned")
MESSAGE = "A text of 5 tokens does not fit .*`sequence_length=4`"
READERS = [kt.TextEncoder, kt.MaskedLanguageModel, kt.LanguageModel]


def ids(length):
    return keras.Input((length,), dtype="int32")


@pytest.mark.parametrize("model_class", READERS)
def test_symbolic_ids_are_held_to_the_learned_positions(model_class):
    model = model_class(**SIZES, **SHORT)
    for length in (4, None):
        model(ids(length))
    for inputs in (ids(5), {"token_ids": ids(5), "padding_mask": ids(5)}):
        with pytest.raises(ValueError, match=MESSAGE):
            model(inputs)
    model_class(**SIZES, sequence_length=4, positions="sinusoidal")(ids(5))


def test_symbolic_source_and_targets_are_held_to_the_learned_positions():
    model = kt.Seq2SeqTransformer(**SIZES, **SHORT)

    def call(source, target):
        model({"encoder_token_ids": ids(source), "decoder_token_ids": ids(target)})

    call(4, 4)
    call(None, None)
    for lengths in ((5, 4), (4, 5)):
        with pytest.raises(ValueError, match=MESSAGE):
            call(*lengths)


@pytest.mark.parametrize("model_class", [*READERS, kt.Seq2SeqTransformer])
def test_a_text_beyond_the_learned_positions_is_refused_in_predict(model_class):
    model = model_class(**SIZES, **SHORT)
    model.build((None, None))

    def texts(length):
        if model_class is not kt.Seq2SeqTransformer:
            return random_ids(1, length)
        targets = random_ids(1, length, seed=1)
        return {"encoder_token_ids": random_ids(1, 4), "decoder_token_ids": targets}

    model.predict(texts(4), verbose=0)
    # TensorFlow compiles for any length, and then refuses the position.
    with pytest.raises(Exception, match=rf"{MESSAGE}|= 4 is not in \[0, 4\)"):
        model.predict(texts(5), verbose=0)


def test_symbolic_inputs_of_another_form_are_told_the_form():
    model = kt.Seq2SeqTransformer(**SIZES, **SHORT)
    for inputs in (ids(4), [ids(4), ids(4)]):
        with pytest.raises(ValueError, match="must be a dict with 'encoder_token_ids'"):
            model(inputs)


class Own(keras.layers.Layer):
    """A user's own layer around a model."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def call(self, inputs):
        return self.model(inputs)


def test_a_model_of_short_texts_stands_in_a_users_own_layer():
    inputs = ids(None)
    model = keras.Model(inputs, Own(kt.LanguageModel(**SIZES, **SHORT))(inputs))
    assert model.predict(random_ids(2, 4), verbose=0).shape == (2, 4, 13)


def test_no_texts_are_not_too_long():
    model = kt.LanguageModel(**SIZES, **SHORT, pad_id=0)
    assert tuple(model(np.zeros((0, 5), "int32")).shape) == (0, 5, 13)
