"""What the commands of all tasks do with files."""

import shutil
import sys
from pathlib import Path


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


def train_task(options, task_class, build, fit) -> tuple:
    """Train a task and save it, so that an interrupted training can be resumed.

    Args:
        options: The options of the command.
        task_class: The class of the task.
        build: Function that makes the untrained task.
        fit: Function that trains it: `fit(task, checkpoint_folder)`.

    Returns:
        The task, and the folder that it lies in.
    """
    from keras_transformer.tasks.saving import check_free

    if options.epochs < 1:
        raise ValueError(f"--epochs must be at least 1. Received: {options.epochs}.")
    folder = check_free(options.output)
    working = folder.with_name(f".{folder.name}-training")
    if options.resume:
        task = task_class.load(working / "task")
    else:
        shutil.rmtree(working, ignore_errors=True)
        task = build()
        task.save(working / "task")
    fit(task, working / "checkpoint")
    task.save(folder)
    shutil.rmtree(working, ignore_errors=True)
    return task, folder


def read_lines(path: str | None) -> list[str]:
    """Return the lines of a file, or of standard input.

    A line that is not UTF-8 does not lose the others: it is read with U+FFFD in
    place of what is wrong, and standard error names it.

    Raises:
        ValueError: No line beyond ASCII is UTF-8: another encoding.
    """
    data = sys.stdin.buffer.read() if path is None else Path(path).read_bytes()
    rows = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    lines = [row.decode("utf-8", "replace").removesuffix("\r") for row in rows]
    wrong = [n for n, row in enumerate(rows, 1) if not _is_utf8(row)]
    if wrong:
        name = "standard input" if path is None else path
        if len(wrong) == sum(not row.isascii() for row in rows):
            raise ValueError(f"{name} is not UTF-8 text. Save it as UTF-8.")
        numbers = ", ".join(map(str, wrong))
        print(f"{name}: not UTF-8 in line {numbers}, read as \ufffd", file=sys.stderr)
    return lines[:-1] if lines[-1] == "" else lines


def _is_utf8(row: bytes) -> bool:
    try:
        row.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


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
    text = next((text for text in texts if text.strip()), None)
    if text is None:
        return "none: no text has tokens"
    try:
        task.explain(text).plot(path=picture)
    except (ImportError, ValueError) as error:
        return f"none: {error}"
    return picture
