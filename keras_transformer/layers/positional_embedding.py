"""Token embedding plus position embedding."""

import keras
from keras import ops

from keras_transformer.layers.base import (
    BaseLayer,
    as_integers,
    check_axes,
    check_positions,
)
from keras_transformer.layers.sinusoidal_encoding import LAYOUTS, SinusoidalEncoding
from keras_transformer.ops.backend import infers_shapes, is_traced, static_size
from keras_transformer.ops.checks import (
    check_choice,
    check_id,
    check_integer,
    check_number,
)
from keras_transformer.ops.masks import padding_mask

ENCODINGS = ("learned", "sinusoidal", None)


class PositionalEmbedding(BaseLayer):
    """Turn token ids into vectors that know their place.

    `outputs[p] = token_embedding[ids[p]] + position[p]`; with every setting
    `dropout(norm(sqrt(E) * token_embedding[ids[p]] + position[p + offset] +
    segment_embedding[segment[p]]))`

    Masks: the output carries the mask `ids != pad_id`.

    Args:
        sequence_length: The longest sequence; sinusoids take longer ones too, and
            may leave it `None`.
        input_dim: Number of token ids V.
        output_dim: Width E of the vectors.
        encoding: `"learned"` (a vector for each position), `"sinusoidal"`, or
            `None`: positions enter elsewhere (rotary, biases of the scores).
        pad_id: The id that is padding; `None` for no mask.
        layout: Of sinusoids: `"interleaved"` or `"concatenated"`.
        position_offset: Row of the first position (RoBERTa, BART: 2).
        num_segments: Number of segments, each with a vector (BERT: 2).
        scale_embedding: Whether token vectors are multiplied by sqrt(E), as in the
            2017 paper and Marian.
        layer_norm_epsilon: Epsilon of a layer norm of the sum (BERT, BART); `None`
            for no norm.
        dropout: Dropout rate of the outputs.
        shared_embedding: A `keras.layers.ReversibleEmbedding` of V x E that another
            layer has too; a table of its own if not given.
        seed: Seed of the dropout.
        **kwargs: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: Token ids (B, T). Integers of any kind; float32 is taken as it
            is, half precision is refused since it rounds ids.
        start_index: Position of the first token (cached decoding).
        positions: Integers (T,) or (B, T), in place of `start_index`. They may
            repeat, as in packed texts; a text may then be longer than the table.
        segment_ids: Integers (B, T), with `num_segments`; all 0 if not given.
        training: Whether dropout is applied.

    Returns:
        (B, T, E).

    Raises:
        ValueError: A sequence that ends beyond the learned table, positions beyond
            it (where their values are known: not inside a compiled function),
            half-precision ids, a size out of range, an unknown encoding or layout,
            a shared table of another size.

    Example:

    >>> embed = PositionalEmbedding(sequence_length=8, input_dim=100, output_dim=4)
    >>> vectors = embed(keras.ops.convert_to_tensor([[5, 6, 0]]))

    Source: Gehring et al. 2017, https://arxiv.org/abs/1705.03122 (learned);
    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (chapter: 10)
    """

    def __init__(
        self,
        sequence_length: int | None,
        input_dim: int,
        output_dim: int,
        *,
        encoding: str | None = "learned",
        pad_id: int | None = 0,
        layout: str = "interleaved",
        position_offset: int = 0,
        num_segments: int = 0,
        scale_embedding: bool = False,
        layer_norm_epsilon: float | None = None,
        dropout: float = 0.0,
        shared_embedding=None,
        seed: int | None = None,
        **kwargs,
    ):
        # Keras would cast float ids to half precision, and 2909 become 2912.
        super().__init__(autocast=False, **kwargs)
        learned = encoding == "learned"
        sequence_length = check_integer(
            "sequence_length", sequence_length, optional=not learned
        )
        input_dim = check_integer("input_dim", input_dim)
        output_dim = check_integer("output_dim", output_dim)
        check_choice("encoding", encoding, ENCODINGS)
        check_choice("layout", layout, LAYOUTS)
        check_id("pad_id", pad_id, input_dim, "input_dim")
        check_integer("position_offset", position_offset, 0)
        check_integer("num_segments", num_segments, 0)
        check_number("dropout", dropout, at_least=0, below=1)
        if layer_norm_epsilon is not None:
            check_number("layer_norm_epsilon", layer_norm_epsilon, above=0)
        _check_table(shared_embedding, input_dim, output_dim)
        self.sequence_length = sequence_length
        self.input_dim = input_dim
        self.output_dim = output_dim
        self.encoding = encoding
        self.pad_id = pad_id
        self.layout = layout
        self.position_offset = position_offset
        self.num_segments = num_segments
        self.scale_embedding = scale_embedding
        self.layer_norm_epsilon = layer_norm_epsilon
        self.dropout = dropout
        self.shared_embedding = shared_embedding
        self.seed = seed

        common = {"dtype": self.dtype_policy}
        self.token_embedding = shared_embedding or keras.layers.ReversibleEmbedding(
            input_dim, output_dim, name="token_embedding", **common
        )
        if learned:
            self.position_embedding = keras.layers.Embedding(
                sequence_length + position_offset,
                output_dim,
                name="position_embedding",
                **common,
            )
        elif encoding == "sinusoidal":
            self.position_embedding = SinusoidalEncoding(
                layout=layout, name="position_embedding", **common
            )
        if num_segments:
            self.segment_embedding = keras.layers.Embedding(
                num_segments, output_dim, name="segment_embedding", **common
            )
        if layer_norm_epsilon is not None:
            self.embedding_norm = keras.layers.LayerNormalization(
                epsilon=layer_norm_epsilon, name="embedding_norm", **common
            )
        if dropout:
            self.embedding_dropout = keras.layers.Dropout(
                dropout, seed=seed, name="embedding_dropout", **common
            )

    def build(self, inputs_shape):
        check_axes("inputs", inputs_shape, ("batch", "time"))
        self.input_spec = keras.layers.InputSpec(ndim=2)  # of later calls too
        vectors_shape = (*inputs_shape, self.output_dim)
        if not self.token_embedding.built:  # a shared one keeps its first path
            self.token_embedding.build(inputs_shape)
        if self.encoding is not None:
            self.position_embedding.build(vectors_shape)
        if self.num_segments:
            self.segment_embedding.build(inputs_shape)
        if self.layer_norm_epsilon is not None:
            self.embedding_norm.build(vectors_shape)
        if self.dropout:
            self.embedding_dropout.build(vectors_shape)

    def call(
        self, inputs, start_index=0, positions=None, segment_ids=None, training=None
    ):
        vectors = self.token_embedding(as_integers("inputs", inputs))
        if self.scale_embedding:
            vectors = vectors * self.output_dim**0.5
        if self.encoding is not None:
            vectors = self._add_positions(vectors, inputs, start_index, positions)
        if self.num_segments:
            if segment_ids is None:
                segment_ids = ops.zeros_like(inputs, dtype="int32")
            segment_ids = as_integers("segment_ids", segment_ids)
            vectors = vectors + self.segment_embedding(segment_ids)
        elif segment_ids is not None:
            raise ValueError(
                f"Layer {self.name!r} has no segments but received `segment_ids`. "
                "Create it with `num_segments=2`, or leave them out."
            )
        if self.layer_norm_epsilon is not None:
            vectors = self.embedding_norm(vectors)
        if self.dropout:
            vectors = self.embedding_dropout(vectors, training=training)
        return vectors

    def compute_output_spec(
        self, inputs, start_index=0, positions=None, *args, **kwargs
    ):
        # PyTorch's `call` does not know the length of symbolic ids.
        if positions is None and len(inputs.shape) == 2:
            self._check_length(static_size(inputs, 1), start_index)
        return super().compute_output_spec(
            inputs, start_index, positions, *args, **kwargs
        )

    def compute_mask(self, inputs, previous_mask=None):
        return None if self.pad_id is None else padding_mask(inputs, self.pad_id)

    def compute_output_shape(self, inputs_shape):
        return (*inputs_shape, self.output_dim)

    def _add_positions(self, vectors, inputs, start_index, positions):
        if positions is None:
            start = as_integers("start_index", start_index)
            positions = start + ops.arange(ops.shape(inputs)[1], dtype="int32")
            self._check_length(static_size(inputs, 1), start_index)
        else:
            positions = check_positions(positions, inputs)  # they may repeat
            if 0 not in positions.shape and not is_traced(positions):
                self._check_length(1, ops.min(positions))
                self._check_length(1, ops.max(positions))
        positions = positions + self.position_offset
        if self.encoding == "sinusoidal":
            return self.position_embedding(vectors, positions=positions)
        if infers_shapes():  # a length that stands for an open one may be too long
            last = self.sequence_length + self.position_offset - 1
            positions = ops.minimum(positions, last)
        return vectors + self.position_embedding(positions)

    def _check_length(self, length, start):
        if self.encoding != "learned" or length is None:
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


def _check_table(table, input_dim, output_dim):
    if table is None:
        return
    size = getattr(table, "input_dim", None), getattr(table, "output_dim", None)
    reversible = isinstance(table, keras.layers.ReversibleEmbedding)
    if not reversible or size != (input_dim, output_dim):
        raise ValueError(
            "`shared_embedding` must be a keras.layers.ReversibleEmbedding of "
            f"({input_dim}, {output_dim}), the sizes of this layer. Received: "
            f"{table!r} of {size}."
        )
