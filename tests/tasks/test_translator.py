import keras
import numpy as np
import pandas as pd
import pytest
from word_tokenizer import WordTokenizer

import keras_transformer as kt
from cases.helpers import Interrupt, slow_on
from keras_transformer import Translator
from keras_transformer.generation import generate
from keras_transformer.generation.loop import Search
from keras_transformer.generation.rereading import until_stop
from keras_transformer.models import Seq2SeqTransformer
from keras_transformer.tasks.fitting import batch_tokens
from keras_transformer.tasks.recipes import TRANSLATORS
from keras_transformer.tasks.translation_scores import translation_metrics

WORDS = {"하나": "one", "둘": "two", "셋": "three", "넷": "four"}
PAIRS = [
    (f"{first} {second}", f"{WORDS[second]} {WORDS[first]}")
    for first in WORDS
    for second in WORDS
]
SMALL = dict(num_layers=1, embed_dim=32, num_heads=2, dense_dim=32, dropout=0.0)
TRAINING = dict(
    validation_data=PAIRS, learning_rate=1e-2, warmup_steps=20, average=None, verbose=0
)
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


def small(**settings):
    return Translator.from_pairs(PAIRS, vocabulary_size=60, **{**SMALL, **settings})


def recurrent(recipe):
    sizes = dict(vocabulary_size=60, embed_dim=16, units=32, dropout=0.0)
    return Translator.from_pairs(PAIRS, recipe, **sizes)


@pytest.fixture(scope="module")
def translator():
    keras.utils.set_random_seed(0)
    translator = small()
    translator.fit(PAIRS, epochs=120, max_tokens=64, **TRAINING)
    return translator


@slow_on("jax", "tensorflow")
def test_it_learns_what_it_is_shown(translator):
    """Reversed word order, teacher-forced and free-running (P18)."""
    sources, targets = zip(*PAIRS, strict=True)
    batches = translator._batches(sources, targets)
    assert translator.model.evaluate(batches, return_dict=True, verbose=0)[
        "accuracy"
    ] == pytest.approx(1.0)
    assert translator.translate(sources, 1) == list(targets)
    assert translator.translate(sources, 3) == list(targets)


def test_a_sentence_gets_the_same_alone_and_among_others(translator):
    texts = ["하나 둘", "", "셋 넷 넷 하나 둘 셋 넷 하나 둘 셋", "  ", "넷 하나"]
    together = translator.translate(texts, 2, n_best=2)
    for text, found in zip(texts, together, strict=True):
        ((alone, *_),) = translator.translate([text], 2, n_best=2)
        assert alone.text == found[0].text
        assert alone.score == pytest.approx(found[0].score, abs=1e-4)
    assert together[1][0].text == together[3][0].text == ""
    assert translator.translate([]) == [] and translator.translate([""]) == [""]


def test_where_every_token_is_forbidden_the_translation_is_empty():
    translator = small()
    never = list(range(translator.target_tokenizer.vocabulary_size))
    settings = dict(num_beams=2, suppress_tokens=never)
    assert translator.translate(["하나 둘", ""], **settings) == ["", ""]
    (found, _) = translator.translate(["하나 둘", ""], n_best=2, **settings)
    assert found == [("", 0.0)]


@pytest.mark.parametrize(
    "settings",
    [
        {"repetition_penalty": 1.5},
        {"no_repeat_ngram_size": 1},
        {"min_new_tokens": 9},
    ],
    ids=str,
)
def test_one_beam_translates_as_greedy_search_does(translator, settings):
    sources = ["하나 둘 둘 셋", "넷 넷", "셋 하나 둘 넷 셋"]
    settings = {"max_new_tokens": 12, **settings}
    ids, _ = translator._encode(sources, [])
    greedy = generate(translator.model, ids, **settings)
    stop = translator.model.stop_id
    texts = [translator._decode(until_stop(row, [stop]), [stop]) for row in greedy]
    assert translator.translate(sources, 1, **settings) == texts


def test_the_best_come_first(translator):
    ((first, second, third),) = translator.translate(["셋 둘"], 3, n_best=3)
    assert first.text == "two three"
    assert first.score >= second.score >= third.score
    with pytest.raises(ValueError, match="at most 3.*n_best=4"):
        translator.translate(["셋"], 3, n_best=4)


def test_it_says_where_it_looked(translator):
    alignment = translator.explain("하나 둘")
    assert alignment.translation == "two one"
    assert alignment.layers == ["decoder/block_0/cross_attention"]
    table = alignment.table()
    assert list(table.index) == alignment.target_tokens
    assert table.index[-1] == "</s>" and list(table.columns)[-1] == "</s>"
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-5)
    pytest.importorskip("matplotlib")
    assert alignment.plot(head=0) is not None
    with pytest.raises(ValueError, match="no tokens"):
        translator.explain(" ")


def test_scores_are_sacrebleus(translator):
    sacrebleu = pytest.importorskip("sacrebleu")
    scores = translator.evaluate(PAIRS, 1)
    assert scores["chrf"] > 99
    assert "tok:13a" in scores["bleu_signature"]
    assert scores["translations"] == [target for _, target in PAIRS]
    other = [("하나 둘", "one"), ("둘 셋", "two")]
    found = translator.evaluate(other, 1)
    for name, score in (
        ("bleu", sacrebleu.corpus_bleu),
        ("chrf", sacrebleu.corpus_chrf),
    ):
        wanted = score(found["translations"], [["one", "two"]]).score
        assert found[name] == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("references", "tokenizer"),
    [
        (["a 글", "b", "c"], "13a"),
        (["글", "말 b", "c"], "ko-mecab"),
        (["글", "b"], "13a"),
        ([], "13a"),
    ],
)
def test_most_references_tell_the_language_of_the_scores(references, tokenizer):
    pytest.importorskip("sacrebleu")
    pytest.importorskip("mecab_ko")
    bleu = translation_metrics(references)["bleu"]
    assert bleu.tokenizer_signature.startswith(tokenizer)


def test_scores_of_korean_are_of_morphemes(monkeypatch):
    metrics = pytest.importorskip("sacrebleu.metrics")
    pytest.importorskip("mecab_ko")
    translator = small()
    found = ["하나 둘", "셋을 보았다"]
    monkeypatch.setattr(translator, "translate", lambda *_, **__: found)
    pairs = [("one two", "하나 둘"), ("saw three", "셋을 봤다")]
    scores = translator.evaluate(pairs)
    assert "tok:ko-mecab" in scores["bleu_signature"]
    targets = [[target for _, target in pairs]]
    bleu = metrics.BLEU(tokenize="ko-mecab").corpus_score(found, targets)
    assert scores["bleu"] == pytest.approx(bleu.score)


def test_saved_and_loaded_it_translates_alike(translator, tmp_path):
    folder = tmp_path / "번역기"
    translator.save(folder)
    again = Translator.load(folder)
    texts = [source for source, _ in PAIRS[:5]]
    for one, other in zip(
        translator.translate(texts, 2, n_best=1),
        again.translate(texts, 2, n_best=1),
        strict=True,
    ):
        assert one[0].text == other[0].text
        assert one[0].score == pytest.approx(other[0].score, abs=1e-5)
    (folder / "source.model").write_bytes(b"cut")
    with pytest.raises(ValueError, match="source.model.* has 3 bytes"):
        Translator.load(folder)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["2014", "2015", "luong"])
def test_the_recurrent_recipes_learn_too(recipe, tmp_path):
    keras.utils.set_random_seed(0)
    translator = recurrent(recipe)
    translator.fit(PAIRS, epochs=120, max_tokens=64, **TRAINING)
    sources, targets = zip(*PAIRS, strict=True)
    found = translator.translate(sources, 2)
    right = sum(one == other for one, other in zip(found, targets, strict=True))
    assert right >= 13
    assert translator.model.source_embedding is translator.model.target_embedding
    translator.save(tmp_path / "task")
    assert Translator.load(tmp_path / "task").translate(sources[:3], 2) == found[:3]
    if recipe == "2014":
        with pytest.raises(ValueError, match="one fixed vector"):
            translator.explain("하나 둘")
    else:
        alignment = translator.explain("하나 둘")
        assert list(alignment.table().index) == alignment.target_tokens


@pytest.mark.slow
def test_two_vocabularies_are_kept_apart(tmp_path):
    translator = small(share_vocabulary=False)
    assert translator.source_tokenizer is not translator.target_tokenizer
    model = translator.model
    assert model.source_vocabulary_size == translator.source_tokenizer.vocabulary_size
    translator.fit(PAIRS, epochs=1, **TRAINING)
    translator.save(tmp_path / "task")
    again = Translator.load(tmp_path / "task")
    assert again.translate(["하나"], 2) == translator.translate(["하나"], 2)


@pytest.mark.slow  # quick for the text generator, which trains by the same function
def test_an_interrupted_training_goes_on(tmp_path):
    def trained(folder, callbacks=()):
        keras.utils.set_random_seed(3)
        translator = small()
        settings = dict(TRAINING, average=2, epochs=4, seed=3, callbacks=callbacks)
        try:
            history = translator.fit(PAIRS, checkpoint_folder=folder, **settings)
        except KeyboardInterrupt:
            settings["callbacks"] = ()
            history = translator.fit(PAIRS, checkpoint_folder=folder, **settings)
        return history.history, translator.model.get_weights()

    expected, whole = trained(tmp_path / "a")
    found, halves = trained(tmp_path / "b", [Interrupt(2)])
    assert not (tmp_path / "b").exists()
    for name in ("loss", "val_loss", "val_perplexity"):
        assert len(expected[name]) == 4  # the optimizer's state is kept as well
        np.testing.assert_allclose(found[name], expected[name][2:], rtol=1e-4)
    for one, other in zip(halves, whole, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@slow_on("tensorflow")
def test_training_sees_an_end_that_has_the_id_of_padding_as_the_search_does():
    tokenizer = WordTokenizer([*WORDS, *WORDS.values()])
    size = tokenizer.vocabulary_size
    ids = dict(pad_id=0, stop_id=0, start_id=0)
    translator = Translator(Seq2SeqTransformer(size, **SMALL, **ids), tokenizer)
    sources, targets = ["셋", "하나 둘"], ["three", "two one"]
    inputs, labels, weights = translator._batches(sources, targets, shuffle=False)[0]
    order = np.argsort(weights.sum(axis=1))
    np.testing.assert_array_equal(weights[order], [[1, 1, 0], [1, 1, 1]])
    for side in ("encoder", "decoder"):
        np.testing.assert_array_equal(inputs[f"{side}_padding_mask"], weights)
    trained = keras.ops.convert_to_numpy(translator.model(inputs))
    source = {"token_ids": inputs["encoder_token_ids"], "padding_mask": weights > 0}
    state = translator.model.start(source, 3)
    for place in range(3):
        read = keras.ops.convert_to_tensor(inputs["decoder_token_ids"][:, place])
        searched, state = translator.model.step(read, state)
        searched = keras.ops.convert_to_numpy(searched)
        real = weights[:, place] > 0
        np.testing.assert_allclose(searched[real], trained[real, place], atol=1e-5)
    looked = translator.explain("하나 둘", "two one").table()
    assert (looked.to_numpy()[:, -1] > 0).all()  # at the source's end too
    with pytest.warns(UserWarning, match="one id, 0") as caught:
        translator.fit(PAIRS, epochs=1, **TRAINING)
    assert sum("one id, 0" in str(warning.message) for warning in caught) == 1


@slow_on("tensorflow")
def test_batches_and_warm_up_follow_the_data():
    sizes = [(100, 512), (12_800, 2000), (29_000, 4096)]
    assert [batch_tokens([10] * rows) for rows, _ in sizes] == [s for _, s in sizes]
    assert batch_tokens([700]) == 700  # a row must fit
    translator = small()
    translator.fit(PAIRS, validation_data=PAIRS, epochs=20, average=None, verbose=0)
    rate = translator.model.optimizer.get_config()["learning_rate"]["config"]
    assert int(translator.model.optimizer.iterations) == 20  # one batch an epoch
    assert rate["warmup_steps"] == 2
    assert rate["peak"] == TRANSLATORS["transformer"].learning_rate


@slow_on("tensorflow")
def test_a_schedule_is_taken_as_it_is():
    translator = small()
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, decay_steps=3)
    settings = dict(validation_data=PAIRS, epochs=1, average=None, verbose=0)
    translator.fit(PAIRS, learning_rate=schedule, **settings)
    rate = translator.model.optimizer.get_config()["learning_rate"]
    assert rate["class_name"] == "CosineDecay"
    assert rate["config"]["initial_learning_rate"] == 1e-2


def test_no_rate_and_a_schedule_with_warm_up_are_refused_before_any_work():
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, decay_steps=3)
    translator = small()
    weights = translator.model.get_weights()
    with pytest.raises(ValueError, match="schedule has its own warm-up"):
        translator.fit(PAIRS, learning_rate=schedule, warmup_steps=1)
    for bad in ("cosine", 0, float("nan")):
        with pytest.raises(ValueError, match="`learning_rate` must be a finite number"):
            translator.fit(PAIRS, learning_rate=bad)
    with pytest.raises(ValueError, match="`warmup_steps` must be a positive integer"):
        translator.fit(PAIRS, warmup_steps=0)
    for weight, old in zip(translator.model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(weight, old)


@pytest.mark.parametrize(
    "pairs, error, message",
    [
        ([], ValueError, "`pairs` is empty"),
        ([("a", "b"), ("c", None)], TypeError, "Pair 1 is"),
        (["ab"], TypeError, "Pair 0 is 'ab'"),
        (pd.DataFrame({"ko": ["a"]}), ValueError, "'source' and 'target'"),
        ([("a", "b"), ("c", "d\ud800")], ValueError, "Pair 1 .* half of a surrogate"),
        ([("", " "), ("", "")], ValueError, "no text"),
    ],
)
def test_bad_pairs_are_named(pairs, error, message):
    with pytest.raises(error, match=message):
        Translator.from_pairs(pairs)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", TRANSLATORS)
def test_odd_pairs_are_trained_on_and_odd_sentences_translated(recipe):
    """Empty sides, characters that the tokenizer does not know, a very long row."""
    translator = small() if recipe == "transformer" else recurrent(recipe)
    odd = [("", "one"), ("하나", ""), ("하나", "漢字 🙂"), ("둘 " * 900, "two " * 900)]
    translator.fit([*PAIRS, *odd], epochs=1, **TRAINING)
    assert all(np.isfinite(weight).all() for weight in translator.model.get_weights())
    texts = ["하나", "", "漢字", "둘 " * 900, "\u3000\n", "하나"]
    found = translator.translate(texts, 2, max_new_tokens=5)
    assert found[1] == found[4] == "" and found[0] == found[5]
    if recipe != "2014":
        assert translator.explain("漢字", "字").attention


def test_long_sentences_are_cut_and_learned_positions_hold():
    translator = small(positions="learned", sequence_length=12, max_length=12)
    (found,) = translator.translate(["하나 둘 셋 넷 " * 9], 2)
    assert isinstance(found, str)
    with pytest.raises(ValueError, match="num_beams=0"):
        translator.translate(["하나"], 0)
    with pytest.raises(ValueError, match="n_best=1.5"):
        translator.translate(["하나"], 2, n_best=1.5)
    with pytest.raises(ValueError, match="id 999"):
        translator.translate(["하나"], 2, stop_ids=[999])
    with pytest.raises(ValueError, match="Item 1 has half of a surrogate"):
        translator.translate(["", "둘 \ud800"])
    with pytest.raises(ValueError, match="epochs=0"):
        translator.fit(PAIRS, epochs=0)
    with pytest.raises(TypeError, match="Text 1"):
        translator.translate(["하나", None])


def test_a_record_of_a_model_without_attention_is_refused_before_translating(
    monkeypatch,
):
    translator = recurrent("2014")
    monkeypatch.setattr(Search, "run", None)
    record = kt.AttentionRecord(translator.model)
    with pytest.raises(ValueError, match="no attention layer of this library"):
        translator.translate(["하나"], record=record)


@pytest.mark.slow
def test_translating_fills_a_record(translator):
    texts = ["하나 둘", " ", "셋"]
    expected = translator.translate(texts)
    record = kt.AttentionRecord(translator.model)
    assert translator.translate(texts, record=record, batch_size=1) == expected
    path = "decoder/block_0/cross_attention"
    for place in (0, 2):
        alignment = translator.explain(texts[place], expected[place])
        pair = record.tokens[place][path]
        assert pair == (alignment.target_tokens, alignment.source_tokens)
        table = kt.attention_table(record[path][0], *pair, batch=place)
        np.testing.assert_allclose(table, alignment.table(path), atol=1e-5)
    assert not record[path][0][1].any() and record.tokens[1][path] == ([], [])
    other = kt.AttentionRecord(kt.TransformerEncoder(8, 2, 12))
    with pytest.raises(ValueError, match="Make a new AttentionRecord"):
        translator.translate(texts, record=other)
