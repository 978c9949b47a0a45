"""Why a model said what it said: its attention, as a table and a picture."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from keras import ops

from keras_transformer.generation.inputs import pad_rows
from keras_transformer.visualization import (
    AttentionRecord,
    attention_table,
    plot_attention,
    record_attention,
)

LIKELIEST = 10  # next pieces that `explain_next` tells of


class NothingToSee(ValueError):
    """A text without tokens, or a model without attention: nothing to explain."""


@dataclass(frozen=True)
class Explanation:
    """What a model thought of one text, and where it looked.

    Attributes:
        text: The text.
        tokens: Its pieces, as the model saw them.
        label: The predicted label; of a text generator, the likeliest next piece.
        probabilities: Label -> probability.
        attention: The `AttentionRecord` of the model's call.
    """

    text: str
    tokens: list[str]
    label: object
    probabilities: dict
    attention: AttentionRecord

    def table(self, layer: str | None = None, head="mean") -> pd.DataFrame:
        """Return a layer's weights, tokens on both axes; by default the last's."""
        return attention_table(
            self._weights(layer), self._rows(layer), **self._keys(layer), head=head
        )

    def plot(self, layer: str | None = None, head=None, path=None, **settings):
        """Draw a layer's heads as a grid, or one `head`; see `plot_attention`."""
        chance = self.probabilities[self.label]
        title = settings.pop("title", f"{self.text}\n→ {self.label} ({chance:.2f})")
        return plot_attention(
            self._weights(layer),
            self._rows(layer),
            **self._keys(layer),
            head=head,
            path=path,
            title=title,
            **settings,
        )

    def _weights(self, layer):
        return self.attention[list(self.attention)[-1] if layer is None else layer][0]

    def _is_views(self, layer):
        return self._weights(layer).ndim == 3  # the annotation matrix: views x tokens

    def _rows(self, layer):
        return None if self._is_views(layer) else self.tokens

    def _keys(self, layer):
        return {"key_tokens": self.tokens} if self._is_views(layer) else {}


def piece_names(tokenizer):
    """Return a function from an id to its piece, or where there is none to its number.

    A model may have more ids than its tokenizer: T5 has 32,128 and 32,100.
    """
    size = tokenizer.vocabulary_size
    return lambda id: tokenizer.id_to_piece(id) if id < size else str(id)


def explain_next(model, tokenizer, text: str, ids) -> Explanation:
    """Return where each token of a text looked, and what is likely to follow.

    Args:
        model: A language model.
        tokenizer: Its tokenizer.
        text: The text.
        ids: The ids of its tokens; what is beyond the model's positions is cut off.

    Raises:
        NothingToSee: No tokens, and no bos id to begin with.
    """
    ids = ids[: model.position_limit] or [tokenizer.bos_id]
    if ids == [None]:
        raise NothingToSee("`text` has no tokens, and this tokenizer has no bos id.")
    with record_attention(model) as record:
        logits = model(pad_rows([ids], len(ids)))
    chances = ops.convert_to_numpy(ops.softmax(logits[0, -1]))
    best = np.argsort(-chances[: tokenizer.vocabulary_size])[:LIKELIEST]
    piece = piece_names(tokenizer)
    return Explanation(
        text=text,
        tokens=[piece(id) for id in ids],
        label=piece(int(best[0])),
        probabilities={piece(int(id)): float(chances[id]) for id in best},
        attention=record,
    )
