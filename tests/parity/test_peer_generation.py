"""Searches against those of transformers, token for token, on the same models.

A tiny random GPT-2 or Marian of theirs is wrapped: each step runs it on all tokens.
So only the search is compared, in its plain loop, on every backend.
"""

import keras
import numpy as np
import pytest
from keras import ops

from cases.examples import quick
from cases.helpers import slow_on
from keras_transformer.generation import beam_search, generate

STOP, PAD, VOCABULARY, LONGEST = 2, 0, 13, 9
PROMPTS = [[5, 9, 4], [7], [3, 8, 3, 10, 6, 9, 4]]


class Wrapped(keras.Model):
    """A model of theirs with `start` and `step`."""

    def __init__(self, theirs):
        super().__init__()
        # In a function, or PyTorch's part of Keras would take it for a layer.
        self.theirs = lambda: theirs
        self.vocabulary_size, self.pad_id, self.stop_id = VOCABULARY, PAD, STOP
        self.start_id = getattr(theirs.config, "decoder_start_token_id", None)
        self.position_limit = None

    def start(self, inputs, max_length):
        empty = np.zeros((len(inputs["token_ids"]), 0), "int32")
        source, mask = inputs["token_ids"], inputs["padding_mask"]
        state = {"source": source, "source_mask": mask}
        if self.start_id is None:
            return {**state, "ids": source, "mask": mask}
        return {**state, "ids": empty, "mask": empty.astype(bool)}

    def step(self, tokens, state):
        import torch

        values = {name: ops.convert_to_numpy(leaf) for name, leaf in state.items()}
        last = ops.convert_to_numpy(tokens)[:, None]
        ids = np.concatenate([values["ids"], last], axis=1)
        mask = np.concatenate([values["mask"], np.ones_like(last, bool)], axis=1)
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self.start_id is None:
            inputs["position_ids"] = np.maximum(mask.cumsum(axis=1) - 1, 0)
        else:
            inputs = {
                "input_ids": values["source"],
                "attention_mask": values["source_mask"],
                "decoder_input_ids": ids,
            }
        inputs = {name: torch.tensor(x.astype("int64")) for name, x in inputs.items()}
        with torch.no_grad():
            logits = self.theirs()(**inputs).logits[:, -1].numpy()
        return ops.convert_to_tensor(logits), {**state, "ids": ids, "mask": mask}


@pytest.fixture(scope="module", params=["gpt2", "marian"])
def theirs(request):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    common = dict(
        vocab_size=VOCABULARY,
        pad_token_id=PAD,
        eos_token_id=STOP,
        bos_token_id=1,
        attn_implementation="eager",
    )
    if request.param == "gpt2":
        config = transformers.GPT2Config(
            n_positions=64, n_embd=8, n_layer=1, n_head=2, **common
        )
        model = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.MarianConfig(
            d_model=8,
            encoder_layers=1,
            decoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            encoder_ffn_dim=12,
            decoder_ffn_dim=12,
            max_position_embeddings=64,
            decoder_start_token_id=1,
            forced_eos_token_id=None,
            **common,
        )
        model = transformers.MarianMTModel(config)
    # Seeds whose texts end at different lengths.
    seed = {"gpt2": 0, "marian": 6}[request.param]
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.requires_grad and "ln" not in name and "norm" not in name:
            values = torch.randn(weight.shape, generator=generator)
            weight.data = values * (0.5 if weight.ndim > 1 else 0.3)
    return model.eval()


def ask(theirs, num_beams, **settings):
    """Return `[(text, score), ...]` of each row from their `generate`."""
    if "no_repeat_ngram_size" in settings:  # theirs count the padding's n-grams
        batches = [[prompt] for prompt in PROMPTS]
    else:
        batches = [PROMPTS]
    return [
        row
        for prompts in batches
        for row in answer(theirs, prompts, num_beams, **settings)
    ]


def answer(theirs, prompts, num_beams, **settings):
    import torch

    width = max(map(len, prompts))
    rows = [[*[PAD] * (width - len(row)), *row] for row in prompts]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in prompts]
    if theirs.config.is_encoder_decoder:  # theirs count padding as positions
        rows = [[*row, *[PAD] * (width - len(row))] for row in prompts]
        mask = [[1] * len(row) + [0] * (width - len(row)) for row in prompts]
        width = 1
    settings.setdefault("eos_token_id", STOP)
    found = theirs.generate(
        torch.tensor(rows),
        attention_mask=torch.tensor(mask),
        num_beams=num_beams,
        num_return_sequences=num_beams,
        do_sample=False,
        max_new_tokens=LONGEST,
        pad_token_id=PAD,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )
    stops = np.atleast_1d(settings["eos_token_id"])
    texts = found.sequences[:, width:].numpy()
    pairs = []
    for row, text in enumerate(texts.tolist()):
        end = [place for place, token in enumerate(text) if token in stops]
        pairs.append([text[: end[0] + 1] if end else text])
        if num_beams > 1:
            pairs[-1].append(found.sequences_scores[row].item())
        else:  # the mean of what they call transition scores
            each = theirs.compute_transition_scores(
                found.sequences, found.scores, normalize_logits=True
            )
            pairs[-1].append(each[row, : len(pairs[-1][0])].mean().item())
    return [pairs[i : i + num_beams] for i in range(0, len(pairs), num_beams)]


def assert_same_search(theirs, num_beams, stop_ids=None, **settings):
    ours = Wrapped(theirs)
    asked = {} if stop_ids is None else {"eos_token_id": stop_ids}
    expected = ask(theirs, num_beams, **asked, **settings)
    settings = {
        **settings,
        "stop_ids": stop_ids,
        "max_new_tokens": LONGEST,
        "jit_compile": False,
    }
    if num_beams == 1:
        found = generate(ours, PROMPTS, **settings).tolist()
        for row, ((text, _),) in zip(found, expected, strict=True):
            assert row == [*text, *[PAD] * (len(row) - len(text))]
    found = beam_search(ours, PROMPTS, num_beams=num_beams, **settings)
    for row, pairs in zip(found, expected, strict=True):
        assert [hypothesis.token_ids for hypothesis in row] == [t for t, _ in pairs]
        np.testing.assert_allclose(
            [hypothesis.score for hypothesis in row], [s for _, s in pairs], atol=1e-4
        )
    return expected


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
@pytest.mark.parametrize("num_beams", quick([2, 3, 5], [3]))
def test_beams_are_theirs(theirs, num_beams, early_stopping):
    for length_penalty in (0.6, 1.0, 2.0):
        assert_same_search(
            theirs,
            num_beams,
            length_penalty=length_penalty,
            early_stopping=early_stopping,
        )


SETTINGS = [
    {},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 3},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.7},
    {"min_new_tokens": 5},
    {"stop_ids": [2, 6, 9]},
    {
        "min_new_tokens": 3,
        "repetition_penalty": 1.5,
        "no_repeat_ngram_size": 2,
        "stop_ids": [2, 6],
    },
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("num_beams", quick([1, 2, 5], [1, 5]))
def test_processors_are_theirs(theirs, num_beams, settings):
    assert_same_search(theirs, num_beams, **settings)


@slow_on("jax")
def test_the_texts_compared_are_of_many_kinds(theirs):
    # Some end and some do not, and the settings matter.
    texts = {str(s): assert_same_search(theirs, 3, **s) for s in SETTINGS}
    plain = [text for row in texts["{}"] for text, _ in row]
    assert len({len(text) for text in plain}) > 2
    differing = [name for name, rows in texts.items() if rows != texts["{}"]]
    assert len(differing) >= 6
