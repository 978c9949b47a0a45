"""The layers that the peers' behaviours are asked of, by name."""

import keras
import pytest
from parity_tools import BATCH, HEADS, HIDDEN, SOURCE, TIME, WIDTH, numbers, randomize

import keras_transformer as kt

ONE = [(BATCH, TIME, WIDTH)]
TWO = [(BATCH, TIME, WIDTH), (BATCH, SOURCE, WIDTH)]


def encoder(**settings):
    return kt.TransformerEncoder(WIDTH, HEADS, HIDDEN, **settings)


def decoder(**settings):
    return kt.TransformerDecoder(WIDTH, HEADS, HIDDEN, **settings)


def attention(**settings):
    return kt.MultiHeadAttention(HEADS, 4, **settings)


def grouped(key_value_heads=2, **settings):
    return kt.MultiHeadAttention(4, 4, num_key_value_heads=key_value_heads, **settings)


# name -> (constructor, shapes of its inputs, number of trainable weights)
LAYERS = {
    "encoder_post_norm": (encoder, ONE, 16),
    "encoder_pre_norm": (lambda **s: encoder(normalize_first=True, **s), ONE, 16),
    "decoder_post_norm": (decoder, TWO, 26),
    "decoder_pre_norm": (lambda **s: decoder(normalize_first=True, **s), TWO, 26),
    "decoder_alone": (lambda **s: decoder(cross_attention=False, **s), ONE, 16),
    "attention": (attention, TWO, 8),
    "attention_no_bias": (
        lambda **s: attention(value_dim=3, use_bias=False, **s),
        TWO,
        4,
    ),
    "grouped": (grouped, TWO, 8),
    "grouped_no_bias": (lambda **s: grouped(1, use_bias=False, **s), TWO, 4),
    "bahdanau": (lambda **s: kt.BahdanauAttention(WIDTH, **s), TWO, 3),
    "luong_dot": (lambda **s: kt.LuongAttention("dot", **s), TWO, 0),
    "luong_general": (lambda **s: kt.LuongAttention("general", **s), TWO, 1),
    "luong_concat": (lambda **s: kt.LuongAttention("concat", units=WIDTH, **s), TWO, 2),
}

every_layer = pytest.mark.parametrize("name", LAYERS)

one_of_each_kind = pytest.mark.parametrize(
    "name",
    [
        "encoder_pre_norm",
        "decoder_post_norm",
        "attention_no_bias",
        "grouped",
        "bahdanau",
        "luong_concat",
    ],
)

ATTENTIONS = [name for name, (_, shapes, _) in LAYERS.items() if "coder" not in name]

every_attention = pytest.mark.parametrize("name", ATTENTIONS)


def built(name, **settings):
    """Return (a built layer with random weights, its inputs)."""
    make, shapes, _ = LAYERS[name]
    layer = make(**settings)
    layer.build(*shapes)
    randomize(layer)
    return layer, [numbers(index, *shape) for index, shape in enumerate(shapes)]


def symbolic(shapes):
    return [keras.Input((None, shape[-1])) for shape in shapes]
