"""P17: dropout acts in training only, is independent, and obeys its seed.

Sources: meta-pytorch/torchtune#1791; keras-team/keras-core#650, PR #568.
"""

import inspect

import keras
import numpy as np
import pytest

import keras_transformer as kt

from .examples import EXAMPLES, block, public_layers, quick
from .helpers import array, assert_close, copy_weights, first, randomize

# One example of each class that has dropout, and each path through it.
DROPPING = [
    "attention",
    "attention-values",
    "bahdanau",
    "luong-general",
    "block-llama",
    "encoder",
    "decoder",
    "stack-alibi",
]


def built(name, **more):
    layer = EXAMPLES[name].make(**{"dropout": 0.5, **more})
    inputs = EXAMPLES[name].arrays()
    layer.build(*[x.shape for x in inputs])
    return randomize(layer), inputs


def test_every_class_with_dropout_is_tried():
    having = {
        name
        for name, cls in public_layers().items()
        if "dropout" in inspect.signature(cls).parameters
    }
    having.remove("PositionalEmbedding")  # of ids: tried below
    assert {EXAMPLES[name].layer for name in DROPPING} == having


def embedding(**more):
    return kt.PositionalEmbedding(9, 12, 8, **{"dropout": 0.5, **more})


def test_dropout_of_embeddings_acts_in_training_only_and_keeps_their_mean():
    layer, plain = embedding(), embedding(dropout=0.0)
    ids = np.full((ROWS, 3), 5, "int32")
    layer.build(ids.shape)
    plain.build(ids.shape)
    for weight in randomize(layer).trainable_variables:
        weight.assign(1.0 + np.abs(array(weight)))
    expected = array(copy_weights(layer, plain)(ids))
    assert_close(layer(ids), expected)
    assert_close(layer(ids, training=False), expected)
    assert_close(plain(ids, training=True), expected)
    trained = array(layer(ids, training=True))
    assert abs(trained.mean() / expected.mean() - 1) < 0.02
    assert abs((trained == 0).mean() - 0.5) < 0.02
    kept = trained != 0
    assert_close(trained[kept], 2 * expected[kept])
    assert len(np.unique(trained.mean(axis=(1, 2)))) > ROWS // 4
    assert np.abs(trained - array(layer(ids, training=True))).max() > 1e-3


def test_dropout_of_embeddings_follows_its_seed():
    ids = np.array([[5, 6, 7]], "int32")

    def outputs(seed):
        layer = embedding(seed=seed)
        layer.build(ids.shape)
        return array(randomize(layer)(ids, training=True))

    assert_close(outputs(1), outputs(1), atol=0)
    assert np.abs(outputs(1) - outputs(2)).max() > 1e-3


@pytest.mark.parametrize("name", quick(DROPPING))
def test_dropout_acts_in_training_only(name):
    layer, inputs = built(name)
    plain, _ = built(name, dropout=0.0)
    expected = array(copy_weights(layer, plain)(*inputs))
    once = layer(*inputs, training=False)
    assert_close(once, expected)
    assert_close(layer(*inputs, training=False), once, atol=0)
    assert_close(layer(*inputs), expected)
    scored = layer(*inputs, training=False, return_attention_scores=True)
    assert_close(first(scored), expected)
    for more in ({}, {"return_attention_scores": True}):
        once, twice = (
            array(first(layer(*inputs, training=True, **more))) for _ in range(2)
        )
        assert np.abs(once - twice).max() > 1e-3
        assert np.abs(once - expected).max() > 1e-3


class Around(keras.layers.Layer):
    """A user's layer that says nothing about training."""

    def __init__(self, inner, **kwargs):
        super().__init__(**kwargs)
        self.inner = inner

    def call(self, *inputs):
        return self.inner(*inputs)


@pytest.mark.parametrize(
    "name", quick(["attention", "bahdanau", "encoder", "stack-alibi"], ["encoder"])
)
def test_a_users_layer_hands_the_training_flag_on(name):
    layer, inputs = built(name)
    around = Around(layer)
    assert_close(around(*inputs, training=False), layer(*inputs, training=False))
    once, twice = (array(around(*inputs, training=True)) for _ in range(2))
    assert np.abs(once - twice).max() > 1e-3


def test_a_model_call_is_a_prediction_and_a_training_call_is_not():
    ids = keras.Input((None,), dtype="int32")
    x = kt.PositionalEmbedding(9, 12, 8)(ids)
    memory = kt.TransformerEncoder(**block(dropout=0.5))(x)
    y = kt.TransformerDecoder(**block(dropout=0.5))(x, memory)
    y = kt.MultiHeadAttention(2, 4, dropout=0.5)(y, memory)
    y = kt.BahdanauAttention(4, dropout=0.5)(y, memory)
    y = kt.LuongAttention("dot", dropout=0.5)(y, memory)
    model = randomize(keras.Model(ids, y))
    batch = np.array([[5, 6, 7], [8, 9, 0]], "int32")
    expected = array(model(batch))
    assert_close(model.predict(batch, verbose=0), expected)
    assert_close(model(batch, training=False), expected)
    assert np.abs(array(model(batch, training=True)) - expected).max() > 1e-3


ROWS = 2000


def many(x):
    return np.repeat(x[:1], ROWS, axis=0)


@pytest.mark.parametrize("name", ["attention-grouped"])
def test_the_mean_of_many_training_passes_of_attention_is_the_inference(name):
    layer, inputs = built(name)
    # All positive, so that the mean over elements does not hide a wrong scale.
    for projection in (layer.value, layer.attention_output):
        for weight in projection.trainable_variables:
            weight.assign(np.abs(array(weight)))
    inputs = [inputs[0], np.abs(inputs[1])]
    expected = array(layer(*[x[:1] for x in inputs])).mean()
    trained = array(layer(*map(many, inputs), training=True))
    assert abs(trained.mean() / expected - 1) < 0.02
    rows = trained.mean(axis=(1, 2))
    assert len(np.unique(rows)) > ROWS // 2  # each pass drew its own mask


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bahdanau"])
def test_the_mean_of_many_training_contexts_is_the_inference(name):
    layer, inputs = built(name)
    inputs = [inputs[0], np.abs(inputs[1])]
    expected = array(layer(*[x[:1] for x in inputs])).mean()
    trained = array(layer(*map(many, inputs), training=True))
    assert abs(trained.mean() / expected - 1) < 0.02


def constant_sublayers(layer):
    """Make every sublayer put out ones: what is left to see is dropout."""
    for weight in layer.trainable_variables:
        last = weight.path.split("/")[-2:]
        output = last[0] in ("attention_output", "feed_forward_output")
        if output:
            weight.assign(np.full(weight.shape, float(last[1] == "bias"), "float32"))
    return layer


PATHS = {
    # name -> (layer, number of sublayer outputs that are dropped one by one)
    "block": (lambda **more: kt.TransformerBlock(**block(**more)), 2),
    "encoder": (lambda **more: kt.TransformerEncoder(**block(**more)), 2),
    "decoder": (lambda **more: kt.TransformerDecoder(**block(**more)), 3),
    "stack": (
        lambda **more: kt.TransformerStack(
            **block(num_layers=2, final_norm=False, **more)
        ),
        4,
    ),
}


@pytest.mark.parametrize(
    ("name", "seed"),
    quick([("block", None), *((name, 3) for name in PATHS)], [("stack", 3)]),
)
def test_dropout_layers_of_one_layer_draw_masks_of_their_own(name, seed):
    # x + 2 m1 + 2 m2 + ...: equal masks would give only the extremes.
    make, parts = PATHS[name]
    layer = make(dropout=0.5, normalize_first=True, seed=seed)
    x = np.zeros((300, 3, 8), "float32")
    inputs = [x, x] if name == "decoder" else [x]
    layer.build(*[y.shape for y in inputs])
    constant_sublayers(layer)
    output = array(layer(*inputs, training=True))
    kept = output / 2
    assert np.allclose(kept, np.round(kept), atol=1e-5)
    frequencies = np.bincount(np.round(kept).astype(int).ravel(), minlength=parts + 1)
    expected = (
        np.array({2: [1, 2, 1], 3: [1, 3, 3, 1], 4: [1, 4, 6, 4, 1]}[parts]) / 2**parts
    )
    np.testing.assert_allclose(frequencies / output.size, expected, atol=0.04)
    # The mean over passes and elements is the inference value.
    assert abs(output.mean() / array(layer(*inputs)).mean() - 1) < 0.02


@pytest.mark.parametrize(
    "name",
    quick(["attention", "bahdanau", "luong-dot", "block"], ["attention", "block"]),
)
def test_a_seed_decides_the_masks(name):
    results = []
    for chosen in (3, 3, 4):
        layer, inputs = built(name, seed=chosen)
        results.append([array(layer(*inputs, training=True)) for _ in range(2)])
    assert_close(results[0], results[1], atol=0)
    assert np.abs(results[0][0] - results[2][0]).max() > 1e-3
    assert np.abs(results[0][0] - results[0][1]).max() > 1e-3


@pytest.mark.parametrize("name", quick(["attention", "block"], ["attention"]))
def test_the_global_seed_decides_masks_without_a_seed(name):
    results = []
    for chosen in (7, 7, 8):
        keras.utils.set_random_seed(chosen)
        layer, inputs = built(name)
        results.append(array(layer(*inputs, training=True)))
    assert_close(results[0], results[1], atol=0)
    assert np.abs(results[0] - results[2]).max() > 1e-3


def test_inference_leaves_the_random_state_alone():
    layer, inputs = built("block")
    other, _ = built("block")
    copy_weights(layer, other)
    keras.utils.set_random_seed(7)
    expected = np.random.random()
    keras.utils.set_random_seed(7)
    layer(*inputs)
    assert np.random.random() == expected


def losses():
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            kt.PositionalEmbedding(9, 12, 8),
            kt.TransformerEncoder(**block(dropout=0.5)),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    ids = np.array([[5, 6, 7], [8, 9, 0]], "int32")
    targets = np.array([[1.0], [2.0]], "float32")
    history = [float(model.train_on_batch(ids, targets)) for _ in range(3)]
    assert np.isfinite(history).all()
    return history


def test_training_repeats_exactly_with_the_same_global_seed():
    assert_close([np.array(losses())], [np.array(losses())], atol=1e-6)


def test_compiled_steps_draw_new_masks():
    # Without learning, only dropout can change the loss.
    model = keras.Sequential([kt.TransformerEncoder(**block(dropout=0.5))])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    (x,) = EXAMPLES["encoder"].arrays()
    values = []
    for _ in range(4):
        model.reset_metrics()
        values.append(float(model.train_on_batch(x, np.ones_like(x))))
    assert len({round(value, 6) for value in values}) == 4
    still = [float(model.test_on_batch(x, np.ones_like(x))) for _ in range(2)]
    assert still[0] == pytest.approx(still[1], abs=1e-6)


def test_heads_texts_and_queries_do_not_share_a_mask():
    layer = kt.MultiHeadAttention(2, 4, dropout=0.5)
    x = np.ones((2, 5, 8), "float32")
    layer.build(x.shape, x.shape)
    # All values are one, and each head has a feature of the output to itself: the
    # output counts the keys that were kept.
    layer.value.kernel.assign(np.zeros((8, 2, 4)))
    layer.value.bias.assign(np.ones((2, 4)))
    output = np.zeros((2, 4, 8))
    output[0, 0, 0] = output[1, 0, 1] = 1
    layer.attention_output.kernel.assign(output)
    kept = array(layer(x, x, training=True))[..., :2]  # (B, T, N)
    assert_close(array(layer(x, x))[..., :2], np.ones((2, 5, 2), "float32"))
    assert np.ptp(kept, axis=0).max() > 0.1  # texts
    assert np.ptp(kept, axis=1).max() > 0.1  # queries
    assert np.ptp(kept, axis=2).max() > 0.1  # heads
