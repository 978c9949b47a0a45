"""Masked words are learned; what a word's vector is compared with."""

import keras
import numpy as np
import pytest

from keras_transformer import MaskedLanguageModel
from keras_transformer.tasks import (
    ContextWords,
    embedding_vectors,
    fit_masked_words,
    word_spans,
)
from keras_transformer.tasks.words import masked_words
from keras_transformer.tokenizers import SentencePieceTokenizer
from keras_transformer.training import mask_tokens

SENTENCE = "배 타고 배 먹으니 배 아프다"
TEXTS = ["배를 타고 섬에 갔다", "배를 깎아 먹었다", "배가 고프다"]
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(
        [SENTENCE, *TEXTS], 60, user_defined_symbols=["<mask>"]
    )


def small(tokenizer):
    keras.utils.set_random_seed(0)
    return MaskedLanguageModel(
        tokenizer.vocabulary_size, 1, 16, 2, 32, sequence_length=12
    )


@pytest.mark.slow
def test_masked_words_are_learned_and_equal_seeds_learn_the_same(tokenizer):
    losses = []
    for _ in range(2):
        history = fit_masked_words(
            small(tokenizer),
            tokenizer,
            [*TEXTS * 20, ""],
            epochs=6,
            learning_rate=1e-2,
            max_tokens=200,
            verbose=0,
        )
        losses.append(history.history["loss"])
        assert history.epoch == list(range(6))
    assert len(losses[0]) == 6 and losses[0][-1] < 0.8 * losses[0][0]
    np.testing.assert_allclose(*losses, rtol=1e-3)


def test_each_epoch_has_the_same_shapes_and_asks_for_other_words(
    tokenizer, monkeypatch
):
    epochs = []

    def note(self, data, **settings):
        epochs.append([data[index] for index in range(len(data))])

    monkeypatch.setattr(keras.Model, "fit", note)
    settings = dict(epochs=4, rate=0.3, max_tokens=60, verbose=0)
    fit_masked_words(small(tokenizer), tokenizer, TEXTS * 5, **settings)
    shapes = [
        sorted({tuple(p.shape for p in keras.tree.flatten(batch)) for batch in epoch})
        for epoch in epochs
    ]
    assert shapes == shapes[:1] * 4
    places = [epoch[0][0]["mask_positions"] * epoch[0][2] for epoch in epochs]
    assert any((place != places[0]).any() for place in places)
    for batch in epochs[0]:
        inputs, labels, weights = batch
        ids = np.take_along_axis(inputs["token_ids"], inputs["mask_positions"], axis=1)
        hidden = (ids != labels) & (weights > 0)
        assert hidden.any() and (weights.sum(axis=1) >= 1).all()


@pytest.mark.parametrize("pad_id", [None, 0, 3])
def test_a_short_text_in_a_batch_attends_to_no_padding(tokenizer, monkeypatch, pad_id):
    batches = []

    def note(self, data, **settings):
        batches.extend(data[index] for index in range(len(data)))

    monkeypatch.setattr(keras.Model, "fit", note)
    keras.utils.set_random_seed(0)
    sizes = (tokenizer.vocabulary_size, 1, 16, 2, 32)
    model = MaskedLanguageModel(*sizes, sequence_length=12, pad_id=pad_id)
    texts = ["배", SENTENCE] * 2
    fit_masked_words(model, tokenizer, texts, epochs=1, max_tokens=200, verbose=0)
    ((inputs, *_),) = batches
    together = keras.ops.convert_to_numpy(model(inputs))
    lengths = inputs["padding_mask"].sum(axis=1)
    assert len(set(lengths)) == 2
    for row, length in enumerate(lengths):
        places = inputs["mask_positions"][row : row + 1]
        alone = {
            "token_ids": inputs["token_ids"][row : row + 1, :length],
            "padding_mask": np.ones((1, length), "int32"),
            "mask_positions": places,
        }
        alone = keras.ops.convert_to_numpy(model(alone))
        np.testing.assert_allclose(together[row], alone[0], atol=1e-5)


def test_what_is_rare_is_asked_for_more_often(tokenizer, monkeypatch):
    asked = []

    def note(rows, *args, mask_selection_rate, **settings):
        asked.extend(zip(rows, mask_selection_rate, strict=True))
        return mask_tokens(rows, *args, mask_selection_rate=0.5, **settings)

    monkeypatch.setattr(masked_words, "mask_tokens", note)
    texts = [*TEXTS, *[TEXTS[2]] * 9]
    settings = dict(epochs=1, rate=0.4, rarity=0.02, verbose=0)
    fit_masked_words(small(tokenizer), tokenizer, texts, **settings)
    ids = np.concatenate([row for row, _ in asked])
    rates = np.concatenate([rate for _, rate in asked])
    share = (ids == ids[:, None]).mean(axis=0)
    expected = 0.4 * np.minimum(1, np.sqrt(0.02 / share))
    np.testing.assert_allclose(rates, expected, rtol=1e-6)
    assert rates.min() < 0.2 < rates.max()
    with pytest.raises(ValueError, match="`rarity` must be a finite number"):
        fit_masked_words(small(tokenizer), tokenizer, TEXTS, rarity=0.0)


def test_no_texts_and_a_tokenizer_without_a_mask_are_refused(tokenizer):
    model = small(tokenizer)
    with pytest.raises(ValueError, match="at least one text"):
        fit_masked_words(model, tokenizer, ["", " "])
    with pytest.raises(ValueError, match="learning_rate"):
        fit_masked_words(model, tokenizer, TEXTS, learning_rate=0)
    with pytest.raises(ValueError, match="3 texts, 1 spans"):
        fit_masked_words(model, tokenizer, TEXTS, spans=[None])
    with pytest.raises(ValueError, match="A span must hold letters"):
        fit_masked_words(model, tokenizer, TEXTS, spans=[None, None, (0, 99)])
    for name in ("rate", "span_rate"):
        with pytest.raises(ValueError, match=f"`{name}` must be a finite number"):
            fit_masked_words(model, tokenizer, TEXTS, **{name: 1.5})
    plain = SentencePieceTokenizer.train(TEXTS, 60)
    with pytest.raises(ValueError, match="user_defined_symbols"):
        fit_masked_words(model, plain, TEXTS)


class Bert:
    """Letters as pieces, between the ids 1 and 2; 3 is unknown, 4 the mask."""

    letters = "".join(sorted(set("".join(TEXTS))))
    pad_id, cls_id, sep_id, unk_id, mask_id = range(5)
    bos_id = eos_id = None
    vocabulary_size = 5 + len(letters)

    def encode(self, texts):
        return [[1, *map(self._id, text), 2] for text in texts]

    def _id(self, letter):
        return 5 + self.letters.index(letter) if letter in self.letters else 3


def test_a_tokenizer_may_name_its_mask_and_its_ends_are_not_asked_for(monkeypatch):
    asked = []

    def note(rows, mask_token_id, *args, **settings):
        found = mask_tokens(rows, mask_token_id, *args, **settings)
        asked.append((mask_token_id, *found))
        return found

    monkeypatch.setattr(masked_words, "mask_tokens", note)
    model, settings = small(Bert()), dict(epochs=1, rate=1.0, verbose=0)
    fit_masked_words(model, Bert(), ["", TEXTS[2]], **settings)
    ((mask, _, (label,), (weight,)),) = asked
    assert mask == 4 and label[0] == 1 and label[-1] == 2
    np.testing.assert_array_equal(weight, [0, *[1] * (len(label) - 2), 0])
    with pytest.raises(ValueError, match="at least one text"):
        fit_masked_words(model, Bert(), ["", ""])
    with pytest.raises(ValueError, match="Text 2 of `texts` has no piece.*'xyz'"):
        fit_masked_words(model, Bert(), ["", TEXTS[0], "xyz"])


def test_the_token_table_has_one_vector_for_all_senses(tokenizer):
    model = small(tokenizer)
    model.build()
    spans = word_spans(SENTENCE, "배")
    vectors = embedding_vectors(model, tokenizer, [SENTENCE] * 3, spans)
    np.testing.assert_array_equal(vectors, vectors[:1].repeat(3, axis=0))
    table = model.embedding.token_embedding.embeddings
    table = keras.ops.convert_to_numpy(table)
    np.testing.assert_allclose(vectors[0], table[tokenizer.encode(SENTENCE)[0]])


class Words:
    """Whole words as pieces."""

    words = ("배", "타고", "먹으니", "아프다")
    vocabulary_size = 4

    def pieces(self, text):
        return text.split()

    def encode(self, texts):
        return [[self.words.index(word) for word in text.split()] for text in texts]


def test_a_bag_of_context_counts_what_stands_around():
    spans = word_spans(SENTENCE, "배")
    texts = ["배 타고", "배 먹으니", "배"]  # 배 is in every text, and weighs nothing
    near = ContextWords(Words(), texts, window=1)([SENTENCE] * 3, spans)
    rare, rarest = np.log(4 / 2), np.log(4 / 1)
    expected = [[0, rare, 0, 0], [0, rare, rare, 0], [0, 0, rare, rarest]]
    np.testing.assert_allclose(near, expected, rtol=1e-6)
    whole = ContextWords(Words(), texts)(["배 타고 타고 아프다"], [(0, 1)])
    np.testing.assert_allclose(whole, [[0, 2**0.5 * rare, 0, rarest]], rtol=1e-6)
    with pytest.raises(ValueError, match="window"):
        ContextWords(Words(), texts, window=0)
