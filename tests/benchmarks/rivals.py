"""One encoder or decoder block in several implementations, with the same weights.

Every rival is a functional Keras model of [vectors, mask] for the encoder, and of
[targets, mask, source, mask] for the decoder, so that all train by the same step. Masks
travel as Keras's implicit masks, as they do behind an embedding layer.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import keras
import keras_hub
import numpy as np
from keras import layers

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # measure this checkout
import keras_transformer as kt

Weights = list[np.ndarray]


@dataclass(frozen=True)
class Block:
    """What is built; `kind` is "encoder" or "decoder"."""

    kind: str
    embed_dim: int
    num_heads: int
    dense_dim: int
    dropout: float
    epsilon: float = 1e-3  # of the layer normalisations: Keras's default


class AttachMask(layers.Layer):
    """Gives [vectors, mask] back as vectors that carry the mask, as Embedding does."""

    def call(self, inputs):
        return inputs[0]

    def compute_mask(self, inputs, previous_mask=None):
        return inputs[1]


class DropMask(layers.Layer):
    """Takes the mask off, so that the loss is the same work for every rival."""

    supports_masking = True

    def call(self, inputs):
        return inputs

    def compute_mask(self, inputs, previous_mask=None):
        return None


# A rival: (block, vectors that carry their masks, the masks) -> the block's output.
# `vectors` is [x] for the encoder, [targets, source] for the decoder.


def ours(block: Block, vectors, masks):
    encoder = block.kind == "encoder"
    layer = kt.TransformerEncoder if encoder else kt.TransformerDecoder
    sizes = block.embed_dim, block.num_heads, block.dense_dim
    layer = layer(*sizes, dropout=block.dropout, layer_norm_epsilon=block.epsilon)
    return layer(*vectors)


def chapter(block: Block, vectors, masks):
    """The chapter's `get_encoder` (section 11); the decoder in the same manner.

    The chapter has no dropout: where it is asked for, it stands at our places.
    """

    def attention(query, value, **options):
        layer = layers.MultiHeadAttention(
            num_heads=block.num_heads,
            key_dim=block.embed_dim // block.num_heads,
            dropout=block.dropout,
        )
        return layer(query, value, **options)

    def add_and_norm(x, residual):
        if block.dropout:
            x = layers.Dropout(block.dropout)(x)
        return layers.LayerNormalization(epsilon=block.epsilon)(x + residual)

    x, *source = vectors
    x = add_and_norm(attention(x, x, use_causal_mask=block.kind == "decoder"), x)
    if source:
        x = add_and_norm(attention(x, *source), x)
    inner = layers.Dense(block.dense_dim, activation="relu")
    mlp = keras.Sequential([inner, layers.Dense(block.embed_dim)])
    return add_and_norm(mlp(x), x)


def hub(block: Block, vectors, masks):
    encoder = block.kind == "encoder"
    hub_layers = keras_hub.layers
    layer = hub_layers.TransformerEncoder if encoder else hub_layers.TransformerDecoder
    sizes = block.dense_dim, block.num_heads
    layer = layer(*sizes, dropout=block.dropout, layer_norm_epsilon=block.epsilon)
    return layer(*vectors)


def as_they_are(block: Block, weights: Weights) -> Weights:
    return weights


def hub_weights(block: Block, weights: Weights) -> Weights:
    if block.kind == "decoder":
        return weights
    # its encoder lists the second norm before the feed-forward part
    return weights[:10] + weights[14:] + weights[10:14]


# name -> (the model's body, our order of weights -> its order)
RIVALS: dict[str, tuple[Callable, Callable]] = {
    "ours": (ours, as_they_are),
    "chapter": (chapter, as_they_are),
    "keras-hub": (hub, hub_weights),
}
if keras.backend.backend() == "torch":
    from torch_rival import torch_block, torch_weights

    RIVALS["torch.nn"] = (torch_block, torch_weights)


def build_model(name: str, block: Block) -> keras.Model:
    """The rival's block as a model that is compiled for training."""
    inputs, vectors = [], []
    for _ in range(1 if block.kind == "encoder" else 2):
        pair = [
            keras.Input((None, block.embed_dim)),
            keras.Input((None,), dtype="bool"),
        ]
        inputs += pair
        vectors.append(AttachMask()(pair))
    body, _ = RIVALS[name]
    outputs = DropMask()(body(block, vectors, inputs[1::2]))
    model = keras.Model(inputs, outputs)
    model.compile(optimizer=keras.optimizers.SGD(1e-3), loss="mse")
    return model


def build_models(block: Block, seed: int = 0) -> dict[str, keras.Model]:
    """Every rival's model, all with the same random weights (biases and norms too)."""
    models = {name: build_model(name, block) for name in RIVALS}
    rng = np.random.default_rng(seed)
    weights = [
        value if value.ndim > 1 else value + rng.normal(0, 0.1, value.shape)
        for value in models["chapter"].get_weights()
    ]
    for name, model in models.items():
        _, arrange = RIVALS[name]
        model.set_weights(arrange(block, weights))
    return models
