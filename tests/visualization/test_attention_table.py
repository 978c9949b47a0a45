import keras
import numpy as np
import pytest

import keras_transformer as kt
from cases.helpers import fresh_process
from keras_transformer.visualization import attention_table

TOKENS = ["배", "타고", "배", "먹으니", "배", "아프다"]
WEIGHTS = np.random.default_rng(0).random((2, 3, 8, 8)).astype("float32")
WEIGHTS[..., 6:] = 0  # padding


def test_a_table_holds_the_weights_of_the_tokens_and_no_padding():
    table = attention_table(WEIGHTS, TOKENS, head=1, batch=1)
    assert list(table.index) == list(table.columns) == TOKENS
    assert (table.index.name, table.columns.name) == ("query", "key")
    np.testing.assert_array_equal(table.to_numpy(), WEIGHTS[1, 1, :6, :6])


def test_without_a_head_the_heads_are_averaged():
    expected = WEIGHTS[0].mean(axis=0)[:6, :6]
    for head in (None, "mean"):
        table = attention_table(WEIGHTS, TOKENS, head=head)
        np.testing.assert_allclose(table.to_numpy(), expected, rtol=1e-6)


def test_every_recorded_shape_is_understood():
    one_head, heads = WEIGHTS[:, 2], WEIGHTS[1]
    same = [
        attention_table(WEIGHTS, TOKENS, head=2, batch=1),
        attention_table(WEIGHTS, TOKENS, head=-1, batch=-1),
        attention_table(one_head, TOKENS, batch=1),  # (B, T, S)
        attention_table(heads, TOKENS, head=2),  # (N, T, S)
        attention_table(heads, TOKENS, head=2, batch=None),
        attention_table(heads[2], TOKENS),  # (T, S)
        attention_table(heads[2], TOKENS, head="mean", batch=None),
    ]
    for table in same:
        np.testing.assert_array_equal(table.to_numpy(), WEIGHTS[1, 2, :6, :6])
    mean = attention_table(heads, TOKENS, batch=None)
    np.testing.assert_array_equal(mean, attention_table(WEIGHTS, TOKENS, batch=1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tensors_of_the_backend_are_taken(dtype):
    weights = keras.ops.convert_to_tensor(WEIGHTS, dtype)
    table = attention_table(weights, TOKENS, head=0)
    expected = keras.ops.convert_to_numpy(keras.ops.cast(weights, "float32"))
    np.testing.assert_array_equal(table.to_numpy(), expected[0, 0, :6, :6])


def test_cross_attention_has_its_own_tokens_on_each_axis():
    weights = WEIGHTS[..., 3:].copy()
    weights[..., 3:] = 0
    table = attention_table(weights, ["I", "ate"], TOKENS[:3])
    assert table.shape == (2, 3)
    assert list(table.index) == ["I", "ate"]
    assert list(table.columns) == TOKENS[:3]


def test_the_rows_of_2017_are_views():
    layer = kt.SelfAttentiveEmbedding(num_hops=3, attention_dim=4, name="views")
    with kt.record_attention(layer) as record:
        layer(keras.random.normal((2, 6, 8), seed=1))
    weights = record["views"][0]  # (B, r, S)
    table = attention_table(weights, None, TOKENS, batch=1)
    assert list(table.index) == ["view 1", "view 2", "view 3"]
    np.testing.assert_array_equal(table.to_numpy(), weights[1])


def test_hidden_tokens_are_left_out_on_both_axes():
    tokens = ["<pad>", "<pad>", "[CLS]", *TOKENS[:5]]
    table = attention_table(WEIGHTS, tokens, head=0, hide=("<pad>", "[CLS]"))
    assert list(table.index) == list(table.columns) == TOKENS[:5]
    np.testing.assert_array_equal(table.to_numpy(), WEIGHTS[0, 0, 3:, 3:])
    one = attention_table(WEIGHTS, TOKENS, hide="배")
    assert list(one.index) == ["타고", "먹으니", "아프다"]


def test_tokens_that_are_looked_at_are_not_cut_off_silently():
    for tokens in (dict(query_tokens=TOKENS[:4]), dict(key_tokens=TOKENS[:4])):
        (name,) = tokens
        message = f"`{name}` has 4 tokens, but key 6 is looked at"
        with pytest.raises(ValueError, match=message):
            attention_table(WEIGHTS, **{"query_tokens": TOKENS, **tokens})
    table = attention_table(WEIGHTS, TOKENS, hide=("먹으니", "아프다"))
    assert list(table.columns) == ["배", "타고", "배", "배"]
    causal = np.tri(6) / np.arange(1, 7)[:, None]  # the first rows are whole
    with pytest.raises(ValueError, match="`query_tokens` has 4 tokens, but key 6"):
        attention_table(causal, TOKENS[:4])  # else "I go" may be named "<s> I"
    with pytest.raises(ValueError, match="`key_tokens` has 3 tokens, but key 6"):
        attention_table(causal, TOKENS, TOKENS[:3])


def test_real_rows_of_a_recorded_model_sum_to_one():
    ids = np.array([[5, 6, 7, 0], [3, 4, 0, 0]])
    model = keras.Sequential(
        [
            kt.PositionalEmbedding(9, 12, 8),
            kt.TransformerEncoder(8, 2, 12, name="encoder"),
        ]
    )
    with kt.record_attention(model) as record:
        model(ids)
    weights = record["encoder/self_attention"][0]
    table = attention_table(weights, ["나는", "간다"], batch=1)
    np.testing.assert_allclose(table.sum(axis="columns"), 1.0, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(query_tokens=["a"] * 9), "9 tokens, but `weights` have only 8 query"),
        (
            dict(query_tokens=TOKENS, key_tokens=["a"] * 10),
            "`key_tokens` has 10 tokens, but `weights` have only 8 key",
        ),
        (dict(query_tokens=None), "Give `key_tokens`"),
        (dict(query_tokens=[]), "0 query and 0 key tokens"),
        (dict(query_tokens=["배"], hide="배"), "Nothing is left to show"),
        (dict(query_tokens=TOKENS, head=3), "`head` must be below 3.*head=3"),
        (dict(query_tokens=TOKENS, head="max"), '`head` must be an index, "mean"'),
        (dict(query_tokens=TOKENS, batch=2), "`batch` must be below 2.*batch=2"),
        (dict(query_tokens=TOKENS, batch=None), "have a batch axis"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        attention_table(WEIGHTS, **arguments)


def test_the_mean_of_three_axes_is_asked_for_without_a_batch():
    one_head, heads = WEIGHTS[:, 2], WEIGHTS[1]
    with pytest.raises(ValueError, match=r"are either \(B, T, S\), which have one"):
        attention_table(one_head, TOKENS, head="mean")
    mean = attention_table(heads, TOKENS, head="mean", batch=None)
    np.testing.assert_array_equal(mean, attention_table(WEIGHTS, TOKENS, batch=1))
    one = attention_table(one_head[:1], TOKENS, head="mean")
    np.testing.assert_array_equal(one, attention_table(one_head, TOKENS, batch=0))


def test_other_things_than_one_array_and_tokens_are_refused():
    with pytest.raises(ValueError, match=r"record\[path\]\[0\]"):
        attention_table([WEIGHTS], TOKENS)
    with pytest.raises(ValueError, match=r"record\[path\]\[0\]"):
        attention_table([WEIGHTS, WEIGHTS[:, :, :4]], TOKENS)
    with pytest.raises(ValueError, match="not the whole record. Its paths: 'one', 't"):
        attention_table({"one": [WEIGHTS], "two": [WEIGHTS]}, TOKENS)
    with pytest.raises(ValueError, match="holds nothing"):
        attention_table({}, TOKENS)
    with pytest.raises(ValueError, match="leave out `batch`"):
        attention_table(WEIGHTS[0], TOKENS, head=0, batch=1)
    with pytest.raises(TypeError, match="not one text"):
        attention_table(WEIGHTS, "배 타고")


def test_matplotlib_is_not_needed_for_tables():
    code = """
import sys
sys.modules["matplotlib"] = None
from keras_transformer.visualization import attention_table
print(attention_table([[0.5, 0.5], [0.25, 0.75]], ["배", "배"]).shape)
"""
    assert fresh_process(code).strip() == "(2, 2)"
