"""The tokenizer in a saved task's folder: its class by name, its file."""

from pathlib import Path

from keras_transformer import tokenizers

FILES = {"SentencePieceTokenizer": "tokenizer.model"}


def tokenizer_file(tokenizer) -> str:
    """Return the name of the file that a tokenizer is saved in.

    Raises:
        ValueError: A class that `read_tokenizer` does not know.
    """
    kind = type(tokenizer).__name__
    if kind not in FILES:
        raise ValueError(
            f"A tokenizer of the class {kind} cannot be saved with a task, only "
            f"{', '.join(FILES)}. Save the model by itself: model.save(path)."
        )
    return FILES[kind]


def read_tokenizer(folder, files):
    """Read the tokenizer of a task's folder that has these files."""
    kind = next(kind for kind, file in FILES.items() if file in files)
    return getattr(tokenizers, kind).load(Path(folder) / FILES[kind])
