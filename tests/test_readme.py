"""The Python of the README runs, and its translation has the same."""

import ast
import re
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).resolve().parents[1]


def blocks(name):
    text = (ROOT / name).read_text("utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def test_the_translation_has_the_same_python():
    ours, theirs = map(blocks, ("README.md", "README.ko.md"))
    assert len(ours) >= 7
    for one, other in zip(ours, theirs, strict=True):
        assert ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))


@pytest.mark.slow
def test_the_python_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.set_random_seed(0)
    names = {}
    for number, block in enumerate(blocks("README.md")):
        exec(compile(block, f"README.md, block {number}", "exec"), names)
    written = {path.name for path in tmp_path.iterdir()}
    tasks = {"my_classifier", "my_translator", "my_generator"}
    assert {"attention.html", "written.html", *tasks} <= written
