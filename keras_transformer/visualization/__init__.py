"""Looking at attention."""

from keras_transformer.visualization.attention_record import AttentionRecord
from keras_transformer.visualization.attention_rollout import attention_rollout
from keras_transformer.visualization.attention_table import attention_table
from keras_transformer.visualization.attention_view import (
    AttentionPage,
    attention_view,
)
from keras_transformer.visualization.average_attention import average_attention
from keras_transformer.visualization.plot_attention import plot_attention
from keras_transformer.visualization.plot_lines import plot_lines
from keras_transformer.visualization.plot_mask import plot_mask
from keras_transformer.visualization.plot_points import plot_points
from keras_transformer.visualization.plot_positions import plot_positions
from keras_transformer.visualization.plot_views import plot_views
from keras_transformer.visualization.record_attention import record_attention
from keras_transformer.visualization.similarity_table import similarity_table

__all__ = [
    "AttentionPage",
    "AttentionRecord",
    "attention_rollout",
    "attention_table",
    "attention_view",
    "average_attention",
    "plot_attention",
    "plot_lines",
    "plot_mask",
    "plot_points",
    "plot_positions",
    "plot_views",
    "record_attention",
    "similarity_table",
]
