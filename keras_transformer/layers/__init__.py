"""Layers: weights and the equations that use them, one idea a file."""

from keras_transformer.layers.alibi_bias import AlibiBias
from keras_transformer.layers.bahdanau_attention import BahdanauAttention
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.luong_attention import LuongAttention
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.positional_embedding import PositionalEmbedding
from keras_transformer.layers.relative_position_bias import RelativePositionBias
from keras_transformer.layers.rotary_embedding import RotaryEmbedding
from keras_transformer.layers.self_attentive_embedding import SelfAttentiveEmbedding
from keras_transformer.layers.sequence_pooling import SequencePooling
from keras_transformer.layers.sinusoidal_encoding import SinusoidalEncoding
from keras_transformer.layers.token_head import TokenHead
from keras_transformer.layers.transformer_block import TransformerBlock
from keras_transformer.layers.transformer_decoder import TransformerDecoder
from keras_transformer.layers.transformer_encoder import TransformerEncoder
from keras_transformer.layers.transformer_stack import TransformerStack

__all__ = [
    "AlibiBias",
    "BahdanauAttention",
    "FeedForward",
    "LuongAttention",
    "MultiHeadAttention",
    "PositionalEmbedding",
    "RelativePositionBias",
    "RotaryEmbedding",
    "SelfAttentiveEmbedding",
    "SequencePooling",
    "SinusoidalEncoding",
    "TokenHead",
    "TransformerBlock",
    "TransformerDecoder",
    "TransformerEncoder",
    "TransformerStack",
]
