"""Checkpoints in Hugging Face's format, in and out."""

from keras_transformer.pretrained.families import family_table
from keras_transformer.pretrained.folder import from_pretrained, save_pretrained

__all__ = ["family_table", "from_pretrained", "save_pretrained"]
