"""The command line: train, predict and evaluate tasks on texts, and convert them."""

import argparse
import sys

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
COMMANDS = {
    "train": "train a model and save it in a folder",
    "predict": "put texts, one a line, through a trained model",
    "evaluate": "measure a trained model on a file",
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit status: 0, or 2 with a message."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = _parser(_task(arguments)).parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"keras-transformer: {error}", file=sys.stderr)
        return 2
    return 0


def _task(arguments):
    """Find the task first, since it decides which other options there are."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_task(parser)
    return parser.parse_known_args(arguments)[0].task


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
        _add_task(command)
        TASKS[task].OPTIONS[name](command)
        command.set_defaults(run=getattr(TASKS[task], name))
    return parser


def _add_task(parser):
    parser.add_argument(
        "--task",
        choices=list(TASKS),
        default="classification",
        help="what the model does (default: %(default)s)",
    )
