"""A model that writes text, and what it brings along for that."""

import json

from keras_transformer.generation.defaults import check_defaults
from keras_transformer.layers.base import BaseModel


class WritingModel(BaseModel):
    """A model with settings of generation of its own, in `generation`."""

    _generation = "null"

    @property
    def generation(self) -> dict | None:
        """Settings of `generate`, `stream` and `beam_search` where none are given.

        A copy; to change them, set the attribute anew.
        """
        return json.loads(self._generation)

    @generation.setter
    def generation(self, settings: dict | None):
        # As a text, since the backends wrap dicts that a model holds.
        self._generation = json.dumps(check_defaults(settings))
