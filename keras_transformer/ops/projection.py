"""Projections of a decoding step: few rows, whose time is that of reading kernels.

XLA on CPU multiplies a few rows by a kernel (in, out) at two thirds of the speed at
which it multiplies the transposed kernel (out, in) by them. So a search transposes the
kernels once, and its compiled steps read these copies.
"""

import math
from contextlib import contextmanager
from contextvars import ContextVar

import keras
from keras import ops

from keras_transformer.ops.backend import (
    compiles_for_cpu,
    fuses_reshaped_kernels,
    fusion_barrier,
    trace,
)

# A function (layer, inputs, arguments) in place of the layer's call, else None.
_projecting: ContextVar = ContextVar("keras_transformer_projecting", default=None)


def project(layer, inputs, **arguments):
    """Return `layer(inputs, **arguments)`, in a compiled step the fast way.

    Args:
        layer: A Dense layer; an EinsumDense over all axes of `inputs` but (B, T); or
            a tied ReversibleEmbedding, called with `reverse=True`. Any other layer is
            simply called.
        inputs: (B, T, ...).
        **arguments: Further arguments of the layer's call.

    Returns:
        The layer's outputs, in a compiled step without a mask.
    """
    projecting = _projecting.get()
    if projecting is None:
        return layer(inputs, **arguments)
    return projecting(layer, inputs, arguments)


class StepKernels:
    """The kernels of all projections that the steps of a search go through.

    Args:
        begin: Function of the values; makes the carry of the first step.
        advance: Function of a carry, one step.
        values: What `begin` is called with, to trace both once.
    """

    def __init__(self, begin, advance, values):
        self._projections: dict[tuple, _Projection] = {}

        def note(layer, inputs, arguments):
            outputs = layer(inputs, **arguments)
            if type(layer) in _KINDS:
                key = (layer, tuple(inputs.shape))
                self._projections[key] = _Projection(*key, tuple(outputs.shape))
            return outputs

        def step(*values):
            carry = begin(*values)
            with _projecting_by(note):
                return advance(carry)

        if compiles_for_cpu():
            trace(step, *values)

    def read(self, *, copies: bool = True) -> list:
        """Return kernels and biases of now; `None` where a layer is to be called.

        Args:
            copies: `False` leaves out what would have to be copied.
        """
        return [p.weights(copies) for p in self._projections.values()]

    @contextmanager
    def used(self, weights: list):
        """Let `project` take what `read` returned, in a function that is compiled."""
        found = dict(zip(self._projections, weights, strict=True))

        def use(layer, inputs, arguments):
            key = (layer, tuple(inputs.shape))
            if found.get(key) is None:
                return layer(inputs, **arguments)
            return self._projections[key].project(inputs, *found[key])

        with _projecting_by(use):
            yield


@contextmanager
def _projecting_by(function):
    token = _projecting.set(function)
    try:
        yield
    finally:
        _projecting.reset(token)


# Of a translator's 64 rows a step took 0.93 times as long with copies, of 256 1.06.
_MOST_ROWS = 64
# A subclass of these may do anything in its call.
_KINDS = (
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.ReversibleEmbedding,
)


class _Projection:
    """A layer, and the shapes of what it projects in one step."""

    def __init__(self, layer, inputs_shape, outputs_shape):
        self._layer, self._outputs_shape = layer, outputs_shape
        joint = isinstance(layer, keras.layers.EinsumDense)
        self._axes = len(inputs_shape) - 2 if joint else 1  # that are summed over
        self._width = math.prod(inputs_shape[-self._axes :])
        self._rows = math.prod(inputs_shape[: -self._axes])
        # A table lies as (out, in); for one row the others are not worth a copy. (By
        # its layer's call, JAX copied it transposed at each step of one row: 1.2 times
        # as long for GPT-2's shape.)
        self._tied = isinstance(layer, keras.layers.ReversibleEmbedding)
        self._few = (0 if self._tied else 1) < self._rows <= _MOST_ROWS
        self._reshaped = self._rows == 1 and joint and fuses_reshaped_kernels()

    def weights(self, copies):
        """Return the kernel, (out, in) or for one row (in, out), and the bias."""
        layer = self._layer
        other = layer.quantization_mode or layer.compute_dtype != "float32"
        if other or not (self._few or self._reshaped):
            return None
        if self._tied:
            plain = layer.tie_weights and layer.logit_soft_cap is None
            plain = plain and layer.reverse_dtype is None
            return (ops.convert_to_tensor(layer.embeddings), None) if plain else None
        if self._few and not copies:
            return None
        kernel, bias = ops.convert_to_tensor(layer.kernel), layer.bias
        bias = None if bias is None else ops.convert_to_tensor(bias)
        if self._reshaped:
            return ops.reshape(kernel, (self._width, -1)), bias
        axes = range(len(kernel.shape))
        order = (*axes[self._axes :], *axes[: self._axes])
        return ops.transpose(kernel, order), bias

    def project(self, inputs, kernel, bias):
        """Return what the layer returns, by its weights as above."""
        rows = ops.cast(inputs, self._layer.compute_dtype)
        rows = ops.reshape(rows, (self._rows, self._width))
        if self._reshaped:
            outputs = ops.matmul(rows, kernel)
        else:
            kernel = ops.reshape(kernel, (-1, self._width))
            # Without the barrier XLA turns the product around again.
            columns = fusion_barrier(ops.matmul(kernel, ops.transpose(rows)))
            outputs = ops.transpose(columns)
        outputs = ops.reshape(outputs, self._outputs_shape)
        if bias is not None:
            outputs = outputs + bias
        activation = getattr(self._layer, "activation", None)
        return outputs if activation is None else activation(outputs)
