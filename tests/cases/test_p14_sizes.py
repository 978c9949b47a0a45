"""P14: key_dim is a head's own size; sizes that do not fit are refused by name.

Sources: keras-team/keras#21219, #16951, #14405, PR #20503.
"""

import inspect

import keras
import numpy as np
import pytest

import keras_transformer as kt

from .complete_examples import COMPLETE
from .examples import CORE, EXAMPLES, block, quick, shape
from .helpers import array

NONE = {"B": None, "T": None, "S": None}
BLOCKS = {
    "encoder": kt.TransformerEncoder,
    "decoder": kt.TransformerDecoder,
    "block": kt.TransformerBlock,
    "stack": lambda *args, **more: kt.TransformerStack(2, *args, **more),
}


def count(layer):
    return sum(int(np.prod(w.shape)) for w in layer.trainable_variables)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_width_that_heads_do_not_divide_is_refused_with_both_numbers(name):
    with pytest.raises(ValueError, match="(?s)21.*8|8.*21"):
        BLOCKS[name](embed_dim=21, num_heads=8, dense_dim=12)


@pytest.mark.parametrize("name", quick(["encoder", "block", "stack"]))
def test_a_key_dim_of_any_size_keeps_the_width(name):
    layer = BLOCKS[name](
        embed_dim=16, num_heads=3, dense_dim=12, key_dim=10, name="layer"
    )
    assert tuple(layer(keras.Input((4, 16))).shape) == (None, 4, 16)
    first = "layer/block_0/self_attention/" if name == "stack" else "self_attention/"
    weights = [w for w in layer.trainable_variables if first in w.path]
    assert sum(int(np.prod(w.shape)) for w in weights) == 2026


def test_attention_counts_its_parameters_per_head():
    layer = kt.MultiHeadAttention(3, 10)
    layer.build((None, None, 16), (None, None, 16))
    assert count(layer) == 3 * (16 * 30 + 30) + (30 * 16 + 16) == 2026
    theirs = keras.layers.MultiHeadAttention(3, 10)
    theirs.build((None, None, 16), (None, None, 16))
    assert [w.shape for w in layer.weights] == [w.shape for w in theirs.weights]


@pytest.mark.parametrize("name", quick(BLOCKS, ["stack"]))
def test_the_default_key_dim_divides_the_width_among_the_heads(name):
    layer = BLOCKS[name](embed_dim=12, num_heads=3, dense_dim=8)
    inputs = [keras.Input((None, 12))] * (2 if name == "decoder" else 1)
    layer(*inputs)
    kernels = [w for w in layer.trainable_variables if w.path.endswith("query/kernel")]
    assert kernels
    assert all(tuple(kernel.shape) == (12, 3, 4) for kernel in kernels)


@pytest.mark.parametrize("name", quick(["decoder", "block", "stack"]))
def test_a_source_of_another_width_works(name):
    more = {} if name == "decoder" else {"cross_attention": True}
    layer = BLOCKS[name](embed_dim=16, num_heads=2, dense_dim=12, **more)
    symbolic = [keras.Input((None, 16)), keras.Input((None, 24))]
    assert tuple(layer(*symbolic).shape) == (None, None, 16)
    kernels = {w.path.split(name, 1)[-1]: w.shape for w in layer.trainable_variables}
    assert (24, 2, 8) in {tuple(size) for size in kernels.values()}


@pytest.mark.parametrize(
    "layer", [kt.MultiHeadAttention(2, 4), kt.BahdanauAttention(4)]
)
def test_queries_keys_and_values_may_have_three_widths(layer):
    query, value, key = (
        np.ones((2, t, e), "float32") for t, e in [(3, 7), (5, 9), (5, 6)]
    )
    width = 7 if isinstance(layer, kt.MultiHeadAttention) else 9
    assert tuple(layer(query, value, key).shape) == (2, 3, width)


def specs(example):
    shapes = [shape(text.split(" ", 1)[1], **NONE) for text in example.inputs]
    return shapes, shape(example.output, **NONE)


def all_examples():
    for table in (EXAMPLES, COMPLETE):
        for name, example in table.items():
            if isinstance(example.output, str):
                full = "" if table is EXAMPLES else "-complete"
                marks = () if name + full in CORE else pytest.mark.slow
                yield pytest.param(example, id=name + full, marks=marks)


@pytest.mark.parametrize("example", all_examples())
def test_compute_output_shape_is_the_shape_of_symbolic_and_real_calls(example):
    shapes, expected = specs(example)
    layer = example.make()
    assert tuple(layer.compute_output_shape(*shapes)) == expected
    assert tuple(layer(*example.symbolic()).shape) == expected
    assert tuple(layer.compute_output_shape(*shapes)) == expected  # once built too
    static = [x.shape for x in example.arrays()]
    real = shape(example.output)
    assert tuple(layer.compute_output_shape(*static)) == real
    if example in EXAMPLES.values():
        assert tuple(layer(*example.arrays()).shape) == real


@pytest.mark.parametrize("name", ["encoder", "stack"])
def test_an_input_of_another_width_is_refused_with_both_numbers(name):
    layer = EXAMPLES[name].make()
    with pytest.raises(ValueError, match="(?s)8.*10|10.*8"):
        layer(np.ones((2, 4, 10), "float32"))
    with pytest.raises(ValueError, match="(?s)8.*10|10.*8"):
        EXAMPLES[name].make()(keras.Input((None, 10)))


@pytest.mark.parametrize("name", ["block", "encoder", "stack"])
@pytest.mark.parametrize("wrong", [(2, 8), (2, 3, 4, 8)])
def test_an_input_of_another_rank_is_refused(name, wrong):
    with pytest.raises(ValueError):
        EXAMPLES[name].make()(np.ones(wrong, "float32"))


# (example, argument, values that cannot be)
SIZE = [0, -1, 1.5, "2", True, None]
WRONG = [
    ("attention", "num_heads", SIZE),
    ("attention", "key_dim", SIZE),
    ("attention", "value_dim", [0, -1, 1.5]),
    ("attention", "num_key_value_heads", [0, -1, 3, 4]),
    ("attention", "dropout", [-0.1, 1.0, 1.5]),
    ("attention", "sliding_window", [0, -1, 1.5]),
    ("attention", "output_shape", [0, -1]),
    ("bahdanau", "units", SIZE),
    ("bahdanau", "dropout", [-0.1, 1.0]),
    ("luong-concat", "units", [0, -1, 1.5]),
    ("luong-dot", "score", ["cosine", "DOT", None, 3]),
    ("luong-dot", "dropout", [-0.1, 1.0]),
    ("self-attentive", "num_hops", SIZE),
    ("self-attentive", "attention_dim", SIZE),
    ("self-attentive", "penalty", [-0.1]),
    ("feed-forward", "embed_dim", SIZE),
    ("feed-forward", "dense_dim", SIZE),
    ("feed-forward", "activation", ["gelly"]),
    ("positional", "sequence_length", SIZE),
    ("positional", "input_dim", SIZE),
    ("positional", "output_dim", SIZE),
    ("positional", "encoding", ["rotary", "Learned"]),
    ("positional", "pad_id", [12, -13, 1.5]),
    ("sinusoidal", "layout", ["half", None]),
    ("sinusoidal", "max_wavelength", [0, -1.0]),
    ("alibi", "num_heads", SIZE),
    ("relative", "num_heads", SIZE),
    ("relative", "num_buckets", [0, -1, 1.5, 7]),
    ("relative", "max_distance", [0, -1, 1.5]),
]
for name in ("block", "encoder", "decoder", "stack"):
    WRONG += [
        (name, "embed_dim", SIZE),
        (name, "num_heads", SIZE),
        (name, "dense_dim", SIZE),
        (name, "key_dim", [0, -1, 1.5]),
        (name, "dropout", [-0.1, 1.0, "0.1"]),
        (name, "layer_norm_epsilon", [0.0, -1e-3]),
        (name, "activation", ["gelly"]),
    ]
for name in ("block", "stack"):
    WRONG += [
        (name, "num_key_value_heads", [0, -1, 3, 4]),
        (name, "norm", ["batch", "Layer"]),
        (name, "sliding_window", [0, -1, 1.5]),
    ]
WRONG += [("stack", "num_layers", SIZE)]


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [(name, argument, v) for name, argument, values in WRONG for v in values],
)
def test_an_impossible_argument_is_refused_by_name(name, argument, value):
    with pytest.raises(ValueError) as error:
        EXAMPLES[name].make(**{argument: value})
    assert argument in str(error.value)
    assert str(value) in str(error.value)


@pytest.mark.parametrize("name", BLOCKS)
def test_zero_dropout_and_almost_all_dropout_are_accepted(name):
    for rate in (0, 0.0, 0.99):
        layer = BLOCKS[name](embed_dim=8, num_heads=2, dense_dim=12, dropout=rate)
        assert layer.get_config()["dropout"] == rate


def test_a_dot_score_of_two_widths_is_refused_with_both_numbers():
    layer = kt.LuongAttention(score="dot")
    with pytest.raises(ValueError, match="(?s)8.*6|6.*8"):
        layer(np.ones((2, 3, 8), "float32"), np.ones((2, 4, 6), "float32"))


def test_cross_attention_asks_for_its_source():
    layer = kt.TransformerDecoder(**block())
    with pytest.raises(ValueError, match="encoder_outputs"):
        layer(np.ones((2, 3, 8), "float32"))


def test_a_block_without_cross_attention_refuses_a_source():
    x = np.ones((2, 3, 8), "float32")
    for layer in (
        kt.TransformerBlock(**block()),
        kt.TransformerDecoder(**block(cross_attention=False)),
        kt.TransformerStack(**block(num_layers=1)),
    ):
        with pytest.raises(ValueError, match="(?s)encoder_outputs|cross_attention"):
            layer(x, x)


@pytest.mark.parametrize("heads", [3, 4])
def test_a_plug_of_another_number_of_heads_is_refused(heads):
    plugs = (kt.AlibiBias(heads), kt.RelativePositionBias(heads, num_buckets=8))
    for plug in plugs:
        with pytest.raises(ValueError, match=f"(?s){heads}.*2|2.*{heads}"):
            stack = kt.TransformerStack(**block(num_layers=1, position_bias=plug))
            stack(np.ones((2, 3, 8), "float32"))


@pytest.mark.parametrize("groups", quick([1, 2, 4], [2]))
def test_grouped_heads_make_smaller_keys_and_values(groups):
    layer = kt.MultiHeadAttention(4, 3, num_key_value_heads=groups)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    output = layer(x, x)
    assert tuple(layer.query.kernel.shape) == (8, 4, 3)
    assert tuple(layer.key.kernel.shape) == (8, groups, 3)
    assert tuple(layer.value.kernel.shape) == (8, groups, 3)
    assert tuple(output.shape) == (2, 5, 8)
    assert np.isfinite(array(output)).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: kt.MultiHeadAttention(2, 4),
        lambda: kt.BahdanauAttention(4),
        lambda: kt.LuongAttention(),
        lambda: kt.SelfAttentiveEmbedding(2, 4),
        lambda: kt.SequencePooling(),
        lambda: kt.TransformerEncoder(**block()),
        lambda: kt.TransformerStack(**block(num_layers=1)),
        lambda: kt.SinusoidalEncoding(),
        lambda: kt.RotaryEmbedding(),
        lambda: kt.PositionalEmbedding(9, 12, 8),
    ],
)
def test_a_text_without_a_batch_and_other_axes_are_refused(make):
    layer = make()
    right = {"RotaryEmbedding": 4, "PositionalEmbedding": 2}.get(
        type(layer).__name__, 3
    )
    names = list(inspect.signature(layer.call).parameters)
    count = 2 if names[1] == "value" else 1
    for axes in {1, 2, 3, 4} - {right}:
        x = np.ones((4, 4, 4, 8)[-axes:], "float32")
        with pytest.raises(ValueError, match=r"must have the shape \(|vectors \(batch"):
            make()(*[x] * count)


@pytest.mark.parametrize(
    "make, right",
    [
        (lambda: kt.RotaryEmbedding(), 4),
        (lambda: kt.SequencePooling(), 3),
        (lambda: kt.SinusoidalEncoding(), 3),
        (lambda: kt.PositionalEmbedding(9, 12, 8), 2),
    ],
)
def test_other_axes_are_refused_after_right_ones_too(make, right):
    layer = make()
    layer(np.ones((4, 4, 4, 8)[-right:], "float32"))
    for axes in {2, 3, 4} - {right}:
        message = f"expected ndim={right}, found ndim={axes}"
        with pytest.raises(ValueError, match=message):
            layer(np.ones((4, 4, 4, 8)[-axes:], "float32"))
