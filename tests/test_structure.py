"""The shape of the repository: imports, state and sizes."""

import ast
import importlib
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "keras_transformer"
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {file: ast.parse(file.read_text("utf-8"), str(file)) for file in FILES}

# A part imports only parts of a lower rank, and itself.
RANK = {
    "ops": 0,
    **dict.fromkeys(["layers", "generation", "visualization", "tokenizers"], 1),
    **dict.fromkeys(["models", "datasets", "distribution"], 2),
    "training": 3,
    **dict.fromkeys(["tasks", "pretrained"], 4),
    "cli": 5,
    **dict.fromkeys(["__init__", "__main__"], 6),
}
BACKENDS = {"tensorflow", "jax", "torch"}
OPTIONAL = {
    "huggingface_hub",
    "keras_hub",
    "matplotlib",
    "sacrebleu",
    "safetensors",
    "tokenizers",
    "transformers",
}
# Calls whose results at module level are no state.
CONSTANT_CALLS = {
    "Lock",
    "MappingProxyType",
    "NewType",
    "TypeVar",
    "compile",
    "float",
    "frozenset",
    "fromkeys",
    "getLogger",
    "namedtuple",
    "tuple",
}
CONTAINERS = (ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Set, ast.SetComp)
WRITING_METHODS = {"add", "append", "extend", "insert", "pop", "setdefault", "update"}
FUNCTIONS = (ast.AsyncFunctionDef, ast.FunctionDef, ast.Lambda)


def relative(file):
    return file.relative_to(PACKAGE).as_posix()


def part(file):
    """The first folder of a file below the package, or the file's own name."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(file, nodes=None):
    """Yields the full name of each thing that a file imports."""
    package = ["keras_transformer", *file.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(TREES[file]) if nodes is None else nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *([node.module] if node.module else [])]
            yield from (".".join([*base, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in {
            "__import__",
            "import_module",
        }:
            yield from (a.value for a in node.args if isinstance(a, ast.Constant))


def called(call):
    function = call.func
    return getattr(function, "id", None) or getattr(function, "attr", None)


def module_level(node, closed=FUNCTIONS):
    """Yields the nodes that run on import: all but the insides of functions."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, closed):
            yield from module_level(child, closed)


def tracked_files():
    """The repository's files, those not yet committed included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not in a git checkout")
    names = listed.stdout.decode().split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def run_python(code, **environment):
    environment = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
    )


def test_every_part_has_a_rank():
    assert FILES
    assert {part(file) for file in FILES} <= set(RANK)


@pytest.mark.parametrize("file", FILES, ids=relative)
def test_imports_point_one_way(file):
    for name in imports(file):
        package, _, rest = name.partition(".")
        if package != "keras_transformer":
            continue
        target = rest.split(".")[0]
        if part(file) in {"generation", "visualization"}:
            assert target in {"ops", part(file)}, f"{relative(file)} imports {name}"
        elif part(file) not in {"__init__", "__main__"}:
            # A name of the package itself would come from the top, not from a part.
            assert target in RANK, f"{relative(file)} imports {name} from the top"
            lower = RANK[target] < RANK[part(file)]
            assert lower or target == part(file), f"{relative(file)} imports {name}"


@pytest.mark.parametrize("file", FILES, ids=relative)
def test_only_the_backend_file_imports_a_backend(file):
    if relative(file) not in {"ops/backend.py", "distribution.py"}:
        assert not BACKENDS & {name.split(".")[0] for name in imports(file)}


@pytest.mark.parametrize("file", FILES, ids=relative)
def test_only_public_keras_is_used(file):
    assert not [name for name in imports(file) if f"{name}.".startswith("keras.src.")]
    for node in ast.walk(TREES[file]):
        if isinstance(node, ast.Attribute) and node.attr == "src":
            assert ast.unparse(node.value) != "keras"


@pytest.mark.parametrize("file", FILES, ids=relative)
def test_optional_packages_are_imported_where_used(file):
    names = imports(file, module_level(TREES[file]))
    assert not OPTIONAL & {name.split(".")[0] for name in names}


@pytest.mark.parametrize("file", FILES, ids=relative)
def test_module_level_holds_no_state(file):
    tables, context_variables = set(), []
    for node in module_level(TREES[file], (*FUNCTIONS, ast.ClassDef)):
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            continue
        line, value = f"{relative(file)}: {ast.unparse(node)[:80]}", node.value
        if isinstance(value, CONTAINERS):
            # A table of settings is no state: it starts full, and none writes to it.
            full = getattr(value, "keys", None) or getattr(value, "elts", None)
            assert full, line
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            tables |= {ast.unparse(target) for target in targets}
        elif isinstance(value, ast.Call) and called(value) == "ContextVar":
            context_variables.append(line)
        elif isinstance(value, ast.Call):
            assert called(value) in CONSTANT_CALLS, line
    modules = ("attention", "projection")
    expected = relative(file) in {f"ops/{module}.py" for module in modules}
    assert len(context_variables) == expected, context_variables
    for node in ast.walk(TREES[file]):
        assert not isinstance(node, ast.Global), f"{relative(file)}: {node.names}"
        for decorator in getattr(node, "decorator_list", []):
            name = ast.unparse(decorator).split("(")[0].split(".")[-1]
            assert name not in {"cache", "lru_cache"}, f"{relative(file)}: {name}"
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            assert ast.unparse(node.value) not in tables, ast.unparse(node)
        if isinstance(node, ast.Attribute) and node.attr in WRITING_METHODS:
            assert ast.unparse(node.value) not in tables, ast.unparse(node)


def test_each_test_file_has_a_name_of_its_own():
    # The folders are no packages, so pytest takes files of one name for one module.
    names = [file.name for file in ROOT.glob("tests/**/test_*.py")]
    assert len(names) > 100 and len(set(names)) == len(names)


@pytest.mark.parametrize(
    "file",
    [*FILES, *sorted(ROOT.glob("tests/**/*.py"))],
    ids=lambda file: file.relative_to(ROOT).as_posix(),
)
def test_no_file_is_longer_than_400_lines(file):
    length = len(file.read_text("utf-8").splitlines())
    assert length <= 400


@pytest.mark.parametrize("readme", ["README.md", "README.ko.md"])
def test_every_public_name_stands_in_the_readme(readme):
    parts = ["generation", "tasks", "datasets", "tokenizers", "visualization"]
    names = []
    for part in ["", *parts, "training", "pretrained"]:
        names += importlib.import_module(f"keras_transformer.{part}".strip(".")).__all__
    text = (ROOT / readme).read_text("utf-8")
    code = " ".join(re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL))
    # A layer stands in the map by its file, which has its name.
    files = {stem.replace("_", "") for stem in re.findall(r"/(\w+)\.py", code)}
    missing = set(names) - set(re.findall(r"\w+", code))
    assert not {name for name in missing if name.lower() not in files}


def test_the_top_level_stays_small():
    allowed = {
        "CHANGELOG.md",
        "LICENSE",
        "README.ko.md",
        "README.md",
        "data",
        "keras_transformer",
        "notebooks",
        "pyproject.toml",
        "tests",
    }
    top = {name.split("/")[0] for name in tracked_files()}
    assert {name for name in top if not name.startswith(".")} <= allowed


def test_data_and_notebooks_stay_small():
    sizes = {name: (ROOT / name).stat().st_size for name in tracked_files()}
    assert sum(s for name, s in sizes.items() if name.startswith("data/")) <= 2_000_000
    for name, size in sizes.items():
        if Path(name).name == "spm.model":
            assert size <= 400_000, name
        if name.startswith("notebooks/") and name.endswith(".ipynb"):
            assert size <= 700_000, name


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_tensorflow_is_not_imported_under_another_backend(backend):
    if keras.backend.backend() not in (backend, "tensorflow"):
        pytest.skip("runs on this backend itself, and on TensorFlow")
    pytest.importorskip(backend)
    code = "import sys, keras_transformer; print('tensorflow' in sys.modules)"
    done = run_python(code, KERAS_BACKEND=backend)
    assert done.stdout.strip() == "False", done.stderr


def test_no_backend_gives_a_message_that_says_how():
    # Finders that find no backend, as on a machine without one.
    code = f"""
import sys
class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *rest):
        if name.split(".")[0] not in {BACKENDS}:
            return self.finder.find_spec(name, *rest)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
import keras_transformer
"""
    done = run_python(code)
    assert done.returncode
    message = done.stderr.split("ImportError: ")[-1]
    assert "pip install" in message, done.stderr
    assert all(f"[{backend}]" in message for backend in BACKENDS), message


def test_warnings_of_our_own_code_alone_are_errors():
    def warn_in(module):
        warnings.warn_explicit("text", UserWarning, "file.py", 1, module=module)

    with pytest.raises(UserWarning):
        warn_in("keras_transformer.layers.base")
    with pytest.warns(UserWarning):
        warn_in("keras_transformers")
