"""Embeddings, blocks, final norms and masks are those of transformers."""

import keras
import numpy as np
import pytest
from tiny_checkpoints import CHECKPOINTS, inputs, load, main, run, valid

import keras_transformer as kt
from cases.helpers import array, assert_close
from cases.helpers import run as run_ours
from keras_transformer.layers.transformer_stack import TransformerStack
from keras_transformer.ops.backend import compiled

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")


def hidden_states(model, batch):
    """Return of each stack: the embedding's outputs, and those of its blocks.

    The last block's give way to those of the stack, with its final norm.
    """
    kinds = []

    def collect(batch):
        kinds.clear()
        found = []

        def recording(call, kind):
            def record(self, *args, **kwargs):
                outputs = call(self, *args, **kwargs)
                kinds.append(kind)
                found.append(outputs)
                return outputs

            return record

        with pytest.MonkeyPatch.context() as patch:
            for kind in (kt.PositionalEmbedding, kt.TransformerBlock, TransformerStack):
                patch.setattr(kind, "call", recording(kind.call, kind))
            model(batch)
        return found

    if keras.backend.backend() == "jax":
        collect = compiled(collect, model)
    stacks = []
    for kind, states in zip(kinds, collect(batch), strict=True):
        if kind is kt.PositionalEmbedding:
            stacks.append([array(states)])
        elif kind is kt.TransformerBlock:
            stacks[-1].append(array(states))
        else:
            stacks[-1][-1] = array(states)
    return stacks


@pytest.mark.parametrize("key", CHECKPOINTS)
def test_every_hidden_state_equals_that_of_transformers(key, tmp_path):
    theirs, ours = load(key, tmp_path)
    batch = inputs(key, theirs)
    expected = run(theirs, batch, output_hidden_states=True)
    names = ("encoder_hidden_states", "decoder_hidden_states", "hidden_states")
    expected = [getattr(expected, name) for name in names if name in expected]
    found = hidden_states(ours, batch)
    assert list(map(len, found)) == list(map(len, expected))
    assert len(found[0]) == 3 and len(found) == 1 + ("decoder_token_ids" in batch)
    mask = batch.get("padding_mask", batch.get("encoder_padding_mask"))
    for number, stacks in enumerate(zip(found, expected, strict=True)):
        for states, other in zip(*stacks, strict=True):
            other = other.numpy()
            if number == 0:
                states, other = states[mask], other[mask]
            assert_close(states, other, atol=2e-5)


MIDDLE = ("bert", "distilbert", "roberta-masked", "gpt2", "llama", "t5", "bart")


@pytest.mark.parametrize("key", [*MIDDLE, "marian"])
def test_padding_in_the_middle_counts_as_in_transformers(key, tmp_path):
    theirs, ours = load(key, tmp_path)
    batch = inputs(key, theirs)
    name = "encoder_token_ids" if "encoder_token_ids" in batch else "token_ids"
    mask = np.ones((2, 7), bool)
    mask[0, 2], mask[1, :2], mask[1, 4] = False, False, False
    ids = np.random.default_rng(3).integers(3, 18, (2, 7)).astype("int32")
    batch[name] = np.where(mask, ids, theirs.config.pad_token_id or 0)
    batch[name.replace("token_ids", "padding_mask")] = mask
    more = {}
    if key in ("gpt2", "llama"):  # there padding counts, unless told otherwise
        places = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
        more["position_ids"] = torch.tensor(places)
    expected = main(run(theirs, batch, **more))
    found = main(run_ours(ours, "__call__", batch))
    assert_close(valid(found, batch), valid(expected, batch), atol=2e-5)


@pytest.mark.parametrize("key", ["t5", "bart", "marian"])
def test_padding_among_the_targets_is_hidden(key, tmp_path):
    theirs, ours = load(key, tmp_path)
    batch = inputs(key, theirs)
    whole = batch["decoder_token_ids"]
    expected = main(run(theirs, batch))
    # Targets are as they were, but for one more token in the middle, hidden.
    padded = np.insert(whole, 2, 9, axis=1)
    mask = np.arange(6) != np.full((2, 1), 2)
    batch |= {"decoder_token_ids": padded, "decoder_padding_mask": mask}
    found = main(run_ours(ours, "__call__", batch))
    assert_close(found[mask], expected.reshape(-1, expected.shape[-1]), atol=2e-5)
    # On the right, and for T5, whose positions are relative, on the left.
    for row, hidden in ((0, slice(4, None)), (1, slice(0, 2 if key == "t5" else 0))):
        mask = np.ones((2, 5), bool)
        mask[row, hidden] = False
        batch |= {"decoder_token_ids": whole, "decoder_padding_mask": mask}
        expected = main(run(theirs, batch))
        found = main(run_ours(ours, "__call__", batch))
        assert_close(valid(found, batch), valid(expected, batch), atol=2e-5)
