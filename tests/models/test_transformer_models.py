"""What holds for every model made of Transformer stacks."""

import json

import h5py
import keras
import numpy as np
import pytest
from model_examples import (
    ENCODERS,
    LANGUAGE_MODELS,
    TRANSLATORS,
    VOCABULARY,
    make,
    random_ids,
)

import keras_transformer as kt
from cases.examples import quick
from cases.helpers import array, arrays, assert_close, fresh_process, run, slow_on

EXAMPLES = {
    **{f"language-{k}": (kt.LanguageModel, v) for k, v in LANGUAGE_MODELS.items()},
    **{f"translator-{k}": (kt.Seq2SeqTransformer, v) for k, v in TRANSLATORS.items()},
    **{f"encoder-{k}": (kt.TextEncoder, v) for k, v in ENCODERS.items()},
    **{f"masked-{k}": (kt.MaskedLanguageModel, v) for k, v in ENCODERS.items()},
}
CORE = ("language-rotary", "translator-relative", "encoder-learned", "masked-learned")


def example(key, **more):
    """Return a model and inputs for it."""
    model = make(*EXAMPLES[key], **more)
    ids = random_ids(2, 5)
    ids[1, 3:] = 0
    if isinstance(model, kt.Seq2SeqTransformer):
        targets = random_ids(2, 4, seed=1)
        return model, {"encoder_token_ids": ids, "decoder_token_ids": targets}
    return model, {"token_ids": ids, "padding_mask": ids != 0}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_config_is_plain_and_makes_the_same_model(name):
    model, _ = example(name, name="model-1", dropout=0.25, seed=3)
    config = json.loads(json.dumps(model.get_config()))
    assert config["dropout"] == 0.25 and config["seed"] == 3
    again = type(model).from_config(config)
    again.build((None, None))
    assert again.get_config() == model.get_config()
    assert [w.path for w in again.weights] == [w.path for w in model.weights]
    assert [w.shape for w in again.weights] == [w.shape for w in model.weights]


LOADING = """
import sys
import numpy as np
import keras
import keras_transformer

model = keras.models.load_model(sys.argv[1])
inputs = dict(np.load(sys.argv[2]))
targets = inputs.pop("targets")
outputs = keras.tree.flatten(model(inputs))
np.savez(sys.argv[3], *[keras.ops.convert_to_numpy(x) for x in outputs])
print(int(model.optimizer.iterations))
print(model.train_on_batch(inputs, targets))
"""


@slow_on("jax", "tensorflow")
@pytest.mark.parametrize("name", quick(CORE, CORE[1:2]))
def test_a_new_process_loads_the_trained_model(name, tmp_path):
    model, inputs = example(name)
    outputs = keras.tree.flatten(model(inputs))
    if len(outputs) > 1:  # of the pooled vector and of the tokens'
        symbolic = _symbolic(inputs)
        model = keras.Model(symbolic, model(symbolic)["pooled_output"])
    targets = np.random.default_rng(0).normal(size=outputs[0].shape)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    for _ in range(2):
        model.train_on_batch(inputs, targets)
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "inputs.npz", targets=targets, **inputs)
    files = [tmp_path / file for file in ("model.keras", "inputs.npz", "out.npz")]
    printed = fresh_process(LOADING, *files).split()[-2:]
    loaded = list(np.load(tmp_path / "out.npz").values())
    assert_close(loaded, arrays(model(inputs)), atol=1e-6)
    assert int(printed[0]) == 2
    loss = float(model.train_on_batch(inputs, targets))
    assert abs(float(printed[1]) - loss) <= 1e-5 * abs(loss)


def _symbolic(inputs):
    return {
        name: keras.Input((None,), dtype=value.dtype.name, name=name)
        for name, value in inputs.items()
    }


@pytest.mark.parametrize("name", quick(EXAMPLES, CORE[:2]))
def test_a_saved_model_gives_the_same_numbers(name, tmp_path):
    model, inputs = example(name)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(inputs), model(inputs), atol=1e-6)
    assert [w.path for w in loaded.weights] == [w.path for w in model.weights]


@pytest.mark.parametrize("name", quick(CORE, CORE[1:2]))
def test_compiled_and_eager_give_the_same_numbers(name):
    model, inputs = example(name)
    expected = arrays(model(inputs))
    model.compile(jit_compile=keras.backend.backend() != "torch")
    assert_close(keras.tree.flatten(model.predict(inputs, verbose=0)), expected)
    inside = keras.Model(symbolic := _symbolic(inputs), model(symbolic))
    assert_close(keras.tree.flatten(inside.predict(inputs, verbose=0)), expected)
    model.summary(expand_nested=True, print_fn=lambda text: None)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", quick(CORE, CORE[:2]))
def test_half_precision_is_near_and_gives_float32_logits(name, policy):
    model, inputs = example(name)
    expected = arrays(run(model, "__call__", inputs))
    half, _ = example(name, dtype=policy)
    tolerance = 0.02 if policy == "mixed_float16" else 0.1
    outputs = run(half, "__call__", inputs)
    for output, reference in zip(arrays(outputs), expected, strict=True):
        scale = max(1.0, np.abs(reference).max())
        assert np.abs(output - reference).max() <= tolerance * scale
    if not name.startswith("encoder"):
        assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    if hasattr(half, "step"):
        prompt = {"token_ids": inputs[sorted(inputs)[-1]]}
        state = run(half, "start", prompt, max_length=8)
        step, state = run(half, "step", np.array([3, 4], "int32"), state)
        assert keras.backend.standardize_dtype(step.dtype) == "float32"


@pytest.mark.parametrize(
    "name", quick([x for x in CORE if "encoder" not in x], CORE[:1])
)
def test_training_lowers_the_loss(name):
    model, inputs = example(name, dropout=0.1)
    targets = random_ids(*keras.tree.flatten(inputs)[0].shape, seed=2)
    targets = targets[:, : model(inputs).shape[1]]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss)
    losses = [float(model.train_on_batch(inputs, targets)) for _ in range(12)]
    assert min(losses[-3:]) < 0.9 * losses[0]


@pytest.mark.parametrize("name", CORE)
def test_dropout_acts_where_keras_runs_call_alone(name):  # as `fit` does on JAX
    model, inputs = example(name, dropout=0.5)
    model(inputs)
    parts = [model.call]
    if hasattr(model, "encode"):
        parts.append(model.encode)
    for part in parts:
        trained, again, plain = (
            arrays(keras.tree.flatten(part(inputs, training=training))[:1])[0]
            for training in (True, True, False)
        )
        assert np.abs(trained - plain).max() > 1e-3
        assert np.abs(trained - again).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", CORE)
@pytest.mark.usefixtures("quick_quantizing")
def test_a_quantized_model_is_saved_and_loaded(name, tmp_path):
    model, inputs = example(name)
    exact = arrays(model(inputs))[0]
    model.quantize("int8")
    quantized = arrays(model(inputs))
    assert 0 < np.abs(quantized[0] - exact).max() < 0.5
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded(inputs), quantized)


@pytest.mark.parametrize("name", CORE)
def test_attention_can_be_recorded(name):
    model, inputs = example(name)
    expected = arrays(model(inputs))
    with kt.record_attention(model) as record:
        outputs = model(inputs)
    assert_close(keras.tree.flatten(outputs), expected)
    stacks = {path.split("/")[0] for path in record}
    assert stacks <= {"encoder", "decoder"} and stacks


def test_variable_paths_are_a_contract():
    block = [f"self_attention/{part}/kernel" for part in _PROJECTIONS]
    block += ["self_attention_norm/scale", "feed_forward_norm/scale"]
    block += [f"feed_forward/{part}/kernel" for part in _FEED_FORWARD]
    cross = [f"cross_attention/{part}/kernel" for part in _PROJECTIONS]
    cross.append("cross_attention_norm/scale")

    def stack(name, parts):
        parts = [f"block_{i}/{part}" for i in range(2) for part in parts]
        return {f"{name}/{part}" for part in [*parts, "final_norm/scale"]}

    bias = "relative_attention_bias/embeddings"
    expected = {
        "translator-relative": {
            "encoder_embedding/token_embedding/embeddings",
            *stack("encoder", block),
            *stack("decoder", block + cross),
            f"encoder/encoder_bias/{bias}",
            f"decoder/decoder_bias/{bias}",
        },
        "language-rotary": {
            "embedding/token_embedding/embeddings",
            "head/projection/kernel",
            *stack("decoder", [*block, "feed_forward/gate/kernel"]),
        },
    }
    for name, paths in expected.items():
        model, _ = example(name, name="model")
        assert {w.path.removeprefix("model/") for w in model.weights} == paths
    model, _ = example("masked-learned", name="model")
    found = {w.path.removeprefix("model/") for w in model.weights}
    assert {path for path in found if not path.startswith("encoder/")} == {
        "embedding/token_embedding/embeddings",
        "embedding/position_embedding/embeddings",
        "embedding/segment_embedding/embeddings",
        *(f"embedding/embedding_norm/{w}" for w in ("gamma", "beta")),
        *(f"head_norm/{w}" for w in ("gamma", "beta")),
        *(f"head_dense/{w}" for w in ("kernel", "bias")),
        "head/bias",
    }
    model, _ = example("encoder-learned", name="model")
    assert {"model/pooler/kernel", "model/pooler/bias"} <= {
        w.path for w in model.weights
    }
    model, _ = example("translator-rotary", name="model")
    assert "model/decoder_embedding/token_embedding/embeddings" in {
        w.path for w in model.weights
    }


_PROJECTIONS = ("query", "key", "value", "attention_output")
_FEED_FORWARD = ("intermediate", "feed_forward_output")


def test_the_names_inside_saved_files_are_a_contract(tmp_path):
    tops = {
        "language-rotary": {"decoder", "embedding", "head"},
        "translator-relative": {"decoder", "encoder", "decoder_embedding"},
        "encoder-learned": {"encoder", "embedding", "first_token_pooler"},
        "masked-learned": {"encoder", "embedding", "head", "head_dense", "head_norm"},
    }
    for name, wanted in tops.items():
        model, _ = example(name)
        model.save_weights(tmp_path / "model.weights.h5")
        found = set()
        with h5py.File(tmp_path / "model.weights.h5") as file:
            file.visititems(
                lambda path, item, found=found: (
                    found.add(path.split("/")[0]) if hasattr(item, "shape") else None
                )
            )
        assert found == wanted


def test_padding_changes_no_vector_of_an_encoder():
    for name in ("encoder-learned", "encoder-rotary"):
        model, _ = example(name)
        ids = random_ids(4)
        gaps = np.array([[0, *ids[:2], 0, 0, *ids[2:], 0]])
        alone = arrays(run(model, "__call__", ids[None]))
        outputs = run(model, "__call__", gaps)
        tokens = array(outputs["sequence_output"])[0][gaps[0] > 0]
        assert_close(tokens, alone[-1][0])
        counting, _ = example(name, count_padding=True)
        counted = array(run(counting, "__call__", gaps)["sequence_output"])[0][
            gaps[0] > 0
        ]
        assert np.abs(counted - alone[-1][0]).max() > 1e-3
        slots = run(counting, "__call__", gaps[:, :2])["sequence_output"]
        assert np.isfinite(array(slots)).all()


SIZES = dict(
    vocabulary_size=VOCABULARY, num_layers=1, embed_dim=8, num_heads=2, dense_dim=12
)


@pytest.mark.parametrize(
    "model_class, settings, message",
    [
        (kt.LanguageModel, dict(causal=False), "has no setting 'causal'.*dropout"),
        (kt.LanguageModel, dict(heads=2), "has no setting 'heads'"),
        (kt.LanguageModel, dict(stop_id=13), "`stop_id` must be an id below"),
        (kt.LanguageModel, dict(positions="rope"), "`positions` must be one of"),
        (kt.LanguageModel, dict(vocabulary_size=0), "`vocabulary_size` must be"),
        (kt.Seq2SeqTransformer, dict(position_bias=None), "no setting 'position_b"),
        (kt.Seq2SeqTransformer, dict(start_id=-1), "`start_id` must be"),
        (
            kt.Seq2SeqTransformer,
            dict(source_vocabulary_size=9),
            "source_vocabulary_size=9. Pass share_embeddings=False",
        ),
        (kt.TextEncoder, dict(pad_id=99), "`pad_id` must be an id below"),
        (kt.MaskedLanguageModel, dict(pooler=True), "no setting 'pooler'"),
        (kt.MaskedLanguageModel, dict(head_activation="no"), "`head_activation` must"),
    ],
)
def test_wrong_settings_are_refused(model_class, settings, message):
    with pytest.raises(ValueError, match=message):
        model_class(**{**SIZES, **settings})


def test_only_the_places_that_are_asked_for_are_predicted():
    model, inputs = example("masked-learned")
    places = np.array([[3, 0], [2, 2]])
    logits = array(model({**inputs, "mask_positions": places}))
    expected = np.take_along_axis(array(model(inputs)), places[..., None], axis=1)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_texts_beyond_the_learned_positions_are_refused_before_any_work():
    short = dict(sequence_length=4, positions="learned")
    reader = kt.TextEncoder(**SIZES, **short)
    writer = kt.LanguageModel(**SIZES, **short)
    both = kt.Seq2SeqTransformer(**SIZES, **short)
    long, fits = random_ids(1, 5), random_ids(1, 4)
    for model in (reader, writer, both):
        model.build((None, None))
        assert model.position_limit == 4
    for call in (
        lambda: reader(long),
        lambda: writer(long),
        lambda: both({"encoder_token_ids": long, "decoder_token_ids": fits}),
        lambda: both({"encoder_token_ids": fits, "decoder_token_ids": long}),
        lambda: both.start({"token_ids": long}, 4),
        lambda: both.start({"token_ids": fits}, 5),
        lambda: writer.start({"token_ids": long}, 8),
        lambda: writer.start({"token_ids": fits}, 5),
    ):
        with pytest.raises(ValueError, match="`sequence_length=4`"):
            call()
    with pytest.raises(ValueError, match="at least the 4 tokens of the prompt"):
        writer.start({"token_ids": fits}, 3)
    padded = np.concatenate([np.zeros_like(fits), fits], 1)
    reader(padded)  # padding takes up no position
    masked = {"token_ids": padded, "padding_mask": padded > 0}
    both.start(masked, 4)
    writer.start(
        {**masked, "token_ids": padded[:, :6]} | {"padding_mask": padded[:, :6] > 0}, 8
    )


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({"ids": [[5]]}, "must be a dict with 'token_ids'"),
        ({"token_ids": [5]}, r"must have the shape \(batch, time\)"),
        ({"token_ids": [[5]], "padding_mask": [[True] * 2]}, "`padding_mask` must"),
    ],
)
def test_wrong_inputs_are_refused(inputs, message):
    model, _ = example("language-rotary")
    inputs = {name: np.array(value) for name, value in inputs.items()}
    with pytest.raises(ValueError, match=message):
        model(inputs)


def test_tokens_of_a_step_have_one_axis():
    model, inputs = example("language-rotary")
    state = model.start(inputs, 8)
    with pytest.raises(ValueError, match="one id a row"):
        model.step(np.array([[3], [4]]), state)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_short_learned_positions_are_no_bar_to_an_open_length(policy):
    text = keras.Input((None,), dtype="int32")
    encoder = kt.TextEncoder(VOCABULARY, 1, 8, 2, 8, sequence_length=6, dtype=policy)
    outputs = encoder(text)
    model = keras.Model(text, outputs)
    ids = random_ids(2, 6)
    for ours, expected in zip(
        keras.tree.flatten(model(ids)), keras.tree.flatten(encoder(ids)), strict=True
    ):
        assert_close(ours, expected)
    with pytest.raises(ValueError, match="7 tokens does not fit"):
        model(random_ids(2, 7))
