import keras
import numpy as np
import pytest
from keras import layers

import keras_transformer as kt
from cases.helpers import array, assert_close, randomize, skip_without_float64
from keras_transformer.layers import recurrent_encoder

IDS = np.array([[5, 6, 7, 0], [3, 4, 0, 0]])


def test_the_default_is_the_chapters_model_layer_for_layer():
    ours = kt.build_text_classifier(12, 8, num_heads=2, dense_dim=16)
    theirs = keras.Sequential(
        [
            keras.Input((None,)),
            layers.Embedding(12, 8, mask_zero=True),
            kt.TransformerEncoder(embed_dim=8, num_heads=2, dense_dim=16),
            layers.GlobalAveragePooling1D(),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    theirs.set_weights(randomize(ours).get_weights())
    assert_close(ours(IDS), theirs(IDS))


SETTINGS = [
    dict(num_layers=2, positions="learned", normalize_first=True, dropout=0.5),
    dict(positions="sinusoidal", pooling="max", num_classes=3),
    dict(pooling="first", pad_id=3),
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_padding_changes_nothing_and_files_keep_all(settings, tmp_path):
    model = kt.build_text_classifier(12, 8, num_heads=2, dense_dim=16, **settings)
    randomize(model)
    pad = settings.get("pad_id", 0)
    outputs = array(model(np.array([[5, 6, 7, pad, pad], [pad] * 5])))
    assert np.isfinite(outputs).all()
    assert_close(outputs[:1], model(np.array([[5, 6, 7]])))
    model.save(tmp_path / "model.keras")
    assert_close(keras.models.load_model(tmp_path / "model.keras")(IDS), model(IDS))


def test_the_2017_model_adds_its_penalty_and_ignores_padding():
    model = kt.build_sentence_embedding_classifier(12, 6, 4, 3, 5, penalty=0.5)
    outputs = array(model(np.array([[5, 6, 7, 0], [0, 0, 0, 0]])))
    assert len(model.losses) == 1 and np.isfinite(outputs).all()
    assert_close(outputs[:1], model(np.array([[5, 6, 7]])))


def test_the_2017_model_keeps_the_kernel_of_its_lstm_in_files(tmp_path, monkeypatch):
    # Keras does not, and cuDNN refuses rows of padding in a graph of TensorFlow's.
    monkeypatch.setattr(recurrent_encoder, "recurrent_kernel", lambda: False)
    model = kt.build_sentence_embedding_classifier(12, 6, 4, 3, 5)
    model.save(tmp_path / "model.keras")
    for each in (model, keras.models.load_model(tmp_path / "model.keras")):
        (both,) = each.get_layer("lstm").recurrent_layers
        for layer in (both.forward_layer, both.backward_layer):
            assert isinstance(layer, layers.LSTM) and layer.use_cudnn is False


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_probabilities_are_float32_at_least_under_every_policy(policy):
    skip_without_float64(policy)
    keras.config.set_dtype_policy(policy)
    wanted = "float64" if policy == "float64" else "float32"
    for model in (
        kt.build_text_classifier(12, 8, 2, 16),
        kt.build_sentence_embedding_classifier(12, 6, 4, 3, 5),
    ):
        assert keras.backend.standardize_dtype(model(IDS).dtype) == wanted


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(pooling="sum"), "`pooling` must be one of"),
        (dict(positions="rotary"), "`positions` must be one of"),
        (dict(num_layers=0), "`num_layers` must be a positive integer"),
        (dict(name="분류기"), "`name` must consist of ASCII"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        kt.build_text_classifier(12, 8, num_heads=2, dense_dim=16, **settings)
