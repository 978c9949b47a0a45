import h5py
import keras
import numpy as np
import pytest

import keras_transformer as kt
from cases.helpers import array, assert_close, randomize, slow_on
from support import check_layer

X = np.random.default_rng(0).normal(size=(2, 4, 8)).astype("float32")


def make_model(**settings):
    inputs = keras.Input((None, 8))
    stack = kt.TransformerStack(2, 8, 2, 16, name="stack", **settings)
    return randomize(keras.Model(inputs, stack(inputs)))


def test_it_keeps_the_laws_of_every_layer():
    check_layer("TransformerStack")


def test_variable_paths_are_a_contract():
    model = make_model(
        cross_attention=False, gated=True, normalize_first=True, use_bias=False
    )
    attention = [f"self_attention/{name}" for name in _PROJECTIONS]
    feed_forward = [f"feed_forward/{name}" for name in _FEED_FORWARD]
    block = [f"{name}/kernel" for name in attention + feed_forward]
    block += [
        f"{n}_norm/{w}" for n in ("self_attention", "feed_forward") for w in _NORM
    ]
    expected = {f"stack/block_{i}/{name}" for i in range(2) for name in block}
    expected |= {f"stack/final_norm/{name}" for name in _NORM}
    assert {weight.path for weight in model.weights} == expected


_PROJECTIONS = ("query", "key", "value", "attention_output")
_FEED_FORWARD = ("intermediate", "gate", "feed_forward_output")
_NORM = ("gamma", "beta")


def test_the_names_inside_saved_files_are_a_contract(tmp_path):
    inputs, source = keras.Input((None, 8)), keras.Input((None, 8))
    settings = dict(causal=True, cross_attention=True, gated=True, normalize_first=True)
    outputs = kt.TransformerStack(1, 8, 2, 16, **settings)(inputs, source)
    outputs = kt.BahdanauAttention(4)(outputs, source)
    outputs = kt.LuongAttention("concat")(outputs, source)
    model = keras.Model([inputs, source], kt.SelfAttentiveEmbedding(2, 4)(outputs))
    model.save_weights(tmp_path / "model.weights.h5")
    found = set()
    with h5py.File(tmp_path / "model.weights.h5") as file:
        file.visititems(
            lambda name, item: found.add(name) if hasattr(item, "shape") else None
        )
    attention = [f"{name}/vars/{i}" for name in _PROJECTIONS for i in (0, 1)]
    parts = [f"feed_forward/{name}/vars/{i}" for name in _FEED_FORWARD for i in (0, 1)]
    for name in ("self_attention", "cross_attention_layer"):
        parts += [f"{name}/{variable}" for variable in attention]
    for name in ("self_attention", "cross_attention", "feed_forward"):
        parts += [f"{name}_norm/vars/{i}" for i in (0, 1)]
    block = "transformer_stack/blocks/transformer_block"
    expected = {f"{block}/{name}" for name in parts}
    expected |= {f"transformer_stack/final_norm_layer/vars/{i}" for i in (0, 1)}
    expected |= {f"bahdanau_attention/{name}/vars/0" for name in ("query", "key")}
    expected |= {f"luong_attention/vars/{i}" for i in (0, 1)}
    expected |= {"bahdanau_attention/vars/0"}
    views = "self_attentive_embedding"
    expected |= {f"{views}/{name}/vars/0" for name in ("attention", "annotation")}
    assert {name.removeprefix("layers/") for name in found} == expected


@pytest.mark.parametrize("normalize_first", [False, True])
@pytest.mark.parametrize("final_norm", [None, False, True])
def test_the_final_norm_follows_pre_norm_unless_told_otherwise(
    normalize_first, final_norm
):
    stack = kt.TransformerStack(
        2, 8, 2, 16, normalize_first=normalize_first, final_norm=final_norm
    )
    wanted = normalize_first if final_norm is None else final_norm
    assert (stack.final_norm_layer is not None) == wanted


def test_a_stack_is_its_blocks_one_after_the_other():
    model = make_model(causal=True)
    x = keras.ops.convert_to_tensor(X)
    for block in model.get_layer("stack").blocks:
        x = block(x)
    assert_close(x, model(X))


@pytest.mark.slow
@pytest.mark.usefixtures("quick_quantizing")
def test_a_quantized_model_is_saved_and_loaded(tmp_path):
    model = make_model()
    exact = array(model(X))
    model.quantize("int8")
    quantized = array(model(X))
    assert 0 < np.abs(quantized - exact).max() < 0.3
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(X), quantized)
    stack = loaded.get_layer("stack")
    assert stack.blocks[1].self_attention.query.quantization_mode == "int8"


@slow_on("tensorflow", "jax")
@pytest.mark.usefixtures("quick_quantizing")
def test_how_a_model_was_quantized_is_saved(tmp_path):
    model = make_model()
    quantizer = keras.quantizers.AbsMaxQuantizer(axis=-1, value_range=(-60, 60))
    config = keras.quantizers.Int8QuantizationConfig(activation_quantizer=quantizer)
    model.quantize(config=config)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(X), model(X))
    query = loaded.get_layer("stack").blocks[0].self_attention.query
    kept = query.quantization_config.activation_quantizer.value_range
    assert list(kept) == [-60, 60]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_quantizing")
def test_a_quantized_position_bias_is_saved_and_loaded(tmp_path):
    model = make_model(position_bias=kt.RelativePositionBias(2, name="bias"))
    model.quantize("int8")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(X), model(X))


@slow_on("jax")
def test_lora_trains_few_weights_and_is_merged_on_saving(tmp_path):
    model = make_model()
    queries = [block.self_attention.query for block in model.get_layer("stack").blocks]
    for query in queries:
        query.enable_lora(2)
    before = [array(query.lora_kernel_b) for query in queries]
    model.compile("adam", "mse")
    model.fit(X, np.zeros_like(X), verbose=0)
    for query, old in zip(queries, before, strict=True):
        assert np.abs(array(query.lora_kernel_b) - old).max() > 0
        assert len(query.trainable_weights) == 3  # two factors and the bias
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", compile=False)
    assert_close(loaded(X), model(X))
