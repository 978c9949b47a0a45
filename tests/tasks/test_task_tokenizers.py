"""A task saved with any of the package's tokenizers is the same when loaded."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import keras_transformer as kt
from cases.examples import quick
from cases.helpers import slow_on
from keras_transformer.tokenizers import (
    HuggingFaceTokenizer,
    MappedSentencePieceTokenizer,
    SentencePieceTokenizer,
)

TEXTS = ["나는 학교에 간다", "너는 집에서 잔다", "비가 온다", "날씨가 아주 좋다"]
ENGLISH = ["i go to school", "you sleep at home", "it rains", "the day is fine"]
SIZES = dict(num_layers=1, embed_dim=8, num_heads=2, dense_dim=8)
ROLES = dict(pad="<pad>", unk="<unk>", bos="<s>", eos="</s>")
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


def huggingface():
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.decoder = tokenizers.decoders.Metaspace()
    special = list(ROLES.values())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=120, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS + ENGLISH, trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    return HuggingFaceTokenizer(tokenizer, ROLES)


def mapped(**ends):
    """Numbered from the back, with two models as Marian has them."""
    source, target = (
        SentencePieceTokenizer.train(texts, 60) for texts in (TEXTS, ENGLISH)
    )
    pieces = {
        model.id_to_piece(id)
        for model in (source, target)
        for id in range(model.vocabulary_size)
    }
    vocabulary = {piece: id for id, piece in enumerate(sorted(pieces, reverse=True))}
    return MappedSentencePieceTokenizer(
        *(source.serialized, vocabulary, ROLES),
        **{"suffix": ["</s>"], "target_model": target.serialized, **ends},
    )


def sentencepiece():
    return SentencePieceTokenizer.train(TEXTS + ENGLISH, 80)


KINDS = {f.__name__: f for f in (huggingface, mapped, sentencepiece)}


def random_weights(model):
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(scale=0.5, size=w.shape) for w in model.weights])
    return model


def ids(tokenizer):
    return dict(pad_id=tokenizer.pad_id, stop_id=tokenizer.eos_id)


@pytest.mark.parametrize("add_bos", quick([True, False], [False]))
@pytest.mark.parametrize("kind", quick(KINDS, list(KINDS)[1:]))
def test_a_generator_writes_and_measures_alike(kind, add_bos, tmp_path):
    tokenizer = KINDS[kind]()
    size = tokenizer.vocabulary_size
    model = kt.LanguageModel(size, **SIZES, sequence_length=32, **ids(tokenizer))
    model.build()
    generator = kt.TextGenerator(random_weights(model), tokenizer, add_bos=add_bos)
    generator.save(tmp_path / "task")
    again = kt.TextGenerator.load(tmp_path / "task")
    settings = dict(max_new_tokens=6, temperature=1.0, seed=1)
    found = again.generate(["나는", ""], **settings)
    assert found == generator.generate(["나는", ""], **settings)
    assert again.evaluate(TEXTS) == generator.evaluate(TEXTS)
    assert again.add_bos is add_bos and type(again.tokenizer) is type(tokenizer)
    for name in ("pad_id", "unk_id", "bos_id", "eos_id"):
        assert getattr(again.tokenizer, name) == getattr(tokenizer, name) is not None
    found = again.perplexity(["", TEXTS[0]])  # what foresees the end of nothing?
    assert np.isnan(found[0]) == (not add_bos) and np.isfinite(found[1])
    tokens = [again.evaluate(texts)["tokens"] for texts in (TEXTS, ["", *TEXTS])]
    assert tokens[1] - tokens[0] == add_bos
    # One bos at the most, and one end, whatever the template has.
    inputs, labels, _ = generator._windows(["나는 학교에 간다"])
    assert inputs[0].count(tokenizer.bos_id) == add_bos
    assert labels[0].count(tokenizer.eos_id) == 1
    (row,), _ = generator._read(["나는"], 1)
    assert row.count(tokenizer.bos_id) == add_bos and tokenizer.eos_id not in row


@slow_on("jax", "tensorflow")
@pytest.mark.parametrize("kind", quick(KINDS, list(KINDS)[1:2]))
def test_a_translator_translates_and_explains_alike(kind, tmp_path):
    tokenizer = KINDS[kind]()
    size = tokenizer.vocabulary_size
    model = kt.Seq2SeqTransformer(
        size, **SIZES, **ids(tokenizer), start_id=tokenizer.pad_id
    )
    model.build()
    translator = kt.Translator(random_weights(model), tokenizer)
    translator.save(tmp_path / "task")
    again = kt.Translator.load(tmp_path / "task")
    found = again.translate(TEXTS, 2, max_new_tokens=6)
    assert found == translator.translate(TEXTS, 2, max_new_tokens=6)
    assert again.target_tokenizer is again.source_tokenizer
    explained = again.explain(TEXTS[0], ENGLISH[0])
    assert explained.source_tokens[-1] == "</s>"  # the encoder's template
    target = explained.target_tokens
    assert target.count("</s>") == 1 and "<s>" not in target
    assert "<unk>" not in target  # cut with the model of its language
    again.fit(
        list(zip(TEXTS, ENGLISH, strict=True)),
        validation_data=[(TEXTS[0], ENGLISH[0])],
        epochs=1,
        average=None,
        verbose=0,
    )


@pytest.mark.parametrize("kind", quick(KINDS, list(KINDS)[:1]))
def test_a_classifier_labels_and_explains_alike(kind, tmp_path):
    tokenizer = KINDS[kind]()
    model = kt.build_text_classifier(
        tokenizer.vocabulary_size, 8, 2, 8, pad_id=tokenizer.pad_id
    )
    classifier = kt.TextClassifier(random_weights(model), tokenizer, ["bad", "good"])
    classifier.save(tmp_path / "task")
    again = kt.TextClassifier.load(tmp_path / "task")
    np.testing.assert_array_equal(
        again.predict_probabilities(TEXTS), classifier.predict_probabilities(TEXTS)
    )
    assert again.explain(TEXTS[0]).tokens == classifier.explain(TEXTS[0]).tokens
    if kind != "sentencepiece":
        assert again.explain(TEXTS[0]).tokens[-1] == "</s>"
        with pytest.raises(ValueError, match="`sampling` needs a tokenizer that"):
            data = TEXTS, ["bad", "good"] * 2
            again.fit(*data, validation_data=data, sampling=0.2)
    settings = dict(validation_data=(TEXTS, ["bad", "good"] * 2), epochs=1, verbose=0)
    default = kt.TextClassifier(model, tokenizer, again.labels, recipe="default")
    encode, sampled = default._encode, []
    default._encode = lambda *args, **more: (
        sampled.append(more) or encode(*args, **more)
    )
    default.fit(TEXTS, ["bad", "good"] * 2, **settings)
    assert any(sampled) == (kind == "sentencepiece")  # the recipe's, where it can be
    sampled.clear()
    default.fit(TEXTS, ["bad", "good"] * 2, sampling=False, **settings)
    assert sampled and not any(sampled)


def test_one_who_cuts_off_shortens_no_other_threads_texts():
    tokenizer = pickle.loads(pickle.dumps(huggingface()))
    text = " ".join(TEXTS * 20)
    whole = len(tokenizer.encode(text))

    def encode(turn):
        return len(tokenizer.encode(text, max_length=5 if turn % 2 else None))

    with ThreadPoolExecutor(8) as pool:
        lengths = list(pool.map(encode, range(400)))
    assert lengths == [5 if turn % 2 else whole for turn in range(400)]


def test_a_text_begins_as_the_template_has_it_unless_told_otherwise():
    for tokenizer, expected in (
        (huggingface(), True),
        (mapped(), False),
        (mapped(prefix=["<s>"]), True),
        (sentencepiece(), True),
    ):
        size = tokenizer.vocabulary_size
        model = kt.LanguageModel(size, **SIZES, **ids(tokenizer))
        assert kt.TextGenerator(model, tokenizer).add_bos is expected
        assert kt.TextGenerator(model, tokenizer, add_bos=False).add_bos is False


def test_a_task_of_an_earlier_version_is_named(tmp_path):
    tokenizer = sentencepiece()
    model = kt.LanguageModel(tokenizer.vocabulary_size, **SIZES, **ids(tokenizer))
    model.build()
    kt.TextGenerator(model, tokenizer).save(tmp_path / "task")
    path = tmp_path / "task" / "task.json"
    settings = json.loads(path.read_text("utf-8"))
    del settings["tokenizers"]
    path.write_text(json.dumps(settings), "utf-8")
    with pytest.raises(ValueError, match="task' was saved by an earlier version"):
        kt.TextGenerator.load(tmp_path / "task")


def test_a_tokenizer_of_an_unknown_class_is_refused(tmp_path):
    tokenizer = sentencepiece()
    model = kt.LanguageModel(tokenizer.vocabulary_size, **SIZES, **ids(tokenizer))
    model.build()
    kt.TextGenerator(model, tokenizer).save(tmp_path / "task")
    path = tmp_path / "task" / "task.json"
    text = path.read_text("utf-8").replace("SentencePieceTokenizer", "OtherTokenizer")
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match="class 'OtherTokenizer'. Known are"):
        kt.TextGenerator.load(tmp_path / "task")
