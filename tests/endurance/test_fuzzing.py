"""Settings drawn at random: the laws that hold for each alone hold for all together."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from cases.helpers import array, assert_close, randomize
from keras_transformer.generation import beam_search, generate
from stub_models import random_table, table_model

pytestmark = pytest.mark.slow
STOP = 4
TABLE = random_table(6, seed=5, number=997)


def draw(rng, **choices):
    """Draw one value of each setting."""
    return {name: values[rng.integers(len(values))] for name, values in choices.items()}


def random_stack(rng):
    """A causal stack of random settings, with random weights."""
    settings = draw(
        rng,
        num_layers=[1, 2],
        key_dim=[None, 2, 6],
        num_key_value_heads=[None, 1, 2],
        activation=["relu", "gelu", "silu"],
        gated=[True, False],
        norm=["layer", "rms"],
        normalize_first=[True, False],
        final_norm=[None, True, False],
        use_bias=[True, False],
        attention_scale=[None, 0.3],
        sliding_window=[None, 1, 3],
        dropout=[0.0, 0.2],
    )
    plugs = [
        {},
        {"rotary": kt.RotaryEmbedding()},
        {"rotary": kt.RotaryEmbedding(layout="interleaved")},
        {"position_bias": kt.AlibiBias(4, name="bias")},
        {"position_bias": kt.RelativePositionBias(4, bidirectional=False, name="bias")},
    ]
    settings |= plugs[rng.integers(len(plugs))]
    stack = kt.TransformerStack(
        embed_dim=8, num_heads=4, dense_dim=12, causal=True, **settings
    )
    stack.build((None, None, 8))
    return randomize(stack, seed=int(rng.integers(1000)))


def random_inputs(rng):
    """Two texts of 7, and a mask with padding anywhere but before a row's end."""
    inputs = rng.normal(size=(2, 7, 8)).astype("float32")
    mask = rng.random((2, 7)) < 0.7
    mask[:, -1] = True
    return inputs, mask


@pytest.mark.parametrize("seed", range(12))
def test_steps_of_any_size_with_a_cache_are_the_full_pass(seed, tmp_path):
    rng = np.random.default_rng(seed)
    stack = random_stack(rng)
    inputs, mask = random_inputs(rng)
    positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0).astype("int32")
    full = array(
        stack(
            ops.convert_to_tensor(inputs),
            mask=ops.convert_to_tensor(mask),
            positions=ops.convert_to_tensor(positions),
        )
    )
    cache, outputs, at = stack.create_cache(2, 9), [], 0
    while at < 7:
        stop = min(at + int(rng.integers(1, 4)), 7)
        part, cache = stack(
            ops.convert_to_tensor(inputs[:, at:stop]),
            mask=ops.convert_to_tensor(mask[:, at:stop]),
            cache=cache,
        )
        outputs.append(array(part))
        at = stop
    assert_close(np.concatenate(outputs, axis=1)[mask], full[mask], atol=1e-4)
    # What is padded may be anything, and what was saved is the same.
    other = np.where(mask[..., None], inputs, 9.0).astype("float32")
    ids = keras.Input((None, 8)), keras.Input((None,), dtype="bool")
    model = keras.Model(ids, stack(ids[0], mask=ids[1]))
    expected = model.predict([inputs, mask], verbose=0)
    changed = model.predict([other, mask], verbose=0)
    assert_close(changed[mask], expected[mask], atol=1e-4)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_close(loaded.predict([inputs, mask], verbose=0)[mask], expected[mask])


def random_prompts(rng):
    return [
        rng.integers(1, 6, size=rng.integers(1, 9)).tolist()
        for _ in range(rng.integers(1, 5))
    ]


def random_search(rng):
    return draw(
        rng,
        max_new_tokens=[1, 5, 20],
        min_new_tokens=[0, 3],
        repetition_penalty=[1.0, 1.3, 0.8],
        no_repeat_ngram_size=[0, 1, 2, 3],
        stop_ids=[None, [STOP], [STOP, 2], []],
        suppress_tokens=[[], [3]],
    )


@pytest.mark.parametrize("seed", range(20))
def test_compiled_searches_of_any_settings_are_the_plain_ones(seed):
    rng = np.random.default_rng(seed)
    model = table_model(TABLE, stop_id=STOP)
    prompts, settings = random_prompts(rng), random_search(rng)
    settings["min_new_tokens"] = min(
        settings["min_new_tokens"], settings["max_new_tokens"]
    )
    sampling = draw(
        rng,
        temperature=[0.0, 0.5, 1.5],
        top_k=[None, 1, 3],
        top_p=[1.0, 0.6],
        seed=[0, 7],
    )
    if sampling["temperature"] == 0.0:
        sampling = {}
    one, other = (
        generate(model, prompts, jit_compile=compiled, **settings, **sampling).tolist()
        for compiled in (True, False)
    )
    assert one == other
    beams = draw(
        rng,
        num_beams=[1, 2, 4],
        length_penalty=[0.6, 1.0, 2.0],
        early_stopping=[True, False],
    )
    one, other = (
        beam_search(model, prompts, jit_compile=compiled, **settings, **beams)
        for compiled in (True, False)
    )
    for rows in zip(one, other, strict=True):
        texts, plain = ([h.token_ids for h in row] for row in rows)
        assert texts == plain
        scores, expected = ([h.score for h in row] for row in rows)
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)
