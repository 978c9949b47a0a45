"""The language models that `TextGenerator.from_texts` builds, by name."""

from keras_transformer.layers import RotaryEmbedding
from keras_transformer.models import LanguageModel
from keras_transformer.tasks.recipes import Recipe


def build_llama(vocabulary_size: int, **settings) -> LanguageModel:
    """Build a language model with rotary positions."""
    # A layer of its own for each model.
    rotary = {"positions": None, "rotary": RotaryEmbedding()}
    return LanguageModel(vocabulary_size, **{**rotary, **settings})


RECIPES = {
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
        build_llama,
        dict(
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
        learning_rate=3e-3,
        warmup_steps=200,
    ),
}
