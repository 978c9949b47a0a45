"""The kernels of a compiled step: transposed copies that change no result."""

import gc
import weakref

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from cases.helpers import array, assert_close, randomize
from keras_transformer.generation import stream
from keras_transformer.ops.backend import compiled, compiles_for_cpu
from keras_transformer.ops.projection import StepKernels, project

on_xla = pytest.mark.skipif(
    not compiles_for_cpu(),
    reason="only searches compiled by XLA for a CPU copy kernels",
)


class Projections(keras.layers.Layer):
    """One projection of each kind, side by side."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        dtype = self.dtype_policy
        self.parts = [
            keras.layers.Dense(5, activation="gelu", dtype=dtype),
            keras.layers.Dense(6, use_bias=False, dtype=dtype),
            keras.layers.EinsumDense(
                "bse,enh->bsnh", (None, 3, 2), bias_axes="nh", dtype=dtype
            ),
        ]
        self.joint = keras.layers.EinsumDense(
            "btgh,ghi->bti", (None, 4), bias_axes="i", dtype=dtype
        )
        self.table = keras.layers.ReversibleEmbedding(9, 4, dtype=dtype)

    def build(self, shape):
        for part in self.parts:
            part.build(shape)
        self.joint.build((None, None, 3, 2))
        self.table.build((None, None))

    def call(self, inputs):
        outputs = [project(part, inputs) for part in self.parts]
        joint = project(self.joint, outputs[-1])
        return [*outputs, joint, project(self.table, joint, reverse=True)]


def make_projections(**settings):
    layer = Projections(**settings)
    layer.build((None, None, 4))
    return randomize(layer)


def in_step(layer, inputs):
    """What a compiled step returns, and the weights that it read."""
    kernels = StepKernels(lambda inputs: inputs, layer, (inputs,))

    def step(weights, inputs):
        with kernels.used(weights):
            return layer(inputs)

    weights = kernels.read()
    return compiled(step, layer)(weights, inputs), weights


def check_step(layer, inputs, atol=1e-5):
    """Compare a step with a call, and return the weights that it read."""
    outputs, weights = in_step(layer, inputs)
    for got, expected in zip(outputs, layer(inputs), strict=True):
        assert_close(array(got), array(expected), atol=atol)
    return weights


def make_inputs(rows):
    inputs = np.random.normal(size=(rows, 1, 4)).astype("float32")
    return ops.convert_to_tensor(inputs)


@pytest.mark.parametrize("rows", [1, 2, 5, 65])
def test_a_step_projects_as_the_layers_do(rows):
    layer, inputs = make_projections(), make_inputs(rows)
    weights = check_step(layer, inputs)
    if compiles_for_cpu() and rows == 1:
        assert tuple(weights[-1][0].shape) == (9, 4), "a table is read as it lies"
    if compiles_for_cpu() and 1 < rows < 65:
        shapes = [tuple(kernel.shape) for kernel, _ in weights]
        assert shapes == [(5, 4), (6, 4), (3, 2, 4), (4, 3, 2), (9, 4)]


@on_xla
@pytest.mark.usefixtures("quick_quantizing")
def test_kernels_of_other_kinds_are_left_to_their_layers():
    layer, inputs = make_projections(), make_inputs(2)
    layer.parts[0].enable_lora(2)
    layer.parts[0].lora_kernel_b.assign(np.ones(layer.parts[0].lora_kernel_b.shape))
    layer.parts[1].quantize("int8")
    weights = check_step(layer, inputs)
    assert [pair is None for pair in weights] == [False, True, False, False, False]
    half = make_projections(dtype="mixed_bfloat16")
    assert check_step(half, inputs, atol=0.1) == [None] * 5


class Doubled(keras.layers.Dense):
    """A projection of a user's own."""

    def call(self, inputs):
        return 2 * super().call(inputs)


class Stepping(keras.layers.Layer):
    """A step that calls one projection with inputs of several shapes."""

    def __init__(self, projection, shapes, **kwargs):
        super().__init__(**kwargs)
        self.projection, self.shapes = projection, shapes

    def build(self, shape):
        self.projection.build((None, None, 4))

    def call(self, inputs):
        flat = ops.reshape(inputs, (-1,))
        return [
            project(self.projection, ops.reshape(flat[: np.prod(shape)], shape))
            for shape in self.shapes
        ]


@on_xla
@pytest.mark.parametrize(
    "projection, shapes, copied",
    [
        (Doubled(4), [(2, 1, 4)], []),
        (keras.layers.SpectralNormalization(keras.layers.Dense(4)), [(2, 1, 4)], []),
        (keras.layers.Dense(3), [(2, 1, 4), (1, 1, 4), (2, 4)], [True, False, True]),
        (keras.layers.Dense(3), [(2, 1, 2, 4), (1, 4)], [True, False]),
        (
            keras.layers.Dense(3, activation="tanh", dtype="float32"),
            [(2, 1, 4)],
            [True],
        ),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_whatever_is_projected_a_step_is_right(projection, shapes, copied, dtype):
    projection = type(projection).from_config(projection.get_config())
    layer = Stepping(projection, shapes, dtype=dtype)
    layer.build((None, None, 4))
    randomize(layer)
    weights = check_step(layer, make_inputs(4), atol=1e-5)
    assert [pair is not None for pair in weights] == copied


@on_xla
def test_what_a_step_cannot_do_is_said_in_the_backends_words():
    model = kt.LanguageModel(30, 1, 8, 2, 16, pad_id=None)
    model.build()

    def look(history, logits):
        raise ZeroDivisionError("my own processor")

    with pytest.raises(ZeroDivisionError, match="^my own processor"):
        kt.generate(model, [[3, 4]], max_new_tokens=2, processors=[look])


@on_xla
def test_only_what_a_step_reads_is_copied():
    """The encoder and the projections of its outputs take no part in a step."""
    model = kt.Seq2SeqTransformer(20, 2, 8, 2, 16, start_id=1, pad_id=0, stop_id=None)
    model.build()
    inputs = np.array([[5, 6, 7], [8, 9, 0]])
    state = model.start({"token_ids": inputs, "padding_mask": inputs > 0}, 4)
    tokens = ops.convert_to_tensor(np.array([1, 1], "int32"))
    kernels = StepKernels(lambda *x: x, lambda x: model.step(*x), (tokens, state))
    # Each of two blocks: self-attention 4, cross-attention 2, feed-forward 2; the head.
    assert len(kernels.read()) == 2 * (4 + 2 + 2) + 1


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.usefixtures("quick_quantizing")
def test_a_search_reads_the_weights_of_now(rows):
    model = kt.LanguageModel(30, 2, 8, 2, 16, pad_id=None)
    model.build()
    randomize(model)
    prompts, settings = [[3, 4, 5]] * rows, dict(max_new_tokens=6)

    def found():
        texts = kt.generate(model, prompts, **settings).tolist()
        plain = kt.generate(model, prompts, jit_compile=False, **settings).tolist()
        assert texts == plain
        return texts

    first = found()
    randomize(model, seed=1)
    second = found()
    dense = model.decoder.blocks[1].feed_forward.feed_forward_output
    dense.enable_lora(2)
    rng = np.random.default_rng(2)
    for weight in (dense.lora_kernel_a, dense.lora_kernel_b):
        weight.assign(2 * rng.normal(size=weight.shape))
    third = found()
    model.quantize("int8")
    found()
    assert first != second and second != third


@pytest.mark.parametrize("rows", [1, 2])
def test_a_stream_reads_the_weights_of_each_step(rows):
    def found(**settings):
        model = kt.LanguageModel(30, 2, 8, 2, 16, pad_id=None)
        model.build()
        randomize(model)
        tokens = []
        for token in stream(model, [[3]] * rows, max_new_tokens=8, **settings):
            tokens.append(token.tolist())
            if len(tokens) == 3:
                randomize(model, seed=1)
        return tokens

    assert found() == found(jit_compile=False)


class Counting(kt.LanguageModel):
    """A model of a user's own, whose steps count themselves."""

    def build(self, shape=None):
        super().build(shape)
        self.steps = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def step(self, tokens, state):
        self.steps.assign(self.steps + 1)
        return super().step(tokens, state)


@on_xla
def test_a_variable_that_a_step_assigns_to_stays_a_variable():
    model = Counting(30, 1, 8, 2, 16, pad_id=None)
    model.build()
    kt.generate(model, [[3]], max_new_tokens=2)
    assert np.isfinite(array(model.steps))


@on_xla
def test_no_copy_outlives_its_search(monkeypatch):
    model = kt.LanguageModel(30, 1, 8, 2, 16, pad_id=None, tie_head=False)
    model.build()
    read, copies = StepKernels.read, []

    def watched(self, **how):
        weights = read(self, **how)
        copies.extend(weakref.ref(kernel) for kernel, _ in filter(None, weights))
        return weights

    monkeypatch.setattr(StepKernels, "read", watched)
    kt.generate(model, [[3], [4]], max_new_tokens=2)
    assert len(copies) == 4 + 2 + 1
    list(stream(model, [[3], [4]], max_new_tokens=2))
    assert len(copies) == 4 + 2 + 1
    gc.collect()
    assert not any(reference() is not None for reference in copies)
