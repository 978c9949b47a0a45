"""Makes the many tiny programs of the parity tests quick to compile."""

import keras
import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    """Compiles without optimisation on JAX, where compiling takes most of the time."""
    if keras.backend.backend() != "jax":
        yield
        return
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
