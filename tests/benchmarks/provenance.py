"""What a stored result was made of: hashes of data and of code.

A benchmark that keeps finished runs in a folder names them by these, so that a run of
other data or of an older program is made again, not taken for the present one's.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # measure this checkout
import keras_transformer  # noqa: E402

PACKAGE = Path(keras_transformer.__file__).parent
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def hash_of(value) -> str:
    """Eight letters for a value that JSON can write."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def code_hash(*parts: str, package: Path = PACKAGE) -> str:
    """Eight letters for the program of these folders of the package.

    Comments, docstrings and the layout of lines are no part of it.
    """
    files = [file for part in parts for file in sorted((package / part).rglob("*.py"))]
    if not files:
        raise ValueError(f"{package} has no Python files in {parts}.")
    return hash_of([[str(f.relative_to(package)), file_hash(f)] for f in files])


def program_hash(*parts: str, files: Sequence[Path]) -> str:
    """Eight letters for a benchmark's own files and the parts of the package it runs.

    Args:
        *parts: Folders of the package.
        files: The benchmark's files.
    """
    return hash_of([code_hash(*parts), *map(file_hash, files)])


def file_hash(file: Path) -> str:
    """Eight letters for the program of one file."""
    tree = ast.parse(file.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return hash_of(ast.dump(tree))
