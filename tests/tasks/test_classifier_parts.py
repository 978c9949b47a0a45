"""What a text classifier takes and gives: tokenizers, texts, measures, settings."""

import keras
import numpy as np
import pytest

from cases.helpers import slow_on
from keras_transformer import TextClassifier
from keras_transformer.models import build_text_classifier
from keras_transformer.tokenizers import HuggingFaceTokenizer, SentencePieceTokenizer

GOOD = ["정말 재미있다", "참 좋은 영화", "또 보고 싶다", "최고의 연기", "감동적이다"]
BAD = ["너무 지루하다", "정말 나쁜 영화", "돈이 아깝다", "최악의 연기", "실망했다"]
TEXTS, LABELS = GOOD * 4 + BAD * 4, [1] * 20 + [0] * 20
SMALL = dict(embed_dim=16, num_heads=2, dense_dim=16)
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


@pytest.fixture(scope="module")
def classifier():
    return TextClassifier.from_texts(TEXTS, LABELS, vocabulary_size=60, **SMALL)


def over(tokenizer, **settings):
    """Return an untrained classifier of the default recipe over a tokenizer."""
    size = tokenizer.vocabulary_size
    model = build_text_classifier(size, **SMALL, **settings)
    return TextClassifier(model, tokenizer, [0, 1], recipe="default")


@pytest.mark.parametrize("model_type", ["char", "word", "unigram"])
def test_a_recipes_sampling_is_for_tokenizers_that_can(model_type):
    tokenizer = SentencePieceTokenizer.train(TEXTS, 60, model_type=model_type)
    classifier = over(tokenizer)
    settings = dict(validation_data=(TEXTS[:2], [1, 1]), epochs=1, verbose=0)
    classifier.fit(TEXTS, LABELS, **settings)
    if model_type != "unigram":
        with pytest.raises(ValueError, match="`sampling` needs.*sampling=0.2.*Leave"):
            classifier.fit(TEXTS, LABELS, sampling=0.2, **settings)


@pytest.mark.parametrize("limit", [None, 6])
def test_no_epochs_draws_lose_a_token_that_fits(classifier, limit, monkeypatch):
    monkeypatch.setattr(classifier, "max_length", limit)
    numbers, tokenizer = np.arange(40) % 2, classifier.tokenizer
    batches = classifier._batches(TEXTS, numbers, sampling=0.01, seed=3)
    again = classifier._batches(TEXTS, numbers, sampling=0.01, seed=3)
    lengths = np.zeros((6, 40), int)
    for epoch in range(6):
        again.set_epoch(epoch)  # without those before it
        for (ids, _), (others, _), (rows, _) in zip(
            batches, again, batches._served()[1], strict=True
        ):
            np.testing.assert_array_equal(ids, others)
            for row, number in zip(ids, rows, strict=True):
                text = tokenizer.decode(row)
                whole = TEXTS[number] == text
                lengths[epoch, number] = (row > 0).sum()
                cut = lengths[epoch, number] == limit
                assert whole or cut and TEXTS[number].startswith(text[:1])
        batches.on_epoch_end()
    assert lengths.min() > 0
    if limit is None:
        assert (lengths[1:] > lengths[0]).any()  # longer than the first draw
    else:
        assert lengths.max() == limit


def test_a_tokenizer_without_a_pad_token_is_refused_where_an_id_is_hidden():
    tokenizers = pytest.importorskip("tokenizers")
    letters = sorted(set("".join(TEXTS)))

    def tokenizer(**roles):
        vocabulary = {piece: id for id, piece in enumerate(["!", *letters, "<pad>"])}
        made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
        return HuggingFaceTokenizer(made, roles)

    with pytest.raises(ValueError, match="hides the id 0.*no pad token.*Name a pad"):
        over(tokenizer())
    named = tokenizer(pad="<pad>")
    classifier = over(named, pad_id=named.pad_id)
    one, other = classifier.predict_probabilities(["!!재미", "재미"])
    assert np.abs(one - other).max() > 1e-6  # "!" is read
    ids = keras.Input((None,), dtype="int32")
    seen = keras.layers.Embedding(named.vocabulary_size, 4)(ids)
    seen = keras.layers.GlobalMaxPooling1D()(seen)
    model = keras.Model(ids, keras.layers.Dense(1, "sigmoid")(seen))
    TextClassifier(model, tokenizer(), [0, 1])  # hides none


@pytest.mark.parametrize("absent", ["c", "a"])
def test_a_label_that_occurs_nowhere_has_no_part_in_f1(absent, classifier, monkeypatch):
    metrics = pytest.importorskip("sklearn.metrics")
    labels = [label for label in "abc" if label != absent]
    truth = [labels[index] for index in (0, 0, 0, 1, 1)]
    guess = [labels[index] for index in (0, 1, 0, 1, 0)]
    chances = np.eye(3)[["abc".index(label) for label in guess]]
    monkeypatch.setattr(classifier, "labels", ["a", "b", "c"])
    monkeypatch.setattr(
        classifier, "predict_probabilities", lambda texts, verbose=0: chances
    )
    result = classifier.evaluate(["text"] * 5, truth)
    expected = metrics.f1_score(truth, guess, average="macro")
    assert result["f1"] == pytest.approx(expected)
    assert result["confusion"].shape == (3, 3)


@pytest.mark.parametrize("method", ["predict", "evaluate", "fit", "explain"])
@pytest.mark.parametrize("text", [None, 3, 0.5, ["좋다"], b"good", float("nan")])
def test_what_is_no_text_is_refused_by_every_method(classifier, method, text):
    call = getattr(classifier, method)
    if method == "explain":
        with pytest.raises(TypeError, match="`texts` must be strings. Text 0 is "):
            call(text)
        return
    labels = [] if method == "predict" else [[0, 1]]
    with pytest.raises(TypeError, match="`texts` must be strings. Text 1 is "):
        call(["좋다", text], *labels)
    for texts in ("좋다", None, 3):
        with pytest.raises(TypeError, match="`texts` must be "):
            call(texts, *labels)


@slow_on("tensorflow")
def test_the_last_epochs_weights_may_be_averaged():
    kept = []

    class Keep(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            kept.append(self.model.get_weights())

    fresh = TextClassifier.from_texts(
        TEXTS, LABELS, "chapter", vocabulary_size=60, **SMALL
    )
    settings = dict(epochs=3, average=2, patience=None, callbacks=[Keep()])
    fresh.fit(TEXTS, LABELS, verbose=0, **settings)
    for weight, *last in zip(fresh.model.get_weights(), *kept[1:], strict=True):
        np.testing.assert_allclose(weight, np.mean(last, axis=0), atol=1e-6)
