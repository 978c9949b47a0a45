"""How tests run notebooks: in a copy of the folder, in a process of their own."""

import os
import shutil
from pathlib import Path

import keras
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def execute():
    """Returns a function that runs a notebook in a copy of notebooks/."""
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")

    def run(notebook, folder, small=True, timeout=600):
        unwanted = shutil.ignore_patterns("*.ipynb", "*.keras", ".*", "__pycache__")
        shutil.copytree(REPOSITORY / "notebooks", folder, ignore=unwanted)
        path = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
        environment = {
            **os.environ,
            "IPYTHONDIR": str(folder.parent / "ipython"),
            "KERAS_BACKEND": keras.backend.backend(),
            "KERAS_TRANSFORMER_SMALL": str(int(small)),
            "PYTHONPATH": path.rstrip(os.pathsep),
        }
        for own in ("KERAS_TRANSFORMER_GPT2", "KERAS_TRANSFORMER_REVIEWS"):
            environment.pop(own, None)
        client = nbclient.NotebookClient(
            notebook,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
            timeout=timeout,
        )
        client.execute(env=environment)  # raises where a cell does

    return run
