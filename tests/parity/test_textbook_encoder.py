"""TransformerEncoder is, at its defaults, the chapter's encoder (section 11)."""

import keras
import numpy as np
import pytest
from parity_tools import (
    BATCH,
    HEADS,
    HIDDEN,
    TIME,
    WIDTH,
    assert_same,
    assert_same_gradients,
    carrying,
    numbers,
    real,
    share_weights,
    to_numpy,
)

import keras_transformer as kt


def chapter_encoder(inputs):
    """Build the chapter's encoder from Keras's own layers."""
    attended = keras.layers.MultiHeadAttention(num_heads=HEADS, key_dim=WIDTH // HEADS)(
        inputs, inputs
    )
    attended = keras.layers.LayerNormalization()(attended + inputs)
    changed = keras.layers.Dense(HIDDEN, activation="relu")(attended)
    changed = keras.layers.Dense(WIDTH)(changed)
    return keras.layers.LayerNormalization()(changed + attended)


def our_encoder():
    return kt.TransformerEncoder(embed_dim=WIDTH, num_heads=HEADS, dense_dim=HIDDEN)


def pair_of_models(seed=0, wrap=lambda inputs: inputs):
    """Return (ours, the chapter's), as models with the same random weights."""
    theirs_in = keras.Input((None, WIDTH))
    theirs = keras.Model(theirs_in, chapter_encoder(wrap(theirs_in)))
    ours_in = keras.Input((None, WIDTH))
    ours = keras.Model(ours_in, our_encoder()(wrap(ours_in)))
    share_weights(theirs, ours, seed)
    return ours, theirs


def test_the_chapters_weights_fit_ours_one_by_one():
    ours, theirs = pair_of_models()
    shapes = [weight.shape for weight in theirs.get_weights()]
    assert [weight.shape for weight in ours.get_weights()] == shapes
    assert ours.count_params() == theirs.count_params()
    for mine, other in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("time", [1, TIME])
def test_the_chapters_encoder_gives_the_same_numbers(time):
    ours, theirs = pair_of_models()
    inputs = numbers(1, BATCH, time, WIDTH)
    assert_same(ours(inputs), theirs(inputs))


def test_the_chapters_encoder_predicts_the_same_numbers_when_compiled():
    ours, theirs = pair_of_models()
    inputs = numbers(2, BATCH, TIME, WIDTH)
    assert_same(ours.predict(inputs, verbose=0), theirs.predict(inputs, verbose=0))


def test_a_lone_layer_equals_the_chapters_encoder():
    _, theirs = pair_of_models()
    layer = our_encoder()
    layer.build((None, None, WIDTH))
    layer.set_weights(theirs.get_weights())
    inputs = numbers(3, BATCH, TIME, WIDTH)
    assert_same(layer(inputs), theirs(inputs))


def test_the_chapters_encoder_takes_weights_back_from_ours():
    ours, theirs = pair_of_models(seed=4)
    fresh = keras.models.clone_model(theirs)
    fresh.set_weights(ours.get_weights())
    inputs = numbers(4, BATCH, TIME, WIDTH)
    assert_same(ours(inputs), fresh(inputs))


def test_padding_from_a_masking_layer_gives_the_chapters_real_positions():
    masking = keras.layers.Masking()
    ours, theirs = pair_of_models(wrap=masking)
    mask = real([TIME, 3], TIME)
    inputs = numbers(5, BATCH, TIME, WIDTH) * mask[..., None]
    assert_same(ours(inputs), theirs(inputs), where=mask)
    # The mask was not ignored by both.
    unmasked, _ = pair_of_models()
    difference = to_numpy(ours(inputs)) - to_numpy(unmasked(inputs))
    assert np.abs(difference[1, :3]).max() > 1e-3


@pytest.mark.parametrize("way", ["padding_mask", "mask", "inputs_mask", "carried"])
def test_every_way_to_give_the_mask_gives_the_chapters_real_positions(way):
    _, theirs = pair_of_models(wrap=keras.layers.Masking())
    layer = our_encoder()
    layer.build((None, None, WIDTH))
    layer.set_weights(theirs.get_weights())
    mask = real([TIME, 3], TIME)
    inputs = numbers(6, BATCH, TIME, WIDTH) * mask[..., None]
    if way == "carried":
        outputs = layer(carrying(inputs, mask))
    else:
        outputs = layer(inputs, **{way: mask})
    assert_same(outputs, theirs(inputs), where=mask)


def test_padding_gives_the_chapters_gradients():
    mask = real([TIME, 3], TIME)

    def wrap(inputs):
        return keras.layers.Dense(WIDTH)(keras.layers.Masking()(inputs))

    ours, theirs = pair_of_models(wrap=wrap)
    inputs = numbers(9, BATCH, TIME, WIDTH) * mask[..., None]
    targets = numbers(10, BATCH, TIME, WIDTH)

    def pooled(model):
        """Read one real position only, so that the padded rows cannot matter."""
        return keras.Model(model.inputs, model.outputs[0][:, 0])

    assert_same_gradients(pooled(ours), pooled(theirs), inputs, targets[:, 0])
