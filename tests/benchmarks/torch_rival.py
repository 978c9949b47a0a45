"""torch.nn's Transformer layers as Keras layers; only for the torch backend."""

from itertools import chain

import keras
import numpy as np
import torch


class TorchBlock(torch.nn.Module):
    """One torch.nn layer; takes vectors and masks in Keras's sense (True = valid)."""

    def __init__(self, block) -> None:
        super().__init__()
        encoder = block.kind == "encoder"
        self.layer = (
            torch.nn.TransformerEncoderLayer
            if encoder
            else torch.nn.TransformerDecoderLayer
        )(
            block.embed_dim,
            block.num_heads,
            block.dense_dim,
            block.dropout,
            layer_norm_eps=block.epsilon,
            batch_first=True,
        )
        # torch also drops between the two products of its feed-forward part; the
        # other rivals do not
        self.layer.dropout = torch.nn.Identity()
        self.hidden_future = torch.empty(0)  # made once a length, as torch users do

    def forward(self, x, mask, source=None, source_mask=None):
        if source is None:
            return self.layer(x, src_key_padding_mask=~mask)
        length = x.shape[1]
        if len(self.hidden_future) != length or self.hidden_future.device != x.device:
            ones = torch.ones(length, length, dtype=torch.bool, device=x.device)
            self.hidden_future = ones.triu(1)
        return self.layer(
            x,
            source,
            tgt_mask=self.hidden_future,
            tgt_key_padding_mask=~mask,
            memory_key_padding_mask=~source_mask,
            tgt_is_causal=True,
        )


def torch_block(block, vectors, masks):
    shape = (None, None, block.embed_dim)
    wrapper = keras.layers.TorchModuleWrapper(TorchBlock(block), output_shape=shape)
    return wrapper(*chain(*zip(vectors, masks, strict=True)))


def torch_weights(block, weights: list[np.ndarray]) -> list[np.ndarray]:
    """Keras's kernels in the order and orientation of torch's parameters."""
    size = block.embed_dim

    def attention(query, query_bias, key, key_bias, value, value_bias, output, bias):
        projections = [kernel.reshape(size, -1).T for kernel in (query, key, value)]
        biases = [b.reshape(-1) for b in (query_bias, key_bias, value_bias)]
        output = output.reshape(-1, size).T
        return [np.concatenate(projections), np.concatenate(biases), output, bias]

    parameters, norms = [], []
    for start in range(0, len(weights) - 6, 10):  # an attention of 8, its norm of 2
        parameters += attention(*weights[start : start + 8])
        norms += weights[start + 8 : start + 10]
    inner, inner_bias, outer, outer_bias, *last_norm = weights[-6:]
    return [
        *parameters,
        *(inner.T, inner_bias, outer.T, outer_bias),
        *norms,
        *last_norm,
    ]
