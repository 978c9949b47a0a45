"""`fit` takes a Keras optimizer as it is: what clips and accumulates gradients."""

import keras
import numpy as np
import pytest

from cases.helpers import Interrupt, slow_on
from keras_transformer import TextClassifier, TextGenerator, Translator

TEXTS = ["나는 학교에 간다", "너는 집에서 잔다", "비가 온다", "날씨가 아주 좋다"]
SIZES = dict(embed_dim=8, num_heads=2, dense_dim=8, dropout=0.0)
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


def generator():
    return TextGenerator.from_texts(TEXTS, max_length=24, num_layers=1, **SIZES)


def classifier():
    return TextClassifier.from_texts(TEXTS, [0, 1, 0, 1], "chapter", **SIZES)


def translator():
    pairs = list(zip(TEXTS, TEXTS, strict=True))
    return Translator.from_pairs(pairs, num_layers=1, **SIZES)


def fit(task, optimizer, **settings):
    """Train on batches of a row or two, and return how far each weight has moved."""
    data, watched = (TEXTS,), TEXTS
    settings = dict(epochs=2, patience=None, verbose=0, **settings)
    if isinstance(task, Translator):
        watched = list(zip(TEXTS, TEXTS, strict=True))
        data, settings["average"] = (watched,), None
    if isinstance(task, TextClassifier):
        data, watched = (TEXTS, [0, 1, 0, 1]), (TEXTS, [0, 1, 0, 1])
        settings |= {"batch_size": 1, "sampling": False}
    else:
        settings["max_tokens"] = 24
    before = task.model.get_weights()
    task.fit(*data, validation_data=watched, optimizer=optimizer, **settings)
    compiled = task.model.optimizer
    assert getattr(compiled, "inner_optimizer", compiled) is optimizer
    after = task.model.get_weights()
    return [np.abs(new - old).max() for new, old in zip(after, before, strict=True)]


def check_gradients(task):
    sgd = keras.optimizers.SGD
    assert max(fit(task, sgd(0.1))) > 1e-3
    assert max(fit(task, sgd(0.1, clipnorm=1e-8))) < 1e-7
    waiting = sgd(0.1, gradient_accumulation_steps=100)
    assert max(fit(task, waiting)) == 0  # so many batches do not come
    acting = sgd(0.1, gradient_accumulation_steps=2)
    assert max(fit(task, acting)) > 1e-4


def test_gradients_are_clipped_and_accumulated():
    check_gradients(classifier())


@slow_on("jax", "tensorflow")
@pytest.mark.parametrize("make", [generator, translator])
def test_gradients_of_models_of_tokens_are_clipped_and_accumulated_too(make):
    check_gradients(make())


def test_a_training_goes_on_with_the_optimizers_state(tmp_path):
    def adam():
        return keras.optimizers.Adam(
            1e-2, global_clipnorm=0.1, gradient_accumulation_steps=3
        )

    whole, halves = classifier(), classifier()
    halves.model.set_weights(whole.model.get_weights())
    fit(whole, adam())
    folder = tmp_path / "checkpoint"
    with pytest.raises(KeyboardInterrupt):
        fit(halves, adam(), checkpoint_folder=folder, callbacks=[Interrupt(1)])
    fit(halves, adam(), checkpoint_folder=folder)
    for one, other in zip(
        halves.model.get_weights(), whole.model.get_weights(), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_an_optimizer_keeps_its_state_in_a_later_training_of_the_model(policy):
    keras.config.set_dtype_policy(policy)  # under float16 Keras puts it into another
    task, optimizer = classifier(), keras.optimizers.Adam(1e-3)
    fit(task, optimizer)
    steps = int(optimizer.iterations)
    fit(task, optimizer)
    again = int(optimizer.iterations) - steps
    # The first steps under float16 are skipped until the loss is scaled small enough.
    assert again == steps > 0 if policy == "float32" else again >= steps > 0
    with pytest.raises(ValueError, match="has been used already.*Make a new one"):
        fit(classifier(), optimizer)


@pytest.mark.parametrize("make", [generator, classifier, translator])
def test_what_does_not_go_with_an_optimizer_is_refused_before_any_work(make):
    task, rate = make(), keras.optimizers.schedules.CosineDecay(1e-2, 3)
    weights = task.model.get_weights()
    refused = [({"learning_rate": 1e-3}, "learning_rate=0.001")]
    refused.append(({"learning_rate": rate}, "learning_rate=<"))
    if make is not classifier:
        refused.append(({"warmup_steps": 5}, "also: warmup_steps=5"))
    for settings, message in refused:
        with pytest.raises(ValueError, match=f"its own learning rate.*{message}"):
            fit(task, keras.optimizers.Adam(1e-3), **settings)
    with pytest.raises(ValueError, match="must be a Keras optimizer.*'adam'"):
        fit(task, "adam")
    for weight, kept in zip(task.model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(weight, kept)
