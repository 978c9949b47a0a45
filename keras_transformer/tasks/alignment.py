"""What a translator returns: translations, and where they come from."""

from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from keras_transformer.visualization import (
    AttentionRecord,
    attention_table,
    plot_attention,
)


class Translation(NamedTuple):
    """One of several translations of a sentence.

    Attributes:
        text: The translation.
        score: Its log-probability, normalised by length; higher is better.
    """

    text: str
    score: float


@dataclass(frozen=True)
class Alignment:
    """A translation, and where each of its tokens looked when it was predicted.

    Attributes:
        text: The source.
        translation: The translation that was read along.
        source_tokens: Pieces of the source, as the model saw them.
        target_tokens: Pieces of the translation, the end among them.
        attention: The `AttentionRecord` of the model's call.
    """

    text: str
    translation: str
    source_tokens: list[str]
    target_tokens: list[str]
    attention: AttentionRecord

    @property
    def layers(self) -> list[str]:
        """Paths of the attentions from the translation to the source."""
        shape = (len(self.target_tokens), len(self.source_tokens))
        return [
            path
            for path, weights in self.attention.items()
            if weights[0].shape[-2:] == shape and "self_attention" not in path
        ]

    def table(self, layer: str | None = None, head="mean") -> pd.DataFrame:
        """Return weights, translation x source; by default the last layer's."""
        return attention_table(
            self._weights(layer), self.target_tokens, self.source_tokens, head=head
        )

    def plot(self, layer: str | None = None, head="mean", path=None, **settings):
        """Draw the weights of one head, or of all (`None`); see `plot_attention`."""
        labels = {"query_label": "translation", "key_label": "source"}
        title = settings.pop("title", f"{self.text}\n→ {self.translation}")
        return plot_attention(
            self._weights(layer),
            self.target_tokens,
            self.source_tokens,
            head=head,
            path=path,
            title=title,
            **{**labels, **settings},
        )

    def _weights(self, layer):
        return self.attention[self.layers[-1] if layer is None else layer][0]
