"""What the commands of all tasks do with files."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

FEW = 10  # line numbers that a message names
COMMAND = "command.json"  # the settings of a training that may be interrupted
# Those that may be others afterwards.
FREE = {"run", "resume", "output", "epochs", "test", "sample"}


def add_training_options(
    command, output: str, epochs: int, vocabulary_size: int | None
):
    """Add the options that every `train` has."""
    command.add_argument(
        "--output",
        metavar="FOLDER",
        default=output,
        help="where the trained model goes (default: %(default)s)",
    )
    command.add_argument(
        "--epochs", type=int, default=epochs, help="most epochs (default: %(default)s)"
    )
    command.add_argument(
        "--vocabulary-size",
        type=int,
        default=vocabulary_size,
        help=f"token ids ({'%(default)s' if vocabulary_size else 'by the data'})",
    )
    command.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    command.add_argument(
        "--resume",
        action="store_true",
        help="go on with a training of the same command that was interrupted",
    )


def add_file_options(command, format: bool = True):
    """Add how files are to be read."""
    if format:
        command.add_argument(
            "--format",
            choices=["tsv", "csv"],
            help="of the files, where the name does not tell",
        )
    command.add_argument(
        "--encoding",
        default="utf-8",
        help="of the files, such as cp949 (default: %(default)s)",
    )


def add_model_option(command):
    """Add the folder of a trained model."""
    command.add_argument("model", metavar="FOLDER", help="the folder that train wrote")


def add_predict_options(command, texts: str):
    """Add what every `predict` takes: a model, `texts`, and a picture on request."""
    add_model_option(command)
    command.add_argument(
        "texts", metavar="FILE", nargs="?", help=f"{texts} (by default standard input)"
    )
    command.add_argument(
        "--explain",
        metavar="PICTURE",
        help="draw the attention of the first text (.png or .svg)",
    )
    add_file_options(command, format=False)


def train_task(options, task_class, build, fit) -> tuple:
    """Train a task and save it, so that an interrupted training can be resumed.

    What it has reached is kept until the task is saved. The seed of the options is
    that of the untrained task's weights, too.

    Args:
        options: The options of the command.
        task_class: The class of the task.
        build: Function that makes the untrained task.
        fit: Function that trains it: `fit(task, checkpoint_folder)`.

    Returns:
        The task, and the folder that it lies in.

    Raises:
        ValueError: Too few epochs; an output in use; an interrupted training that
            would be lost, or had other settings.
        KeyboardInterrupt, OSError: It was interrupted, or could not be saved; with
            how to go on.
    """
    import keras

    from keras_transformer.tasks.saving import check_free

    if options.epochs < 1:
        raise ValueError(f"--epochs must be at least 1. Received: {options.epochs}.")
    folder = check_free(options.output)
    working = folder.with_name(f".{folder.name}-training")
    checkpoint = working / "checkpoint"
    settings = {n: v for n, v in vars(options).items() if n not in FREE}
    if options.resume:
        _check_same(settings, working / COMMAND)
        task = task_class.load(working / "task")
    elif _has_files(checkpoint):
        raise ValueError(
            f"{str(working)!r} holds a training that was interrupted. Nothing was "
            "written. Go on with it: the same command with --resume. Or begin anew: "
            "remove that folder."
        )
    else:
        shutil.rmtree(working, ignore_errors=True)
        keras.utils.set_random_seed(options.seed)  # of the model's first weights
        task = build()
        task.save(working / "task")
        text = json.dumps(settings, ensure_ascii=False)
        (working / COMMAND).write_text(text, "utf-8")
    try:
        fit(task, checkpoint)
        task.save(folder)
    except BaseException as error:
        if not _has_files(checkpoint):
            shutil.rmtree(working, ignore_errors=True)
        elif isinstance(error, (KeyboardInterrupt, OSError)):
            raise _resumable(error) from error
        raise
    shutil.rmtree(working, ignore_errors=True)
    return task, folder


def _resumable(error):
    """Return an error of the same kind that says how to go on."""
    kind = OSError if isinstance(error, OSError) else KeyboardInterrupt
    text = f"{error}. " if str(error) else ""
    return kind(
        f"{text}The training is kept. Go on with it: the same command with --resume"
    )


def _check_same(settings, file):
    """Refuse to go on with a training by other settings than it began with."""
    if not file.is_file():
        raise ValueError(
            f"There is no training to go on with: {str(file)!r} is missing. Begin "
            "anew: remove its folder if that is there, and leave out --resume."
        )
    before = json.loads(file.read_text("utf-8"))
    for name, value in settings.items():
        if value != before.get(name, value):
            raise ValueError(
                f"The interrupted training has {name}={before[name]!r}, this command "
                f"{name}={value!r}. Go on with the same command (only --epochs, --test "
                "and --sample may change)."
            )


def _has_files(folder):
    return any(path.is_file() for path in folder.rglob("*"))


@contextlib.contextmanager
def progress() -> Iterator[int]:
    """Send progress to standard error, as `verbose` where that is a terminal.

    Keras writes it to standard output, which is for results.
    """
    with contextlib.redirect_stdout(sys.stderr):
        yield int(sys.stderr.isatty())


def say_what_was_read(frame):
    """Print which file a table is from, and how many rows were left out."""
    files = ", ".join(frame.attrs["files"])
    print(
        f"{files}: {len(frame)} rows, {frame.attrs['dropped']} without text left out",
        file=sys.stderr,
    )


def read_lines(path: str | None, encoding: str = "utf-8") -> list[str]:
    """Return the lines of a file, or of standard input.

    A line that is not in the encoding does not lose the others: it is read with
    U+FFFD in place of what is wrong, and standard error names it. Of text in UTF-16
    that is read as another encoding, at least every eighth byte is a NUL.

    Args:
        path: The file; `None` for standard input.
        encoding: Its encoding.

    Raises:
        ValueError: An unknown encoding; or most lines are not in it, or it looks like
            UTF-16 and is read as another.
    """
    data = sys.stdin.buffer.read() if path is None else Path(path).read_bytes()
    name = "standard input" if path is None else path
    try:
        # Bytes are lines only where a newline is one byte.
        has_lines = "a\n".encode(encoding).endswith(b"a\n")
        text = data.decode(encoding)
    except UnicodeDecodeError:
        lined = has_lines and 8 * data.count(b"\0") < len(data)
        text = _mended(data, name, encoding) if lined else None
    except (LookupError, UnicodeError) as error:
        raise ValueError(
            f"--encoding must be one that Python knows, such as utf-8 or cp949. "
            f"Received: {encoding}."
        ) from error
    if text is None or 8 * text.count("\0") > len(text):
        raise ValueError(_other_encoding(name, encoding))
    rows = text.removeprefix("\ufeff").split("\n")
    lines = [row.removesuffix("\r") for row in rows]
    return lines[:-1] if lines[-1] == "" else lines


def _mended(data, name, encoding):
    """Return text with U+FFFD for what is wrong; `None` if most lines are."""
    rows = data.split(b"\n")
    wrong = [n for n, row in enumerate(rows, 1) if not _is_text(row, encoding)]
    if 2 * len(wrong) > sum(map(bool, rows)):
        return None
    numbers = ", ".join(map(str, wrong[:FEW])) + ", ..." * (len(wrong) > FEW)
    print(
        f"{name}: not {encoding.upper()} in line {numbers}, read as \ufffd "
        f"({len(wrong)} in all)",
        file=sys.stderr,
    )
    return "\n".join(row.decode(encoding, "replace") for row in rows)


def _is_text(row: bytes, encoding: str) -> bool:
    try:
        row.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _other_encoding(name, encoding):
    return (
        f"{name} is not {encoding.upper()} text. Save it as UTF-8, or name its "
        "encoding, such as --encoding cp949 or utf-16."
    )


def report_files(task, texts, folder: Path, tokenizer: str):
    """Draw the attention of a text, and print where everything lies."""
    print(f"\nmodel               {folder / 'model.keras'}")
    print(f"tokenizer           {folder / tokenizer}")
    print(f"attention picture   {_draw(task, texts, folder / 'attention.png')}")


def explain_first(task, texts, picture: str | None):
    """Draw the attention of the first text if there is a `picture` to write."""
    if picture:
        print(f"attention picture   {_draw(task, texts, picture)}", file=sys.stderr)


def _draw(task, texts, picture):
    from keras_transformer.tasks.explanation import NothingToSee

    text = next((text for text in texts if text.strip()), None)
    if text is None:
        return "none: no text has tokens"
    try:
        task.explain(text).plot(path=picture)
    except (ImportError, NothingToSee) as error:
        return f"none: {error}"
    return picture
