"""Token embedding plus position embedding."""

import keras
from keras import ops

from keras_transformer.layers.base import (
    BaseLayer,
    as_integers,
    check_choice,
    check_positions,
    check_size,
)
from keras_transformer.layers.sinusoidal_encoding import SinusoidalEncoding
from keras_transformer.ops.backend import is_traced, static_size
from keras_transformer.ops.masks import padding_mask


class PositionalEmbedding(BaseLayer):
    """Turn token ids into vectors that know their place.

    `outputs[p] = token_embedding[ids[p]] + position[p]`

    Masks: the output carries the mask `ids != pad_id`.

    Args:
        sequence_length: The longest sequence; sinusoids take longer ones too.
        input_dim: Number of token ids V.
        output_dim: Width E of the vectors.
        encoding: `"learned"` (a vector for each position) or `"sinusoidal"`.
        pad_id: The id that is padding; `None` for no mask.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Token ids (B, T). Integers of any kind; float32 is taken as it
            is, half precision is refused since it rounds ids.
        start_index: Position of the first token (cached decoding).
        positions: Integers (T,) or (B, T), in place of `start_index`.

    Returns:
        (B, T, E).

    Raises:
        ValueError: A sequence longer than the learned table, half-precision
            ids, a size out of range, an unknown encoding.

    Example:

    >>> embed = PositionalEmbedding(sequence_length=8, input_dim=100, output_dim=4)
    >>> vectors = embed(keras.ops.convert_to_tensor([[5, 6, 0]]))

    Source: Gehring et al. 2017, https://arxiv.org/abs/1705.03122 (learned);
    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 10)
    """

    def __init__(
        self,
        sequence_length: int,
        input_dim: int,
        output_dim: int,
        *,
        encoding: str = "learned",
        pad_id: int | None = 0,
        **kwargs,
    ):
        # Keras would cast float ids to half precision, and 2909 become 2912.
        super().__init__(autocast=False, **kwargs)
        sequence_length = check_size("sequence_length", sequence_length)
        input_dim = check_size("input_dim", input_dim)
        output_dim = check_size("output_dim", output_dim)
        check_choice("encoding", encoding, ("learned", "sinusoidal"))
        known = isinstance(pad_id, int) and not isinstance(pad_id, bool)
        if pad_id is not None and not (known and 0 <= pad_id < input_dim):
            raise ValueError(
                "`pad_id` must be an id below `input_dim`, or None. Received: "
                f"pad_id={pad_id!r}, input_dim={input_dim}."
            )
        self.sequence_length = sequence_length
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.encoding = encoding
        self.pad_id = pad_id
        self.token_embedding = keras.layers.Embedding(
            input_dim, output_dim, name="token_embedding", dtype=self.dtype_policy
        )
        if encoding == "learned":
            self.position_embedding = keras.layers.Embedding(
                sequence_length,
                output_dim,
                name="position_embedding",
                dtype=self.dtype_policy,
            )
        else:
            self.position_embedding = SinusoidalEncoding(
                name="position_embedding", dtype=self.dtype_policy
            )

    def build(self, inputs_shape):
        self._check_length(inputs_shape[1], 0)
        self.token_embedding.build(inputs_shape)
        self.position_embedding.build((*inputs_shape, self.output_dim))

    def call(self, inputs, start_index=0, positions=None):
        vectors = self.token_embedding(as_integers("inputs", inputs))
        if positions is None:
            positions = start_index + ops.arange(ops.shape(inputs)[1], dtype="int32")
            self._check_length(static_size(inputs, 1), start_index)
        else:
            positions = check_positions(positions, inputs)
            if not is_traced(positions):
                self._check_length(1, ops.min(positions))
                self._check_length(1, ops.max(positions))
        if self.encoding == "sinusoidal":
            return self.position_embedding(vectors, positions=positions)
        return vectors + self.position_embedding(positions)

    def compute_mask(self, inputs, previous_mask=None):
        return None if self.pad_id is None else padding_mask(inputs, self.pad_id)

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape, self.output_dim)

    def _check_length(self, length, start):
        if self.encoding == "sinusoidal" or length is None:
            return
        if not isinstance(start, int):
            if is_traced(start):
                return
            start = int(ops.convert_to_numpy(start))
        if start < 0:
            raise ValueError(
                f"Positions count from 0 up. Received position {start}, which would "
                "read the table from its end."
            )
        if start + length > self.sequence_length:
            raise ValueError(
                f"A sequence that reaches position {start + length - 1} (length "
                f"{start + length}) does not fit the table of `sequence_length="
                f"{self.sequence_length}` positions. Shorten the texts, or build the "
                "layer with a larger `sequence_length` or with encoding='sinusoidal'."
            )
