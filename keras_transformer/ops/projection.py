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
)

# A function (layer, inputs, how) in place of `layer(inputs, **how)`, else None.
_projecting: ContextVar = ContextVar("keras_transformer_projecting", default=None)


def project(layer, inputs, **how):
    """Return `layer(inputs, **how)`, within a compiled step the fast way.

    Args:
        layer: A Dense layer, an EinsumDense over all axes of `inputs` but (B, T), or
            a tied ReversibleEmbedding, called with `reverse=True`.
        inputs: (B, T, ...).
        **how: Further arguments of the layer's call.
    """
    projecting = _projecting.get()
    if projecting is None:
        return layer(inputs, **how)
    return projecting(layer, inputs, how)


class StepKernels:
    """The kernels of all projections that a step goes through.

    Args:
        step: Function of a carry, which is traced once.
        carry: What it is called with, nested dicts of tensors.
    """

    def __init__(self, step, carry):
        self._projections: dict[keras.layers.Layer, _Projection] = {}

        def note(layer, inputs, how):
            outputs = layer(inputs, **how)
            self._projections[layer] = _Projection(layer, inputs.shape, outputs.shape)
            return outputs

        if compiles_for_cpu():
            with _projecting_by(note):
                _Step(step).compute_output_spec(_specs(carry))

    def read(self) -> list:
        """Return the kernels as they are now; `None` where a layer is to be called."""
        return [projection.kernel() for projection in self._projections.values()]

    @contextmanager
    def used(self, kernels: list):
        """Let `project` take what `read` returned, in a function that is compiled."""
        pairs = dict(zip(self._projections, kernels, strict=True))

        def use(layer, inputs, how):
            kernel = pairs.get(layer)
            if kernel is None:
                return layer(inputs, **how)
            return self._projections[layer].project(inputs, kernel)

        with _projecting_by(use):
            yield


@contextmanager
def _projecting_by(function):
    token = _projecting.set(function)
    try:
        yield
    finally:
        _projecting.reset(token)


class _Projection:
    """A layer, and the shapes (B, T, ...) of what it projects in one step."""

    def __init__(self, layer, inputs_shape, outputs_shape):
        self._layer, self._outputs_shape = layer, outputs_shape
        self._rows = math.prod(inputs_shape[:2])
        self._width = math.prod(inputs_shape[2:])
        self._axes = len(inputs_shape) - 2

    def kernel(self):
        """Return the kernel, (out, in) for several rows and (in, out) for one."""
        layer, alone = self._layer, self._rows == 1
        if layer.quantization_mode is not None or layer.compute_dtype != "float32":
            return None
        if isinstance(layer, keras.layers.ReversibleEmbedding):
            plain = layer.tie_weights and layer.logit_soft_cap is None
            plain = plain and layer.reverse_dtype is None and not alone
            return ops.convert_to_tensor(layer.embeddings) if plain else None
        kernel = ops.convert_to_tensor(layer.kernel)
        if alone and (len(kernel.shape) == 2 or not fuses_reshaped_kernels()):
            return None
        if alone:
            return ops.reshape(kernel, (self._width, -1))
        order = range(len(kernel.shape))
        return ops.transpose(kernel, (*order[self._axes :], *order[: self._axes]))

    def project(self, inputs, kernel):
        """Return what the layer returns, by its kernel as above."""
        layer, rows = self._layer, ops.reshape(inputs, (self._rows, self._width))
        if self._rows == 1:
            outputs = ops.matmul(rows, kernel)
        else:
            # Without the barrier XLA turns the product around again.
            kernel = ops.reshape(kernel, (-1, self._width))
            columns = fusion_barrier(ops.matmul(kernel, ops.transpose(rows)))
            outputs = ops.transpose(columns)
        outputs = ops.reshape(outputs, self._outputs_shape)
        if getattr(layer, "bias", None) is not None:
            outputs = outputs + ops.convert_to_tensor(layer.bias)
        if getattr(layer, "activation", None) is not None:
            outputs = layer.activation(outputs)
        return outputs


class _Step(keras.Operation):
    """A function that Keras can trace without running it."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def call(self, carry):
        return self._function(carry)


def _specs(carry):
    return keras.tree.map_structure(
        lambda x: keras.KerasTensor(x.shape, keras.backend.standardize_dtype(x.dtype)),
        carry,
    )
