"""The one table of public layers: constructor arguments, inputs, outputs, masks.

Shapes are written in letters: `B` batch, `T` query time, `S` key time; numbers are
themselves. An input says its kind first: `float`, `ids` or `positions`.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

import keras
import numpy as np
import pytest

import keras_transformer as kt

# The tests keep to these sizes, because JAX compiles each operation for each shape.
SIZES = {"B": 2, "T": 3, "S": 5}
VOCABULARY = 12


@dataclass(frozen=True)
class Example:
    """How to make one layer and how to call it.

    Attributes:
        layer: Public name of its class.
        arguments: Makes the constructor's arguments (new sublayers each time).
        inputs: Kind and shape of each positional argument of the call.
        output: Shape of the main output.
        scores: Shapes of the attention scores, nested as the layer returns them;
            `None` if the layer has no attention.
        masks: Call argument that is a mask -> its shape, and which of the inputs
            it hides positions of.
    """

    layer: str
    arguments: Callable[[], dict]
    inputs: tuple[str, ...]
    output: str | dict
    scores: object = None
    masks: dict = field(default_factory=dict)

    def make(self, **more):
        """Return a new layer; `more` replaces or adds arguments."""
        return getattr(kt, self.layer)(**{**self.arguments(), **more})

    def arrays(self, seed=0, **sizes):
        """Return random inputs as arrays."""
        rng = np.random.default_rng(seed)
        return [_array(text, rng, {**SIZES, **sizes}) for text in self.inputs]

    def symbolic(self):
        """Return symbolic inputs with unknown batch and time."""
        return [
            keras.Input(
                batch_shape=[None if axis in SIZES else int(axis) for axis in axes],
                dtype="float32" if kind == "float" else "int32",
            )
            for kind, *axes in map(str.split, self.inputs)
        ]


def shape(text, **sizes):
    """Return the numbers of a shape written in letters."""
    sizes = {**SIZES, **sizes}
    return tuple(sizes[axis] if axis in sizes else int(axis) for axis in text.split())


def _array(text, rng, sizes):
    kind, text = text.split(" ", 1)
    if kind == "float":
        return rng.normal(size=shape(text, **sizes)).astype("float32")
    if kind == "ids":
        return rng.integers(1, VOCABULARY, shape(text, **sizes)).astype("int32")
    batch, time = shape(text, **sizes)
    return np.tile(np.arange(time, dtype="int32"), (batch, 1))


ATTENTION_MASKS = {
    "value_mask": ("B S", 1),
    "key_mask": ("B S", 1),
    "attention_mask": ("B T S", 1),
}
SELF_MASKS = {
    "mask": ("B T", 0),
    "inputs_mask": ("B T", 0),
    "padding_mask": ("B T", 0),
    "attention_mask": ("B T T", 0),
}
CROSS_MASKS = {
    "mask": ("B T", 0),
    "inputs_mask": ("B T", 0),
    "padding_mask": ("B T", 0),
    "attention_mask": ("B T T", 0),
    "encoder_outputs_mask": ("B S", 1),
    "encoder_padding_mask": ("B S", 1),
    "cross_attention_mask": ("B T S", 1),
}
PAIR = ("B 2 T T", "B 2 T S")


def block(**more):
    """Return the arguments of a small block."""
    return {"embed_dim": 8, "num_heads": 2, "dense_dim": 12, **more}


def _block_example(layer, arguments, cross=False, scores=None):
    return Example(
        layer,
        arguments,
        ("float B T 8", "float B S 8") if cross else ("float B T 8",),
        "B T 8",
        scores=scores or (PAIR if cross else "B 2 T T"),
        masks=CROSS_MASKS if cross else SELF_MASKS,
    )


EXAMPLES = {
    "attention": Example(
        "MultiHeadAttention",
        lambda: dict(num_heads=2, key_dim=4),
        ("float B T 8", "float B S 8"),
        "B T 8",
        scores="B 2 T S",
        masks=ATTENTION_MASKS,
    ),
    "attention-grouped": Example(
        "MultiHeadAttention",
        lambda: dict(
            num_heads=4,
            key_dim=4,
            num_key_value_heads=2,
            rotary=kt.RotaryEmbedding(),
            output_shape=6,
        ),
        ("float B T 8", "float B S 6"),
        "B T 6",
        scores="B 4 T S",
        masks=ATTENTION_MASKS,
    ),
    "attention-values": Example(
        "MultiHeadAttention",
        lambda: dict(num_heads=2, key_dim=4, value_dim=3),
        ("float B T 8", "float B S 8", "float B S 6"),
        "B T 8",
        scores="B 2 T S",
        masks={"value_mask": ("B S", 1), "attention_mask": ("B T S", 1)},
    ),
    "bahdanau": Example(
        "BahdanauAttention",
        lambda: dict(units=4),
        ("float B T 8", "float B S 6"),
        "B T 6",
        scores="B T S",
        masks=ATTENTION_MASKS,
    ),
    "luong-dot": Example(
        "LuongAttention",
        lambda: dict(score="dot"),
        ("float B T 6", "float B S 6"),
        "B T 6",
        scores="B T S",
        masks=ATTENTION_MASKS,
    ),
    "luong-general": Example(
        "LuongAttention",
        lambda: dict(score="general"),
        ("float B T 8", "float B S 6"),
        "B T 6",
        scores="B T S",
        masks=ATTENTION_MASKS,
    ),
    "luong-concat": Example(
        "LuongAttention",
        lambda: dict(score="concat", units=4),
        ("float B T 8", "float B S 6"),
        "B T 6",
        scores="B T S",
        masks=ATTENTION_MASKS,
    ),
    "self-attentive": Example(
        "SelfAttentiveEmbedding",
        lambda: dict(num_hops=3, attention_dim=4),
        ("float B S 8",),
        "B 3 8",
        scores="B 3 S",
        masks={name: ("B S", 0) for name in ("mask", "inputs_mask", "padding_mask")},
    ),
    "pooling": Example(
        "SequencePooling",
        dict,
        ("float B S 8",),
        "B 8",
        masks={name: ("B S", 0) for name in ("mask", "inputs_mask", "padding_mask")},
    ),
    "pooling-max": Example(
        "SequencePooling",
        lambda: dict(mode="max"),
        ("float B S 8",),
        "B 8",
        masks={name: ("B S", 0) for name in ("mask", "inputs_mask", "padding_mask")},
    ),
    "pooling-first": Example(
        "SequencePooling",
        lambda: dict(mode="first"),
        ("float B S 8",),
        "B 8",
        masks={name: ("B S", 0) for name in ("mask", "inputs_mask", "padding_mask")},
    ),
    "feed-forward": Example(
        "FeedForward",
        lambda: dict(embed_dim=8, dense_dim=12),
        ("float B T 8",),
        "B T 8",
    ),
    "feed-forward-gated": Example(
        "FeedForward",
        lambda: dict(embed_dim=8, dense_dim=12, gated=True, activation="silu"),
        ("float B T 8",),
        "B T 8",
    ),
    "positional": Example(
        "PositionalEmbedding",
        lambda: dict(sequence_length=9, input_dim=VOCABULARY, output_dim=8),
        ("ids B T",),
        "B T 8",
    ),
    "positional-sinusoidal": Example(
        "PositionalEmbedding",
        lambda: dict(
            sequence_length=9,
            input_dim=VOCABULARY,
            output_dim=8,
            encoding="sinusoidal",
        ),
        ("ids B T",),
        "B T 8",
    ),
    "sinusoidal": Example("SinusoidalEncoding", dict, ("float B T 8",), "B T 8"),
    "rotary": Example("RotaryEmbedding", dict, ("float B T 2 6",), "B T 2 6"),
    "alibi": Example(
        "AlibiBias",
        lambda: dict(num_heads=2),
        ("positions B T", "positions B S"),
        {"slopes": "2", "distances": "B T S"},
    ),
    "relative": Example(
        "RelativePositionBias",
        lambda: dict(num_heads=2, num_buckets=8, max_distance=12),
        ("positions B T", "positions B S"),
        "B 2 T S",
    ),
    "block": _block_example("TransformerBlock", block),
    "block-prenorm": _block_example(
        "TransformerBlock", lambda: block(normalize_first=True)
    ),
    "block-llama": _block_example(
        "TransformerBlock",
        lambda: block(
            num_heads=4,
            key_dim=4,
            num_key_value_heads=2,
            causal=True,
            norm="rms",
            normalize_first=True,
            gated=True,
            activation="silu",
            use_bias=False,
            rotary=kt.RotaryEmbedding(),
        ),
        scores="B 4 T T",
    ),
    "block-cross": _block_example(
        "TransformerBlock",
        lambda: block(causal=True, cross_attention=True),
        cross=True,
    ),
    "encoder": _block_example("TransformerEncoder", block),
    "encoder-prenorm": _block_example(
        "TransformerEncoder",
        lambda: block(normalize_first=True, rotary=kt.RotaryEmbedding()),
    ),
    "decoder": _block_example("TransformerDecoder", block, cross=True),
    "decoder-only": _block_example(
        "TransformerDecoder", lambda: block(cross_attention=False)
    ),
    "stack": _block_example(
        "TransformerStack",
        lambda: block(num_layers=2, normalize_first=True),
        scores=["B 2 T T"] * 2,
    ),
    "stack-alibi": _block_example(
        "TransformerStack",
        lambda: block(num_layers=1, position_bias=kt.AlibiBias(2)),
        scores=["B 2 T T"],
    ),
    "stack-relative": _block_example(
        "TransformerStack",
        lambda: block(
            num_layers=1,
            causal=True,
            position_bias=kt.RelativePositionBias(
                2, num_buckets=8, max_distance=12, bidirectional=False, name="bias"
            ),
        ),
        scores=["B 2 T T"],
    ),
    "stack-cross": _block_example(
        "TransformerStack",
        lambda: block(num_layers=1, causal=True, cross_attention=True),
        cross=True,
        scores=[PAIR],
    ),
}

# One example of each class, the richest, for what costs seconds.
CORE = (
    "attention-grouped",
    "bahdanau",
    "luong-general",
    "self-attentive",
    "pooling",
    "feed-forward",
    "positional",
    "sinusoidal",
    "rotary",
    "alibi",
    "relative",
    "block-llama",
    "encoder",
    "decoder",
    "stack-alibi",
)


def public_layers():
    """Return name -> class of every public layer."""
    named = ((name, getattr(kt, name)) for name in kt.__all__)
    return {
        name: value
        for name, value in named
        if inspect.isclass(value)
        and issubclass(value, keras.layers.Layer)
        and not issubclass(value, keras.Model)
    }


def quick(values, chosen=CORE):
    """Mark all parameters but the chosen ones as slow.

    The chosen ones hold each law for each class; the rest hold it for the variants.
    """
    return [
        value
        if value in chosen
        else pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow
        )
        for value in values
    ]


def attending():
    """Return the examples that have attention scores."""
    return {name: e for name, e in EXAMPLES.items() if e.scores is not None}
