import json

import keras
import numpy as np
import pytest
from word_tokenizer import WordTokenizer

from cases.helpers import Interrupt, fresh_process, slow_on
from keras_transformer import AttentionRecord, LanguageModel, TextGenerator
from keras_transformer.generation.inputs import pad_rows
from keras_transformer.models import Seq2SeqTransformer
from keras_transformer.tasks import WriteSamples
from keras_transformer.tokenizers import SentencePieceTokenizer

TEXTS = ["나는 학교에 간다", "너는 집에서 잔다", "비가 온다", "날씨가 아주 좋다"]
PROMPTS = ["나는", "너는", "비", "날씨가 아주"]
LIMIT = 24
SIZES = dict(num_layers=1, embed_dim=16, num_heads=2, dense_dim=16)
SMALL = dict(SIZES, max_length=LIMIT, vocabulary_size=60, dropout=0.0)
TRAINING = dict(
    validation_data=TEXTS, learning_rate=2e-2, warmup_steps=5, patience=None, verbose=0
)
SAMPLED = dict(temperature=1.5, max_new_tokens=8)
pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


def small(**settings):
    return TextGenerator.from_texts(TEXTS, **{**SMALL, **settings})


@pytest.fixture(scope="module")
def generator():
    keras.utils.set_random_seed(0)
    generator = small()
    generator.fit(TEXTS, epochs=60, **TRAINING)
    return generator


def test_it_writes_what_it_was_shown_and_stops_by_itself(generator):
    assert generator.generate(PROMPTS) == TEXTS
    assert generator.generate([""])[0] in TEXTS
    assert generator.generate([]) == []


@slow_on("tensorflow")
def test_an_end_that_has_the_id_of_padding_is_learned():
    """P19: the first end of each text is trained, padding is not, told by length."""
    words = sorted({word for text in TEXTS for word in text.split()})
    tokenizer = WordTokenizer(words)
    generator = TextGenerator.from_texts(TEXTS, tokenizer=tokenizer, **SMALL)
    inputs, labels, weights = generator._batches(["비가 온다", TEXTS[0]])[0]
    order = np.argsort(weights.sum(axis=1))
    np.testing.assert_array_equal(weights[order], [[1, 1, 1, 0], [1, 1, 1, 1]])
    np.testing.assert_array_equal(inputs["padding_mask"], weights)
    assert labels[order][0, 2] == tokenizer.eos_id == inputs["token_ids"][0, 0]
    with pytest.warns(UserWarning, match="one id, 0") as caught:
        generator.fit(TEXTS, epochs=40, **TRAINING)
    assert sum("one id, 0" in str(warning.message) for warning in caught) == 1
    beginnings = [text.split()[0] for text in TEXTS]
    assert generator.generate(beginnings) == TEXTS
    with pytest.raises(ValueError, match="WordTokenizer cannot be saved"):
        generator.save("nowhere")


def test_a_prompt_gets_the_same_alone_and_among_others(generator):
    prompts = ["", "나는", "  ", "날씨가 아주 좋다 비가 온다 학교에", "비"]
    together = generator.generate(prompts, batch_size=3)
    for prompt, text in zip(prompts, together, strict=True):
        assert generator.generate([prompt]) == [text]
        assert text.startswith(prompt)


def test_a_seed_gives_the_same_and_equal_prompts_get_different_texts(generator):
    prompts = [""] * 6
    texts = generator.generate(prompts, seed=3, **SAMPLED)
    assert generator.generate(prompts, seed=3, batch_size=4, **SAMPLED) == texts
    assert generator.generate(prompts[:2], seed=3, **SAMPLED) == texts[:2]
    assert len(set(texts)) > 3
    assert generator.generate(prompts, seed=4, **SAMPLED) != texts


def test_the_prompt_comes_back_as_it_was_given_or_not_at_all(generator):
    assert generator.generate([" 나는  "]) == [" 나는  학교에 간다"]
    kept, bare = (
        generator.generate(["나는", "나는 "], strip_prompt=strip)
        for strip in (False, True)
    )
    assert kept == ["나는 학교에 간다"] * 2
    assert bare == [" 학교에 간다", "학교에 간다"]


def test_a_search_may_run_uncompiled(generator):
    heard = []

    def note(logits, history):
        heard.append(int(history.new_tokens))  # no trace knows its value
        return logits

    settings = {"jit_compile": False, "processors": [note], "max_new_tokens": 3}
    (text,) = generator.generate(["나는"], **settings)
    assert heard == [0, 1, 2]
    assert "".join(generator.stream("나는", **settings)) == text
    assert [text] == generator.generate(["나는"], max_new_tokens=3)


@pytest.mark.parametrize("settings", [{}, {**SAMPLED, "seed": 1}])
@pytest.mark.parametrize("prompt", ["", "나는 "])
def test_streamed_pieces_are_the_text(generator, prompt, settings):
    pieces = list(generator.stream(prompt, **settings))
    assert ["".join(pieces)] == generator.generate([prompt], **settings)
    assert len(pieces) > 2 and all(pieces)
    bare = "".join(generator.stream(prompt, strip_prompt=True, **settings))
    assert [bare] == generator.generate([prompt], strip_prompt=True, **settings)


def test_no_half_character_and_no_unknown_id_comes_out():
    tokenizer = SentencePieceTokenizer.train(TEXTS, 300, byte_fallback=True)
    size = tokenizer.vocabulary_size
    model = LanguageModel(size + 99, **SIZES, pad_id=0, stop_id=tokenizer.eos_id)
    model.build()
    generator = TextGenerator(model, tokenizer)
    settings = dict(temperature=1.0, seed=0, max_new_tokens=60, stop_ids=[])
    pieces = list(generator.stream("깰🚀", **settings))
    assert pieces[0] == "깰🚀" and len(pieces) > 3
    assert not any("\ufffd" in piece for piece in pieces)
    assert generator.generate(["깰🚀"], **settings) == ["".join(pieces)]


def test_no_text_leaves_the_positions(generator):
    tokens = generator.tokenizer.encode("나는 학교에 간다", add_bos=True)
    room = LIMIT - len(tokens)
    settings = dict(stop_ids=[], strip_prompt=True)
    (clipped,) = generator.generate(["나는 학교에 간다"], **settings)
    full = generator.generate(["나는 학교에 간다"], max_new_tokens=room, **settings)
    assert full == [clipped]
    message = rf"Prompt 1 has {len(tokens)} tokens, and {room + 1} more .* for {LIMIT}"
    with pytest.raises(ValueError, match=message):
        generator.generate(["", "나는 학교에 간다"], max_new_tokens=room + 1)
    with pytest.raises(ValueError, match=r"Prompt 0 has \d+ tokens, and 1 more"):
        generator.stream("나는 학교에 간다 " * 9)  # at once
    assert generator.generate(["나는"], max_new_tokens=0) == ["나는"]


@slow_on("jax")
def test_perplexity_is_that_of_the_full_pass(generator):
    texts = ["좋다 나는", *TEXTS, "온다 " * 20]
    found = generator.perplexity(texts, batch_size=4)
    windows, owners, counts = [], [], []
    for owner, text in enumerate(texts):
        ids = generator.tokenizer.encode(text, add_bos=True, add_eos=True)
        parts = [ids[i : i + LIMIT + 1] for i in range(0, len(ids) - 1, LIMIT)]
        windows, owners = windows + parts, owners + [owner] * len(parts)
        counts.append(len(ids) - 1)
    inputs = pad_rows([part[:-1] for part in windows], LIMIT)
    logs = keras.ops.log_softmax(generator.model(inputs))
    logs, losses = keras.ops.convert_to_numpy(logs), np.zeros(len(texts))
    for part, owner, log in zip(windows, owners, logs, strict=True):
        losses[owner] -= log[np.arange(len(part) - 1), part[1:]].sum()
    expected = np.exp(np.divide(losses, counts))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert counts[-1] > LIMIT and (found[1:5] < 2).all() and found[0] > 5
    scores = generator.evaluate(texts)
    assert scores["tokens"] == sum(counts)
    bits = sum(losses) / np.log(2) / sum(map(len, texts))
    assert scores["bits_per_character"] == pytest.approx(bits, rel=1e-4)
    mean = np.exp(sum(losses) / sum(counts))
    assert scores["perplexity"] == pytest.approx(mean, rel=1e-4)
    with pytest.raises(ValueError, match="no characters"):
        generator.evaluate([""])


def test_it_says_where_it_looked_and_what_may_follow(generator):
    explanation = generator.explain("나는 학교에 간다")
    assert explanation.tokens[0] == "<s>" and explanation.label == "</s>"
    assert explanation.probabilities["</s>"] > 0.9
    table = explanation.table()
    assert list(table.index) == list(table.columns) == explanation.tokens
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-5)
    assert np.triu(table.to_numpy(), 1).max() == 0
    pytest.importorskip("matplotlib")
    assert explanation.plot(head=0) is not None
    long = generator.explain("나는 학교에 간다 " * 100)
    assert len(long.tokens) == generator.model.position_limit


LOADING = """
import json, sys
from keras_transformer import TextGenerator

generator = TextGenerator.load(sys.argv[1])
prompts, settings = json.loads(sys.argv[2])
print(json.dumps(generator.generate(prompts, **settings)))
"""


def test_a_new_process_loads_what_was_saved(generator, tmp_path):
    folder, given = tmp_path / "작가", json.dumps([PROMPTS, {**SAMPLED, "seed": 5}])
    generator.save(folder)
    printed = fresh_process(LOADING, folder, given)
    texts = generator.generate(PROMPTS, seed=5, **SAMPLED)
    assert json.loads(printed.splitlines()[-1]) == texts
    (folder / "tokenizer.model").write_bytes(b"cut")
    with pytest.raises(ValueError, match="tokenizer.model.* has 3 bytes"):
        TextGenerator.load(folder)


@pytest.mark.slow
def test_an_interrupted_training_ends_like_a_whole_one_with_samples(tmp_path, capsys):
    settings = dict(TRAINING, epochs=4, seed=3, patience=5, learning_rate=1e-3)
    keras.utils.set_random_seed(3)
    whole, halves = small(), small()
    halves.model.set_weights(whole.model.get_weights())
    expected = whole.fit(TEXTS, sample_prompts=["", "나는"], **settings).history
    samples = expected["samples"]
    assert len(samples) == 4 and all(len(texts) == 2 for texts in samples)
    assert all(texts[1].startswith("나는") for texts in samples)
    folder = tmp_path / "checkpoints"
    with pytest.raises(KeyboardInterrupt):
        halves.fit(
            TEXTS, checkpoint_folder=folder, callbacks=[Interrupt(2)], **settings
        )
    found = halves.fit(TEXTS, checkpoint_folder=folder, **settings).history
    assert len(found["loss"]) == 2 and not folder.exists()
    for name in ("loss", "val_loss"):  # the optimizer's state is kept as well
        np.testing.assert_allclose(found[name], expected[name][2:], rtol=1e-4)
    assert capsys.readouterr().out == ""
    callback = WriteSamples(whole, ["나는"], seed=0)
    callback.on_epoch_end(0)
    assert repr(callback.samples[0][0]) in capsys.readouterr().out


def test_rotary_positions_have_no_limit():
    generator = small(recipe="llama", num_key_value_heads=1)
    prompt = "나는 학교에 간다 " * 4
    assert len(generator.tokenizer.encode(prompt)) > LIMIT
    (text,) = generator.generate([prompt])
    assert text.startswith(prompt)
    other = small(recipe="llama", num_key_value_heads=1)
    assert other.model.decoder.rotary is not generator.model.decoder.rotary


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(vocabulary_size=20), r"tokenizer has \d+ ids, but the model only 20"),
        (dict(stop_id=1), "stop_id=1"),
        (dict(stop_id=None), "stop_id=None"),
        (dict(pad_id=1), "pad_id=1"),
        (dict(sequence_length=12), "max_length=24"),
    ],
)
def test_parts_that_do_not_fit_are_refused(settings, message):
    tokenizer = SentencePieceTokenizer.train(TEXTS, 60)
    fitting = dict(vocabulary_size=tokenizer.vocabulary_size, pad_id=0, stop_id=3)
    model = LanguageModel(**{**SIZES, **fitting, **settings})
    with pytest.raises(ValueError, match=message):
        TextGenerator(model, tokenizer, max_length=24)


def test_a_translator_is_no_language_model():
    tokenizer = SentencePieceTokenizer.train(TEXTS, 60)
    with pytest.raises(ValueError, match="Received: Seq2SeqTransformer"):
        TextGenerator(Seq2SeqTransformer(40, **SIZES, start_id=2), tokenizer)


@pytest.mark.parametrize(
    "texts, error, message",
    [
        (None, TypeError, "Received: None"),
        ("나는", TypeError, "Put a single one into a list"),
        (["나는", None], TypeError, "Text 1 is None"),
        ([float("nan")], TypeError, "Text 0 is nan"),
    ],
)
def test_bad_texts_are_named(generator, texts, error, message):
    for use in (
        TextGenerator.from_texts,
        generator.fit,
        generator.generate,
        generator.perplexity,
        generator.evaluate,
    ):
        with pytest.raises(error, match=message):
            use(texts)


@slow_on("jax", "tensorflow")
def test_a_schedule_is_taken_as_it_is():
    rate = keras.optimizers.schedules.CosineDecay(1e-2, decay_steps=3)
    settings = dict(validation_data=TEXTS, epochs=2, patience=None, verbose=0)
    generator = small()
    with pytest.raises(ValueError, match="schedule has its own warm-up.*steps=5"):
        generator.fit(TEXTS, learning_rate=rate, warmup_steps=5, **settings)
    generator.fit(TEXTS, learning_rate=rate, **settings)
    optimizer = generator.model.optimizer
    assert int(optimizer.iterations) == 2  # one batch an epoch
    assert float(optimizer.learning_rate) == pytest.approx(1e-2 / 4)


def test_bad_settings_are_refused_before_any_work(generator):
    with pytest.raises(ValueError, match="`recipe`"):
        TextGenerator.from_texts(TEXTS, "gpt5")
    with pytest.raises(ValueError, match="at least one text that is not empty"):
        generator.fit(["", " "])
    with pytest.raises(ValueError, match="`validation_data` must have"):
        generator.fit(TEXTS, validation_data=[])
    with pytest.raises(ValueError, match="no setting 'top_q'"):
        generator.generate(["나는"], top_q=1)
    with pytest.raises(ValueError, match="seed=-1"):
        generator.generate(["나는"], seed=-1)
    with pytest.raises(ValueError, match="top_p"):
        generator.stream("나는", top_p=2.0)
    with pytest.raises(ValueError, match="max_new_tokens=-1"):
        generator.generate(["나는"], max_new_tokens=-1)
    with pytest.raises(TypeError, match="Text 0 is None"):
        generator.stream(None)


@slow_on("jax")
def test_writing_fills_a_record(generator):
    prompts = ["날씨가", "", "비가 온"]
    record = AttentionRecord(generator.model)
    texts = generator.generate(prompts, record=record, batch_size=2)
    assert texts == generator.generate(prompts)
    (path,) = record
    for place, text in enumerate(texts):
        told = generator.explain(text)
        queries, keys = record.tokens[place][path]
        assert keys == told.tokens and queries == [*told.tokens[1:], "</s>"]
        size = len(keys)
        weights = record[path][0][place]
        expected = told.attention[path][0][0]
        np.testing.assert_allclose(weights[:, :size, :size], expected, atol=1e-5)
        assert not weights[:, size:].any() and not weights[..., size:].any()
