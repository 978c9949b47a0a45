import keras
import numpy as np
import pytest

from keras_transformer.ops.attention import attend
from keras_transformer.visualization import record_attention, similarity_table

RNG = np.random.default_rng(0)
QUERIES, KEYS = RNG.normal(size=(2, 4, 8)), RNG.normal(size=(2, 5, 8))
QUERIES, KEYS = QUERIES.astype("float32"), KEYS.astype("float32")


def test_scores_are_scaled_inner_products():
    table = similarity_table(QUERIES, KEYS, ["나는", "배를", "먹었다"], batch=1)
    assert list(table.index) == ["나는", "배를", "먹었다"]
    assert list(table.columns) == [0, 1, 2, 3, 4]
    assert (table.index.name, table.columns.name) == ("query", "key")
    expected = QUERIES[1, :3] @ KEYS[1].T
    np.testing.assert_allclose(table, expected / np.sqrt(8), atol=1e-5)
    bare = similarity_table(QUERIES[1, :3], KEYS[1], scale=1.0)
    np.testing.assert_allclose(bare, expected, atol=1e-5)


def test_a_sequence_is_compared_with_itself():
    tokens = ["배", "타고", "배"]
    table = similarity_table(QUERIES[0], query_tokens=tokens)
    assert list(table.index) == list(table.columns) == tokens
    np.testing.assert_allclose(table, table.to_numpy().T, atol=1e-5)


def test_weights_are_those_of_attention():
    table = similarity_table(QUERIES, KEYS, softmax=True)
    with record_attention(keras.layers.Identity()) as record:
        attend(*map(keras.ops.convert_to_tensor, (QUERIES, KEYS, KEYS)))
    np.testing.assert_allclose(table, record["attention"][0][0], atol=1e-5)


def test_rows_sum_to_one_over_real_tokens():
    table = similarity_table(QUERIES, KEYS, ["a"], ["b", "c"], softmax=True)
    alone = similarity_table(QUERIES[0, :1], KEYS[0, :2], softmax=True)
    np.testing.assert_allclose(table.sum(axis="columns"), 1.0, atol=1e-6)
    np.testing.assert_allclose(table, alone, atol=1e-6)


def test_tensors_and_the_chapters_shapes_are_taken():
    tensor = keras.ops.cast(keras.ops.convert_to_tensor(QUERIES), "bfloat16")
    table = similarity_table(tensor, KEYS[1], scale=1.0)
    np.testing.assert_allclose(table, QUERIES[0] @ KEYS[1].T, atol=0.1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((QUERIES, KEYS[..., :7]), ValueError, "of one size. Received sizes 8 and 7"),
        ((np.arange(4), KEYS), ValueError, "`queries` must be vectors.*embedded first"),
        ((QUERIES, KEYS, ["a"] * 5), ValueError, "5 tokens, but .* only 4 query"),
        ((QUERIES, KEYS, "배 타고"), TypeError, "not one text"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        similarity_table(*arguments)
    with pytest.raises(ValueError, match="`batch` must be below 2.*batch=2"):
        similarity_table(QUERIES, KEYS, batch=2)
