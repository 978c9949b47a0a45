"""A run that is killed before its model is saved is not trained again."""

import shutil
from types import SimpleNamespace

import language_model
import pytest
import translator


class Trained:
    """A task whose `fit` keeps or clears its checkpoints as the real one does."""

    kills, passes = 0, 0

    @classmethod
    def load(cls, folder):
        return cls()

    def fit(self, data, *, checkpoint_folder, keep_checkpoints=False, **settings):
        if not checkpoint_folder.exists():
            type(self).passes += 1
            checkpoint_folder.mkdir()
        if not keep_checkpoints:
            shutil.rmtree(checkpoint_folder)

    def save(self, folder):
        if self.kills:
            type(self).kills -= 1
            raise KeyboardInterrupt
        folder.mkdir()


@pytest.mark.parametrize(
    ("benchmark", "name"),
    [(translator, "Translator"), (language_model, "TextGenerator")],
    ids=["translator", "language model"],
)
def test_a_run_killed_before_it_was_saved_goes_on_with_saving(
    benchmark, name, tmp_path, monkeypatch
):
    task = type("Task", (Trained,), {"kills": 1})
    monkeypatch.setattr(benchmark, name, task)
    (tmp_path / "start").mkdir()
    for note in ("time.json", "notes.json"):
        (tmp_path / note).write_text("{}")
    fit = {"learning_rate": 0.1}
    options = SimpleNamespace(minutes=1, epochs=1, steps=9, seed=0, fit=fit)
    parts = {"train": [], "validation": []}
    with pytest.raises(KeyboardInterrupt):
        benchmark.train(parts, tmp_path, options)
    assert not (tmp_path / "done").exists() and (tmp_path / "checkpoint").exists()
    benchmark.train(parts, tmp_path, options)
    assert task.passes == 1
    assert (tmp_path / "done").exists() and not (tmp_path / "checkpoint").exists()
