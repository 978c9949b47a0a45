"""The benchmark of the classifier: what is taken from a file is of this program."""

import dataclasses
import types
from types import SimpleNamespace

import classifier
import numpy as np
import pandas as pd
import pytest

from keras_transformer.models import build_text_classifier


@pytest.fixture
def data():
    frame = pd.DataFrame(
        {"document": ["좋다", "나쁘다", "좋은 날"], "label": [1, 0, 1]}
    )
    return classifier.Data(frame, frame[:2], frame)


def test_stored_probabilities_are_known_by_rows_recipe_and_program(data, monkeypatch):
    first = classifier.made_of(data, "default")
    build = types.FunctionType(build_text_classifier.__code__, {}, "same")
    build.__name__ = build_text_classifier.__name__
    again = dataclasses.replace(classifier.CLASSIFIERS["default"], build=build)
    with monkeypatch.context() as patch:  # as in another process
        patch.setitem(classifier.CLASSIFIERS, "default", again)
        assert classifier.made_of(data, "default") == first
    other = dataclasses.replace(data, test=data.test[:2])
    hashes = {first, classifier.made_of(data, "chapter"), classifier.made_of(data)}
    hashes |= {classifier.made_of(other, "default"), classifier.made_of(other)}
    recipe = classifier.CLASSIFIERS["default"]
    recipe = dataclasses.replace(recipe, settings={**recipe.settings, "dropout": 0.4})
    with monkeypatch.context() as patch:
        patch.setitem(classifier.CLASSIFIERS, "default", recipe)
        hashes.add(classifier.made_of(data, "default"))
    monkeypatch.setattr(classifier, "code_hash", lambda *parts: "another program")
    hashes.add(classifier.made_of(data, "default"))
    assert len(hashes) == 7


def test_the_report_says_how_many_rows_were_tested_on(data):
    data.test.attrs.update(files=["folder/ratings_test.txt"], dropped=3)
    said = classifier.file_and_rows(data.test[:2])
    assert said == "ratings_test.txt (2 rows, 3 without text left out)"
    assert said in classifier.report([], ["ratings_train.txt", said], "command")


def test_a_finished_run_is_taken_from_its_file_until_the_program_changes(
    data, tmp_path, monkeypatch
):
    made = []

    def neural(recipe, data, seed, epochs):
        made.append((recipe, seed))
        return np.array([0.9, 0.1, 0.2 + 0.6 * seed])

    options = SimpleNamespace(work=tmp_path, models=["ours"], seeds=2, epochs=None)
    monkeypatch.setattr(classifier, "made_of", lambda data, recipe=None: "one")
    monkeypatch.setattr(classifier, "neural", neural)
    table = classifier.measure(data, 3, options)
    assert classifier.measure(data, 3, options) == table
    assert made == [("default", 0), ("default", 1)]
    assert table[0][3] == "0.8333 (0.6667-1.0000)"
    monkeypatch.setattr(classifier, "made_of", lambda data, recipe=None: "two")
    classifier.measure(data, 3, options)
    assert len(made) == 4
