"""P16: a new length is no new trace; texts are batched into a few shapes.

Sources: keras-team/keras-hub#779; tensorflow/tensorflow#34907; keras-team/keras#20411.
"""

import keras
import numpy as np
import pytest

from keras_transformer import LanguageModel, TextClassifier, TextGenerator
from keras_transformer.datasets import BucketedDataset
from keras_transformer.tokenizers import SentencePieceTokenizer
from keras_transformer.training import TokenCrossentropy

from .examples import quick
from .ready_models import READY, VOCABULARY, compiled

pytestmark = [
    pytest.mark.skipif(
        keras.backend.backend() == "torch", reason="PyTorch runs eagerly: no traces"
    ),
    pytest.mark.filterwarnings("ignore:The corpus is too small"),
]


class TraceCounter(keras.layers.Layer):
    """Hands its input on, and counts how often its `call` is traced."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True
        self.traces = 0

    def call(self, inputs):
        self.traces += 1
        return inputs


def counted(model):
    """Return the model with a counter behind it, and the counter."""
    counter = TraceCounter()
    model = keras.Model(model.input, counter(model.output))
    counter.traces = 0  # those of building
    return model, counter


def rows(count=40):
    """Return rows of ids of all lengths from 1 to 16."""
    rng = np.random.default_rng(0)
    lengths = 1 + np.arange(count) % 16
    return [rng.integers(4, VOCABULARY, length) for length in lengths]


@pytest.mark.parametrize("name", quick(READY, list(READY)[:1]))
def test_predicting_forty_lengths_traces_once_a_bucket(name):
    model, counter = counted(READY[name]())
    data = BucketedDataset(rows(), batch_size=4, shuffle=False)
    outputs = data.restore(model.predict(data, verbose=0))
    assert len(outputs) == 40
    first = counter.traces
    assert 1 <= first <= len(data.edges) + 1 < 40
    # Other texts of the same lengths, and a second call, trace nothing.
    model.predict(BucketedDataset(rows(), batch_size=4, shuffle=False), verbose=0)
    assert counter.traces == first


@pytest.mark.parametrize("name", quick(READY, list(READY)[:1]))
def test_fitting_forty_lengths_traces_once_a_bucket(name):
    model, counter = counted(READY[name]())
    labels = np.arange(40) % max(2, model.output_shape[-1])
    data = BucketedDataset(rows(), labels, batch_size=4)
    shapes = {data[index][0].shape for index in range(len(data))}
    compiled(model).fit(data, epochs=1, verbose=0)
    # JAX traces a step twice: its outputs' shapes first.
    assert 1 <= counter.traces <= 2 * len(shapes) + 1
    before = counter.traces
    model.fit(data, epochs=2, verbose=0)
    assert counter.traces <= before + 1


def test_a_task_predicts_texts_of_every_length_with_few_traces():
    texts = [
        "가 나 다 라 마 바 사 아 자 차 카 타 파 하"[: 1 + 2 * n] for n in range(14)
    ]
    classifier = TextClassifier.from_texts(
        texts, [0, 1] * 7, vocabulary_size=40, embed_dim=8, num_heads=2, dense_dim=12
    )
    classifier.model, counter = counted(classifier.model)
    classifier.predict(texts * 4)
    first = counter.traces
    assert 1 <= first <= 3  # of 16, 24 and 32
    classifier.predict(texts * 4)
    assert counter.traces == first


def test_single_texts_trace_once_a_length_and_get_what_they_get_together():
    words = "가 나 다 라 마 바 사 아 자 차 카 타 파 하".split()
    texts = [" ".join((words * 3)[: 1 + number]) for number in range(40)]
    classifier = TextClassifier.from_texts(
        texts, [0, 1] * 20, vocabulary_size=40, embed_dim=8, num_heads=2, dense_dim=12
    )
    together = classifier.predict_probabilities(texts)
    classifier.model, counter = counted(classifier.model)
    alone = [classifier.predict_probabilities([text])[0] for text in texts]
    np.testing.assert_allclose(alone, together, atol=1e-5)
    lengths = {len(ids) for ids in classifier.tokenizer.encode(texts)}
    assert 1 <= counter.traces <= 6 < len(lengths)  # of 16, 24, 32, 48, 64, 96


class CountingModel(LanguageModel):
    """A language model that counts how often its Python code is traced."""

    def __init__(self, **settings):
        sizes = dict(num_layers=1, embed_dim=8, num_heads=2, dense_dim=12)
        super().__init__(**{"vocabulary_size": VOCABULARY, **sizes, **settings})
        self.traces = 0
        self.build()

    def call(self, inputs, training=None):
        self.traces += 1
        return super().call(inputs, training=training)

    def step(self, tokens, state):
        self.traces += 1
        return super().step(tokens, state)


@pytest.mark.slow
def test_fitting_a_language_model_traces_once_a_bucket():
    model, sequences = CountingModel(), rows()
    masks = [np.ones(len(row), "int32") for row in sequences]
    inputs = {"token_ids": sequences, "padding_mask": masks}
    data = BucketedDataset(inputs, sequences, batch_size=4, sample_weight="tokens")
    shapes = {data[index][0]["token_ids"].shape for index in range(len(data))}
    model.compile("adam", TokenCrossentropy())
    model.fit(data, epochs=1, verbose=0)
    assert 1 <= model.traces <= 2 * len(shapes) + 1
    before = model.traces
    model.fit(data, epochs=2, verbose=0)
    assert model.traces <= before + 1


def test_a_generator_takes_texts_of_every_length_with_few_traces():
    texts = ["가 나 다 라 마 바 사 아 자 차 카 타"[: 1 + 2 * n] for n in range(12)]
    tokenizer = SentencePieceTokenizer.train(texts, 40)
    size, stop = tokenizer.vocabulary_size, tokenizer.eos_id
    model = CountingModel(vocabulary_size=size, stop_id=stop, sequence_length=64)
    generator = TextGenerator(model, tokenizer)
    generator.perplexity(texts)
    generator.generate(texts, max_new_tokens=4)
    first = model.traces
    assert 2 <= first <= 8  # two padded lengths, 16 and 24, of each
    generator.perplexity(texts[::-1])
    generator.generate(texts[::-1], max_new_tokens=7, seed=1)
    assert model.traces == first
