"""A task on disk: a folder that is written whole or not at all."""

import json
import shutil
import tempfile
from pathlib import Path

SETTINGS = "task.json"


def write_folder(folder, settings: dict, files: dict):
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
        new, old = Path(work) / "new", Path(work) / "old"
        new.mkdir()
        for name, write in files.items():
            write(new / name)
        sizes = {name: (new / name).stat().st_size for name in files}
        text = json.dumps({**settings, "files": sizes}, ensure_ascii=False, indent=1)
        (new / SETTINGS).write_text(text, encoding="utf-8")
        if folder.exists():
            for extra in folder.iterdir():  # what the user keeps beside the task
                if extra.name not in (*files, SETTINGS):
                    extra.rename(new / extra.name)
            folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)


def check_free(folder) -> Path:
    """Return the real path of a folder that a task may be written to.

    Raises:
        ValueError: It exists, and is neither empty nor a saved task.
    """
    folder = Path(folder).resolve()  # not a link, nor "."
    if folder.exists() and not (folder / SETTINGS).is_file() and _in_use(folder):
        raise ValueError(
            f"{str(folder)!r} exists and is not a saved task (it has no {SETTINGS}). "
            "Nothing was written. Choose another folder or remove this one."
        )
    return folder


def read_folder(folder, task: str) -> dict:
    """Return the settings of a saved task after checking that it is complete.

    Args:
        folder: The folder that `write_folder` wrote.
        task: The class's name that must stand in it.

    Raises:
        ValueError: It is no saved task, one of another class, or cut short.
    """
    folder = Path(folder)
    if not (folder / SETTINGS).is_file():
        raise ValueError(
            f"{str(folder)!r} is not a saved {task}: it has no {SETTINGS}. Pass the "
            "folder that `save` wrote."
        )
    try:
        settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{str(folder / SETTINGS)!r} cannot be read: {error}. Save the task again."
        ) from error
    if settings.get("task") != task:
        raise ValueError(
            f"{str(folder)!r} holds a {settings.get('task')!r}, not a {task!r}."
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


def _in_use(folder):
    return not folder.is_dir() or any(folder.iterdir())
