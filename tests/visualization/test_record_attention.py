import threading

import keras
import numpy as np
import pytest
from keras import layers

import keras_transformer as kt
from cases.helpers import array, assert_close
from keras_transformer.ops.attention import attend, is_recording

IDS = np.array([[5, 6, 7, 0], [3, 4, 0, 0]])


class Nested(keras.Model):
    """A subclassed model with a Sequential that holds an encoder."""

    def __init__(self):
        super().__init__(name="nested")
        self.embed = kt.PositionalEmbedding(9, 12, 8, name="embed")
        self.inner = keras.Sequential(
            [kt.TransformerEncoder(8, 2, 12, name="encoder"), layers.Dense(8)],
            name="inner",
        )

    def call(self, ids):
        return self.inner(self.embed(ids))


def sequential():
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            layers.Embedding(12, 8, mask_zero=True),
            kt.TransformerEncoder(8, 2, 12, dropout=0.5, name="encoder"),
            kt.SelfAttentiveEmbedding(3, 4, name="views"),
        ],
        name="sentences",
    )


def translator():
    source = keras.Input((None,), dtype="int32")
    target = keras.Input((None,), dtype="int32")
    embed = kt.PositionalEmbedding(9, 12, 8)
    encoded = kt.TransformerEncoder(8, 2, 12, name="encoder")(embed(source))
    decoded = kt.TransformerDecoder(8, 2, 12, name="decoder")(embed(target), encoded)
    context = kt.BahdanauAttention(4, name="additive")(decoded, encoded)
    context = kt.LuongAttention(name="multiplicative")(context, encoded)
    return keras.Model([source, target], context, name="translator")


def test_every_kind_of_attention_is_recorded_by_its_path():
    model = translator()
    target = IDS[:, :3]
    expected = array(model([IDS, target]))
    with kt.record_attention(model) as record:
        outputs = model([IDS, target])
    assert_close(outputs, expected)
    shapes = {path: [w.shape for w in weights] for path, weights in record.items()}
    assert shapes == {
        "encoder/self_attention": [(2, 2, 4, 4)],
        "decoder/self_attention": [(2, 2, 3, 3)],
        "decoder/cross_attention": [(2, 2, 3, 4)],
        "additive": [(2, 3, 4)],
        "multiplicative": [(2, 3, 4)],
    }
    for weights in keras.tree.flatten(dict(record)):
        np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-5)
    for path in ("decoder/cross_attention", "additive", "multiplicative"):
        hidden = record[path][0][..., 3]  # id 0 of both sources
        assert (hidden == 0).all()


@pytest.mark.parametrize("make", [sequential, Nested])
def test_models_of_every_kind_are_recorded(make):
    model = make()
    model(IDS)
    with kt.record_attention(model) as record:
        model(IDS)
        model(IDS)
    path = next(path for path in record if path.endswith("encoder/self_attention"))
    assert not path.startswith(model.name)
    assert len(record[path]) == 2
    np.testing.assert_array_equal(*record[path])
    with pytest.raises(KeyError, match="Recorded: .*self_attention"):
        record["encoder/other"]


def test_recorded_weights_are_those_that_the_layer_returns():
    layer = kt.TransformerEncoder(8, 2, 12, name="encoder")
    x = keras.random.normal((2, 4, 8), seed=1)
    mask = keras.ops.convert_to_tensor(IDS != 0)
    _, expected = layer(x, padding_mask=mask, return_attention_scores=True)
    with kt.record_attention(layer) as record:
        layer(x, padding_mask=mask)
    assert_close(record["self_attention"][0], expected)


def test_an_unbuilt_model_is_recorded_at_its_first_call():
    model = Nested()
    with kt.record_attention(model) as record:
        model(IDS)
    assert [len(weights) for weights in record.values()] == [1]


@pytest.mark.parametrize("eagerly", [False, True])
def test_predict_under_the_recorder_says_what_to_do(eagerly):
    model = sequential()
    model.compile("sgd", "mse", run_eagerly=eagerly)
    expected = model.predict(IDS, verbose=0)
    for call in (model.predict, model.predict_on_batch):
        with pytest.raises(RuntimeError, match=r"Call `model\(x\)`"):
            with kt.record_attention(model):
                call(IDS)
    # A trace made under the recorder keeps nothing of it.
    assert_close(model.predict(IDS, verbose=0), expected)


def test_only_calls_are_recorded_beside_predict():
    model = sequential()
    with kt.record_attention(model) as record:
        model.predict(IDS, verbose=0)
        model(IDS)
    assert [len(weights) for weights in record.values()] == [1, 1]


def test_a_callback_records_while_the_model_trains():
    model = sequential()
    model.compile("sgd", "mse")
    shapes = []

    def look(epoch, logs):
        with kt.record_attention(model) as record:
            model(IDS)
        shapes.append(record["encoder/self_attention"][0].shape)

    callback = keras.callbacks.LambdaCallback(on_epoch_end=look)
    targets = np.zeros((2, 3, 8))
    model.fit(IDS, targets, epochs=2, verbose=0, callbacks=[callback])
    assert shapes == [(2, 2, 4, 4)] * 2


def test_a_model_without_our_layers_and_no_model_are_refused():
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2)])
    with pytest.raises(RuntimeError, match="layers of this library"):
        with kt.record_attention(model):
            model(np.ones((1, 3)))
    with pytest.raises(TypeError, match="needs a Keras model"):
        with kt.record_attention("model"):
            raise AssertionError("not reached")


def test_an_error_inside_comes_out_as_it_is_and_nothing_stays():
    model = sequential()
    with pytest.raises(ZeroDivisionError):
        with kt.record_attention(model) as record:
            model(IDS)
            raise ZeroDivisionError("halfway")
    assert not is_recording()
    assert not record
    with pytest.raises(KeyError, match="failed with ZeroDivisionError: halfway"):
        record["encoder/self_attention"]


def alike(name):
    """A submodel whose layer has the path of that of any other."""
    inputs = keras.Input((None, 8))
    encoder = kt.TransformerEncoder(8, 2, 12, name="encoder")
    return keras.Model(inputs, encoder(inputs), name=name)


def test_layers_of_the_same_path_in_two_submodels_are_told_apart():
    inputs = keras.Input((None, 8))
    left, right = alike("left"), alike("right")
    model = keras.Model(inputs, right(left(inputs)), name="both")
    x = keras.random.normal((2, 3, 8), seed=1)
    with kt.record_attention(model) as record:
        model(x)
    assert list(record) == [
        "left/encoder/self_attention",
        "right/encoder/self_attention",
    ]
    for path, submodel, inputs in zip(record, (left, right), (x, left(x)), strict=True):
        with kt.record_attention(submodel) as alone:
            submodel(inputs)
        assert_close(record[path], alone["encoder/self_attention"])


def test_names_of_layers_do_not_depend_on_which_are_called():
    inputs = keras.Input((None, 8))
    left, right = alike("left"), alike("right")
    model = keras.Model(inputs, right(left(inputs)))
    with kt.record_attention(model) as record:
        right(np.ones((1, 3, 8), "float32"))
    assert list(record) == ["right/encoder/self_attention"]


def test_layers_outside_the_model_that_share_a_path_are_numbered():
    x = np.ones((1, 3, 8), "float32")
    left, right = alike("left"), alike("right")
    with kt.record_attention(sequential()) as record:
        left(x)
        right(x)
        left(x)
    assert {path: len(calls) for path, calls in record.items()} == {
        "encoder/self_attention": 2,
        "encoder/self_attention (2)": 1,
    }


def test_a_recorder_inside_another_takes_nothing_from_it():
    model = sequential()
    with kt.record_attention(model) as outer:
        model(IDS)
        with kt.record_attention(model) as inner:
            model(IDS)
        model(IDS[:, :2])
    assert [len(weights) for weights in inner.values()] == [1, 1]
    assert [len(weights) for weights in outer.values()] == [3, 3]
    for path in inner:
        np.testing.assert_array_equal(inner[path][0], outer[path][1])


def test_a_failed_recorder_inside_another_leaves_it_its_record():
    model = sequential()
    with kt.record_attention(model) as outer:
        with pytest.raises(ZeroDivisionError):
            with kt.record_attention(model) as inner:
                model(IDS)
                raise ZeroDivisionError
    assert not inner and outer.failure is None
    assert [len(weights) for weights in outer.values()] == [1, 1]


def test_threads_do_not_mix():
    model = sequential()
    model(IDS)
    records, barrier = {}, threading.Barrier(2)

    def work(name, ids):
        with kt.record_attention(model) as record:
            barrier.wait()
            model(ids)
            barrier.wait()
        records[name] = record

    threads = [
        threading.Thread(target=work, args=("long", IDS)),
        threading.Thread(target=work, args=("short", IDS[:1, :2])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shapes = {name: r["encoder/self_attention"] for name, r in records.items()}
    assert [w.shape for w in shapes["long"]] == [(2, 2, 4, 4)]
    assert [w.shape for w in shapes["short"]] == [(1, 2, 2, 2)]


def test_nothing_is_kept_when_not_asked_for():
    model = sequential()
    with kt.record_attention(model) as record:
        model(IDS)
    before = len(record["encoder/self_attention"])
    model(IDS)
    assert not is_recording() and len(record["encoder/self_attention"]) == before


def test_a_layer_called_like_its_model_keeps_its_name():
    x = np.ones((1, 3, 8), "float32")
    inputs = keras.Input((None, 8))
    outputs = kt.TransformerEncoder(8, 2, 12, name="same")(inputs)
    model = keras.Model(inputs, outputs, name="same")
    with kt.record_attention(model) as record:
        model(x)
    assert list(record) == ["same/self_attention"]


def test_attention_outside_a_layer_is_recorded_too():
    layer = kt.MultiHeadAttention(2, 4)
    x = keras.ops.ones((1, 3, 8))
    with kt.record_attention(layer) as record:
        attend(x, x, x)
    assert record["attention"][0].shape == (1, 3, 3)
