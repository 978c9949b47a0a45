import keras
import numpy as np
import pytest
from word_examples import TARGET, TEXTS, small, train_tokenizer

from cases.helpers import slow_on
from keras_transformer.tasks import (
    embedding_vectors,
    word_pieces,
    word_spans,
    word_vectors,
)
from keras_transformer.tokenizers import SentencePieceTokenizer

pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer()


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
    model = small(tokenizer)
    with pytest.raises(ValueError, match="one span for each text. Received: 1 texts"):
        embedding_vectors(model, tokenizer, [TARGET], [])
    with pytest.raises(TypeError, match="several texts"):
        embedding_vectors(model, tokenizer, TARGET, [(0, 1)])
    for vectors in (word_vectors, embedding_vectors):
        found = vectors(model, tokenizer, [], [])
        assert found.shape == (0, model.embed_dim)


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


def test_a_hidden_word_is_read_from_its_context_alone(tokenizer):
    model = small(tokenizer)
    spans = word_spans(TARGET, "배")
    vectors = word_vectors(model, tokenizer, [TARGET] * 3, spans, hide=True)
    mask = tokenizer.piece_to_id("<mask>")
    for vector, span in zip(vectors, spans, strict=True):
        ids, places = tokenizer.encode(TARGET), word_pieces(tokenizer, TARGET, span)
        for place in places:
            ids[place] = mask
        outputs = keras.ops.convert_to_numpy(model.encode(np.array([ids], "int32")))
        expected = outputs[0][places].mean(axis=0)
        np.testing.assert_allclose(vector, expected, atol=1e-4)
    plain = SentencePieceTokenizer.train(TEXTS, 60)
    with pytest.raises(ValueError, match="no piece '<mask>'"):
        word_vectors(model, plain, [TEXTS[0]], [(0, 1)], hide=True)
