"""What is done with loaded models: sampled from, fine-tuned, adapted, quantized."""

import keras
import numpy as np
import pytest
from keras import ops
from tiny_checkpoints import inputs, load, main, make, run

import keras_transformer as kt
from cases import helpers
from cases.examples import quick
from cases.helpers import array, assert_close, slow_on
from keras_transformer.generation import processors
from keras_transformer.generation.sampling import Sampling
from keras_transformer.pretrained import from_pretrained, save_pretrained

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
WRITERS = ("gpt2", "llama-grouped", "t5", "bart", "marian")
HEADS = ("bert-masked", "distilbert-masked", "roberta-masked", "xlm-roberta")


@pytest.mark.parametrize("key", WRITERS)
def test_filtered_probabilities_are_those_of_transformers(key, tmp_path, monkeypatch):
    theirs, ours = load(key, tmp_path)
    batch = inputs(key, theirs)
    ids = batch.get("decoder_token_ids")
    if ids is None:
        batch["padding_mask"][:] = True
        ids = batch["token_ids"]
    logits = main(helpers.run(ours, "__call__", batch))[:, -1]
    expected = torch.tensor(main(run(theirs, batch))[:, -1])

    filtered = []
    monkeypatch.setattr(processors, "draw", lambda logits, _: filtered.append(logits))
    settings = dict(temperature=0.7, top_k=9, top_p=0.8, repetition_penalty=1.4)
    sampling, new = Sampling(**settings), np.int32(0)
    values = {**sampling.values(), "uniforms": np.zeros((2, 1), "float32")}
    history = processors.History(ids, np.ones(ids.shape, bool), ids.shape[1], new)
    sampling.choose(ops.convert_to_tensor(logits), history, values)

    found = array(ops.softmax(filtered[0]))
    for processor in (
        transformers.RepetitionPenaltyLogitsProcessor(1.4),
        transformers.TemperatureLogitsWarper(0.7),
        transformers.TopKLogitsWarper(9),
        transformers.TopPLogitsWarper(0.8),
    ):
        expected = processor(torch.tensor(ids.astype("int64")), expected)
    expected = torch.softmax(expected, -1).numpy()
    kept = (expected > 0).sum(-1)
    assert (kept > 1).all() and (kept < 9).any()
    assert ((found > 0) == (expected > 0)).all()
    assert_close(found, expected)


@slow_on("jax", "tensorflow")
def test_a_loaded_encoder_becomes_a_text_classifier(tmp_path):
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] the a film end was is good fine bad dull"
    make(
        "bert",
        vocab_size=len(words.split()),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    ).save_pretrained(tmp_path / "bert")
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(words.split()), "utf-8")
    encoder, tokenizer = from_pretrained(tmp_path / "bert")
    ids = keras.Input((None,), dtype="int32", name="ids")
    head = keras.layers.Dense(1, activation="sigmoid", name="probability")
    model = keras.Model(ids, head(encoder(ids)["pooled_output"]))
    classifier = kt.TextClassifier(model, tokenizer, ["bad", "good"])
    kinds = {"good": ("good", "fine"), "bad": ("bad", "dull")}
    pairs = [
        (f"{article} {noun} was {word}", label)
        for label, said in kinds.items()
        for word in said
        for article in ("the", "a", "a fine" if label == "good" else "a dull")
        for noun in ("film", "end")
    ]
    texts, labels = zip(*pairs, strict=True)
    settings = dict(epochs=12, batch_size=8, learning_rate=0.02, patience=None)
    history = classifier.fit(
        texts, labels, validation_data=(texts, labels), verbose=0, **settings
    ).history
    assert min(history["loss"]) < 0.8 * history["loss"][0]
    before = classifier.predict_probabilities(texts)
    classifier.save(tmp_path / "saved")
    loaded = kt.TextClassifier.load(tmp_path / "saved")
    assert_close(loaded.predict_probabilities(texts), before)
    assert loaded.predict(texts[:3]) == classifier.predict(texts[:3])


def blocks_of(model):
    stacks = [getattr(model, name, None) for name in ("encoder", "decoder")]
    return [block for stack in stacks if stack for block in stack.blocks]


def assert_not_saved(model, folder):
    with pytest.raises(ValueError, match="is quantized, or has LoRA weights. Nothing"):
        save_pretrained(model, None, folder)
    assert not folder.exists()


@slow_on("tensorflow")
@pytest.mark.parametrize("key", quick([*HEADS, *WRITERS], ["gpt2", "t5"]))
def test_lora_trains_the_layers_that_are_named(key, tmp_path):
    theirs, model = load(key, tmp_path / "theirs")
    layers = [
        getattr(block.self_attention, name)
        for block in blocks_of(model)
        for name in ("query", "value")
    ]
    for weight in model.weights:
        weight.trainable = False
    for layer in layers:
        layer.enable_lora(2)
    before = {w.path: array(w) for w in model.weights}
    batch = inputs(key, theirs)
    targets = batch.get("decoder_token_ids", batch.get("token_ids"))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    first = model.test_on_batch(batch, targets)  # without dropout
    for _ in range(8):
        model.train_on_batch(batch, targets)
    assert model.test_on_batch(batch, targets) < first
    changed = {w.path for w in model.weights if (array(w) != before[w.path]).any()}
    assert changed and all("lora_kernel" in path for path in changed)
    assert all(np.abs(array(layer.lora_kernel_b)).max() > 0 for layer in layers)
    assert_not_saved(model, tmp_path / "ours")


@slow_on("jax", "tensorflow")
@pytest.mark.parametrize("key", quick([*HEADS, *WRITERS], ["gpt2"]))
@pytest.mark.usefixtures("quick_quantizing")
def test_a_quantized_model_stays_near_and_writes(key, tmp_path):
    theirs, model = load(key, tmp_path / "theirs")
    batch = inputs(key, theirs)
    exact = main(model(batch))
    model.quantize("int8")
    near = main(model(batch))
    assert 0 < np.linalg.norm(near - exact) < 0.1 * np.linalg.norm(exact)
    if key in WRITERS:
        name = "encoder_" if "encoder_token_ids" in batch else ""
        batch = {n: batch[f"{name}{n}"] for n in ("token_ids", "padding_mask")}
        assert kt.generate(model, batch, max_new_tokens=3).shape == (2, 3)
    assert_not_saved(model, tmp_path / "ours")
