"""The models that the tasks build for texts of their own, by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from keras_transformer.layers import RotaryEmbedding
from keras_transformer.models import (
    LanguageModel,
    RecurrentSeq2Seq,
    Seq2SeqTransformer,
    build_sentence_embedding_classifier,
    build_text_classifier,
)
from keras_transformer.models.settings import setting_names


@dataclass(frozen=True)
class Recipe:
    """How a task builds a model, and how `fit` trains it by default.

    Attributes:
        build: The model's class, or a function that builds it, of the vocabulary's
            size and the settings.
        settings: Its settings.
        learning_rate: The (highest) learning rate.
        plugs: Further settings, which are layers: of each the class, for one of its
            own in each model.
        decays: Of a classifier: whether it rises in the first tenth of the updates and
            then falls to 0 along a cosine; else it stays.
        warmup_steps: Of a model that predicts tokens: the steps in which it rises,
            before it falls with their square root; `None` for a tenth of the updates.
        sampling: As in `TextClassifier.fit`.
    """

    build: Callable
    settings: dict
    learning_rate: float
    plugs: dict = field(default_factory=dict)
    decays: bool = False
    warmup_steps: int | None = None
    sampling: float | None = None

    def check_settings(self, settings: dict, given: Sequence[str] = ()):
        """Refuse settings that the model does not have.

        Args:
            settings: A user's settings, by name.
            given: The names of those that the task gives the model itself.

        Raises:
            ValueError: A setting that there is not, or that the task gives.
        """
        given = ("vocabulary_size", *given)
        known = [name for name in setting_names(self.build) if name not in given]
        unknown = [name for name in settings if name not in known]
        if unknown:
            raise ValueError(
                f"The model of this recipe, {self.build.__name__}, has no setting "
                f"{', '.join(map(repr, unknown))} that can be chosen. It has: "
                f"{', '.join(known)}."
            )

    def make(self, vocabulary_size: int, **settings):
        """Return a new model, with settings in place of the recipe's and beside."""
        plugs = {name: plug() for name, plug in self.plugs.items()}
        return self.build(vocabulary_size, **{**self.settings, **plugs, **settings})


CLASSIFIERS = {
    "default": Recipe(
        build_text_classifier,
        dict(
            embed_dim=128,
            num_heads=4,
            dense_dim=256,
            positions="learned",
            dropout=0.5,
            normalize_first=True,
        ),
        learning_rate=1e-3,
        decays=True,
        sampling=0.2,
    ),
    "chapter": Recipe(
        build_text_classifier,
        dict(embed_dim=128, num_heads=4, dense_dim=256),
        learning_rate=1e-3,
    ),
    "sentence-embedding": Recipe(
        build_sentence_embedding_classifier,
        dict(
            embed_dim=100,
            lstm_units=64,
            num_hops=8,
            attention_dim=64,
            penalty=0.1,
            dropout=0.3,
        ),
        learning_rate=1e-3,
    ),
}

RECURRENT = {"embed_dim": 128, "units": 256, "dropout": 0.3}

TRANSLATORS = {
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


GENERATORS = {
    "gpt2": Recipe(
        LanguageModel,
        dict(
            num_layers=4,
            embed_dim=128,
            num_heads=4,
            dense_dim=512,
            dropout=0.2,
            activation="gelu_tanh",
            normalize_first=True,
            layer_norm_epsilon=1e-5,
        ),
        learning_rate=3e-3,
        warmup_steps=200,
    ),
    "llama": Recipe(
        LanguageModel,
        dict(
            positions=None,
            num_layers=4,
            embed_dim=128,
            num_heads=4,
            num_key_value_heads=2,
            dense_dim=352,
            dropout=0.2,
            activation="silu",
            gated=True,
            norm="rms",
            normalize_first=True,
            layer_norm_epsilon=1e-5,
            use_bias=False,
        ),
        plugs={"rotary": RotaryEmbedding},
        learning_rate=3e-3,
        warmup_steps=200,
    ),
}
