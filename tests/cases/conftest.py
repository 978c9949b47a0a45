"""Lets JAX compile quickly: these tests run many small operations once."""

import keras
import pytest


@pytest.fixture(scope="package", autouse=True)
def quick_compiling():
    """Halves the time on JAX, which compiles each operation for each shape."""
    if keras.backend.backend() != "jax":
        yield
        return
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
