"""A task on disk: a folder with a model, its tokenizers and a few settings.

It is written whole or not at all: where a process is killed as a new task is about to
replace an old one, the next that saves or loads there finishes it.
"""

import glob
import json
import shutil
import tempfile
import time
from pathlib import Path

import keras

from keras_transformer import tokenizers

SETTINGS = "task.json"
MODEL = "model.keras"
PAUSE = 0.5  # seconds, many times as long as a folder takes to replace another
# Class of tokenizer -> what of it stands in the task's settings, beside its files.
KINDS = {
    "SentencePieceTokenizer": (),
    "HuggingFaceTokenizer": ("special_tokens",),
    "MappedSentencePieceTokenizer": (
        "special_tokens",
        "prefix",
        "suffix",
        "whole",
        "words",
        "space_once",
        "languages",
    ),
}


def save_task(task, folder, settings: dict, **parts):
    """Write a task into a folder, whole or not at all.

    Args:
        task: The task, with a `model`.
        folder: Where it shall lie; see `check_free`.
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
        files |= _tokenizer_files(tokenizer, name)
        fields = {field: getattr(tokenizer, field) for field in KINDS[kind]}
        kinds[name] = {"class": kind, **fields}
    settings = {"task": type(task).__name__, **settings, "tokenizers": kinds}
    _write_folder(folder, settings, files)


def load_task(task_class, folder) -> tuple[dict, keras.Model, dict]:
    """Read what `save_task` wrote.

    Returns:
        The settings; the model; name -> tokenizer.

    Raises:
        ValueError: The folder is no saved task of the class, is cut short, or was
            written by a version that kept tokenizers otherwise.
    """
    settings, folder = _read_folder(folder, task_class.__name__), Path(folder)
    if "tokenizers" not in settings:
        raise ValueError(
            f"{str(folder)!r} was saved by an earlier version, which did not note the "
            "kind of its tokenizers. Train the task again, or load it with that "
            f"version and make a {task_class.__name__} of its parts here, and save it "
            "with this version."
        )
    parts = {
        name: _read_tokenizer(folder, name, kind, settings["files"])
        for name, kind in settings["tokenizers"].items()
    }
    return settings, keras.models.load_model(folder / MODEL), parts


def _write_folder(folder, settings: dict, files: dict):
    """Write a task's folder beside its place, then move it there.

    Args:
        folder: Where the task shall lie; an earlier one there is replaced.
        settings: JSON-able settings, among them `"task"`, the class's name.
        files: File name -> function that writes the file at a path.

    Raises:
        ValueError: `folder` exists and is not a saved task.
    """
    folder = check_free(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".saving-") as work:
        new, old = Path(work) / "new", Path(work) / "old" / folder.name
        new.mkdir()
        old.parent.mkdir()
        for name, write in files.items():
            write(new / name)
        sizes = {name: (new / name).stat().st_size for name in files}
        text = json.dumps({**settings, "files": sizes}, ensure_ascii=False, indent=1)
        (new / SETTINGS).write_text(text, encoding="utf-8")
        if folder.exists():
            _replace(folder, new, old, own={*files, SETTINGS})
        else:
            new.rename(folder)


def _replace(folder, new, old, own):
    """Put `new` in the folder's place, with what it has beside the task's `own` files.

    What was there goes to `old`; it is put back if anything cannot be moved.
    """
    moved = []
    folder.rename(old)
    try:
        for extra in _extras(old, own):
            extra.rename(new / extra.name)
            moved.append(extra.name)
        new.rename(folder)
    except BaseException:
        for name in moved:
            (new / name).rename(old / name)
        old.rename(folder)
        raise


def _extras(folder, own):
    """Return what lies beside a task's `own` files in its folder."""
    return [path for path in folder.iterdir() if path.name not in own]


def finish_save(folder):
    """Finish what `_replace` had begun before its process was killed."""
    folder = Path(folder).resolve()
    if folder.exists():
        return
    for old in folder.parent.glob(f".saving-*/old/{glob.escape(folder.name)}"):
        time.sleep(PAUSE)  # is another process just about to put the new one there?
        new = old.parent.parent / "new"
        if folder.exists() or not (new / SETTINGS).is_file():
            continue  # that one came to its end
        for extra in _extras(old, {SETTINGS, *read_task(new)["files"]}):
            extra.rename(new / extra.name)
        new.rename(folder)
        shutil.rmtree(new.parent, ignore_errors=True)


def check_free(folder) -> Path:
    """Return the real path of a folder that a task may be written to.

    Raises:
        ValueError: It exists, and is neither empty nor a saved task; or the program
            runs in it.
    """
    folder = Path(folder).resolve()  # not a link
    finish_save(folder)
    here = Path.cwd()
    if folder in (here, *here.parents):
        raise ValueError(
            f"{str(folder)!r} {'is' if folder == here else 'holds'} the folder that "
            "this program runs in: another cannot take its place. Nothing was written. "
            "Name a folder in it."
        )
    if folder.exists() and not (folder / SETTINGS).is_file() and _in_use(folder):
        raise ValueError(
            f"{str(folder)!r} exists and is not a saved task (it has no {SETTINGS}). "
            "Nothing was written. Choose another folder or remove this one."
        )
    return folder


def read_task(folder: Path) -> dict:
    """Return what `task.json` of a folder says: the class's name, settings, files.

    Raises:
        ValueError: It is not what `save_task` wrote.
    """
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{str(folder / SETTINGS)!r} cannot be read: {error}. Save the task again."
        ) from error
    whole = isinstance(settings, dict) and isinstance(settings.get("files"), dict)
    if not whole or not isinstance(settings.get("task"), str):
        raise ValueError(
            f"{str(folder / SETTINGS)!r} is not what `save` wrote: it names no task or "
            "no files. Copy the folder again."
        )
    return settings


def _read_folder(folder, task: str) -> dict:
    """Return the settings of a saved task after checking that it is complete.

    Args:
        folder: The folder that `_write_folder` wrote.
        task: The class's name that must stand in it.

    Raises:
        ValueError: It is no saved task, one of another class, or cut short.
    """
    folder = Path(folder)
    finish_save(folder)
    if not (folder / SETTINGS).is_file():
        raise ValueError(
            f"{str(folder)!r} is not a saved {task}: it has no {SETTINGS}. Pass the "
            "folder that `save` or `keras-transformer train` wrote."
        )
    settings = read_task(folder)
    if settings["task"] != task:
        raise ValueError(
            f"{str(folder)!r} holds a {settings['task']!r}, not a {task!r}."
        )
    for name, size in settings["files"].items():
        got = (folder / name).stat().st_size if (folder / name).is_file() else None
        if got != size:
            state = "is missing" if got is None else f"has {got} bytes"
            raise ValueError(
                f"{str(folder / name)!r} {state}, but {size} bytes were saved. Copy "
                "the folder again."
            )
    return settings


def _tokenizer_files(tokenizer, name):
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


def _read_tokenizer(folder, name, fields, files):
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


def _in_use(folder):
    return not folder.is_dir() or any(folder.iterdir())
