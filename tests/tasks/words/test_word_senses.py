from functools import partial

import keras
import numpy as np
import pytest

from cases.helpers import slow_on
from keras_transformer import MaskedLanguageModel, WordSenses
from keras_transformer.tasks import word_pieces, word_spans, word_vectors
from keras_transformer.tokenizers import SentencePieceTokenizer

TARGET = "배 타고 배 먹으니 배 아프다"
TEXTS = [
    "배를 타고 섬에 갔다",
    "배에 올랐다",
    "배를 깎아 먹었다",
    "달콤한 배 하나",
    "배가 고프다",
]
SENSES = ["boat", "boat", "pear", "pear", "belly"]
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train([TARGET, *TEXTS], 60)


def finder(tokenizer, senses=SENSES, words="배", **settings):
    encode = partial(word_vectors, small(tokenizer), tokenizer)
    return WordSenses(encode, TEXTS, words, senses, **settings)


def small(tokenizer, **settings):
    keras.utils.set_random_seed(3)
    model = MaskedLanguageModel(
        tokenizer.vocabulary_size, 2, 16, num_heads=2, dense_dim=16, **settings
    )
    model.build()
    return model


class WordPieces:
    """Pieces as BERT's tokenizer writes them."""

    def pieces(self, text):
        return ["[CLS]", "배", "##를", "먹", "##으니", "[SEP]"]


def test_spans_are_where_tokens_begin_with_the_word():
    assert word_spans(TARGET, "배") == [(0, 1), (5, 6), (11, 12)]
    assert word_spans("담배 배를 배배", "배") == [(3, 4), (6, 7)]
    assert word_spans("사과 사과를", "사과") == [(0, 2), (3, 5)]
    for word in ("말", ""):
        with pytest.raises(ValueError, match="No token of the text begins"):
            word_spans(TARGET, word)


def test_pieces_hold_the_letters_of_the_span(tokenizer):
    for text in (TARGET, *TEXTS):
        places = [at for at, letter in enumerate(text) if letter != " "]
        lengths = [len(piece.replace("▁", "")) for piece in tokenizer.pieces(text)]
        numbers = np.repeat(np.arange(len(lengths)), lengths)
        owner = dict(zip(places, numbers, strict=True))
        for start in range(len(text)):
            if text[start] == " ":
                continue
            for stop in range(start + 1, len(text) + 1):
                found = word_pieces(tokenizer, text, (start, stop))
                assert found == sorted(
                    {owner[at] for at in places if start <= at < stop}
                )
    assert word_pieces(WordPieces(), "배를 먹으니", (0, 1)) == [1]
    assert word_pieces(WordPieces(), "배를 먹으니", (1, 4)) == [2, 3]


def test_a_span_outside_its_text_or_other_letters_are_refused(tokenizer):
    for span in ((0, 0), (-1, 1), (0, 99), (1, 2)):
        with pytest.raises(ValueError, match="A span must hold letters"):
            word_pieces(tokenizer, TARGET, span)
    with pytest.raises(ValueError, match="in other letters"):
        word_pieces(WordPieces(), "배가 먹으니", (0, 1))
    with pytest.raises(ValueError, match="one span for each text. Received: 1 texts"):
        word_vectors(small(tokenizer), tokenizer, [TARGET], [])


@slow_on("jax")
def test_a_vector_is_the_mean_of_the_words_pieces_whatever_stands_beside(tokenizer):
    model = small(tokenizer)
    texts = [*TEXTS, TARGET]
    spans = [word_spans(text, "배")[0] for text in texts]
    together = word_vectors(model, tokenizer, texts, spans, batch_size=4)
    for text, span, vector in zip(texts, spans, together, strict=True):
        ids = tokenizer.pad(tokenizer.encode([text]))
        outputs = keras.ops.convert_to_numpy(model.encode(ids))[0]
        expected = outputs[word_pieces(tokenizer, text, span)].mean(axis=0)
        np.testing.assert_allclose(vector, expected, atol=1e-5)


class Watched:
    """A model that notes what is kept of each batch for gradients."""

    def __init__(self, model):
        self.model, self.kept = model, []

    def __getattr__(self, name):
        return getattr(self.model, name)

    def encode(self, inputs):
        outputs = self.model.encode(inputs)
        self.kept.append(outputs.requires_grad)
        return outputs


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch keeps graphs")
def test_no_graph_of_a_batch_is_kept(tokenizer):
    model, spans = Watched(small(tokenizer)), word_spans(TARGET, "배")
    word_vectors(model, tokenizer, [TARGET] * 3, spans, batch_size=2)
    assert model.kept == [False, False]


def test_without_positions_the_three_vectors_are_one_and_the_same(tokenizer):
    spans = word_spans(TARGET, "배")
    for positions, same in ((None, True), ("learned", False)):
        model = small(tokenizer, positions=positions)
        vectors = word_vectors(model, tokenizer, [TARGET] * 3, spans)
        assert (np.abs(vectors - vectors[0]).max() < 1e-5) == same


def test_a_known_sentence_is_its_own_nearest(tokenizer):
    senses = finder(tokenizer, num_neighbors=1)
    assert senses.predict(TEXTS, "배") == SENSES
    assert senses.evaluate(TEXTS, "배", SENSES)["accuracy"] == 1.0


def test_each_word_has_its_own_accuracy(tokenizer):
    words = ["배", "배", "배를", "배", "배가"]
    senses = finder(tokenizer, words=words, num_neighbors=1)
    wrong = ["pear", "boat", "pear", "pear", "boat"]
    measured = senses.evaluate(TEXTS, words, wrong)
    assert measured["accuracy"] == 0.6
    assert measured["words"].to_dict("index") == {
        "배": {"sentences": 3, "accuracy": pytest.approx(2 / 3)},
        "배가": {"sentences": 1, "accuracy": 0.0},
        "배를": {"sentences": 1, "accuracy": 1.0},
    }


def test_the_nearest_vote_and_of_equal_votes_the_first_counts(tokenizer):
    senses = finder(tokenizer, num_neighbors=4)
    table = senses.nearest(TARGET, "배")
    assert list(table) == ["occurrence", "similarity", "sense", "sentence"]
    assert table["occurrence"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    known = dict(zip(TEXTS, SENSES, strict=True))
    assert [known[text] for text in table["sentence"]] == table["sense"].tolist()
    for occurrence, part in table.groupby("occurrence"):
        assert part["similarity"].is_monotonic_decreasing
        votes = part["sense"].value_counts()
        best = [s for s in part["sense"] if votes[s] == votes.max()]
        assert senses.sense_of(TARGET, "배")[occurrence] == best[0]


def test_what_does_not_fit_is_refused(tokenizer):
    with pytest.raises(ValueError, match="one word for each text"):
        finder(tokenizer, words=["배"])
    with pytest.raises(ValueError, match="one label for each text"):
        finder(tokenizer, SENSES[:2])
    with pytest.raises(ValueError, match="num_neighbors"):
        finder(tokenizer, num_neighbors=0)
    senses = finder(tokenizer)
    with pytest.raises(ValueError, match="No known sentence has the word '타'.*배"):
        senses.sense_of(TARGET, "타")
    with pytest.raises(ValueError, match="No token of the text begins"):
        senses.sense_of(TARGET, "말")
