"""Encoder and decoder are KerasHub's layers of those names."""

import numpy as np
import pytest
from parity_tools import (
    BATCH,
    HEADS,
    HIDDEN,
    SOURCE,
    TIME,
    WIDTH,
    assert_same,
    carrying,
    lower_triangle,
    numbers,
    randomize,
    real,
    to_numpy,
)

import keras_transformer as kt

keras_hub = pytest.importorskip("keras_hub")


orders = pytest.mark.parametrize(
    "normalize_first", [False, True], ids=["post_norm", "pre_norm"]
)


def move_weights(theirs, ours):
    """Copy KerasHub's weights, which it makes in another order, by their names."""
    named = {}
    for weight in theirs.weights:
        part, name = weight.path.split("/", 1)[1].split("/", 1)
        named[part.removesuffix("_layer"), name] = weight.numpy()
    attention = [
        f"{layer}/{kind}"
        for layer in ("query", "key", "value", "attention_output")
        for kind in ("kernel", "bias")
    ]
    norm, dense = ["gamma", "beta"], ["kernel", "bias"]
    order = [("self_attention", name) for name in attention]
    order += [("self_attention_layer_norm", name) for name in norm]
    if ("cross_attention", "query/kernel") in named:
        order += [("cross_attention", name) for name in attention]
        order += [("cross_attention_layer_norm", name) for name in norm]
    order += [("feedforward_intermediate_dense", name) for name in dense]
    order += [("feedforward_output_dense", name) for name in dense]
    order += [("feedforward_layer_norm", name) for name in norm]
    assert sorted(order) == sorted(named)
    ours.set_weights([named[key] for key in order])


def pair(their_class, our_class, normalize_first, *shapes, **settings):
    """Return (ours, KerasHub's), built with the same random weights."""
    theirs = their_class(
        intermediate_dim=HIDDEN,
        num_heads=HEADS,
        activation="gelu",
        layer_norm_epsilon=1e-5,
        normalize_first=normalize_first,
    )
    ours = our_class(
        embed_dim=WIDTH,
        num_heads=HEADS,
        dense_dim=HIDDEN,
        activation="gelu",
        layer_norm_epsilon=1e-5,
        normalize_first=normalize_first,
        **settings,
    )
    theirs.build(*shapes)
    ours.build(*shapes)
    randomize(theirs)
    move_weights(theirs, ours)
    return ours, theirs


def encoders(normalize_first):
    return pair(
        keras_hub.layers.TransformerEncoder,
        kt.TransformerEncoder,
        normalize_first,
        (None, TIME, WIDTH),
    )


def decoders(normalize_first, cross_attention):
    shapes = [(None, TIME, WIDTH)]
    if cross_attention:
        shapes.append((None, SOURCE, WIDTH))
    return pair(
        keras_hub.layers.TransformerDecoder,
        kt.TransformerDecoder,
        normalize_first,
        *shapes,
        cross_attention=cross_attention,
    )


@orders
def test_the_encoder_equals_keras_hub_with_and_without_padding(normalize_first):
    ours, theirs = encoders(normalize_first)
    inputs, mask = numbers(1, BATCH, TIME, WIDTH), real([TIME, 3], TIME)
    assert_same(ours(inputs), theirs(inputs))
    # Both mask keys only, so that even the padded rows agree.
    assert_same(ours(inputs, padding_mask=mask), theirs(inputs, padding_mask=mask))


@orders
def test_the_encoder_under_an_attention_mask_equals_keras_hub(normalize_first):
    ours, theirs = encoders(normalize_first)
    inputs, mask = numbers(2, BATCH, TIME, WIDTH), real([TIME, 3], TIME)
    allowed = np.random.default_rng(2).random((BATCH, TIME, TIME)) < 0.5
    allowed[..., 0] = True
    arguments = {"padding_mask": mask, "attention_mask": allowed}
    assert_same(ours(inputs, **arguments), theirs(inputs, **arguments))


@orders
def test_the_encoder_takes_a_carried_mask_as_keras_hub_does(normalize_first):
    ours, theirs = encoders(normalize_first)
    inputs, mask = numbers(3, BATCH, TIME, WIDTH), real([TIME, 3], TIME)
    assert_same(
        ours(carrying(inputs, mask)), theirs(carrying(inputs, mask)), where=mask
    )


@orders
def test_the_encoders_scores_equal_keras_hub(normalize_first):
    ours, theirs = encoders(normalize_first)
    inputs, mask = numbers(4, BATCH, TIME, WIDTH), real([TIME, 3], TIME)
    arguments = {"padding_mask": mask, "return_attention_scores": True}
    our_outputs, our_scores = ours(inputs, **arguments)
    their_outputs, their_scores = theirs(inputs, **arguments)
    assert_same(our_outputs, their_outputs)
    assert_same(our_scores, their_scores)


@orders
def test_the_decoder_without_cross_attention_equals_keras_hub(normalize_first):
    ours, theirs = decoders(normalize_first, cross_attention=False)
    targets, mask = numbers(5, BATCH, TIME, WIDTH), real([TIME, 3], TIME)
    assert_same(ours(targets), theirs(targets))
    assert_same(
        ours(targets, padding_mask=mask), theirs(targets, decoder_padding_mask=mask)
    )


@orders
def test_the_decoder_with_cross_attention_equals_keras_hub(normalize_first):
    ours, theirs = decoders(normalize_first, cross_attention=True)
    targets, memory = numbers(6, BATCH, TIME, WIDTH), numbers(7, BATCH, SOURCE, WIDTH)
    target_mask, source_mask = real([TIME, 3], TIME), real([4, SOURCE], SOURCE)
    assert_same(ours(targets, memory), theirs(targets, memory))
    outputs = ours(
        targets, memory, padding_mask=target_mask, encoder_padding_mask=source_mask
    )
    expected = theirs(
        targets,
        memory,
        decoder_padding_mask=target_mask,
        encoder_padding_mask=source_mask,
    )
    assert_same(outputs, expected)


@orders
def test_the_decoder_under_attention_masks_equals_keras_hub(normalize_first):
    ours, theirs = decoders(normalize_first, cross_attention=True)
    targets, memory = numbers(8, BATCH, TIME, WIDTH), numbers(9, BATCH, SOURCE, WIDTH)
    generator = np.random.default_rng(8)
    own = generator.random((BATCH, TIME, TIME)) < 0.5
    own[..., 0] = True
    cross = generator.random((BATCH, TIME, SOURCE)) < 0.5
    cross[..., 0] = True
    outputs = ours(targets, memory, attention_mask=own, cross_attention_mask=cross)
    expected = theirs(
        targets,
        memory,
        decoder_attention_mask=own,
        encoder_attention_mask=cross,
    )
    assert_same(outputs, expected)


@orders
def test_the_decoder_takes_carried_masks_as_keras_hub_does(normalize_first):
    ours, theirs = decoders(normalize_first, cross_attention=True)
    targets, memory = numbers(10, BATCH, TIME, WIDTH), numbers(11, BATCH, SOURCE, WIDTH)
    target_mask, source_mask = real([TIME, 3], TIME), real([4, SOURCE], SOURCE)

    def call(layer):
        return layer(carrying(targets, target_mask), carrying(memory, source_mask))

    assert_same(call(ours), call(theirs), where=target_mask)


def test_a_decoder_made_to_see_everything_equals_keras_hub_without_its_causal_mask():
    ours, theirs = decoders(False, cross_attention=False)
    block = kt.TransformerBlock(
        WIDTH, HEADS, HIDDEN, activation="gelu", layer_norm_epsilon=1e-5
    )
    block.build((None, TIME, WIDTH))
    block.set_weights(ours.get_weights())
    targets = numbers(12, BATCH, TIME, WIDTH)
    assert_same(block(targets), theirs(targets, use_causal_mask=False))
    causal = np.broadcast_to(lower_triangle(TIME), (BATCH, TIME, TIME))
    assert_same(block(targets, attention_mask=causal), ours(targets))


def test_sinusoids_equal_keras_hub():
    inputs = numbers(12, BATCH, TIME, WIDTH)
    expected = keras_hub.layers.SinePositionEncoding()(inputs)
    assert_same(kt.SinusoidalEncoding()(inputs), inputs + to_numpy(expected))
