"""Which model and tokenizers make a translator, and where their ids are not alike."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import Translator
from keras_transformer.models import Seq2SeqTransformer, TextEncoder
from keras_transformer.tokenizers import SentencePieceTokenizer

PAIRS = [
    (f"{a} {b}", f"{b.upper()} {a.upper()}")
    for a in ("hana", "dul", "set")
    for b in ("net", "dul", "hana")
]
SHAPE = dict(num_layers=1, embed_dim=8, num_heads=2, dense_dim=8)
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


def test_parts_that_do_not_fit_are_refused():
    tokenizer = SentencePieceTokenizer.train([a + b for a, b in PAIRS], 60)
    size = tokenizer.vocabulary_size
    ids = dict(start_id=tokenizer.bos_id, stop_id=tokenizer.eos_id)
    with pytest.raises(ValueError, match=r"source tokenizer has \d+ ids"):
        Translator(Seq2SeqTransformer(size - 1, **SHAPE, **ids), tokenizer)
    other = SentencePieceTokenizer.train([a + b for a, b in PAIRS], 60, pad_id=3)
    model = Seq2SeqTransformer(
        size, **SHAPE, **ids, source_vocabulary_size=size + 9, share_embeddings=False
    )
    with pytest.raises(ValueError, match=r"3 \(source\), 0 \(target\)"):
        Translator(model, other, tokenizer)
    with pytest.raises(ValueError, match="start_id=-1"):
        Seq2SeqTransformer(size, **SHAPE, start_id=-1)
    with pytest.raises(ValueError, match="start_id=1"):
        Translator(Seq2SeqTransformer(size, **SHAPE, start_id=1, stop_id=3), tokenizer)
    short = Seq2SeqTransformer(
        size, **SHAPE, **ids, positions="learned", sequence_length=9
    )
    with pytest.raises(ValueError, match="max_length=9"):
        Translator(short, tokenizer)
    assert Translator(short, tokenizer, max_length=9).max_length == 9
    with pytest.raises(ValueError, match="`recipe`"):
        Translator.from_pairs(PAIRS, "gru")
    for model in (TextEncoder(size, **SHAPE), keras.Sequential()):
        with pytest.raises(ValueError, match=f"`start_id`.*{type(model).__name__}"):
            Translator(model, tokenizer)


def writing(*written):
    """Return a translator whose model has 9 ids more, and writes these."""
    tokenizer = SentencePieceTokenizer.train([a + b for a, b in PAIRS], 60)
    model = Seq2SeqTransformer(
        tokenizer.vocabulary_size + 9,
        **SHAPE,
        start_id=tokenizer.bos_id,
        stop_id=tokenizer.eos_id,
    )
    model.build()

    def step(tokens, state):
        count = state["count"] + 1
        place = keras.ops.minimum(count[0], len(written)) - 1
        ids = keras.ops.take(keras.ops.convert_to_tensor(np.array(written)), place)
        logits, after = original(tokens, state["own"])
        chosen = keras.ops.one_hot(ids[None], logits.shape[-1]) * 100.0
        return keras.ops.zeros_like(logits) + chosen, {"own": after, "count": count}

    def start(inputs, max_length):
        rows = inputs["token_ids"].shape[0]
        return {
            "own": begin(inputs, max_length),
            "count": keras.ops.zeros((rows,), "int32"),
        }

    original, begin = model.step, model.start
    model.step, model.start = step, start
    return Translator(model, tokenizer)


def test_a_translation_ends_before_any_stop_id():
    word, other = 7, 9
    translator = writing(word, word, other, word)
    alone = translator.target_tokenizer.decode([word, word])
    settings = dict(num_beams=1, max_new_tokens=6, jit_compile=False)
    ids = [translator.model.stop_id, other]
    assert translator.translate(["hana"], stop_ids=ids, **settings) == [alone]
    translator.model.generation = {"stop_ids": ids}
    assert translator.translate(["hana"], **settings) == [alone]


def test_ids_that_the_tokenizer_has_not_are_recorded_by_number():
    translator = writing(7, 8)
    unknown = translator.target_tokenizer.vocabulary_size + 3
    translator = writing(7, unknown)
    record = kt.AttentionRecord(translator.model)
    settings = dict(num_beams=1, max_new_tokens=2, jit_compile=False)
    translator.translate(["hana"], record=record, **settings)
    ((new, _), *_) = [
        pair for path, pair in record.tokens[0].items() if "decoder" in path
    ]
    assert new[-1] == str(unknown)
