"""The translators that `Translator.from_pairs` builds, by name."""

from collections.abc import Callable
from dataclasses import dataclass

from keras_transformer.models import RecurrentSeq2Seq, Seq2SeqTransformer


@dataclass(frozen=True)
class Recipe:
    """How a task builds a model, and how `fit` trains it by default."""

    build: Callable
    settings: dict
    learning_rate: float
    warmup_steps: int | None = None  # a tenth of the updates


RECURRENT = {"embed_dim": 128, "units": 256, "dropout": 0.3}

RECIPES = {
    "2014": Recipe(
        RecurrentSeq2Seq,
        {**RECURRENT, "attention": None},
        learning_rate=2e-3,
    ),
    "2015": Recipe(
        RecurrentSeq2Seq,
        {**RECURRENT, "attention": "bahdanau"},
        learning_rate=2e-3,
    ),
    "luong": Recipe(
        RecurrentSeq2Seq,
        {**RECURRENT, "attention": "luong"},
        learning_rate=2e-3,
    ),
    "transformer": Recipe(
        Seq2SeqTransformer,
        dict(
            num_layers=2,
            embed_dim=128,
            num_heads=4,
            dense_dim=256,
            dropout=0.3,
            normalize_first=True,
        ),
        learning_rate=2e-3,
    ),
}
