import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from cases.examples import quick
from cases.helpers import Interrupt, slow_on
from keras_transformer import TextClassifier
from keras_transformer.models import TextEncoder, build_text_classifier
from keras_transformer.tokenizers import SentencePieceTokenizer

GOOD = ["정말 재미있다", "참 좋은 영화", "또 보고 싶다", "최고의 연기", "감동적이다"]
BAD = ["너무 지루하다", "정말 나쁜 영화", "돈이 아깝다", "최악의 연기", "실망했다"]
TEXTS, LABELS = GOOD * 4 + BAD * 4, [1] * 20 + [0] * 20
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")
SMALL = dict(embed_dim=16, num_heads=2, dense_dim=16)
READER = dict(num_layers=1, **SMALL)


@pytest.fixture(scope="module")
def classifier():
    keras.utils.set_random_seed(0)
    classifier = TextClassifier.from_texts(
        TEXTS, LABELS, vocabulary_size=60, dropout=0.0, **SMALL
    )
    classifier.fit(
        TEXTS,
        LABELS,
        validation_data=(TEXTS, LABELS),
        epochs=30,
        learning_rate=5e-3,
        patience=None,
        verbose=0,
    )
    return classifier


def test_it_learns_what_it_is_shown(classifier):
    result = classifier.evaluate(TEXTS, LABELS)
    assert result["accuracy"] == result["f1"] == 1.0
    assert result["confusion"].to_numpy().tolist() == [[20, 0], [0, 20]]
    assert classifier.predict(GOOD[:2] + BAD[:1]) == [1, 1, 0]


@slow_on("tensorflow")
def test_equal_seeds_train_equally():
    def fit(seed, **settings):
        keras.utils.set_random_seed(0)
        fresh = TextClassifier.from_texts(TEXTS, LABELS, vocabulary_size=60, **SMALL)
        fresh.fit(TEXTS, LABELS, epochs=2, seed=seed, verbose=0, **settings)
        return fresh.predict_probabilities(TEXTS)

    first = fit(1)  # of the default recipe, which cuts the texts at random
    np.testing.assert_allclose(fit(1), first, atol=1e-6)
    assert np.abs(fit(2) - first).max() > 1e-4
    for sampling in (True, "a", -1):
        with pytest.raises(ValueError, match="`sampling` must be"):
            fit(1, sampling=sampling)


def test_only_what_training_wrote_leaves_the_checkpoint_folder(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    fresh = TextClassifier.from_texts(TEXTS, LABELS, vocabulary_size=60, **SMALL)
    fresh.fit(TEXTS, LABELS, epochs=1, checkpoint_folder=tmp_path, verbose=0)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_text_gets_the_same_alone_and_among_longer_ones(classifier):
    texts = ["좋다", "정말 재미있다 또 보고 싶다 최고의 연기 감동적이다", ""]
    together = classifier.predict_probabilities(texts)
    for index, text in enumerate(texts):
        alone = classifier.predict_probabilities([text])
        np.testing.assert_allclose(alone[0], together[index], atol=1e-5)
    np.testing.assert_allclose(together.sum(axis=-1), 1.0, atol=1e-6)
    assert classifier.predict_probabilities([]).shape == (0, 2)


def test_a_table_on_request(classifier):
    table = classifier.predict(GOOD, table=True)
    assert list(table.columns) == ["text", "label", "probability"]
    assert table["text"].tolist() == GOOD and (table["probability"] >= 0.5).all()


def test_an_explanation_shows_tokens_and_weights(classifier, tmp_path):
    explanation = classifier.explain("정말 재미있다")
    table = explanation.table()
    assert list(table.index) == list(table.columns) == explanation.tokens
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-5)
    assert explanation.label == 1
    chances = classifier.predict_probabilities(["정말 재미있다"])[0]
    np.testing.assert_allclose(
        list(explanation.probabilities.values()), chances, atol=1e-5
    )
    pytest.importorskip("matplotlib")
    explanation.plot(path=tmp_path / "attention.png")
    assert (tmp_path / "attention.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="no tokens"):
        classifier.explain("  ")


LOAD = """
import json, sys
from keras_transformer import TextClassifier
classifier = TextClassifier.load(sys.argv[1])
print(json.dumps(classifier.predict_probabilities(json.loads(sys.argv[2])).tolist()))
"""


def test_another_process_reads_what_was_saved(classifier, tmp_path):
    folder = tmp_path / "모델"
    classifier.save(folder)
    run = subprocess.run(
        [sys.executable, "-c", LOAD, str(folder), json.dumps(TEXTS[::7])],
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = json.loads(run.stdout.strip().splitlines()[-1])
    expected = classifier.predict_probabilities(TEXTS[::7])
    np.testing.assert_allclose(loaded, expected, atol=1e-6)


@slow_on("tensorflow")
def test_three_labels_and_words_as_labels():
    texts = TEXTS + ["그저 그렇다", "보통이다"] * 10
    labels = ["good"] * 20 + ["bad"] * 20 + ["so-so"] * 20
    classifier = TextClassifier.from_texts(texts, labels, vocabulary_size=70, **SMALL)
    classifier.fit(texts, labels, epochs=1, verbose=0)
    assert classifier.labels == ["bad", "good", "so-so"]
    assert classifier.predict_probabilities(texts[:2]).shape == (2, 3)
    assert set(classifier.predict(texts)) <= set(classifier.labels)


@pytest.mark.parametrize(
    "recipe", quick(["chapter", "sentence-embedding"], ["sentence-embedding"])
)
def test_the_other_recipes_train_and_explain(recipe):
    classifier = TextClassifier.from_texts(TEXTS, LABELS, recipe, vocabulary_size=60)
    history = classifier.fit(TEXTS, LABELS, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2
    explanation = classifier.explain(TEXTS[0])
    assert list(explanation.table().columns) == explanation.tokens


def test_attention_of_the_default_recipe_does_not_start_uniform():
    spread = {}
    for recipe in ("default", "chapter"):
        keras.utils.set_random_seed(0)
        classifier = TextClassifier.from_texts(
            TEXTS, LABELS, recipe, vocabulary_size=60
        )
        weights = classifier.explain(GOOD[2]).table(head=0).to_numpy()
        spread[recipe] = (weights * len(weights)).std()  # uniform: 0
    assert spread["chapter"] < 0.05
    assert spread["default"] > 0.2


def test_an_interrupted_training_goes_on(tmp_path):
    def fit(callbacks=()):
        return classifier.fit(
            TEXTS,
            LABELS,
            epochs=4,
            patience=None,
            checkpoint_folder=tmp_path,
            callbacks=callbacks,
            verbose=0,
        )

    classifier = TextClassifier.from_texts(TEXTS, LABELS, vocabulary_size=60, **SMALL)
    with pytest.raises(KeyboardInterrupt):
        fit([Interrupt(2)])
    assert fit().epoch == [2, 3]


@pytest.mark.parametrize(
    "texts, labels, error, message",
    [
        ([], [], ValueError, "`texts` is empty"),
        ("좋다", [1], TypeError, "several texts"),
        (["좋다", None], [1, 0], TypeError, "Text 1 is None"),
        (["좋다", float("nan")], [1, 0], TypeError, "Text 1 is nan"),
        (["좋다", ["나쁘다"]], [1, 0], TypeError, "Text 1 is .'나쁘다'."),
        (["좋다"], [1, 0], ValueError, "1 texts, 2 labels"),
        (["좋다", "나쁘다"], [1, 1], ValueError, "All 2 labels are 1"),
        (["좋다", "나쁘다"], [1, 0.5], TypeError, "Label 1 is 0.5"),
    ],
)
def test_bad_texts_and_labels_are_refused(texts, labels, error, message):
    with pytest.raises(error, match=message):
        TextClassifier.from_texts(texts, labels)


@pytest.mark.parametrize(
    "settings, error, message",
    [
        (dict(epochs=0), ValueError, "`epochs` must be a positive integer"),
        (dict(epochs=1.5), ValueError, "`epochs` must be a positive integer"),
        (dict(patience=-1), ValueError, "`patience` must be an integer of at least 0"),
        (dict(learning_rate="1e-3"), ValueError, "`learning_rate` must be a finite"),
        (dict(learning_rate=-1.0), ValueError, "`learning_rate` must be a finite"),
        (dict(label_smoothing=1.0), ValueError, "`label_smoothing` must be"),
        (dict(average=-1), ValueError, "`average` must be an integer of at least 0"),
        (dict(validation_data=0.2), TypeError, "a pair .texts, labels.*0.2"),
        (dict(validation_data=(TEXTS,)), TypeError, "a pair .texts, labels."),
        (dict(validation_data=TEXTS), TypeError, "a pair .texts, labels."),
    ],
)
def test_bad_settings_of_training_are_refused(classifier, settings, error, message):
    before = classifier.model.get_weights()
    with pytest.raises(error, match=message):
        classifier.fit(TEXTS, LABELS, **{"epochs": 1, "verbose": 0, **settings})
    for weight, kept in zip(classifier.model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, kept)


@slow_on("tensorflow")
@pytest.mark.parametrize("recipe", ["default", "chapter"])
def test_the_default_recipes_learning_rate_rises_and_falls(recipe):
    rates = []

    class Note(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            rates.append(float(self.model.optimizer.learning_rate))

    fresh = TextClassifier.from_texts(
        TEXTS, LABELS, recipe, vocabulary_size=60, **SMALL
    )
    settings = dict(epochs=10, batch_size=18, patience=None, callbacks=[Note()])
    fresh.fit(TEXTS, LABELS, verbose=0, **settings)
    if recipe == "chapter":
        assert rates == pytest.approx([1e-3] * 10)
    else:  # two updates an epoch, of which the first two rise
        assert rates[0] == pytest.approx(5e-4) and rates[1] == pytest.approx(1e-3)
        assert rates[1:] == sorted(rates[1:], reverse=True)
        assert 0 < rates[-1] < 1e-4


def test_a_schedule_may_be_the_learning_rate():
    rate = keras.optimizers.schedules.CosineDecay(1e-2, 4)
    fresh = TextClassifier.from_texts(TEXTS, LABELS, vocabulary_size=60, **SMALL)
    fresh.fit(TEXTS, LABELS, epochs=1, learning_rate=rate, verbose=0)
    steps = int(fresh.model.optimizer.iterations)
    found = float(fresh.model.optimizer.learning_rate)
    assert found == pytest.approx(float(rate(steps)), rel=1e-5)


def test_a_table_of_texts_from_an_iterator(classifier):
    table = classifier.predict(iter(GOOD), table=True)
    assert table.equals(classifier.predict(GOOD, table=True))


def test_no_texts_have_nothing_to_measure(classifier):
    with pytest.raises(ValueError, match="is empty. Pass texts, and a label for each"):
        classifier.evaluate([], [])


def test_parts_that_do_not_fit_are_refused(classifier):
    tokenizer = SentencePieceTokenizer.train(TEXTS, 60)
    model = build_text_classifier(20, **SMALL)
    with pytest.raises(ValueError, match="embedding only 20 rows"):
        TextClassifier(model, tokenizer, [0, 1])
    model = build_text_classifier(60, **SMALL, num_classes=3)
    with pytest.raises(ValueError, match="must have 1 outputs. This one has 3"):
        TextClassifier(model, tokenizer, [0, 1])
    with pytest.raises(ValueError, match="at least two different labels"):
        TextClassifier(model, tokenizer, [1, 1, 0])
    with pytest.raises(ValueError, match="does not know: 2. It knows 0, 1"):
        classifier.evaluate(TEXTS[:1], [2])


def read_by(encoder):
    """Return a classifier over a `TextEncoder`."""
    ids = keras.Input((None,), dtype="int32")
    outputs = keras.layers.Dense(1, "sigmoid")(encoder(ids)["pooled_output"])
    return keras.Model(ids, outputs)


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(vocabulary_size=20), "embedding only 20 rows"),
        (dict(pad_id=1), "hide the tokenizer's pad_id=0.*hides the id 1"),
        (dict(sequence_length=8), "positions for 8 tokens.*Pass max_length=8"),
    ],
)
def test_a_text_encoder_must_fit_too(settings, message):
    tokenizer = SentencePieceTokenizer.train(TEXTS, 60)
    model = read_by(TextEncoder(**{"vocabulary_size": 60, **READER, **settings}))
    with pytest.raises(ValueError, match=message):
        TextClassifier(model, tokenizer, [0, 1], max_length=9)


def test_a_padding_id_that_the_model_does_not_hide_is_refused():
    tokenizer = SentencePieceTokenizer.train(TEXTS, 60, pad_id=3)
    for settings in ({}, {"positions": "learned"}, {"positions": "sinusoidal"}):
        model = build_text_classifier(60, **SMALL, **settings)
        with pytest.raises(ValueError, match="Build it with pad_id=3"):
            TextClassifier(model, tokenizer, [0, 1])


def test_no_text_is_longer_than_the_positions():
    tokenizer = SentencePieceTokenizer.train(TEXTS, 60)
    long = " ".join(GOOD * 4)
    for model in (
        build_text_classifier(60, **SMALL, positions="learned", sequence_length=16),
        read_by(TextEncoder(60, **READER, sequence_length=16)),
    ):
        classifier = TextClassifier(model, tokenizer, [0, 1])
        assert classifier.max_length == 16
        assert classifier.predict_probabilities([long]).shape == (1, 2)
    sinusoidal = build_text_classifier(
        60, **SMALL, positions="sinusoidal", sequence_length=16
    )
    assert TextClassifier(sinusoidal, tokenizer, [0, 1]).max_length is None
    assert TextClassifier(sinusoidal, tokenizer, [0, 1], max_length=99).max_length == 99
    with pytest.raises(ValueError, match="`max_length` must be a positive"):
        TextClassifier(sinusoidal, tokenizer, [0, 1], max_length=0)
    settings = dict(vocabulary_size=60, sequence_length=12, **SMALL)
    built = TextClassifier.from_texts(TEXTS, LABELS, **settings)
    assert built.max_length == 12
    with pytest.raises(ValueError, match="positions for 12 tokens.*max_length=64"):
        TextClassifier.from_texts(TEXTS, LABELS, max_length=64, **settings)


def test_measures_are_scikit_learns(monkeypatch):
    metrics = pytest.importorskip("sklearn.metrics")
    truth = ["a"] * 5 + ["b"] * 3 + ["c"] * 2
    guess = ["a", "a", "b", "b", "c", "b", "a", "b", "a", "a"]
    tokenizer = SentencePieceTokenizer.train(TEXTS, 60)
    model = build_text_classifier(60, **SMALL, num_classes=3)
    classifier = TextClassifier(model, tokenizer, ["a", "b", "c"])
    chances = np.eye(3)[["abc".index(label) for label in guess]]
    monkeypatch.setattr(
        classifier, "predict_probabilities", lambda texts, verbose=0: chances
    )
    result = classifier.evaluate(["text"] * len(truth), truth)
    assert result["accuracy"] == metrics.accuracy_score(truth, guess) == 0.4
    expected = metrics.f1_score(truth, guess, average="macro")
    assert result["f1"] == pytest.approx(expected)
    confusion = metrics.confusion_matrix(truth, guess)
    assert (confusion != confusion.T).any()
    np.testing.assert_array_equal(result["confusion"], confusion)
    assert result["confusion"].loc["a", "b"] == 2  # true, predicted
    assert result["confusion"].index.name == "true"
    assert result["confusion"].columns.name == "predicted"


def test_the_padding_is_the_tokenizers():
    keras.utils.set_random_seed(0)
    tokenizer = SentencePieceTokenizer.train(TEXTS, 60, pad_id=3)
    model = build_text_classifier(60, **SMALL, pad_id=3)
    classifier = TextClassifier(model, tokenizer, [0, 1])
    built = TextClassifier.from_texts(
        TEXTS, LABELS, vocabulary_size=60, pad_id=3, **SMALL
    )
    assert built.tokenizer.pad_id == 3
    alone = classifier.predict_probabilities(GOOD[:1])
    together = classifier.predict_probabilities([GOOD[0], " ".join(GOOD)])
    np.testing.assert_allclose(alone[0], together[0], atol=1e-5)
