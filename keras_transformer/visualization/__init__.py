"""Looking at attention."""

from keras_transformer.visualization.attention_record import AttentionRecord
from keras_transformer.visualization.attention_table import attention_table
from keras_transformer.visualization.attention_view import (
    AttentionPage,
    attention_view,
)
from keras_transformer.visualization.plot_attention import plot_attention
from keras_transformer.visualization.plot_views import plot_views
from keras_transformer.visualization.record_attention import record_attention

__all__ = [
    "AttentionPage",
    "AttentionRecord",
    "attention_table",
    "attention_view",
    "plot_attention",
    "plot_views",
    "record_attention",
]
