"""The Korean notebooks: each runs, and stands as it should in the repository."""

import json
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
EACH = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def cells(file, kind):
    read = json.loads(file.read_text("utf-8"))["cells"]
    return [cell for cell in read if cell["cell_type"] == kind]


def source(cell):
    return "".join(cell["source"])


def run(file, execute, folder, **settings):
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(file, as_version=4)
    execute(notebook, folder / "notebooks", **settings)
    left = {path.name for path in (folder / "notebooks").iterdir()}
    kept = {path.name for path in file.parent.iterdir()} | {"__pycache__"}
    assert left <= kept, "a notebook writes elsewhere than beside itself"


@pytest.mark.notebooks
@EACH
def test_it_runs_small_and_its_claims_hold(file, execute, tmp_path):
    run(file, execute, tmp_path)  # the claims are asserted in its own cells


@pytest.mark.notebooks
@pytest.mark.slow
@EACH
def test_it_runs_in_full_and_its_claims_hold(file, execute, tmp_path):
    run(file, execute, tmp_path, small=False, timeout=3600)


def test_there_are_notebooks_named_by_section():
    assert FILES
    for file in FILES:
        assert re.fullmatch(r"\d\d_[a-z0-9_]+\.ipynb", file.name), file.name


@EACH
def test_it_was_executed_from_top_to_bottom(file):
    code = cells(file, "code")
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [out for out in outputs if out["output_type"] == "error"]
    assert not [out for out in outputs if out.get("name") == "stderr"]
    assert any("image/png" in out.get("data", {}) for out in outputs)


def test_a_pretrained_model_that_cannot_be_fetched_stops_nothing(capsys):
    (file,) = [file for file in FILES if file.stem.startswith("13_")]
    code = map(source, cells(file, "code"))
    (cell,) = [text for text in code if "from_pretrained(model_id)" in text]

    def from_pretrained(model_id):
        raise ConnectionError("there is no network")

    names = {"model_id": "openai-community/gpt2", "from_pretrained": from_pretrained}
    exec(cell, names)
    assert names["진짜"] is None
    assert "openai-community/gpt2" in capsys.readouterr().out


@EACH
def test_nothing_of_a_machine_is_in_it(file):
    assert not re.search(r"/(tmp|root|home|Users)/|[A-Z]:\\\\", file.read_text("utf-8"))


@EACH
def test_one_visible_cell_sets_the_small_mode(file):
    setting = [c for c in cells(file, "code") if "KERAS_TRANSFORMER_SMALL" in source(c)]
    assert setting == cells(file, "code")[:1]


@EACH
def test_it_ends_with_claims_that_hold_terms_and_exercises(file):
    (table,) = [c for c in cells(file, "code") if 'assert 결과["성립"]' in source(c)]
    shown = "".join(str(output) for output in table["outputs"])
    assert all(word in shown for word in ("주장", "잰 값", "기준", "성립", "True"))
    assert "False" not in shown
    text = "\n".join(map(source, cells(file, "markdown")))
    for part in ("## 용어", "attention", "## 연습", "<summary>답</summary>"):
        assert part in text, part


@EACH
@pytest.mark.parametrize("readme", ["README.md", "README.ko.md"])
def test_the_maps_lead_to_it(file, readme):
    assert f"notebooks/{file.name}" in (REPOSITORY / readme).read_text("utf-8")
