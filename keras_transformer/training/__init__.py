"""What training a model that predicts tokens needs, beside Keras's own."""

from keras_transformer.training.token_crossentropy import (
    InverseSquareRoot,
    KeepLast,
    Perplexity,
    TokenCrossentropy,
    average_checkpoints,
    mask_tokens,
    shift_right,
    token_losses,
)

__all__ = [
    "InverseSquareRoot",
    "KeepLast",
    "Perplexity",
    "TokenCrossentropy",
    "average_checkpoints",
    "mask_tokens",
    "shift_right",
    "token_losses",
]
