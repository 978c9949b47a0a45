"""Attention and Transformer layers for Keras 3, after a textbook chapter.

The names come in the order of the chapter's sections.
"""

from importlib import metadata as _metadata

try:
    import keras as _keras  # noqa: F401
except ImportError as error:
    raise ImportError(
        "keras_transformer needs Keras 3 and one of its backends. Install one with "
        "pip install 'keras-transformer-layers[tensorflow]' (or [jax], [torch]), and "
        "choose it with the environment variable KERAS_BACKEND=tensorflow, jax or "
        f"torch. Importing Keras said: {error}"
    ) from error

# isort: off
from keras_transformer.layers import (
    BahdanauAttention,  # 1, 3
    SelfAttentiveEmbedding,  # 2
    LuongAttention,  # 3
    MultiHeadAttention,  # 5, 7, 8
    TransformerBlock,  # 9
    TransformerDecoder,  # 9
    TransformerStack,  # 9
    FeedForward,  # 9
    TokenHead,  # 9
    SinusoidalEncoding,  # 10
    PositionalEmbedding,  # 10
    RotaryEmbedding,  # text 2, 4.2
    AlibiBias,  # text 2, 4.2
    RelativePositionBias,  # text 2, 6
    TransformerEncoder,  # 11, 12
    SequencePooling,  # 12
)
from keras_transformer.models import (
    RecurrentSeq2Seq,  # 1
    build_sentence_embedding_classifier,  # 2
    Seq2SeqTransformer,  # 9
    build_text_classifier,  # 12
    TextEncoder,  # text 2, 6
    MaskedLanguageModel,  # text 2, 6
    LanguageModel,  # text 2, 6
)
from keras_transformer.visualization import (
    AttentionRecord,  # all
    record_attention,  # all
    attention_table,  # 2 to 8
    attention_view,  # 3 to 9
    plot_attention,  # 3 to 9
    plot_views,  # 2
    similarity_table,  # 5 to 7
    average_attention,  # 7, 8
    attention_rollout,  # 9
    plot_mask,  # 9
    plot_positions,  # 10
)

# beyond the chapter
from keras_transformer.generation import beam_search, generate, stream
from keras_transformer.pretrained import from_pretrained, save_pretrained
from keras_transformer.tasks import (
    TextClassifier,
    TextGenerator,
    Translator,
    WordSenses,
)
# isort: on

__version__ = "0.1.0"

__all__ = [
    "AlibiBias",
    "AttentionRecord",
    "BahdanauAttention",
    "FeedForward",
    "LanguageModel",
    "LuongAttention",
    "MaskedLanguageModel",
    "MultiHeadAttention",
    "PositionalEmbedding",
    "RecurrentSeq2Seq",
    "RelativePositionBias",
    "RotaryEmbedding",
    "SelfAttentiveEmbedding",
    "Seq2SeqTransformer",
    "SequencePooling",
    "SinusoidalEncoding",
    "TextClassifier",
    "TextEncoder",
    "TextGenerator",
    "TokenHead",
    "TransformerBlock",
    "TransformerDecoder",
    "TransformerEncoder",
    "TransformerStack",
    "Translator",
    "WordSenses",
    "attention_rollout",
    "attention_table",
    "attention_view",
    "average_attention",
    "beam_search",
    "build_sentence_embedding_classifier",
    "build_text_classifier",
    "from_pretrained",
    "generate",
    "plot_attention",
    "plot_mask",
    "plot_positions",
    "plot_views",
    "record_attention",
    "save_pretrained",
    "similarity_table",
    "stream",
]


def _warn_of_namesake():
    """An abandoned package of 2022 has the same import name."""
    import warnings

    try:
        _metadata.version("keras-transformer")
    except _metadata.PackageNotFoundError:
        return
    warnings.warn(
        "The distribution 'keras-transformer' is installed too, and is imported by "
        "the same name. Remove it: pip uninstall keras-transformer, then reinstall "
        "keras-transformer-layers.",
        stacklevel=3,
    )


_warn_of_namesake()
