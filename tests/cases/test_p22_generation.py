"""P22 in generation: a cache changes no text, and beams take theirs along.

Steps against the full pass are in `tests/models/test_decoding.py`.

Sources: keras-team/keras-hub PR #2862, #750; lucidrains/x-transformers#219, #322;
rasbt/LLMs-from-scratch PR #1048; huggingface/transformers#46612; awslabs/sockeye
PR #731.
"""

import numpy as np
import pytest

from keras_transformer.generation import beam_search, generate
from models.model_examples import (
    LANGUAGE_MODELS,
    TRANSLATORS,
    language_model,
    random_ids,
    translator,
)
from models.recurrent_examples import KINDS as RECURRENT
from models.recurrent_examples import make as recurrent
from stub_models import Recomputed, log_softmax

from .examples import quick
from .helpers import array, slow_on

KINDS = [
    *[("language", position) for position in LANGUAGE_MODELS],
    *[("translator", position) for position in TRANSLATORS],
    *[("recurrent", variant) for variant in RECURRENT],
]
QUICK = [("language", "rotary"), ("translator", "relative")]
PROMPTS = [[5, 9, 4], [7], [3, 3, 8, 10, 6, 9, 4]]
LONGEST = 6


def make(kind, position):
    if kind == "recurrent":
        return recurrent(position)
    if kind == "language":
        return language_model(position, num_layers=1, stop_id=2)
    return translator(position, num_layers=1)


def full_pass(model):
    ids = random_ids(2, 5)
    if model.start_id is None:
        return array(model(ids))
    return array(model({"encoder_token_ids": ids, "decoder_token_ids": ids}))


def beams(model, inputs, **settings):
    # Small random models would only repeat themselves.
    settings = {"no_repeat_ngram_size": 1, **settings}
    settings = {"num_beams": 3, "max_new_tokens": LONGEST, **settings}
    rows = beam_search(model, inputs, **settings)
    texts = [[hypothesis.token_ids for hypothesis in row] for row in rows]
    return texts, [[hypothesis.score for hypothesis in row] for row in rows]


def score(model, prompt, text):
    """Return the log-probability of a text a token, from one full pass."""
    if model.start_id is None:
        ids = np.array([[*prompt, *text[:-1]]], "int32")
        logits = array(model(ids))[0, len(prompt) - 1 :]
    else:
        ids = np.array([[model.start_id, *text[:-1]]], "int32")
        inputs = {"encoder_token_ids": np.array([prompt]), "decoder_token_ids": ids}
        inputs["decoder_padding_mask"] = np.ones(ids.shape, bool)
        logits = array(model(inputs))[0]
    return log_softmax(logits)[np.arange(len(text)), text].mean()


def assert_alike(ours, theirs):
    assert ours[0] == theirs[0]
    for one, other in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


@slow_on("jax")
@pytest.mark.parametrize(("kind", "position"), quick(KINDS, QUICK))
def test_texts_with_a_cache_are_those_without(kind, position):
    model = make(kind, position)
    before = full_pass(model)
    slow = Recomputed(model)
    greedy = generate(model, PROMPTS, max_new_tokens=LONGEST)
    expected = generate(slow, PROMPTS, max_new_tokens=LONGEST)
    assert greedy.tolist() == expected.tolist()
    found = beams(model, PROMPTS)
    assert_alike(found, beams(slow, PROMPTS))
    # Each has its own cache: without one, its text has the same score.
    for prompt, texts, scores in zip(PROMPTS, *found, strict=True):
        expected = [score(model, prompt, text) for text in texts]
        np.testing.assert_allclose(scores, expected, atol=1e-4)
    # The beams part before their end, or it would not matter whose cache each has.
    assert any(text[:4] != texts[0][:4] for texts in found[0] for text in texts)
    # The second call begins anew, and the model is as it was.
    assert generate(model, PROMPTS, max_new_tokens=LONGEST).tolist() == greedy.tolist()
    assert_alike(beams(model, PROMPTS), found)
    np.testing.assert_array_equal(full_pass(model), before)


@pytest.mark.parametrize(("kind", "position"), quick(KINDS, QUICK[:1]))
def test_beams_of_a_batch_are_those_of_each_row_alone(kind, position):
    model = make(kind, position)
    texts, scores = beams(model, PROMPTS[:2])
    for row, prompt in enumerate(PROMPTS[:2]):
        alone = beams(model, [prompt])
        assert_alike(([texts[row]], [scores[row]]), alone)


@pytest.mark.parametrize("kind", ["language", "translator"])
def test_a_cache_longer_than_needed_changes_no_text(kind):
    model = make(kind, "sinusoidal")
    short = generate(model, PROMPTS, max_new_tokens=LONGEST, stop_ids=[])
    for longest in (17, 40):  # the next padded lengths
        longer = generate(model, PROMPTS, max_new_tokens=longest, stop_ids=[])
        assert longer[:, :LONGEST].tolist() == short.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["language", "translator"])
def test_a_single_row_has_beams_of_its_own(kind):
    # On PyTorch repeating one row made views of one memory, and writing failed.
    model = make(kind, "learned")
    for prompt in PROMPTS:
        plain = beams(model, [prompt], jit_compile=False)
        assert_alike(beams(model, [prompt]), plain)
