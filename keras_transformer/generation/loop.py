"""The loop of every search, compiled or in plain Python."""

import keras
from keras import ops

from keras_transformer.ops.attention import is_recording
from keras_transformer.ops.backend import (
    compiled,
    compiled_step,
    runs_loops_in_python,
    without_gradients,
)
from keras_transformer.ops.projection import StepKernels


class Search:
    """`carry = begin(*values)`, then `carry = advance(carry)` while `going(carry)`.

    Args:
        model: The model that is searched; compiled functions live with it.
        settings: What makes the three functions differ, hashable.
        begin: Function of tensors; makes the carry, nested dicts of tensors.
        advance: Function of the carry; chooses one more token of each row.
        going: Function of the carry; a boolean scalar.
    """

    def __init__(self, model, settings: tuple, begin, advance, going):
        self._model, self._settings = model, settings
        self._begin, self._advance, self._going = begin, advance, going

    def run(self, *values, jit_compile: bool = True):
        """Return the last carry.

        The plain loop is the same search, slower: to compare with, and to record
        attention, which a compiled function does not show.
        """
        values = _tensors(values)
        if not jit_compile or is_recording():
            return _last(self._plain(*values))
        if runs_loops_in_python():
            return _last(self.steps(*values))

        kernels = self._step_kernels(values)

        def whole(weights, *values):
            carry = self._begin(*values)
            with kernels.used(weights):
                return ops.while_loop(
                    self._going, lambda carry: (self._advance(carry),), (carry,)
                )[0]

        return self._compiled("whole", whole)(kernels.read(), *values)

    def steps(self, *values, jit_compile: bool = True):
        """Yield the carry after each token, and at the beginning."""
        values = _tensors(values)
        if not jit_compile or is_recording():
            yield from self._plain(*values)
            return
        kernels = self._step_kernels(values)

        def advance(weights, carry):
            with kernels.used(weights):
                return self._advance(carry)

        advance = compiled_step(advance, self._model, self._key("advance"))
        carry = self._compiled("begin", self._begin)(*values)
        yield carry
        while _true(self._going(carry)):
            # Each step reads the weights of its time, so a copy would be for one step.
            carry = advance(kernels.read(copies=False), carry)
            yield carry

    def _plain(self, *values):
        carry = without_gradients(self._begin)(*values)
        yield carry
        while _true(self._going(carry)):
            carry = without_gradients(self._advance)(carry)
            yield carry

    def _step_kernels(self, values):
        kept = vars(self._model).setdefault("_step_kernels", {})
        if self._settings not in kept:
            kept[self._settings] = StepKernels(self._begin, self._advance, values)
        return kept[self._settings]

    def _compiled(self, part, function):
        return compiled(function, self._model, self._key(part))

    def _key(self, part):
        return (part, *self._settings)


def _last(carries):
    for carry in carries:
        last = carry
    return last


def _tensors(values):
    # With their dtype: where floats are bfloat16, Keras makes integers float32 on JAX.
    return keras.tree.map_structure(
        lambda x: ops.convert_to_tensor(
            x, dtype=keras.backend.standardize_dtype(x.dtype)
        ),
        values,
    )


def _true(value):
    return bool(ops.convert_to_numpy(value))
