import keras
import numpy as np
import pytest
from keras import ops

from cases.helpers import array
from keras_transformer.training import (
    Perplexity,
    TokenAccuracy,
    TokenCrossentropy,
    token_losses,
)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_over_tokens(smoothing):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(2, 3, 5)).astype("float32")
    labels = np.array([[1, 4, 0], [2, 0, 0]])
    weights = np.array([[1, 1, 1], [1, 0, 0]], "float32")
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    targets = np.eye(5)[labels] * (1 - smoothing) + smoothing / 5
    expected = ((-targets * log_probs).sum(-1) * weights).sum() / weights.sum()
    loss = TokenCrossentropy(label_smoothing=smoothing)
    assert abs(float(loss(labels, logits, sample_weight=weights)) - expected) < 1e-5
    copy = TokenCrossentropy.from_config(loss.get_config())
    assert float(copy(labels, logits, sample_weight=weights)) == pytest.approx(expected)
    half = ops.cast(logits, "bfloat16")
    assert keras.backend.standardize_dtype(loss(labels, half).dtype) == "float32"


def test_padding_changes_neither_loss_nor_perplexity():
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(size=(1, 2, 4)).astype("float32"), np.array([[1, 3]])
    padded = np.concatenate([logits, 9 * np.ones((1, 3, 4), "float32")], axis=1)
    weights = np.array([[1, 1, 0, 0, 0]], "float32")
    more = np.array([[1, 3, 0, 0, 0]])
    alone = float(TokenCrossentropy()(labels, logits))
    both = float(TokenCrossentropy()(more, padded, sample_weight=weights))
    assert both == pytest.approx(alone, abs=1e-6)
    metric = Perplexity()
    metric.update_state(more, padded, sample_weight=weights)
    assert float(metric.result()) == pytest.approx(np.exp(alone), rel=1e-5)


def test_each_token_counts_alike_in_batches_of_any_length():
    rng = np.random.default_rng(2)
    perplexity, accuracy = Perplexity(), TokenAccuracy()
    losses, found = [], []
    for rows, length, tokens in [(3, 2, 2), (2, 5, 4), (1, 9, 3)]:
        logits = rng.normal(scale=length, size=(rows, length, 4)).astype("float32")
        labels = rng.integers(0, 4, (rows, length))
        weights = np.broadcast_to(np.arange(length) < tokens, (rows, length))
        for metric in (perplexity, accuracy):
            metric.update_state(labels, logits, weights.astype("float32"))
        losses.append(array(token_losses(labels, logits))[:, :tokens].ravel())
        found.append((logits.argmax(-1) == labels)[:, :tokens].ravel())
    expected = np.exp(np.concatenate(losses).mean())
    assert float(perplexity.result()) == pytest.approx(expected, rel=1e-5)
    expected = np.concatenate(found).mean()
    assert 0.1 < expected < 0.9
    assert float(accuracy.result()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "weights",
    [None, [1, 0], [[1, 1, 0]], [[True, True, False], [True, False, False]]],
    ids=["none", "texts", "places", "booleans"],
)
def test_perplexity_takes_weights_of_every_form(weights):
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(2, 3, 4)).astype("float32")
    labels = rng.integers(0, 4, (2, 3))
    metric = Perplexity()
    if weights is not None:
        weights = np.array(weights)  # in float64 or bool, as NumPy makes them
        weights = weights if weights.dtype == bool else weights.astype("float64")
    metric.update_state(labels, logits, weights)
    each = np.ones(()) if weights is None else weights.astype("float64")
    each = np.broadcast_to(each[:, None] if each.ndim == 1 else each, (2, 3))
    expected = np.exp(np.average(array(token_losses(labels, logits)), weights=each))
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_perplexity_counts_the_mask_that_the_logits_carry(weighted):
    ids, labels = np.array([[1, 2, 0], [3, 0, 0]]), np.array([[4, 1, 2], [0, 3, 3]])
    weights = np.array([[0.5, 1, 1], [2, 1, 1]], "float32") if weighted else None
    model = keras.Sequential([keras.layers.Embedding(5, 5, mask_zero=True)])
    metrics = {"weighted_metrics" if weighted else "metrics": [Perplexity()]}
    model.compile("sgd", TokenCrossentropy(), **metrics)
    found = model.evaluate(ids, labels, sample_weight=weights, verbose=0)
    assert found[1] == pytest.approx(np.exp(found[0]), rel=1e-5)
    each = (ids != 0) * (1 if weights is None else weights)
    losses = array(token_losses(labels, model(ids)))
    assert found[0] == pytest.approx(np.average(losses, weights=each), rel=1e-5)
    metric = Perplexity()
    metric.update_state(labels, model(ids), weights)
    assert float(metric.result()) == pytest.approx(found[1], rel=1e-5)
    metric = TokenAccuracy()
    metric.update_state(labels, model(ids), weights)
    right = array(model(ids)).argmax(-1) == labels
    assert float(metric.result()) == pytest.approx(np.average(right, weights=each))


@pytest.mark.parametrize("floatx", ["float16", "bfloat16"])
def test_labels_are_whole_whatever_the_default_float(floatx):
    logits = np.random.default_rng(0).normal(size=(1, 1, 3000)).astype("float32")
    labels = np.array([[2909]])  # 2908 or 2912 in half precision
    expected = float(TokenCrossentropy()(labels, logits))
    keras.config.set_floatx(floatx)
    found = float(TokenCrossentropy()(labels, ops.convert_to_tensor(logits, "float32")))
    assert found == pytest.approx(expected, rel=1e-5)
