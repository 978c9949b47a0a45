"""P1: padding is ignored however the mask arrives, through every layer and depth.

Sources: keras-team/keras-hub#2220, #137; CyberZHG/keras-bert#213.
"""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt

from .examples import EXAMPLES, block, quick
from .helpers import (
    array,
    arrays,
    assert_close,
    carried_mask,
    gradients_of,
    randomize,
)

pytestmark = pytest.mark.filterwarnings("error:.*does not support mask")

SHORT = np.array([[5, 6, 7], [8, 9, 1]], "int32")
PADDED = np.array([[5, 6, 7, 0, 0], [8, 9, 1, 0, 0]], "int32")
MASK = PADDED != 0

# Layers (B, T, 8) -> (B, T, 8) that attend to their own input.
SELF_ATTENDING = {
    "encoder": lambda: kt.TransformerEncoder(**block(dropout=0.1)),
    "encoder-prenorm": lambda: kt.TransformerEncoder(**block(normalize_first=True)),
    "encoder-rotary": lambda: kt.TransformerEncoder(
        **block(rotary=kt.RotaryEmbedding())
    ),
    "block-grouped": EXAMPLES["block-llama"].make,
    "decoder-only": lambda: kt.TransformerDecoder(**block(cross_attention=False)),
    "window": lambda: kt.TransformerBlock(**block(sliding_window=2)),
    "stack": EXAMPLES["stack"].make,
    "stack-alibi": EXAMPLES["stack-alibi"].make,
    "stack-relative": EXAMPLES["stack-relative"].make,
}
# Layers (B, T, 8) -> (B, T, 8) that treat each position alone.
PER_POSITION = {
    "feed-forward": EXAMPLES["feed-forward"].make,
    "feed-forward-gated": EXAMPLES["feed-forward-gated"].make,
    "sinusoidal": kt.SinusoidalEncoding,
}
IMPLICIT = ["mask_zero", "positional"]
EXPLICIT = ["padding_mask", "mask", "both", "first_only"]
ATTENTIONS = [
    "attention",
    "attention-grouped",
    "bahdanau",
    "luong-dot",
    "luong-general",
    "luong-concat",
]


def embedding(way):
    if way == "positional":
        return kt.PositionalEmbedding(9, 12, 8)
    return keras.layers.Embedding(12, 8, mask_zero=way in ("mask_zero", "both"))


def mask_arguments(way, ids, index):
    mask = ops.not_equal(ids, 0)
    if way == "mask":
        return {"mask": mask}
    if way in ("padding_mask", "both") or (way == "first_only" and index == 0):
        return {"padding_mask": mask}
    return {}


class Subclassed(keras.Model):
    def __init__(self, way, make, depth):
        super().__init__()
        self.way = way
        self.embed = embedding(way)
        self.blocks = [make() for _ in range(depth)]

    def call(self, ids):
        x = self.embed(ids)
        for index, layer in enumerate(self.blocks):
            x = layer(x, **mask_arguments(self.way, ids, index))
        return x


def model_of(kind, way, make, depth=2):
    if kind == "sequential":
        model = keras.Sequential([embedding(way), *(make() for _ in range(depth))])
        model.build((None, None))
    elif kind == "functional":
        ids = keras.Input((None,), dtype="int32")
        x = embedding(way)(ids)
        for index in range(depth):
            x = make()(x, **mask_arguments(way, ids, index))
        model = keras.Model(ids, x)
    else:
        model = Subclassed(way, make, depth)
        model(PADDED)
    return randomize(model)


QUICK_WAYS = [
    ("sequential", "mask_zero"),
    ("functional", "padding_mask"),
    ("functional", "first_only"),
    ("subclassed", "positional"),
    ("subclassed", "mask"),
    ("subclassed", "both"),
]
QUICK_LAYERS = ["block-grouped", "decoder-only", "stack-alibi", "feed-forward"]


def kinds_and_ways():
    yield from (("sequential", way) for way in IMPLICIT)
    for kind in ("functional", "subclassed"):
        yield from ((kind, way) for way in IMPLICIT + EXPLICIT)


@pytest.mark.parametrize(("kind", "way"), quick(kinds_and_ways(), QUICK_WAYS))
def test_padding_changes_no_valid_position(kind, way):
    model = model_of(kind, way, SELF_ATTENDING["encoder"], depth=3)
    padded = model(PADDED)
    assert_close(array(padded)[:, :3], model(SHORT))
    assert carried_mask(padded).tolist() == MASK.tolist()


@pytest.mark.parametrize("layer", quick([*SELF_ATTENDING, *PER_POSITION], QUICK_LAYERS))
def test_padding_changes_no_valid_position_of_any_layer(layer):
    way = "mask_zero" if layer in PER_POSITION else "first_only"
    make = {**SELF_ATTENDING, **PER_POSITION}[layer]
    model = model_of("subclassed", way, make)
    padded = model(PADDED)
    assert_close(array(padded)[:, :3], model(SHORT))
    assert carried_mask(padded).tolist() == MASK.tolist()


@pytest.mark.parametrize(
    ("kind", "way"),
    quick(
        [
            ("sequential", "mask_zero"),
            ("functional", "first_only"),
            ("subclassed", "positional"),
        ],
        [("functional", "first_only")],
    ),
)
def test_padding_changes_no_prediction_and_masks_are_not_baked_in(kind, way):
    model = model_of(kind, way, SELF_ATTENDING["encoder"])
    batch = np.array([[5, 6, 7, 0, 0], [5, 6, 0, 0, 0]], "int32")
    predicted = model.predict(batch, verbose=0)
    short = array(model(SHORT[:, :2]))
    assert_close(predicted[1, :2], short[0])
    assert_close(predicted[0, :3], array(model(SHORT))[0])


@pytest.mark.parametrize("layer", quick(SELF_ATTENDING, [*QUICK_LAYERS, "encoder"]))
def test_noise_under_padding_changes_nothing(layer):
    rng = np.random.default_rng(0)
    layer = SELF_ATTENDING[layer]()
    x = rng.normal(size=(2, 5, 8)).astype("float32")
    layer.build(x.shape)
    randomize(layer)
    free = array(layer(x))
    patterns = {"mask": "11100", "inputs_mask": "00111", "padding_mask": "10101"}
    for argument, pattern in patterns.items():
        mask = np.array([[digit == "1" for digit in pattern]] * 2)
        noisy = np.where(mask[..., None], x, 100 * rng.normal(size=x.shape))
        clean = array(layer(x, **{argument: mask}))
        other = array(layer(noisy.astype("float32"), **{argument: mask}))
        assert_close(clean[mask], other[mask])
        if pattern != "11100":  # a causal layer never looks at the end anyway
            assert np.abs(free - clean)[mask].max() > 1e-3


@pytest.mark.parametrize("name", quick(ATTENTIONS))
def test_padding_of_the_values_changes_no_context(name):
    example = EXAMPLES[name]
    query, value = example.arrays()
    layer = example.make()
    layer(query, value)
    randomize(layer)
    width = value.shape[-1]
    embed = keras.layers.Embedding(12, width, mask_zero=True)
    short = layer(query, embed(SHORT))
    assert_close(layer(query, embed(PADDED)), short)
    plain = array(embed(PADDED))
    for argument in ("value_mask", "key_mask"):
        assert_close(layer(query, plain, **{argument: MASK}), short)
        assert_close(layer(query, embed(PADDED), **{argument: MASK}), short)


@pytest.mark.parametrize("name", quick(ATTENTIONS))
def test_a_context_carries_the_mask_of_its_queries(name):
    example = EXAMPLES[name]
    query, value = example.arrays()
    embed = keras.layers.Embedding(12, query.shape[-1], mask_zero=True)
    context = example.make()(embed(PADDED), value)
    assert carried_mask(context).tolist() == MASK.tolist()


@pytest.mark.parametrize("way", [*IMPLICIT, "mask", "padding_mask"])
def test_padding_changes_no_sentence_embedding(way):
    embed = embedding(way)
    layer = EXAMPLES["self-attentive"].make()
    short = layer(embed(SHORT))
    mask = {} if way in IMPLICIT else {way: MASK}
    padded, scores = layer(embed(PADDED), return_attention_scores=True, **mask)
    assert_close(padded, short)
    assert np.all(array(scores)[:, :, 3:] == 0)
    assert carried_mask(padded) is None
    assert_close(layer(embed(PADDED), padding_mask=MASK), short)  # and carried, or not


@pytest.mark.parametrize("name", quick(["decoder", "block-cross", "stack-cross"]))
def test_padding_of_the_source_changes_no_decoder_output(name):
    decoder = EXAMPLES[name].make()
    targets = EXAMPLES[name].arrays()[0]
    masked = keras.layers.Embedding(12, 8, mask_zero=True)
    encoder = kt.TransformerEncoder(**block())
    short = decoder(targets, encoder(masked(SHORT)))
    implicit = encoder(masked(PADDED))
    assert_close(decoder(targets, implicit), short)
    assert_close(decoder(targets, implicit, encoder_padding_mask=MASK), short)
    noisy = array(implicit) + np.where(MASK[..., None], 0, 100).astype("float32")
    for argument in ("encoder_outputs_mask", "encoder_padding_mask"):
        assert_close(decoder(targets, noisy, **{argument: MASK}), short)


@pytest.mark.parametrize("name", quick(["decoder", "block-cross", "stack-cross"]))
@pytest.mark.parametrize("way", ["implicit", "padding_mask"])
def test_padding_of_the_target_hides_nothing_of_the_source(name, way):
    # Target and source of one length: mistaking one mask for the other runs.
    embed = keras.layers.Embedding(12, 8, mask_zero=way == "implicit")
    decoder = EXAMPLES[name].make()
    source = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    short = decoder(embed(SHORT), source)
    padded, scores = decoder(
        embed(PADDED),
        source,
        return_attention_scores=True,
        **({} if way == "implicit" else {"padding_mask": MASK}),
    )
    assert_close(array(padded)[:, :3], short)
    assert carried_mask(padded).tolist() == MASK.tolist()
    pairs = scores if isinstance(scores, list) else [scores]
    for _, cross in pairs:
        assert array(cross).min() > 0


def test_a_layer_used_twice_takes_the_mask_of_each_call():
    layer = kt.TransformerEncoder(**block())
    embed = keras.layers.Embedding(12, 8, mask_zero=True)
    longer = np.array([[5, 6, 0, 0, 0], [8, 9, 0, 0, 0]], "int32")
    twice = [array(layer(embed(ids))) for ids in (PADDED, longer, PADDED)]
    assert_close(twice[0], twice[2], atol=0)
    assert_close(twice[0][:, :3], layer(embed(SHORT)))
    assert_close(twice[1][:, :2], layer(embed(longer[:, :2])))


@pytest.mark.parametrize(
    "nested", quick(["sequential", "functional", "subclassed"], ["functional"])
)
def test_padding_changes_nothing_in_a_model_inside_a_model(nested):
    way = "positional" if nested == "sequential" else "padding_mask"
    inner = model_of(nested, way, SELF_ATTENDING["encoder"], depth=1)

    class Outer(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = inner
            self.last = kt.TransformerEncoder(**block())

        def call(self, ids):
            return self.last(self.inner(ids))

    outer = Outer()
    assert_close(array(outer(PADDED))[:, :3], outer(SHORT))


def test_padding_changes_no_gradient():
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            kt.PositionalEmbedding(9, 12, 8),
            kt.TransformerEncoder(**block()),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    gradients = gradients_of(randomize(model))
    target = np.ones((2, 1), "float32")
    assert_close(gradients(PADDED, target), gradients(SHORT, target))


@pytest.mark.parametrize("encoding", ["learned", "sinusoidal"])
@pytest.mark.parametrize("pad_id", [0, 3, None])
def test_the_embedding_masks_its_pad_id_and_no_other(encoding, pad_id):
    ids = np.array([[0, 5, 3, 7]], "int32")
    embed = kt.PositionalEmbedding(9, 12, 8, encoding=encoding, pad_id=pad_id)
    mask = carried_mask(embed(ids))
    if pad_id is None:
        assert mask is None
    else:
        assert mask.tolist() == (ids != pad_id).tolist()


@pytest.mark.parametrize("name", ["encoder", "stack"])
def test_a_mask_of_all_ones_changes_nothing(name):
    layer = EXAMPLES[name].make()
    (x,) = EXAMPLES[name].arrays()
    plain = array(layer(x))
    for argument in ("mask", "inputs_mask", "padding_mask"):
        assert_close(layer(x, **{argument: np.ones(x.shape[:2], bool)}), plain)


def test_scores_of_padding_are_exactly_zero():
    for name in ("encoder", "decoder-only", "stack", "stack-alibi"):
        embed = embedding("positional")
        layer = SELF_ATTENDING[name]()
        _, scores = layer(embed(PADDED), return_attention_scores=True)
        for score in arrays(scores):
            assert np.all(score[..., 3:] == 0), name
