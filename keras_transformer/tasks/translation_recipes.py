"""The translators that `Translator.from_pairs` builds, by name."""

from collections.abc import Callable
from dataclasses import dataclass

from keras_transformer.models import Seq2SeqTransformer


@dataclass(frozen=True)
class Recipe:
    """How a task builds a model, and how `fit` trains it by default."""

    build: Callable
    settings: dict
    learning_rate: float
    warmup_steps: int


RECIPES = {
    "transformer": Recipe(
        Seq2SeqTransformer,
        dict(
            num_layers=4,
            embed_dim=128,
            num_heads=4,
            dense_dim=256,
            dropout=0.3,
            normalize_first=True,
        ),
        learning_rate=5e-3,
        warmup_steps=2000,
    ),
}
