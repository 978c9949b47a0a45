"""P2: what stands between the embedding and the encoder does not lose the mask.

Sources: keras-team/keras#18416, #18543, #19311, #2101, #4037, #12027.
"""

import warnings

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt

from .examples import block, quick
from .helpers import array, assert_close, carried_mask, randomize

SHORT = np.array([[5, 6, 7], [8, 9, 1]], "int32")
PADDED = np.array([[5, 6, 7, 0, 0], [8, 9, 1, 0, 0]], "int32")


def keras_embedding():
    return keras.layers.Embedding(12, 8, mask_zero=True)


class Residual(keras.layers.Layer):
    """A user's layer that knows masks and hands them on by itself."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True
        self.inner = kt.TransformerEncoder(**block())

    def build(self, shape):
        self.inner.build(shape)

    def call(self, inputs, mask=None):
        return inputs + self.inner(inputs, mask=mask)


def _sequence(*layers):
    def apply(x, ids):
        for layer in layers:
            x = layer(x)
        return x

    return apply


def _two(join):
    second = kt.PositionalEmbedding(9, 12, 8)
    return lambda x, ids: join([x, second(ids)])


def _add_unmasked(second):
    add = keras.layers.Add()
    return lambda x, ids: add([x, second(ids)])


def _nested_functional():
    inputs = keras.Input((None, 8))
    return keras.Model(inputs, kt.TransformerEncoder(**block())(inputs))


def _seq(*layers):
    return keras.Sequential(list(layers))


drop = keras.layers.Dropout
norm = keras.layers.LayerNormalization
# Each makes a function (x, ids) -> x that carries the mask without help.
CARRYING = {
    "none": lambda: _sequence(),
    "dropout": lambda: _sequence(drop(0.1)),
    "spatial-dropout": lambda: _sequence(keras.layers.SpatialDropout1D(0.1)),
    "noise": lambda: _sequence(keras.layers.GaussianNoise(0.1)),
    "norm": lambda: _sequence(norm()),
    "activation": lambda: _sequence(keras.layers.Activation("gelu")),
    "rescaling": lambda: _sequence(keras.layers.Rescaling(2.0)),
    "dense": lambda: _sequence(keras.layers.Dense(8)),
    "add": lambda: _two(keras.layers.Add()),
    "multiply": lambda: _two(keras.layers.Multiply()),
    "average": lambda: _two(keras.layers.Average()),
    "sequential": lambda: _sequence(_seq(drop(0.1), norm())),
    "sequential-twice": lambda: _sequence(_seq(_seq(drop(0.1)), norm())),
    "sequential-ours": lambda: _sequence(_seq(kt.TransformerEncoder(**block()))),
    "functional": lambda: _sequence(_nested_functional()),
    "our-block": lambda: _sequence(kt.TransformerBlock(**block())),
    "our-prenorm": lambda: _sequence(
        kt.TransformerBlock(**block(normalize_first=True))
    ),
    "our-stack": lambda: _sequence(kt.TransformerStack(**block(num_layers=2))),
    "our-feed-forward": lambda: _sequence(kt.FeedForward(8, 12)),
    "our-sinusoids": lambda: _sequence(kt.SinusoidalEncoding()),
    "user-residual": lambda: _sequence(Residual()),
    "time-distributed": lambda: _sequence(
        keras.layers.TimeDistributed(keras.layers.Dense(8))
    ),
}
# Each loses the mask by Keras's own rules; `padding_mask=` helps further on.
LOSING = {
    "plus": lambda: lambda x, ids: x + x,
    "times": lambda: lambda x, ids: x * x,
    "lambda": lambda: _sequence(keras.layers.Lambda(lambda x: x * 2.0)),
    "add-unmasked": lambda: _add_unmasked(keras.layers.Embedding(12, 8)),
    # Of Keras's norms, this one alone knows no masks.
    "rms-norm": lambda: _sequence(keras.layers.RMSNormalization()),
    "einsum": lambda: _sequence(keras.layers.EinsumDense("bte,ef->btf", (None, 8))),
}


QUICK = [
    "none",
    "dropout",
    "norm",
    "add",
    "sequential",
    "sequential-twice",
    "our-block",
    "our-feed-forward",
    "user-residual",
]


class Chain(keras.Model):
    """Embedding, something, encoder, masked mean."""

    def __init__(self, something, embed, help_with_mask=False, pool=None):
        super().__init__()
        self.embed = embed
        self.something = something
        self.help_with_mask = help_with_mask
        self.encoder = kt.TransformerEncoder(**block())
        self.pool = pool or keras.layers.GlobalAveragePooling1D()

    def call(self, ids):
        x = self.something(self.embed(ids), ids)
        mask = {"padding_mask": ops.not_equal(ids, 0)} if self.help_with_mask else {}
        return self.pool(self.encoder(x, **mask))


def functional(something, embed, help_with_mask=False):
    ids = keras.Input((None,), dtype="int32")
    x = something(embed(ids), ids)
    mask = {"padding_mask": ops.not_equal(ids, 0)} if help_with_mask else {}
    x = kt.TransformerEncoder(**block())(x, **mask)
    return keras.Model(ids, keras.layers.GlobalAveragePooling1D()(x))


def model_of(something, kind, help_with_mask=False):
    # Keras warns that a nested Sequential and EinsumDense know no masks.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not support mask")
        if kind == "functional":
            return functional(something(), keras_embedding(), help_with_mask)
        return Chain(something(), kt.PositionalEmbedding(9, 12, 8), help_with_mask)


@pytest.mark.filterwarnings("ignore:.*does not support mask")
@pytest.mark.parametrize("name", quick(CARRYING, QUICK))
def test_what_stands_between_keeps_the_mask(name):
    model = model_of(CARRYING[name], "subclassed")
    assert_close(model(PADDED), model(SHORT))


@pytest.mark.filterwarnings("ignore:.*does not support mask")
@pytest.mark.parametrize(
    "name",
    quick(["none", "dropout", "add", "sequential", "functional", "our-block"], ["add"]),
)
def test_what_stands_between_keeps_the_mask_in_functional_models(name):
    model = model_of(CARRYING[name], "functional")
    assert_close(model(PADDED), model(SHORT))


@pytest.mark.filterwarnings("ignore:.*does not support mask")
@pytest.mark.parametrize("name", quick(LOSING, ["plus", "lambda"]))
@pytest.mark.parametrize("kind", ["functional", "subclassed"])
def test_padding_mask_helps_where_the_mask_is_lost(name, kind):
    model = model_of(LOSING[name], kind, help_with_mask=True)
    assert_close(model(PADDED), model(SHORT))


def test_an_explicit_padding_mask_reaches_the_pooling_too():
    # The encoder puts the mask it was given on its output.
    plain = keras.layers.Embedding(12, 8)
    encoder = kt.TransformerEncoder(**block())
    pool = keras.layers.GlobalAveragePooling1D()
    padded = pool(encoder(plain(PADDED), padding_mask=PADDED != 0))
    assert_close(padded, pool(encoder(plain(SHORT))))


def test_concatenating_masked_halves_keeps_the_mask():
    halves = [kt.PositionalEmbedding(9, 12, 4) for _ in range(2)]
    join = keras.layers.Concatenate()
    encoder = kt.TransformerEncoder(**block())

    def encode(ids):
        return encoder(join([half(ids) for half in halves]))

    assert_close(array(encode(PADDED))[:, :3], encode(SHORT))


def test_a_masking_layer_before_the_encoder_is_obeyed():
    encoder = kt.TransformerEncoder(**block())
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    x[:, 3:] = 0
    masked = keras.layers.Masking()(x)
    assert_close(array(encoder(masked))[:, :3], encoder(x[:, :3]))


def test_recurrent_layers_hand_their_mask_to_the_encoder():
    embed, encoder = keras_embedding(), kt.TransformerEncoder(**block())
    recurrent = keras.layers.GRU(8, return_sequences=True)

    def encode(ids):
        return encoder(recurrent(embed(ids)))

    assert_close(array(encode(PADDED))[:, :3], encode(SHORT))


def test_the_sentence_embedding_pools_over_the_mask_handed_on():
    pool = kt.SelfAttentiveEmbedding(3, attention_dim=4)
    model = Chain(CARRYING["none"](), kt.PositionalEmbedding(9, 12, 8), pool=pool)
    assert_close(model(PADDED), model(SHORT))


def test_our_attention_in_a_users_residual_keeps_the_mask_by_add():
    embed = keras_embedding()
    attention = kt.MultiHeadAttention(2, 4)
    add, encoder = keras.layers.Add(), kt.TransformerEncoder(**block())

    def encode(ids):
        x = embed(ids)
        return encoder(add([x, attention(x, x)]))

    assert_close(array(encode(PADDED))[:, :3], encode(SHORT))
    assert carried_mask(encode(PADDED)).tolist() == (PADDED != 0).tolist()


def test_predictions_through_nested_sequentials_ignore_padding():
    model = model_of(CARRYING["sequential"], "subclassed")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not support mask")
        model(PADDED)
        randomize(model)
        assert_close(model.predict(PADDED, verbose=0), model(SHORT))
