"""What training a model that predicts tokens needs, beside Keras's own."""

from keras_transformer.training.inverse_square_root import InverseSquareRoot
from keras_transformer.training.keep_last import KeepLast, average_checkpoints
from keras_transformer.training.mask_tokens import mask_tokens
from keras_transformer.training.shift_right import shift_right
from keras_transformer.training.token_crossentropy import (
    Perplexity,
    TokenAccuracy,
    TokenCrossentropy,
    token_losses,
)

__all__ = [
    "InverseSquareRoot",
    "KeepLast",
    "Perplexity",
    "TokenAccuracy",
    "TokenCrossentropy",
    "average_checkpoints",
    "mask_tokens",
    "shift_right",
    "token_losses",
]
