"""What the tasks share on disk: a model, its tokenizers, and a few settings."""

import json
from pathlib import Path

import keras

from keras_transformer import tokenizers
from keras_transformer.tasks.folder import read_folder, write_folder

MODEL = "model.keras"
# Class of tokenizer -> what of it stands in the task's settings, beside its files.
KINDS = {
    "SentencePieceTokenizer": (),
    "HuggingFaceTokenizer": ("special_tokens",),
    "MappedSentencePieceTokenizer": ("special_tokens", "prefix", "suffix", "whole"),
}


def save_task(task, folder, settings: dict, **parts):
    """Write a task into a folder, whole or not at all.

    Args:
        task: The task, with a `model`.
        folder: Where it shall lie, as in `write_folder`.
        settings: JSON-able settings.
        **parts: Name of the files -> tokenizer.

    Raises:
        ValueError: A tokenizer of another package, or a folder in use.
    """
    files, kinds = {MODEL: task.model.save}, {}
    for name, tokenizer in parts.items():
        kind = type(tokenizer).__name__
        if getattr(tokenizers, kind, None) is not type(tokenizer):
            raise ValueError(
                f"A tokenizer of the class {kind} cannot be saved with a task, only "
                f"{', '.join(KINDS)}. Save the model by itself: model.save(path)."
            )
        files |= _files(tokenizer, name)
        fields = {field: getattr(tokenizer, field) for field in KINDS[kind]}
        kinds[name] = {"class": kind, **fields}
    settings = {"task": type(task).__name__, **settings, "tokenizers": kinds}
    write_folder(folder, settings, files)


def load_task(task_class, folder) -> tuple[dict, keras.Model, dict]:
    """Read what `save_task` wrote.

    Returns:
        The settings; the model; name -> tokenizer.

    Raises:
        ValueError: The folder is no saved task of the class, is cut short, or was
            written by a version that kept tokenizers otherwise.
    """
    settings, folder = read_folder(folder, task_class.__name__), Path(folder)
    if "tokenizers" not in settings:
        raise ValueError(
            f"{str(folder)!r} was saved by an earlier version, which did not note the "
            "kind of its tokenizers. Train the task again, or load it with that "
            f"version and make a {task_class.__name__} of its parts here, and save it "
            "with this version."
        )
    parts = {
        name: _read(folder, name, kind, settings["files"])
        for name, kind in settings["tokenizers"].items()
    }
    return settings, keras.models.load_model(folder / MODEL), parts


def _files(tokenizer, name):
    """Return the files of a tokenizer: name -> function that writes it at a path."""
    if isinstance(tokenizer, tokenizers.HuggingFaceTokenizer):
        return {f"{name}.json": tokenizer.save}
    if isinstance(tokenizer, tokenizers.SentencePieceTokenizer):
        return {f"{name}.model": tokenizer.save}

    def write_vocabulary(path):
        text = json.dumps(tokenizer.vocabulary, ensure_ascii=False)
        path.write_text(text, encoding="utf-8")

    files = {f"{name}.model": tokenizer.source.save}
    if tokenizer.target is not tokenizer.source:
        files[f"{name}.target.model"] = tokenizer.target.save
    return {**files, f"{name}.vocabulary.json": write_vocabulary}


def _read(folder, name, fields, files):
    fields = dict(fields)
    kind = fields.pop("class")
    if kind not in KINDS:
        raise ValueError(
            f"{str(folder)!r} has a tokenizer of the class {kind!r}. Known are "
            f"{', '.join(KINDS)}."
        )
    if kind != "MappedSentencePieceTokenizer":
        ending = "json" if kind == "HuggingFaceTokenizer" else "model"
        path = folder / f"{name}.{ending}"
        return getattr(tokenizers, kind)(path, **fields)
    target = f"{name}.target.model"
    text = (folder / f"{name}.vocabulary.json").read_text(encoding="utf-8")
    return tokenizers.MappedSentencePieceTokenizer(
        folder / f"{name}.model",
        json.loads(text),
        target_model=folder / target if target in files else None,
        **fields,
    )
