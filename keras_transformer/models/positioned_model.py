"""A model whose learned positions have an end."""

from keras_transformer.layers.base import BaseModel
from keras_transformer.models.settings import check_length


class PositionedModel(BaseModel):
    """A model of token ids with `positions` and `sequence_length`."""

    @property
    def position_limit(self) -> int | None:
        """Number of tokens that the learned positions reach; `None` if any."""
        return self.sequence_length if self.positions == "learned" else None

    def compute_output_spec(self, inputs, *args, **kwargs):
        # PyTorch's `call` does not know the length of symbolic ids.
        named = inputs if isinstance(inputs, dict) else {"token_ids": inputs}
        for name, ids in named.items():
            if name.endswith("token_ids") and len(getattr(ids, "shape", ())) == 2:
                check_length(self, ids)
        return super().compute_output_spec(inputs, *args, **kwargs)
