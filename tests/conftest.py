"""What every test shares: a backend, a fixed seed, and the folder of test data."""

import gc
import os
from pathlib import Path

import pytest

# Before Keras is imported, since it reads these once.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Several test processes share one accelerator: take memory as needed, not all of it.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Tracing and compiling leave millions of objects, which take long to look through.
gc.set_threshold(100_000, 20, 20)
# Most tests run tiny compiled functions once: compile them fast, not well.
os.environ["XLA_FLAGS"] = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    + os.environ.get("XLA_FLAGS", "")
)

import keras  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(config, items):
    """Skips notebooks unless asked for: they need one backend, not three."""
    if "notebooks" in config.option.markexpr:
        return
    for item in items:
        if item.get_closest_marker("notebooks"):
            item.add_marker(pytest.mark.skip(reason="runs with -m notebooks"))


@pytest.fixture(scope="session", autouse=True)
def quick_compiling():
    """Lets JAX leave out optimizations: most tests run tiny operations once."""
    if keras.backend.backend() == "jax":
        import jax

        jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(scope="module", autouse=True)
def room_for_programs():
    """Lets JAX forget its programs before a process has too many areas of memory.

    Each compiled program takes some. Linux allows 65,530, and JAX crashes beyond.
    """
    yield
    areas = Path("/proc/self/maps")
    if keras.backend.backend() == "jax" and areas.exists():
        import jax

        if areas.read_bytes().count(b"\n") > 25_000:
            jax.clear_caches()
            gc.collect()


@pytest.fixture(autouse=True)
def same_start():
    """Gives each test the same seed, and undoes its changes of dtype."""
    policy, floatx = keras.config.dtype_policy(), keras.config.floatx()
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(policy)


@pytest.fixture
def quick_quantizing():
    """Keras collects garbage for each sublayer that it quantizes: leaves it little."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session")
def data_folder():
    """The folder of data sets, which are too large for the repository."""
    default = REPOSITORY.parent / "shared" / "data"
    folder = Path(os.environ.get("KERAS_TRANSFORMER_DATA") or default)
    if not folder.is_dir():
        pytest.skip(f"no data at {folder}: set KERAS_TRANSFORMER_DATA")
    return folder
