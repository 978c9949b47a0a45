"""Files cross backends: each run saves its models and loads those of the others.

The folder KERAS_TRANSFORMER_EXCHANGE is shared by the runs, one after another.
"""

import os
from pathlib import Path

import keras
import numpy as np
import pytest

from cases.every_model import MODELS
from cases.helpers import arrays
from keras_transformer import TextClassifier
from support import ALL, functional

pytestmark = pytest.mark.exchange

BACKENDS = ("tensorflow", "jax", "torch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    named = os.environ.get("KERAS_TRANSFORMER_EXCHANGE")
    return Path(named) if named else tmp_path_factory.mktemp("exchange")


def made(name):
    """Return a layer as a model, or a model, and its inputs."""
    if name in ALL:
        return functional(ALL[name]), ALL[name].arrays()
    example = MODELS[name.removeprefix("model-")]
    model = example.make(**({"name": "model"} if example.is_class else {}))
    return model, example.inputs()


@pytest.mark.parametrize("name", [*ALL, *(f"model-{name}" for name in MODELS)])
def test_a_saved_model_is_the_same_on_every_backend(name, folder):
    backend = keras.backend.backend()
    model, inputs = made(name)
    expected = arrays(model(inputs))
    model.save(folder / f"{name}-{backend}.keras")
    np.savez(folder / f"{name}-{backend}.npz", *expected)
    files = [folder / f"{name}-{other}.keras" for other in BACKENDS]
    if os.environ.get("KERAS_TRANSFORMER_EXCHANGE_COMPLETE"):
        assert all(file.is_file() for file in files)  # the other runs are over
    for file in filter(Path.is_file, files):
        saved = np.load(file.with_suffix(".npz")).values()
        loaded = arrays(keras.models.load_model(file)(inputs))
        for one, other in zip(loaded, saved, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:The corpus is too small")
@pytest.mark.parametrize("recipe", ["default", "chapter", "sentence-embedding"])
def test_a_trained_classifier_is_the_same_on_every_backend(recipe, folder):
    texts, labels = ["정말 재미있다", "너무 지루하다", "참 좋다"] * 5, [1, 0, 1] * 5
    classifier = TextClassifier.from_texts(texts, labels, recipe, vocabulary_size=60)
    held_out = texts[:3], labels[:3]
    classifier.fit(texts, labels, validation_data=held_out, epochs=1, verbose=0)
    backend = keras.backend.backend()
    classifier.save(folder / f"classifier-{recipe}-{backend}")
    chances = folder / f"classifier-{recipe}-{backend}.npy"
    np.save(chances, classifier.predict_probabilities(texts[:3]))
    saved = [folder / f"classifier-{recipe}-{other}" for other in BACKENDS]
    if os.environ.get("KERAS_TRANSFORMER_EXCHANGE_COMPLETE"):
        assert all(place.is_dir() for place in saved)
    for place in filter(Path.is_dir, saved):
        loaded = TextClassifier.load(place).predict_probabilities(texts[:3])
        expected = np.load(f"{place}.npy")
        np.testing.assert_allclose(loaded, expected, atol=1e-5, rtol=1e-5)
