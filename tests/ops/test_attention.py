import keras
import numpy as np
import pytest
from keras import ops

from cases.helpers import array, assert_close
from keras_transformer.ops import attention, backend, masks

RNG = np.random.default_rng(0)
B, T, S, N, K, H = 2, 3, 5, 4, 2, 6
QUERY = RNG.normal(size=(B, T, N, H)).astype("float32")
KEY = RNG.normal(size=(B, S, K, H)).astype("float32")
VALUE = RNG.normal(size=(B, S, K, H)).astype("float32")
PADDING = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "bool")[:, None, None, :]
BIAS = RNG.normal(size=(1, N, T, S)).astype("float32")


@pytest.fixture
def kernel_calls(monkeypatch):
    """Counts the calls of the backend's fused kernel."""
    calls, kernel = [], ops.dot_product_attention

    def spy(*args, **kwargs):
        calls.append(kwargs)
        return kernel(*args, **kwargs)

    monkeypatch.setattr(ops, "dot_product_attention", spy)
    return calls


def naive(query, key, value, scale, mask=None, bias=None):
    """One query of one head after the other."""
    outputs, weights = np.zeros((B, T, N, H)), np.zeros((B, N, T, S))
    for b, t, n in np.ndindex(B, T, N):
        k = n * key.shape[2] // N
        scores = key[b, :, k] @ query[b, t, n] * scale
        scores = scores + (0 if bias is None else bias[0, n, t])
        allowed = np.ones(S, "bool")
        if mask is not None:
            allowed = np.broadcast_to(mask, (B, N, T, S))[b, n, t]
        if allowed.any():
            exponents = np.exp(scores - scores[allowed].max()) * allowed
            weights[b, n, t] = exponents / exponents.sum()
        outputs[b, t, n] = weights[b, n, t] @ value[b, :, k]
    return outputs, weights


CASES = {
    "nothing": {},
    "padding": dict(mask=PADDING),
    "rows": dict(mask=RNG.random((B, 1, T, S)) > 0.5),
    "heads": dict(mask=RNG.random((B, N, T, S)) > 0.5),
    "bias": dict(bias=BIAS),
    "padding and bias": dict(mask=PADDING, bias=BIAS),
    "nothing allowed": dict(mask=np.zeros((B, 1, 1, S), "bool"), bias=BIAS),
    "scale": dict(scale=1.0),
}


@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("case", CASES)
def test_both_paths_equal_the_equation(case, key_heads, kernel_calls):
    key, value = (np.repeat(x, 2, 2)[:, :, :key_heads] for x in (KEY, VALUE))
    settings = CASES[case]
    expected, weights = naive(
        QUERY, key, value, **{"scale": 1 / np.sqrt(H), **settings}
    )
    tensors = [ops.convert_to_tensor(x) for x in (QUERY, key, value)]
    settings = {
        k: v if k == "scale" else ops.convert_to_tensor(v) for k, v in settings.items()
    }
    fused, none = attention.attend(*tensors, **settings)
    assert none is None and len(kernel_calls) == 1
    explicit, got = attention.attend(*tensors, **settings, return_weights=True)
    assert len(kernel_calls) == 1
    for ours, wanted in ((fused, expected), (explicit, expected), (got, weights)):
        assert_close(ours, wanted.astype("float32"))


@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("case", CASES)
def test_one_query_is_answered_as_it_is_among_others(case, key_heads):
    key, value = np.random.normal(size=(2, B, S, key_heads, H)).astype("float32")
    expected, _ = attention.attend(QUERY, key, value, **CASES[case])
    for t in range(T):
        settings = {
            name: x[:, :, t : t + 1] if np.ndim(x) and x.shape[2] == T else x
            for name, x in CASES[case].items()
        }
        for more in ({}, {"return_weights": True}):
            query = QUERY[:, t : t + 1]
            outputs, _ = attention.attend(query, key, value, **settings, **more)
            assert_close(array(outputs), array(expected)[:, t : t + 1], atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"return_weights": True}])
def test_arrays_are_taken_as_tensors_are(settings):
    arrays = {"mask": PADDING, "bias": BIAS}
    ours, _ = attention.attend(QUERY, KEY, VALUE, **arrays, **settings)
    expected, _ = naive(QUERY, KEY, VALUE, 1 / np.sqrt(H), **arrays)
    assert_close(ours, expected.astype("float32"))


FEW_KEYS = {"jax": 319, "tensorflow": 15}  # on a CPU, where they have no kernel


@pytest.mark.parametrize("length", [15, 16, 319, 320])
def test_where_there_is_no_kernel_many_keys_take_the_explicit_path(
    length, kernel_calls
):
    few = FEW_KEYS.get(keras.backend.backend(), 320)
    taken = backend.has_accelerator() or length <= few
    query = ops.convert_to_tensor(QUERY)
    key = ops.convert_to_tensor(RNG.normal(size=(B, length, K, H)).astype("float32"))
    outputs, _ = attention.attend(query, key, key)
    assert len(kernel_calls) == taken
    explicit, _ = attention.attend(query, key, key, return_weights=True)
    assert_close(outputs, explicit)


def test_causal_is_the_causal_mask():
    tensors = [ops.convert_to_tensor(x) for x in (QUERY, KEY, VALUE)]
    mask = masks.causal_mask(T, S)
    for more in ({}, dict(bias=ops.convert_to_tensor(BIAS))):
        expected, _ = attention.attend(*tensors, mask=mask, **more)
        assert_close(attention.attend(*tensors, causal=True, **more)[0], expected)
        outputs, weights = attention.attend(
            *tensors, causal=True, return_weights=True, **more
        )
        assert_close(outputs, expected)
        assert (array(weights)[..., ~array(mask)[0, 0]] == 0).all()


def test_one_head_needs_no_heads_axis():
    query, key, value = (ops.convert_to_tensor(x[:, :, 0]) for x in (QUERY, KEY, VALUE))
    mask = ops.convert_to_tensor(np.broadcast_to(PADDING[:, 0], (B, T, S)))
    outputs, weights = attention.attend(
        query, key, value, mask=mask, return_weights=True
    )
    assert outputs.shape == (B, T, H) and weights.shape == (B, T, S)
    headed, _ = attention.attend(
        *(x[:, :, None] for x in (query, key, value)), mask=mask[:, None]
    )
    assert_close(outputs, headed[:, :, 0])


def test_a_score_function_replaces_the_dot_product():
    query, key, value = (ops.convert_to_tensor(x[:, :, 0]) for x in (QUERY, KEY, VALUE))
    weight = ops.convert_to_tensor(RNG.normal(size=H).astype("float32"))

    def score(query, key):
        return attention.additive_scores(query, key, weight)

    _, weights = attention.attend(query, key, value, score=score, return_weights=True)
    scores = np.tanh(QUERY[:, :, None, 0] + KEY[:, None, :, 0]) @ array(weight)
    exponents = np.exp(scores)
    assert_close(weights, (exponents / exponents.sum(-1, keepdims=True)))


def test_concat_scores_multiply_the_concatenation():
    query, key = QUERY[:, :, 0], KEY[:, :, 0, :4]
    kernel, weight = RNG.normal(size=(H + 4, 3)), RNG.normal(size=3)
    pairs = np.concatenate(
        [
            np.broadcast_to(query[:, :, None], (B, T, S, H)),
            np.broadcast_to(key[:, None], (B, T, S, 4)),
        ],
        -1,
    )
    tensors = (
        ops.convert_to_tensor(x, "float32") for x in (query, key, kernel, weight)
    )
    assert_close(
        attention.concat_scores(*tensors),
        (np.tanh(pairs @ kernel) @ weight).astype("float32"),
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_softmax_is_taken_in_float32(dtype):
    # 300 and 301 are the same number in bfloat16 after the addition of a bias.
    scores = ops.convert_to_tensor([[[[0.0, 0.0]]]], dtype)
    value = ops.convert_to_tensor([[[[0.0]], [[1.0]]]], dtype)
    outputs, _ = attention.attend(
        None,
        None,
        value,
        score=lambda *_: scores,
        bias=ops.convert_to_tensor([[[[300.0, 301.0]]]], "float32"),
    )
    assert abs(float(array(outputs).item()) - 1 / (1 + np.exp(-1))) < 5e-3


def test_float16_runs_without_an_accelerator():
    tensors = [ops.convert_to_tensor(x, "float16") for x in (QUERY, KEY, VALUE)]
    outputs, _ = attention.attend(*tensors, mask=ops.convert_to_tensor(PADDING))
    expected, _ = naive(QUERY, KEY, VALUE, 1 / np.sqrt(H), PADDING)
    assert keras.backend.standardize_dtype(outputs.dtype) == "float16"
    np.testing.assert_allclose(array(outputs), expected, atol=2e-2)


@pytest.mark.parametrize("weights", [False, True])
def test_a_masked_key_never_wins_over_a_low_score(weights):
    query = ops.convert_to_tensor([[[1e5, 0.0]]])
    key = ops.convert_to_tensor([[[-1e5, 0.0], [-9e4, 0.0]]])
    mask = ops.convert_to_tensor([[[True, False]]])
    value = ops.convert_to_tensor([[[1.0, 0.0], [0.0, 1.0]]])
    outputs, _ = attention.attend(
        query, key, value, scale=1.0, mask=mask, return_weights=weights
    )
    assert array(outputs).tolist() == [[[1.0, 0.0]]]


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_a_bias_of_minus_infinity_hides_as_a_mask_does(weights, masked):
    tensors = [ops.convert_to_tensor(x) for x in (QUERY, KEY, VALUE)]
    seen = np.tri(T, S, 0, dtype="bool")[None, None]
    padding = np.array([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]], "bool")[:, None, None, :]
    mask = ops.convert_to_tensor(padding) if masked else None
    bias = ops.convert_to_tensor(np.where(seen, 0.0, -np.inf).astype("float32"))
    outputs, _ = attention.attend(
        *tensors, mask=mask, bias=bias, return_weights=weights
    )
    both = seen & padding if masked else seen
    expected, _ = naive(QUERY, KEY, VALUE, 1 / np.sqrt(H), both)
    assert_close(outputs, expected.astype("float32"))
    assert not masked or (array(outputs)[0, 0] == 0).all()
