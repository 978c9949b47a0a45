import keras
import numpy as np
import pytest
from keras import ops

from cases.helpers import array
from keras_transformer.datasets import BucketedDataset
from keras_transformer.training import (
    InverseSquareRoot,
    KeepLast,
    Perplexity,
    TokenCrossentropy,
    average_checkpoints,
    shift_right,
    token_losses,
)


def test_inputs_and_labels_are_shifted_by_exactly_one():
    """P18."""
    inputs, labels = shift_right([[11, 12, 13]], start_id=2, stop_id=3)
    data = BucketedDataset(inputs, labels, edges=6, sample_weight="tokens")
    read, wanted, weights = data[0]
    assert read.tolist() == [[2, 11, 12, 13, 0, 0]]
    assert wanted.tolist() == [[11, 12, 13, 3, 0, 0]]
    assert weights.tolist() == [[1, 1, 1, 1, 0, 0]]
    assert shift_right([[5, 6, 7]]) == ([[5, 6]], [[6, 7]])


def test_the_first_stop_id_is_learned_though_it_pads():
    """P19: padding is told by length, not by value."""
    inputs, labels = shift_right([[9, 5, 6], [9, 5]], stop_id=3)
    data = BucketedDataset(
        inputs, labels, pad_id=3, shuffle=False, edges=3, sample_weight="tokens"
    )
    _, wanted, weights = data[0]
    rows = {
        tuple(row): weight.tolist() for row, weight in zip(wanted, weights, strict=True)
    }
    assert rows == {(5, 6, 3): [1, 1, 1], (5, 3, 3): [1, 1, 0]}


def test_rows_that_leave_nothing_to_predict_are_refused():
    with pytest.raises(ValueError, match="Row 1 of `sequences` is too short"):
        shift_right([[5, 6], [7]])
    assert shift_right([[]], start_id=2, stop_id=3) == ([[2]], [[3]])


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
    metric, losses = Perplexity(), []
    for rows, length, tokens in [(3, 2, 2), (2, 5, 4), (1, 9, 3)]:
        logits = rng.normal(scale=length, size=(rows, length, 4)).astype("float32")
        labels = rng.integers(0, 4, (rows, length))
        weights = np.broadcast_to(np.arange(length) < tokens, (rows, length))
        metric.update_state(labels, logits, weights.astype("float32"))
        losses.append(array(token_losses(labels, logits))[:, :tokens].ravel())
    expected = np.exp(np.concatenate(losses).mean())
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)


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


def test_the_rate_rises_to_its_peak_and_falls_as_the_paper_says():
    rate = InverseSquareRoot(peak=(512 * 4000) ** -0.5, warmup_steps=4000)
    for step in (1, 2000, 4000, 100_000):
        paper = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert float(array(rate(step - 1))) == pytest.approx(paper, rel=1e-5)
    copy = InverseSquareRoot.from_config(rate.get_config())
    assert float(array(copy(7))) == pytest.approx(float(array(rate(7))))
    with pytest.raises(ValueError, match="warmup_steps=0"):
        InverseSquareRoot(1e-3, 0)


def test_checkpoints_are_averaged(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    seen = []
    look = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(model.get_weights())
    )
    keep = KeepLast(tmp_path / "kept", 2)
    x = np.random.normal(size=(8, 2))
    model.fit(x, x[:, :1], epochs=4, verbose=0, callbacks=[look, keep])
    assert [file.name[:11] for file in keep.files] == ["epoch-00002", "epoch-00003"]
    average_checkpoints(model, keep.files)
    for weight, third, fourth in zip(model.get_weights(), *seen[2:], strict=True):
        np.testing.assert_allclose(weight, (third + fourth) / 2, atol=1e-6)


def test_files_of_a_longer_training_before_are_not_averaged(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.random.normal(size=(8, 2))
    for epochs in (6, 2):
        keep = KeepLast(tmp_path, 3)
        model.fit(x, x[:, :1], epochs=epochs, verbose=0, callbacks=[keep])
    assert [file.name[:11] for file in keep.files] == ["epoch-00000", "epoch-00001"]


@pytest.mark.parametrize("floatx", ["float16", "bfloat16"])
def test_labels_are_whole_whatever_the_default_float(floatx):
    logits = np.random.default_rng(0).normal(size=(1, 1, 3000)).astype("float32")
    labels = np.array([[2909]])  # 2908 or 2912 in half precision
    expected = float(TokenCrossentropy()(labels, logits))
    keras.config.set_floatx(floatx)
    found = float(TokenCrossentropy()(labels, ops.convert_to_tensor(logits, "float32")))
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_broken_checkpoint_leaves_the_model_as_it_was(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save_weights(tmp_path / "a.weights.h5")
    (tmp_path / "b.weights.h5").write_bytes(b"cut")
    before = model.get_weights()
    with pytest.raises(Exception, match="."):
        average_checkpoints(model, sorted(tmp_path.glob("*.h5")))
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)
    with pytest.raises(ValueError, match="at least one"):
        average_checkpoints(model, [])
