"""The command line: train, predict and evaluate tasks on texts, and convert them."""

import argparse
import re
import sys
import warnings
from pathlib import Path

from keras_transformer.cli import (
    classification,
    conversion,
    generation,
    translation,
)

TASKS = {
    "classification": classification,
    "generation": generation,
    "translation": translation,
}
CLASSES = {
    "TextClassifier": "classification",
    "TextGenerator": "generation",
    "Translator": "translation",
}
COMMANDS = {
    "train": "train a model and save it in a folder",
    "predict": "put texts, one a line, through a trained model",
    "evaluate": "measure a trained model on a file",
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status.

    Returns:
        0; or with a message 2, or 130 where it was interrupted (Ctrl-C).
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = None
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            options = _parser(_task(arguments)).parse_args(arguments)
            options.run(options)
        except (ValueError, TypeError, OSError, ImportError) as error:
            text = _with_options(str(error), options)
            print(f"keras-transformer: {text}", file=sys.stderr)
            return 2
        except KeyboardInterrupt as error:
            text = f"interrupted. {error}".strip()
            print(f"\nkeras-transformer: {text}", file=sys.stderr)
            return 130
    return 0


def _show_warning(message, category, filename, lineno, file=None, line=None):
    print(f"keras-transformer: {message}", file=sys.stderr)


def _with_options(text, options):
    """Put the command's options in the place of the Python arguments of a message."""
    for name in vars(options) if options else ():
        option = f"--{name.replace('_', '-')} "
        text = re.sub(rf"\b{name}=", option, text)
    return text


def _task(arguments):
    """Find the task first, since it decides which other options there are.

    It is the one that is named, or that of the trained model's folder.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_task(parser, None)
    task = parser.parse_known_args(arguments)[0].task
    if task is None and arguments[:1] in (["predict"], ["evaluate"]):
        from keras_transformer.tasks.saving import SETTINGS, finish_save, read_task

        for folder in map(Path, arguments[1:]):
            finish_save(folder)
            if (folder / SETTINGS).is_file():
                task = CLASSES.get(read_task(folder)["task"])
                break
    return task or "classification"


def _parser(task):
    parser = argparse.ArgumentParser(
        prog="keras-transformer",
        description="Train and use Transformers on your own texts.",
        epilog="The backend is chosen by the environment variable KERAS_BACKEND "
        "(tensorflow, jax or torch). Each task has options of its own: "
        "keras-transformer train --task translation --help.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser(
        "convert",
        help="turn a task's folder into Hugging Face's format, or back",
        description=conversion.DESCRIPTION,
        epilog=conversion.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    conversion.add_options(command)
    command.set_defaults(run=conversion.convert)
    for name, text in COMMANDS.items():
        sentence = f"{text[0].upper()}{text[1:]}."
        command = commands.add_parser(name, help=text, description=sentence)
        _add_task(command, task)
        TASKS[task].OPTIONS[name](command)
        command.set_defaults(run=getattr(TASKS[task], name))
    return parser


def _add_task(parser, task):
    parser.add_argument(
        "--task",
        choices=list(TASKS),
        default=task,
        help="what the model does (predict and evaluate find out; else classification)",
    )
