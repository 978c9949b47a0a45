import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.visualization import (
    attention_rollout,
    attention_table,
    average_attention,
    record_attention,
)

IDS = np.array([[5, 6, 7, 0], [3, 4, 0, 0]])


def record_of(*ids):
    """A translator's record: two encoder blocks, two decoder blocks."""
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    embed = kt.PositionalEmbedding(9, 12, 8)
    encoder = kt.TransformerStack(2, 8, 2, 12, name="encoder")
    decoder = kt.TransformerStack(
        2, 8, 2, 12, causal=True, cross_attention=True, name="decoder"
    )
    outputs = decoder(embed(target), encoder(embed(source)))
    model = keras.Model([source, target], outputs)
    with record_attention(model) as record:
        model(list(ids))
    return record


@pytest.fixture(scope="module")
def record():
    return record_of(IDS, IDS[:, :3])


def paths(kind):
    stack, name = {
        "encoder": ("encoder", "self_attention"),
        "decoder": ("decoder", "self_attention"),
        "cross": ("decoder", "cross_attention"),
    }[kind]
    return [f"{stack}/block_{n}/{name}" for n in range(2)]


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_the_average_is_over_the_layers_and_heads_of_a_kind(record, kind):
    average = average_attention(record, kind=kind)
    first, second = (record[path][0] for path in paths(kind))
    expected = np.concatenate([first, second], axis=1).mean(axis=1)
    np.testing.assert_allclose(average, expected, atol=1e-6)
    chosen = average_attention(record, layers=paths(kind)[:1])
    np.testing.assert_allclose(chosen, first.mean(axis=1), atol=1e-6)


def test_the_alignment_of_a_translation_has_real_tokens_and_rows_of_one(record):
    average = average_attention(record, kind="cross")
    table = attention_table(average, ["I", "go"], ["나는", "간다"], batch=1)
    np.testing.assert_allclose(table.sum(axis="columns"), 1.0, atol=1e-5)


@pytest.mark.parametrize("residual", [0.0, 0.5])
def test_the_rollout_is_the_product_of_the_layers(record, residual):
    rollout = attention_rollout(record, kind="decoder", residual=residual)
    expected = np.eye(3)
    for path in paths("decoder"):
        mean = record[path][0][0].mean(axis=0)
        expected = (residual * np.eye(3) + (1 - residual) * mean) @ expected
    np.testing.assert_allclose(rollout[0], expected, atol=1e-6)
    listed = [record[path][0] for path in paths("decoder")]
    again = attention_rollout(listed, residual=residual)
    np.testing.assert_array_equal(again, rollout)


def test_no_real_token_draws_on_padding_and_rows_sum_to_one(record):
    rollout = attention_rollout(record, kind="encoder")
    for row, length in zip(rollout, (3, 2), strict=True):
        assert (row[:length, length:] == 0).all()
        np.testing.assert_allclose(row.sum(axis=-1), 1.0, atol=1e-5)
    assert (np.triu(attention_rollout(record, kind="decoder"), 1) == 0).all()


def test_the_rollout_tells_what_moves_the_output():
    # Attention alone, each layer linear in its values: the rollout without residual
    # is how much of each input is in each output.
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, 1, 1, 5, 5))
    layers = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    inputs = rng.normal(size=(5, 8))
    outputs = inputs
    for weights in layers:
        outputs = weights[0, 0] @ outputs
    rollout = attention_rollout(list(layers), residual=0.0)
    np.testing.assert_allclose(rollout[0] @ inputs, outputs, atol=1e-10)


def test_rows_that_see_nothing_stay_empty():
    blind = np.zeros((1, 1, 2, 2))
    assert (attention_rollout([blind, blind], residual=0.0) == 0).all()
    np.testing.assert_array_equal(attention_rollout([blind])[0], np.eye(2))


def test_what_does_not_fit_is_refused(record):
    for function in (attention_rollout, average_attention):
        with pytest.raises(ValueError, match="Several kinds.*'encoder', 'decoder'"):
            function(record)
        with pytest.raises(ValueError, match="one that is recorded: .*'single'"):
            function(record, kind="single")
        with pytest.raises(KeyError, match="Recorded: 'encoder/block_0"):
            function(record, layers=["block_0"])
        with pytest.raises(KeyError, match="recorded as 'b'. Recorded: 'a'"):
            function({"a": [np.ones((1, 1, 2, 2))]}, layers=["b"])
        with pytest.raises(ValueError, match="called 2 times"):
            function({"shared": record[paths("cross")[0]] * 2})
        with pytest.raises(ValueError, match="same lengths"):
            function(record, layers=[paths("cross")[0], paths("encoder")[0]])
        with pytest.raises(TypeError, match="must be what `record_attention` gives"):
            function(record[paths("cross")[0]][0])
        with pytest.raises(ValueError, match="holds nothing"):
            function([])
    with pytest.raises(ValueError, match="as many keys as queries"):
        attention_rollout(record, kind="cross")
    with pytest.raises(ValueError, match="`residual` must be at least 0.*=1.0"):
        attention_rollout(record, kind="encoder", residual=1.0)
