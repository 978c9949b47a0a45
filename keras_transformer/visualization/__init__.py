"""Looking at attention."""

from keras_transformer.visualization.record_attention import (
    AttentionRecord,
    record_attention,
)

__all__ = ["AttentionRecord", "record_attention"]
