"""P27 to P29 and their whole kind: every family equals transformers, both ways."""

import keras
import numpy as np
import pytest
from tiny_checkpoints import CHECKPOINTS, HEADLESS, inputs, load, main, make, run, valid

from cases import helpers
from cases.helpers import PACKAGE_FOLDER, array, arrays, assert_close
from keras_transformer.layers.feed_forward import get_activation
from keras_transformer.pretrained import (
    family_table,
    from_pretrained,
    save_pretrained,
)
from keras_transformer.pretrained.config import ACTIVATIONS
from keras_transformer.pretrained.families import FAMILIES

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")


@pytest.mark.parametrize("key", CHECKPOINTS)
def test_outputs_equal_those_of_transformers_and_survive_the_way_back(key, tmp_path):
    theirs, ours = load(key, tmp_path / "theirs")
    batch = inputs(key, theirs)
    expected = main(run(theirs, batch))
    outputs = helpers.run(ours, "__call__", batch)
    if key in HEADLESS:
        expected = expected @ theirs.get_input_embeddings().weight.T.detach().numpy()
    assert_close(valid(main(outputs), batch), valid(expected, batch), atol=2e-5)
    if isinstance(outputs, dict) and "pooled_output" in outputs:
        pooled = run(theirs, batch).pooler_output.numpy()
        assert_close(outputs["pooled_output"], pooled)

    save_pretrained(ours, None, tmp_path / "ours")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "ours")
    again = getattr(transformers, config.architectures[0])
    again, report = again.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["unexpected_keys"] and not report["mismatched_keys"]
    assert report["missing_keys"] <= {"cls.predictions.bias", "lm_head.bias"}
    back = main(run(again.eval(), batch))
    assert_close(valid(back, batch), valid(expected, batch), atol=2e-5)
    twice, _ = from_pretrained(tmp_path / "ours", tokenizer=False)
    assert_close(twice.get_weights(), ours.get_weights(), atol=0)


def test_segments_equal_those_of_transformers(tmp_path):
    theirs, ours = load("bert", tmp_path)
    batch = inputs("bert", theirs)
    batch["segment_ids"] = np.array([[0, 0, 0, 1, 1, 1, 1]] * 2)
    expected = main(run(theirs, batch))
    assert_close(valid(main(ours(batch)), batch), valid(expected, batch), atol=2e-5)


NORMS = {
    "bert": ("hidden_act", "layer_norm_eps", "embedding.embedding_norm"),
    "gpt2-free": (
        "activation_function",
        "layer_norm_epsilon",
        "decoder.final_norm_layer",
    ),
}


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("key", NORMS)
def test_epsilon_and_activation_come_from_the_config(
    key, activation, epsilon, tmp_path
):
    *names, norm = NORMS[key]
    theirs = make(key, **dict(zip(names, (activation, epsilon), strict=True)))
    tables = ("embeddings.", "transformer.wte.", "transformer.wpe.")
    with torch.no_grad():  # so small that epsilon matters
        for name, weight in theirs.named_parameters():
            if weight.ndim == 2 and name.startswith(tables):
                weight.mul_(1e-3)
    theirs.save_pretrained(tmp_path)
    ours, _ = from_pretrained(tmp_path, tokenizer=False)
    batch = inputs(key, theirs)
    found = main(helpers.run(ours, "__call__", batch))
    assert_close(valid(found, batch), valid(main(run(theirs, batch)), batch))
    stack, part = norm.split(".")
    blocks = getattr(ours, "decoder" if stack == "decoder" else "encoder").blocks
    norms = [getattr(getattr(ours, stack), part)]
    norms += [b.feed_forward_norm for b in blocks]
    norms += [b.self_attention_norm for b in blocks]
    assert [norm.epsilon for norm in norms] == [epsilon] * 5


@pytest.mark.parametrize("key", ["gpt2", "bert-masked"])
def test_logits_of_three_inputs_equal_those_of_transformers(key, tmp_path):
    theirs, ours = load(key, tmp_path)
    for seed in (2, 3, 4):
        batch = inputs(key, theirs, seed)
        found = main(helpers.run(ours, "__call__", batch))
        expected = main(run(theirs, batch))
        assert_close(valid(found, batch), valid(expected, batch), atol=2e-5)


def test_the_two_kinds_of_gelu_are_told_apart():
    ones = np.float32([1.0, -1.0])
    for name, expected in (
        ("gelu", [0.841345, -0.158655]),
        ("gelu_new", [0.841192, -0.158808]),
        ("gelu_pytorch_tanh", [0.841192, -0.158808]),
    ):
        activation = get_activation(ACTIVATIONS[name])
        assert_close(activation(ones), np.float32(expected), atol=1e-6)


@pytest.mark.parametrize("key", ["gpt2", "llama-grouped", "llama-single"])
def test_steps_of_a_language_model_give_the_greedy_ids_of_transformers(key, tmp_path):
    theirs, ours = load(key, tmp_path)
    prompt = np.random.default_rng(2).integers(3, 18, (2, 4))
    expected = theirs.generate(
        torch.tensor(prompt), do_sample=False, max_new_tokens=6, eos_token_id=None
    )
    ids = prompt.astype("int32")
    found = greedy(ours, {"token_ids": ids[:, :-1]}, ids[:, -1], 6)
    assert found == expected.numpy()[:, 4:].tolist()


@pytest.mark.parametrize("key", ["t5", "bart", "marian", "marian-separate"])
def test_steps_of_a_translator_give_the_greedy_ids_of_transformers(key, tmp_path):
    theirs, ours = load(key, tmp_path)
    batch = inputs(key, theirs)
    source, mask = batch["encoder_token_ids"], batch["encoder_padding_mask"]
    theirs.generation_config.forced_eos_token_id = None
    expected = theirs.generate(
        torch.tensor(source.astype("int64")),
        attention_mask=torch.tensor(mask),
        do_sample=False,
        num_beams=1,
        max_new_tokens=6,
        eos_token_id=None,
    )
    start = np.full(2, ours.start_id, "int32")
    found = greedy(ours, {"token_ids": source, "padding_mask": mask}, start, 6)
    assert found == expected.numpy()[:, 1:].tolist()


def greedy(model, inputs, tokens, count):
    slots = inputs["token_ids"].shape[1] + count
    state, found = helpers.run(model, "start", inputs, max_length=slots), []
    for _ in range(count):
        logits, state = helpers.run(model, "step", tokens, state)
        tokens = array(logits).argmax(-1).astype("int32")
        found.append(tokens.tolist())
    return np.transpose(found).tolist()


def test_a_free_head_of_t5_is_read_and_written(tmp_path):
    theirs = make("t5-1.1")
    theirs.lm_head.weight = torch.nn.Parameter(torch.randn(23, 8))
    theirs.config.tie_word_embeddings = False
    theirs.save_pretrained(tmp_path / "theirs")
    ours, _ = from_pretrained(tmp_path / "theirs", tokenizer=False)
    assert not ours.tie_head and ours.head_scale is None
    batch = inputs("t5", theirs)
    expected = main(run(theirs, batch))
    assert_close(ours(batch), expected, atol=2e-5)
    save_pretrained(ours, None, tmp_path / "ours")
    again = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "ours")
    assert_close(main(run(again.eval(), batch)), expected, atol=2e-5)


def test_no_matrix_of_gpt2_is_turned_and_query_key_value_keep_their_places(tmp_path):
    theirs = make("gpt2")
    attention = theirs.transformer.h[0].attn
    with torch.no_grad():
        attention.c_attn.bias.copy_(torch.tensor([1.0, 2.0, 3.0]).repeat_interleave(8))
        attention.c_proj.weight.zero_()
        attention.c_proj.weight[1, 5] = 1.0  # feature 1 -> 5
    theirs.save_pretrained(tmp_path)
    ours, _ = from_pretrained(tmp_path, tokenizer=False)
    layer = ours.decoder.blocks[0].self_attention
    for value, name in enumerate(("query", "key", "value"), 1):
        assert (array(getattr(layer, name).bias) == value).all()
    kernel = array(layer.attention_output.kernel).reshape(8, 8)
    assert kernel[1, 5] == 1.0 and kernel.sum() == 1.0
    heads = np.zeros((1, 1, 2, 4), "float32")
    heads[0, 0, 0, 1] = 3.0  # feature 1 of all heads' 8
    effect = array(layer.attention_output(heads))[0, 0] - array(
        layer.attention_output.bias
    )
    assert_close(effect, np.eye(8, dtype="float32")[5] * 3.0)
    weight = attention.c_attn.weight.detach().numpy()
    for index, name in enumerate(("query", "key", "value")):
        part = weight[:, 8 * index : 8 * index + 8].reshape(8, 2, 4)
        assert_close(getattr(layer, name).kernel, part, atol=0)


def test_t5_scales_no_scores_and_has_one_bias_table_a_stack(tmp_path):
    _, ours = load("t5", tmp_path)
    tables = [w.path for w in ours.weights if "relative_attention_bias" in w.path]
    assert len(tables) == 2
    for stack in (ours.encoder, ours.decoder):
        assert stack.attention_scale == 1.0
        assert stack.position_bias.bidirectional == (stack is ours.encoder)
    assert ours.head_scale == pytest.approx(8**-0.5)
    # The raw score is q.k: weights = softmax(q.k), for doubled queries softmax(2 q.k).
    layer = ours.encoder.blocks[1].self_attention
    x = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
    query, key = array(layer.query(x)), array(layer.key(x))
    scores = np.einsum("btnh,bsnh->bnts", query, key)
    for factor in (1.0, 2.0):
        layer.query.kernel.assign(factor * array(layer.query.kernel))
        _, weights = layer(x, x, return_attention_scores=True)
        expected = np.exp(factor * scores)
        assert_close(weights, expected / expected.sum(-1, keepdims=True))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_files_are_read_and_written(dtype, tmp_path):
    theirs = make("llama").to(getattr(torch, dtype))
    theirs.save_pretrained(tmp_path / "theirs")
    ours, _ = from_pretrained(tmp_path / "theirs", tokenizer=False)
    table = theirs.model.embed_tokens.weight.float().detach().numpy()
    assert_close(ours.embedding.token_embedding.embeddings, table, atol=0)
    half, _ = from_pretrained(tmp_path / "theirs", tokenizer=False, dtype=dtype)
    kinds = {keras.backend.standardize_dtype(w.dtype) for w in half.weights}
    assert kinds == {dtype}
    save_pretrained(half, None, tmp_path / "ours")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    assert again.dtype == getattr(torch, dtype)
    for name, weight in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight)


@pytest.mark.parametrize("file", ["float32", "bfloat16"])
def test_a_file_of_another_dtype_is_rounded_once(file, tmp_path):
    theirs = make("gpt2").to(getattr(torch, file))
    theirs.save_pretrained(tmp_path)
    ours, _ = from_pretrained(tmp_path, tokenizer=False, dtype="float16")
    kinds = {keras.backend.standardize_dtype(w.dtype) for w in ours.weights}
    assert kinds == {"float16"}
    values = {w.path.split("/", 1)[1]: array(w) for w in ours.weights}
    for path, weight in (
        ("embedding/token_embedding/embeddings", theirs.transformer.wte.weight),
        ("decoder/final_norm/gamma", theirs.transformer.ln_f.weight),
    ):
        assert_close(values[path], weight.half().float().detach().numpy(), atol=0)


@pytest.mark.parametrize(
    "settings",
    [
        dict(dense_act_fn="relu"),
        dict(dense_act_fn="gelu"),
        dict(is_gated_act=False),
        dict(feed_forward_proj="silu", is_gated_act=True),
    ],
)
def test_what_t5_says_of_its_activation_apart_counts(settings, tmp_path):
    theirs, ours = load("t5-1.1", tmp_path / "theirs", **settings)
    batch = inputs("t5", theirs)
    expected = main(run(theirs, batch))
    assert_close(main(ours(batch)), expected, atol=1e-4)
    save_pretrained(ours, None, tmp_path / "ours")
    again = type(theirs).from_pretrained(tmp_path / "ours").eval()
    assert_close(main(run(again, batch)), expected, atol=1e-4)


def test_sharded_files_are_read(tmp_path):
    theirs = make("bart")
    theirs.save_pretrained(tmp_path / "sharded", max_shard_size="2KB")
    theirs.save_pretrained(tmp_path / "single")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 1
    sharded, _ = from_pretrained(tmp_path / "sharded", tokenizer=False)
    single, _ = from_pretrained(tmp_path / "single", tokenizer=False)
    assert_close(sharded.get_weights(), single.get_weights(), atol=0)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_quantizing")
def test_a_loaded_encoder_is_trained_saved_and_quantized(tmp_path):
    _, ours = load("bert", tmp_path)
    ours.encoder.blocks[0].self_attention.query.enable_lora(2)
    ids = keras.Input((None,), dtype="int32", name="ids")
    outputs = keras.layers.Dense(1, name="probability")(ours(ids)["pooled_output"])
    model = keras.Model(ids, outputs)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    batch = np.random.default_rng(0).integers(3, 18, (4, 6))
    losses = [float(model.train_on_batch(batch, np.ones((4, 1)))) for _ in range(6)]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(batch), model(batch))
    loaded.quantize("int8")
    assert np.isfinite(arrays(loaded(batch))[0]).all()


# Key -> the rates of a config, each another.
DROPOUT = {
    "bert": dict(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3),
    "roberta": dict(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3),
    "distilbert": dict(dropout=0.2, attention_dropout=0.3),
    "gpt2": dict(resid_pdrop=0.2, embd_pdrop=0.2, attn_pdrop=0.3),
    "llama": dict(attention_dropout=0.3),
    "t5": dict(dropout_rate=0.2),
    "bart": dict(dropout=0.2, attention_dropout=0.3),
    "marian": dict(dropout=0.2, attention_dropout=0.3),
}


@pytest.mark.parametrize("key", DROPOUT)
def test_both_rates_of_dropout_are_kept(key, tmp_path):
    _, ours = load(key, tmp_path / "theirs", **DROPOUT[key])
    for part in ("encoder", "decoder"):
        for block in getattr(getattr(ours, part, None), "blocks", ()):
            assert block.output_dropout.rate == (0.0 if key == "llama" else 0.2)
            assert block.self_attention.dropout == (0.2 if key == "t5" else 0.3)
    save_pretrained(ours, None, tmp_path / "ours")
    for folder in ("theirs", "ours"):
        config = transformers.AutoConfig.from_pretrained(tmp_path / folder)
        found = {name: getattr(config, name) for name in DROPOUT[key]}
        assert found == DROPOUT[key]


LOST = (
    ("gpt2", "embd_pdrop"),
    ("bart", "activation_dropout"),
    ("bart", "encoder_layerdrop"),
)


@pytest.mark.parametrize("key, name", LOST)
def test_dropout_that_the_layers_have_not_is_told(key, name, tmp_path):
    with pytest.warns(UserWarning, match=f"{name}=0.4.*no such dropout"):
        load(key, tmp_path, **{name: 0.4})


def test_a_family_is_one_short_file():
    folder = PACKAGE_FOLDER / "keras_transformer" / "pretrained"
    files = {family.__module__.rsplit(".", 1)[-1] for family in FAMILIES}
    assert len(files) == len(FAMILIES) - 1  # XLM-RoBERTa is RoBERTa
    for name in files:
        lines = (folder / f"{name}.py").read_text("utf-8").splitlines()
        assert len(lines) <= 150, name


def test_the_table_of_families_names_them_all():
    table = family_table()
    assert table.count("\n") == 1 + 9
    for readme in ("README.md", "README.ko.md"):
        assert table in (PACKAGE_FOLDER / readme).read_text("utf-8")
    tested = {class_name for class_name, *_ in CHECKPOINTS.values()}
    known = {name for family in FAMILIES for name in family.architectures}
    assert tested == {name for name in known if hasattr(transformers, name)}
    old = {"T5WithLMHeadModel", "LLaMAForCausalLM"}  # tested in test_strict_families
    assert known - tested == old
    assert all(class_name in table for class_name in tested)
    assert "LlamaModel (tied head)" in table
