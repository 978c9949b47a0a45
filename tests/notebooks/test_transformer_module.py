"""`from transformer import ...`: with the package installed, beside it, or neither."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import keras_transformer

REPOSITORY = Path(__file__).resolve().parents[2]
NOTEBOOKS = REPOSITORY / "notebooks"

# Hides an installed checkout, so that only what the module finds itself is there.
IMPORT = """
import os, sys
sys.path[:] = [path for path in sys.path if not os.path.isdir(
    os.path.join(path or os.curdir, "keras_transformer"))]
sys.path.insert(0, "")
from transformer import TransformerEncoder, TransformerDecoder
print(TransformerEncoder.__module__)
"""


def import_in(folder):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-c", IMPORT],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
    )


def test_it_has_the_packages_names(monkeypatch):
    monkeypatch.syspath_prepend(NOTEBOOKS)
    import transformer

    assert transformer.__all__ == keras_transformer.__all__
    for name in transformer.__all__:
        assert getattr(transformer, name) is getattr(keras_transformer, name)


@pytest.mark.notebooks
def test_a_checkout_needs_no_installed_package():
    done = import_in(NOTEBOOKS)
    assert done.stdout.startswith("keras_transformer."), done.stderr


def test_without_the_package_it_says_how_to_install(tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    shutil.copy(NOTEBOOKS / "transformer.py", folder)
    done = import_in(folder)
    assert done.returncode
    message = done.stderr.split("ModuleNotFoundError: ")[-1]
    assert "pip install" in message, done.stderr
