"""The tensors of a folder in Hugging Face's format, one at a time."""

import json
from math import prod
from pathlib import Path

import numpy as np

_MAPPED = 64 * 2**20
_SLICE = 4 * 2**20  # values that are compared at once
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


class Checkpoint:
    """Read the tensors of `model.safetensors`, or of the files of its index.

    The files are memory-mapped: opening them reads the names and shapes alone, and
    `read` copies one tensor. A mapping is given back after 64 MB, since the pages
    that were read stay in memory with it.

    Args:
        folder: Folder of the files.
        their_class: transformers' class of such a model, for what an error says.

    Attributes:
        shapes: Name -> shape of each tensor.

    Raises:
        FileNotFoundError: No such file. Pickled weights are not read.
        ValueError: A truncated or corrupted file, an index that does not fit.
        ImportError: The package `safetensors` is missing.
    """

    def __init__(self, folder, their_class: str = "AutoModelForPreTraining"):
        self.folder, self.their_class = Path(folder), their_class
        self._paths_of, self.shapes = {}, {}
        self._open, self._open_path, self._bytes = None, None, 0
        paths, index = self._files()
        for path in paths:
            file = open_file(path)
            for name in file.keys():
                if name in index and self.folder / index[name] != path:
                    continue  # a copy: the index takes it from another file
                self._paths_of[name] = path
                self.shapes[name] = tuple(file.get_slice(name).get_shape())
        if index and set(index) != set(self.shapes):
            odd = sorted(set(index) ^ set(self.shapes))
            raise ValueError(
                f"The index {INDEX} and its files disagree about {_some(odd)}. Fetch "
                "the folder again."
            )

    def read(self, name: str) -> np.ndarray:
        """Return one tensor as a NumPy array (bfloat16 as `ml_dtypes` has it)."""
        path = self._paths_of[name]
        if path != self._open_path or self._bytes > _MAPPED:
            self._open = None  # give the pages back before others are read
            self._open, self._open_path, self._bytes = open_file(path), path, 0
        tensor = self._open.get_tensor(name)
        self._bytes += tensor.nbytes
        return tensor

    def same(self, one: str, other: str) -> bool:
        """Return whether two tensors have the same values.

        They are compared in slices: two whole tables may be most of a model.
        """
        shape = self.shapes[one]
        if shape != self.shapes[other]:
            return False
        if not shape:
            return np.array_equal(self.read(one), self.read(other))
        rows = max(1, _SLICE // max(1, prod(shape[1:])))
        return all(
            np.array_equal(
                self._rows(one, start, start + rows),
                self._rows(other, start, start + rows),
            )
            for start in range(0, shape[0], rows)
        )

    def _rows(self, name, start, stop):
        """Copy some rows of a tensor out of a mapping that ends with it."""
        stop = min(stop, self.shapes[name][0])
        return open_file(self._paths_of[name]).get_slice(name)[start:stop]

    def _files(self):
        """Return the files' paths, and which file the index names for each tensor."""
        if (self.folder / SINGLE).is_file():
            return [self.folder / SINGLE], {}
        if (self.folder / INDEX).is_file():
            index = index_of(self.folder)
            return [self.folder / name for name in sorted(set(index.values()))], index
        raise FileNotFoundError(
            f"The folder {str(self.folder)!r} has neither {SINGLE!r} nor {INDEX!r}. "
            "Weights in a Python pickle (pytorch_model.bin) are not read, since it can "
            "run any code when it is opened. Take a revision with safetensors files, "
            "or convert it where you trust it, `source` being the folder or the "
            f"repository's id: transformers.{self.their_class}.from_pretrained(source)"
            ".save_pretrained(new_folder), and the tokenizer: transformers"
            ".AutoTokenizer.from_pretrained(source).save_pretrained(new_folder)."
        )


def open_file(path):
    """Map a safetensors file into memory."""
    safe_open = _safetensors().safe_open
    if not path.is_file():
        raise FileNotFoundError(
            f"The checkpoint lacks the file {path.name!r}. Fetch the folder again."
        )
    try:
        return safe_open(str(path), framework="np")
    except Exception as error:  # the package's own class, of no public name
        raise ValueError(
            f"The file {str(path)!r} is no whole safetensors file: {error}. Fetch it "
            "again (a file of some 130 bytes is a pointer of Git LFS)."
        ) from error


def write_tensors(folder, tensors: dict):
    """Write tensors as `model.safetensors`, as transformers reads it."""
    _safetensors()
    from safetensors.numpy import save_file

    tensors = {name: np.ascontiguousarray(x) for name, x in tensors.items()}
    save_file(tensors, str(Path(folder) / SINGLE), metadata={"format": "pt"})


def _safetensors():
    try:
        import safetensors
    except ImportError as error:
        raise ImportError(
            "Checkpoints are read with the package safetensors. Install it: pip "
            "install 'keras-transformer-layers[pretrained]'."
        ) from error
    return safetensors


def index_of(folder) -> dict[str, str]:
    """Return which file of a folder has which tensor, after its index."""
    path = Path(folder) / INDEX
    try:
        return dict(json.loads(path.read_text("utf-8"))["weight_map"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"The file {str(path)!r} is no index of a checkpoint: {error!r}. Fetch it "
            "again."
        ) from error


def _some(names):
    shown = ", ".join(map(repr, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
