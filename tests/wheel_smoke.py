"""Trains, saves and reloads a user's own model with the installed package.

A script, not a pytest file: it runs where the wheel is installed, away from the
checkout, under the backend that KERAS_BACKEND names.
"""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

import keras_transformer as kt
from keras_transformer.datasets import load_reviews

LOAD_AND_PREDICT = """
import sys
import keras, numpy, keras_transformer
model = keras.saving.load_model(sys.argv[1])
numpy.save(sys.argv[3], model.predict(numpy.load(sys.argv[2]), verbose=0))
"""


def random_data(rows=256, length=12, vocabulary=20):
    """Padded ids, labelled by whether the first one is in the upper half."""
    generator = np.random.default_rng(0)
    ids = generator.integers(1, vocabulary, (rows, length)).astype("int32")
    ids[np.arange(length) >= generator.integers(4, length, (rows, 1))] = 0
    return ids, (ids[:, :1] > vocabulary // 2).astype("float32")


def build_model():
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(20, 16, mask_zero=True),
            kt.TransformerEncoder(embed_dim=16, num_heads=2, dense_dim=32),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )


def check(jit_compile, folder):
    keras.utils.set_random_seed(0)
    ids, labels = random_data()
    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss="binary_crossentropy",
        jit_compile=jit_compile,
    )
    losses = model.fit(ids, labels, batch_size=32, epochs=2, verbose=0).history["loss"]
    assert losses[1] < losses[0], losses

    saved, inputs, outputs = (folder / n for n in ("m.keras", "in.npy", "out.npy"))
    model.save(saved)
    np.save(inputs, ids)
    arguments = [str(saved), str(inputs), str(outputs)]
    subprocess.run([sys.executable, "-c", LOAD_AND_PREDICT, *arguments], check=True)
    expected = model.predict(ids, verbose=0)
    np.testing.assert_allclose(np.load(outputs), expected, atol=1e-5)
    print(f"{keras.backend.backend()} jit_compile={jit_compile}: loss {losses}")

    with kt.record_attention(model) as record:
        model(ids[:1])
    page = kt.attention_view(record, folder / "attention.html").html
    parts = ("--ramp:", "prefers-color-scheme", "const data =", "function drawMatrix")
    assert all(part in page for part in parts), "the wheel has no files of the page"


def check_neighbours():
    """Between layers of others, padding changes no token's vector either."""
    x = ids = keras.Input((None,), dtype="int32")
    x = kt.PositionalEmbedding(12, 20, 16)(x)
    x = kt.TransformerEncoder(embed_dim=16, num_heads=2, dense_dim=32)(x)
    if importlib.util.find_spec("keras_hub"):
        import keras_hub

        x = keras_hub.layers.TransformerEncoder(intermediate_dim=32, num_heads=2)(x)
        x = kt.TransformerEncoder(embed_dim=16, num_heads=2, dense_dim=32)(x)
    x = keras.layers.MultiHeadAttention(num_heads=2, key_dim=8)(x, x)
    x = kt.TransformerEncoder(embed_dim=16, num_heads=2, dense_dim=32)(x)
    pooled = keras.layers.GlobalAveragePooling1D()(x)
    model = keras.Model(ids, [x, pooled])
    short = np.array([[5, 6, 7], [8, 9, 1]], "int32")
    padded = np.pad(short, ((0, 0), (0, 4)))
    vectors, mean = model.predict(padded, verbose=0)
    expected, expected_mean = model.predict(short, verbose=0)
    np.testing.assert_allclose(vectors[:, :3], expected, atol=1e-5)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-5)


if __name__ == "__main__":
    assert "site-packages" in Path(kt.__file__).parts, kt.__file__
    assert all(len(part) > 400 for part in load_reviews())  # the wheel has its data
    # On PyTorch jit_compile means torch.compile, which Keras leaves off by default.
    jits = [False] if keras.backend.backend() == "torch" else [True, False]
    check_neighbours()
    with tempfile.TemporaryDirectory() as folder:
        for jit_compile in jits:
            check(jit_compile, Path(folder))
