"""P9: a reloaded model predicts, and goes on training, like the one that was saved.

Sources: keras-team/keras-hub#219, #717; kpot/keras-transformer#32;
keras-team/keras#20524.
"""

import json

import keras
import numpy as np
import pytest

import keras_transformer as kt

from .every_model import MODELS
from .examples import quick
from .helpers import array, fresh_process, slow_on
from .ready_models import READY, batch, compiled

AGAIN = """
import json, sys
import keras
import numpy as np
import keras_transformer

results = {}
for path in sys.argv[2:]:
    model = keras.models.load_model(path)
    data = np.load(sys.argv[1])
    ids, labels = data["ids"], data[f"labels_{max(2, model.output_shape[-1])}"]
    outputs = model.predict(ids, verbose=0).tolist()
    steps = int(model.optimizer.iterations)
    losses = [float(model.train_on_batch(ids, labels)) for _ in range(2)]
    results[path] = [outputs, steps, losses]
print(json.dumps(results))
"""


@pytest.mark.slow
def test_a_new_process_predicts_and_trains_on_like_the_old_one(tmp_path):
    models, labels = {}, {}
    for name, make in READY.items():
        model = compiled(make())
        ids, classes = batch(model)
        labels[f"labels_{max(2, model.output_shape[-1])}"] = classes
        for _ in range(2):
            model.train_on_batch(ids, classes)
        path = str(tmp_path / f"{name}.keras")
        model.save(path)
        models[path] = model
    np.savez(tmp_path / "data.npz", ids=ids, **labels)
    printed = fresh_process(AGAIN, tmp_path / "data.npz", *models)
    results = json.loads(printed.strip().splitlines()[-1])
    for path, model in models.items():
        outputs, steps, losses = results[path]
        ids, classes = batch(model)
        np.testing.assert_allclose(outputs, array(model(ids)), atol=1e-6)
        assert steps == int(model.optimizer.iterations) == 2
        ours = [float(model.train_on_batch(ids, classes)) for _ in range(2)]
        np.testing.assert_allclose(losses, ours, rtol=1e-5)


@slow_on("jax", "tensorflow")
@pytest.mark.parametrize("name", READY)
def test_training_shows_in_what_is_saved(name, tmp_path):
    model = compiled(READY[name]())
    ids, classes = batch(model)
    untrained = array(model(ids))
    for _ in range(3):
        model.train_on_batch(ids, classes)
    model.save(tmp_path / "model.keras")
    loaded = array(keras.models.load_model(tmp_path / "model.keras")(ids))
    np.testing.assert_allclose(loaded, array(model(ids)), atol=1e-6)
    assert np.abs(loaded - untrained).max() > 1e-3


WITHOUT = """
import keras

try:
    keras.models.load_model(sys.argv[1])
except Exception as error:
    print(type(error).__name__, str(error).replace(chr(10), " "))
else:
    print("loaded")
"""


@pytest.mark.parametrize(
    ("name", "missing"),
    quick(
        [
            ("chapter", "TransformerEncoder"),
            ("sentence-embedding", "RecurrentEncoder"),
            ("recurrent-2015", "RecurrentSeq2Seq"),
        ],
        [("recurrent-2015", "RecurrentSeq2Seq")],
    ),
)
def test_loading_without_the_package_names_the_missing_class(name, missing, tmp_path):
    make = READY[name] if name in READY else MODELS[name].make
    make().save(tmp_path / "model.keras")
    # Keras imports the module that the file names where it can: hide the package.
    hide = f"import sys; sys.modules['{kt.__name__}'] = None\n"
    printed = fresh_process(hide + WITHOUT, tmp_path / "model.keras")
    message = printed.strip().splitlines()[-1]
    assert missing in message and message != "loaded"


def test_every_registered_name_is_its_own_class():
    registered = keras.saving.get_custom_objects()
    names = [name for name in registered if name.startswith("keras_transformer>")]
    classes = [registered[name] for name in names]
    assert len(set(classes)) == len(classes) > 10
    for name, cls in zip(names, classes, strict=True):
        assert name == f"keras_transformer>{cls.__name__}"
        assert keras.saving.get_registered_object(name) is cls
