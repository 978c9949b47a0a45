import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from cases.helpers import array, assert_close, randomize
from support import check_layer


def test_it_keeps_the_laws_of_every_layer():
    check_layer("PositionalEmbedding")


@pytest.mark.parametrize("encoding", ["learned", "sinusoidal"])
def test_start_index_and_positions_choose_the_rows(encoding):
    layer = kt.PositionalEmbedding(9, 12, 8, encoding=encoding)
    ids = np.array([[5, 6, 7, 8]])
    whole = array(layer(ids))
    assert_close(layer(ids[:, 2:], start_index=2), whole[:, 2:])
    start = ops.convert_to_tensor(2, "int32")
    assert_close(layer(ids[:, 2:], start_index=start), whole[:, 2:])
    positions = np.array([[3, 2, 1, 0]])
    assert_close(layer(ids[:, ::-1].copy(), positions=positions), whole[:, ::-1])


def test_positions_beyond_the_table_are_refused():
    layer = kt.PositionalEmbedding(4, 12, 8)
    for arguments in (
        dict(start_index=3),
        dict(start_index=ops.convert_to_tensor(3, "int32")),
        dict(positions=np.array([[3, 4]])),
    ):
        with pytest.raises(ValueError, match="position 4 .*`sequence_length=4`"):
            layer(np.array([[5, 6]]), **arguments)


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(pad_id=12), "`pad_id` must be an id below.*pad_id=12, input_dim=12"),
        (dict(encoding="fourier"), "`encoding` must be one of 'learned', 'sinusoidal'"),
        (dict(output_dim=0), "`output_dim` must be a positive integer"),
        (dict(layout="half"), "`layout` must be one of 'interleaved', 'concat.*'half'"),
        (dict(sequence_length=None), "`sequence_length` must be a positive integer"),
        (dict(num_segments=-1), "`num_segments` must be an integer of at least 0"),
        (dict(position_offset=0.5), "`position_offset` must be an integer"),
        (
            dict(layer_norm_epsilon=0),
            "`layer_norm_epsilon` must be a finite",
        ),
        (
            dict(dropout=1.0),
            "`dropout` must be a finite number",
        ),
        (
            dict(shared_embedding=keras.layers.ReversibleEmbedding(12, 4)),
            r"`shared_embedding` must be .* of \(12, 8\)",
        ),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    sizes = dict(sequence_length=4, input_dim=12, output_dim=8)
    with pytest.raises(ValueError, match=message):
        kt.PositionalEmbedding(**{**sizes, **settings})


@pytest.mark.parametrize("positions", [[1], [[0, 1], [0, 1]], [[[0, 1, 2]]]])
@pytest.mark.parametrize(
    "layer, inputs",
    [
        (lambda: kt.PositionalEmbedding(4, 12, 8), np.array([[5, 6, 7]])),
        (lambda: kt.SinusoidalEncoding(), np.zeros((1, 3, 8), "float32")),
        (lambda: kt.RotaryEmbedding(), np.zeros((1, 3, 2, 8), "float32")),
    ],
    ids=["embedding", "sinusoidal", "rotary"],
)
def test_positions_of_another_shape_are_refused(layer, inputs, positions):
    with pytest.raises(ValueError, match="`positions` must have the shape"):
        layer()(inputs, positions=np.array(positions))


def test_ids_in_place_of_vectors_are_refused():
    with pytest.raises(ValueError, match="Embed token ids first"):
        kt.SinusoidalEncoding()(np.array([[5, 6, 7]]))


def test_every_setting_does_what_the_formula_says():
    layer = kt.PositionalEmbedding(
        4,
        12,
        8,
        position_offset=2,
        num_segments=2,
        scale_embedding=True,
        layer_norm_epsilon=1e-5,
        dropout=0.5,
    )
    layer.build((None, None))
    randomize(layer)
    ids, segments = np.array([[5, 6, 7]]), np.array([[0, 0, 1]])
    table = array(layer.token_embedding.embeddings)
    rows = array(layer.position_embedding.embeddings)
    assert rows.shape == (6, 8)
    vectors = 8**0.5 * table[ids] + rows[2:5]
    vectors = vectors + array(layer.segment_embedding.embeddings)[segments]
    centred = vectors - vectors.mean(-1, keepdims=True)
    normed = centred / np.sqrt(vectors.var(-1, keepdims=True) + 1e-5)
    norm = layer.embedding_norm
    expected = normed * array(norm.gamma) + array(norm.beta)
    assert_close(layer(ids, segment_ids=segments), expected.astype("float32"))
    first = layer(ids, segment_ids=np.zeros_like(ids))
    assert_close(layer(ids), first)
    dropped = array(layer(ids, training=True))
    assert 0 < (dropped == 0).sum() < dropped.size


def test_without_encoding_positions_change_nothing():
    layer = kt.PositionalEmbedding(None, 12, 8, encoding=None)
    outputs = array(layer(np.array([[5, 6, 5]])))
    assert_close(outputs[:, 0], outputs[:, 2])


def test_a_shared_table_is_one_variable():
    table = keras.layers.ReversibleEmbedding(12, 8)
    one = kt.PositionalEmbedding(4, 12, 8, shared_embedding=table)
    other = kt.PositionalEmbedding(4, 12, 8, shared_embedding=table)
    for layer in (one, other):
        layer(np.array([[5]]))
    assert one.weights[0] is other.weights[0]
    assert one.weights[1] is not other.weights[1]


def test_segments_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="no segments but received `segment_ids`"):
        kt.PositionalEmbedding(4, 12, 8)(np.array([[5]]), segment_ids=np.array([[0]]))


class Own(keras.layers.Layer):
    """A user's own layer, which has neither `build` nor shapes of its own."""

    def __init__(self, nested, policy):
        super().__init__(dtype=policy)
        self.parts = [
            kt.PositionalEmbedding(9, 12, 8, dtype=policy),
            kt.TransformerEncoder(8, 2, 12, dtype=policy),
        ]
        if nested:
            self.parts = [keras.Sequential(self.parts)]

    def call(self, inputs):
        for part in self.parts:
            inputs = part(inputs)
        return inputs


@pytest.mark.parametrize(
    "nested, policy",
    [(False, "float32"), (False, "mixed_bfloat16"), (True, "float32")],
)
def test_a_short_table_stands_in_a_users_own_layer(nested, policy):
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, Own(nested, policy)(inputs))
    assert model.output.shape == (None, None, 8)
    ids = np.array([[5, 6, 7, 8, 5, 6, 7, 8, 9]])
    atol = 1e-5 if policy == "float32" else 5e-2
    for length in (9, 2):
        predicted = model.predict(ids[:, :length], verbose=0).astype("float32")
        assert_close(predicted, ops.cast(model(ids[:, :length]), "float32"), atol=atol)
    with pytest.raises(ValueError, match="position 9 .*`sequence_length=9`"):
        model(np.ones((1, 10), "int32"))


@pytest.mark.parametrize("length, constant", [(6, True), (6, False), (None, False)])
def test_positions_that_repeat_fit_a_table_shorter_than_the_text(length, constant):
    layer = kt.PositionalEmbedding(4, 12, 8)
    ids, positions = np.array([[5, 6, 7, 5, 6, 7]]), np.array([[0, 1, 2, 0, 1, 2]])
    outputs = array(layer(ids, positions=positions))
    assert_close(outputs[:, :3], layer(ids[:, :3]))
    assert_close(outputs[:, 3:], outputs[:, :3])
    inputs = [keras.Input((length,), dtype="int32") for _ in range(2)]
    chosen = positions if constant else inputs[1]
    model = keras.Model(inputs, layer(inputs[0], positions=chosen))
    assert_close(model([ids, positions]), outputs)
    assert_close(model.predict([ids, positions], verbose=0), outputs)


def test_positions_of_no_tokens_give_no_vectors():
    layer = kt.PositionalEmbedding(4, 12, 8)
    for shape in ((1, 0), (0, 3)):
        empty = np.zeros(shape, "int32")
        assert tuple(layer(empty, positions=empty).shape) == (*shape, 8)


@pytest.mark.parametrize("start", [5, np.int32(5), -1])
def test_a_symbolic_text_is_held_to_the_table_from_its_start_on(start):
    layer = kt.PositionalEmbedding(9, 12, 8)
    inputs = keras.Input((5,), dtype="int32")
    assert layer(inputs, start_index=4).shape == (None, 5, 8)
    with pytest.raises(ValueError, match="position (9 .*`sequence_length=9`|-1)"):
        layer(inputs, start_index=start)


def test_arguments_may_be_given_by_place():
    layer = kt.PositionalEmbedding(9, 12, 8, num_segments=2)
    ids, segments = np.array([[5, 6]]), np.array([[0, 1]])
    inputs = [keras.Input((2,), dtype="int32") for _ in range(3)]
    model = keras.Model(inputs, layer(*inputs[:1], None, *inputs[1:]))
    expected = layer(ids, positions=ids, segment_ids=segments)
    assert_close(model([ids, ids, segments]), expected)
