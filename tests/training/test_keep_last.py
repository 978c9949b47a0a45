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


@pytest.mark.parametrize("broken", [True, False])
def test_only_weights_are_averaged_and_after_a_broken_file_nothing(tmp_path, broken):
    layers = [keras.Input((2,)), keras.layers.Dense(1), keras.layers.Dropout(0.1)]
    model = keras.Sequential(layers)
    model.compile("adam", "mse")
    x = np.random.normal(size=(8, 2))

    def state():
        variables = [*model.variables, *model.optimizer.variables]
        values = map(keras.ops.convert_to_numpy, variables)
        pairs = zip((v.path for v in variables), map(np.array, values), strict=True)
        return list(pairs)

    model.fit(x, x[:, :1], epochs=1, verbose=0)
    model.save_weights(tmp_path / "a.weights.h5")
    if broken:
        (tmp_path / "b.weights.h5").write_bytes(b"cut")
    model.fit(x, x[:, :1], epochs=2, verbose=0)
    before, first = state(), model.get_weights()
    files = sorted(tmp_path.glob("*.h5"))
    if broken:
        with pytest.raises(Exception, match="."):
            average_checkpoints(model, files)
    else:
        average_checkpoints(model, files)
        for weight, old in zip(model.get_weights(), first, strict=True):
            assert (weight != old).all()
        model.set_weights(first)
    for (path, value), (_, old) in zip(state(), before, strict=True):
        np.testing.assert_array_equal(value, old, err_msg=path)
    with pytest.raises(ValueError, match="at least one"):
        average_checkpoints(model, [])
