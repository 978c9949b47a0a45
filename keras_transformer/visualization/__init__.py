"""Looking at attention."""

from keras_transformer.visualization.attention_record import AttentionRecord
from keras_transformer.visualization.attention_table import attention_table
from keras_transformer.visualization.plot_attention import plot_attention
from keras_transformer.visualization.plot_lines import plot_lines
from keras_transformer.visualization.plot_views import plot_views
from keras_transformer.visualization.record_attention import record_attention

__all__ = [
    "AttentionRecord",
    "attention_table",
    "plot_attention",
    "plot_lines",
    "plot_views",
    "record_attention",
]
