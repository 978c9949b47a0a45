"""The chapter's code cells of sections 5 to 12 run in notebooks/ as they stand.

They are read from a reader's own copy, `textbook/cells.json` beside the folder of
data sets, and skipped without one. Cells of our own are held to the same.
"""

import importlib.util
import json
import shutil

import keras
import numpy as np
import pytest

import keras_transformer  # noqa: F401  (what the saved models are made of)

CHECKPOINT = {"chapter": "text_classifier-transformer.keras", "own": "own.keras"}
EPOCHS = {"chapter": 10, "own": 4}

# The first line lets Keras print, not raise, where pydot or dot is missing.
IMPORTS = """
import IPython.core.magics.namespace
import keras
import numpy as np
import pandas as pd
import torch
from IPython.display import display
from keras import layers
"""

OWN_CELLS = [
    """
from sentencepiece import SentencePieceProcessor

예문 = "배 타고 배 먹으니 배 아프다"
tokenizer = SentencePieceProcessor(model_file="spm.model")
pd.Series(tokenizer.encode(예문), tokenizer.encode(예문, out_type=str))
""",
    """
from transformer import PositionalEmbedding, SequencePooling, TransformerEncoder

encoder = keras.Sequential(name="encoder")
encoder.add(keras.Input((None, 128)))
encoder.add(TransformerEncoder(embed_dim=128, num_heads=2, dense_dim=64))
keras.utils.plot_model(encoder, show_shapes=True, expand_nested=True)
""",
    """
%run load_text_class_example.py

ids = keras.Input((None,), dtype="int32", name="ids")
embed = PositionalEmbedding(sequence_length=256, input_dim=30000, output_dim=32)
encode = TransformerEncoder(embed_dim=32, num_heads=2, dense_dim=32)
chance = layers.Dense(1, activation="sigmoid")(SequencePooling()(encode(embed(ids))))
classifier = keras.Model(ids, chance)
classifier.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy")
best = keras.callbacks.ModelCheckpoint("own.keras", save_best_only=True)
history = classifier.fit(
    dataloaders["train"],
    validation_data=dataloaders["validation"],
    epochs=4,
    callbacks=[best],
    verbose=2,
)
""",
]

# Run after either: what the tests below look at.
FINDINGS = """
import json
from pathlib import Path

(checkpoint,) = Path().glob("*.keras")
best = keras.models.load_model(checkpoint)
batch = dataloaders["test"][0][0]
np.savez("batch.npz", ids=batch, outputs=best.predict(batch, verbose=0))
batches = [batch for part in dataloaders.values() for batch in part]
Path("findings.json").write_text(json.dumps({
    "checkpoint": checkpoint.name,
    "ids": tokenizer.encode(예문),
    "pieces": tokenizer.encode(예문, out_type=str),
    "encoded": list(encoder(np.ones((2, 7, 128), "float32")).shape),
    "history": history.history,
    "best": best.evaluate(dataloaders["validation"], verbose=0, return_dict=True),
    "parts": list(dataloaders),
    "largest": int(max(ids.max() for ids, _ in batches)),
}))
"""

pytestmark = pytest.mark.notebooks


@pytest.fixture(scope="module", params=["chapter", "own"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def cells(kind, request):
    if kind == "own":
        return OWN_CELLS
    file = request.getfixturevalue("data_folder").parent / "textbook" / "cells.json"
    if not file.is_file():
        pytest.skip(f"no copy of the chapter's cells at {file}")
    read = json.loads(file.read_text("utf-8"))
    return [c["code"] for c in read if 5 <= int(c["section"].split(".")[0]) <= 12]


@pytest.fixture(scope="module")
def notebook(cells, execute, tmp_path_factory):
    """The executed notebook, and the copy of notebooks/ that it ran in."""
    nbformat = pytest.importorskip("nbformat")
    folder = tmp_path_factory.mktemp("reader") / "notebooks"
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(c) for c in [IMPORTS, *cells, FINDINGS]]
    )
    execute(notebook, folder)
    return notebook, folder


@pytest.fixture(scope="module")
def findings(notebook):
    return json.loads((notebook[1] / "findings.json").read_text())


def test_every_cell_ran_unchanged(notebook, cells):
    ran = notebook[0].cells[1:-1]
    assert cells and [cell.source for cell in ran] == cells
    assert all(cell.execution_count for cell in ran)


def test_a_homonym_is_one_id_three_times(findings):
    assert findings["pieces"].count("\u2581배") == 3
    assert len(set(findings["ids"])) == len(findings["ids"]) - 2
    assert 1 not in findings["ids"]  # unk


def test_the_encoder_keeps_the_shape(findings):
    assert findings["encoded"] == [2, 7, 128]


def test_the_dataloaders_suit_the_vocabulary(findings):
    assert findings["parts"] == ["train", "validation", "test"]
    assert findings["largest"] < 30000


def test_training_went_through_its_epochs_and_learnt(kind, findings):
    history = findings["history"]
    assert {len(values) for values in history.values()} == {EPOCHS[kind]}
    assert history["loss"][-1] < history["loss"][0]
    assert all(np.isfinite(values).all() for values in history.values())


def test_the_checkpoint_is_the_best_epoch(kind, findings):
    assert findings["checkpoint"] == CHECKPOINT[kind]
    best = min(findings["history"]["val_loss"])
    assert findings["best"]["loss"] == pytest.approx(best, abs=1e-4)


def test_the_checkpoint_predicts_the_same_in_another_process(notebook, findings):
    folder = notebook[1]
    batch = np.load(folder / "batch.npz")
    model = keras.models.load_model(folder / findings["checkpoint"])
    outputs = model.predict(batch["ids"], verbose=0)
    np.testing.assert_allclose(outputs, batch["outputs"], atol=1e-5)


def test_plot_model_draws_its_pictures(notebook):
    # Without them Keras prints a message in a notebook, and the cell goes on.
    if not (importlib.util.find_spec("pydot") and shutil.which("dot")):
        pytest.skip("pictures need pydot, and dot of graphviz")
    drawing = [c for c in notebook[0].cells if "plot_model(" in c.source]
    assert drawing
    for cell in drawing:
        assert any("image/png" in out.get("data", {}) for out in cell.outputs)
    assert (notebook[1] / "model.png").stat().st_size > 1000
