import keras
import numpy as np
import pytest

from keras_transformer.training import KeepLast, average_checkpoints


def test_checkpoints_are_averaged(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    seen = []
    look = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(model.get_weights())
    )
    keep = KeepLast(tmp_path / "kept", 2)
    x = np.random.normal(size=(8, 2))
    model.fit(x, x[:, :1], epochs=4, verbose=0, callbacks=[look, keep])
    assert [file.name[:11] for file in keep.files] == ["epoch-00002", "epoch-00003"]
    average_checkpoints(model, keep.files)
    for weight, third, fourth in zip(model.get_weights(), *seen[2:], strict=True):
        np.testing.assert_allclose(weight, (third + fourth) / 2, atol=1e-6)


def test_files_of_a_longer_training_before_are_not_averaged(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.random.normal(size=(8, 2))
    for epochs in (6, 2):
        keep = KeepLast(tmp_path, 3)
        model.fit(x, x[:, :1], epochs=epochs, verbose=0, callbacks=[keep])
    assert [file.name[:11] for file in keep.files] == ["epoch-00000", "epoch-00001"]


def test_a_broken_checkpoint_leaves_the_model_as_it_was(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save_weights(tmp_path / "a.weights.h5")
    (tmp_path / "b.weights.h5").write_bytes(b"cut")
    before = model.get_weights()
    with pytest.raises(Exception, match="."):
        average_checkpoints(model, sorted(tmp_path.glob("*.h5")))
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)
    with pytest.raises(ValueError, match="at least one"):
        average_checkpoints(model, [])
