import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from cases.helpers import assert_close, randomize
from support import check_layer

X = np.random.default_rng(0).normal(size=(2, 4, 8)).astype("float32")
SOURCE = np.random.default_rng(1).normal(size=(2, 5, 6)).astype("float32")


def test_it_keeps_the_laws_of_every_layer():
    check_layer("TransformerBlock")


def test_the_encoder_and_the_decoder_are_the_block_with_two_settings_fixed():
    sizes = dict(embed_dim=8, num_heads=2, dense_dim=12)
    pairs = [
        (kt.TransformerEncoder(**sizes), kt.TransformerBlock(**sizes), (X,)),
        (
            kt.TransformerDecoder(**sizes),
            kt.TransformerBlock(**sizes, causal=True, cross_attention=True),
            (X, SOURCE),
        ),
    ]
    for layer, block, inputs in pairs:
        layer(*inputs), block(*inputs)
        block.set_weights(randomize(layer).get_weights())
        assert_close(layer(*inputs), block(*inputs))


def test_encoder_outputs_and_cross_attention_belong_together():
    with pytest.raises(ValueError, match="needs `encoder_outputs`"):
        kt.TransformerDecoder(8, 2, 12)(X)
    with pytest.raises(ValueError, match="has no cross-attention"):
        kt.TransformerEncoder(8, 2, 12)(X, SOURCE)


def test_encoder_outputs_beside_a_cache_that_holds_them_are_refused():
    targets, source = ops.convert_to_tensor(X), ops.convert_to_tensor(SOURCE)
    sizes = dict(embed_dim=8, num_heads=2, dense_dim=12)
    for layer in (
        kt.TransformerDecoder(**sizes),
        kt.TransformerStack(1, **sizes, causal=True, cross_attention=True),
    ):
        full = layer(targets, source)
        cache = layer.create_cache(2, 4, source)
        with pytest.raises(ValueError, match="Received: `encoder_outputs` beside it"):
            layer(targets, 2 * source, cache=cache)
        assert_close(layer(targets, cache=cache)[0], full)


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(num_heads=3), "`embed_dim` must be a multiple.*embed_dim=8, num_heads=3"),
        (dict(activation="swash"), "`activation` must be .*activation='swash'"),
        (dict(norm="batch"), "`norm` must be one of 'layer', 'rms'.*norm='batch'"),
        (
            dict(layer_norm_epsilon=0.0),
            "`layer_norm_epsilon` must be a finite",
        ),
        (
            dict(dropout=1.5),
            "`dropout` must be a finite number",
        ),
        (dict(dense_dim=True), "`dense_dim` must be a positive integer"),
        (dict(attention_scale=0), "`attention_scale` must be a finite number above 0"),
    ],
)
def test_wrong_settings_are_refused_in_the_constructor(settings, message):
    with pytest.raises(ValueError, match=message):
        sizes = dict(embed_dim=8, num_heads=2, dense_dim=12)
        kt.TransformerBlock(**{**sizes, **settings})


def test_inputs_of_another_width_are_refused_at_the_first_symbolic_call():
    with pytest.raises(ValueError, match="must be `embed_dim=8` wide"):
        kt.TransformerEncoder(8, 2, 12)(keras.Input((None, 6)))


def test_one_mask_under_two_names_is_refused():
    mask = np.ones((2, 4), "bool")
    with pytest.raises(ValueError, match="same mask under two names"):
        kt.TransformerEncoder(8, 2, 12)(X, mask=mask, padding_mask=mask)


class Grown(kt.TransformerEncoder):
    """A user's own subclass, with one more setting."""

    def __init__(self, extra, **kwargs):
        super().__init__(**kwargs)
        self.extra = extra


def test_a_users_subclass_keeps_all_settings():
    layer = Grown(extra=3, embed_dim=8, num_heads=2, dense_dim=12, dropout=0.5)
    again = Grown.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert (again.extra, again.dropout) == (3, 0.5)


@pytest.mark.parametrize("layer", [kt.TransformerEncoder, kt.TransformerDecoder])
def test_settings_that_would_not_be_saved_are_refused(layer):
    with pytest.raises(ValueError, match="has no setting 'gated', 'norm'"):
        layer(8, 2, 12, norm="rms", gated=True)


class Forgetful(kt.TransformerEncoder):
    """A user's subclass that does not store its argument."""

    def __init__(self, extra, **kwargs):
        super().__init__(**kwargs)


def test_an_argument_that_was_not_stored_is_named():
    layer = Forgetful(extra=3, embed_dim=8, num_heads=2, dense_dim=12)
    with pytest.raises(ValueError, match="Forgetful must store .*'extra'"):
        layer.get_config()


@pytest.mark.parametrize("settings", [dict(rotary="half"), dict(num_heads=np.int64(2))])
def test_plugs_are_layers_and_sizes_may_come_from_numpy(settings):
    sizes = dict(embed_dim=8, num_heads=2, dense_dim=np.int32(12))
    if "rotary" in settings:
        with pytest.raises(ValueError, match="`rotary` must be a layer"):
            kt.TransformerBlock(**{**sizes, **settings})
    else:
        assert kt.TransformerBlock(**{**sizes, **settings})(X).shape == X.shape
