"""Recorded weights are those that transformers gives as `output_attentions`."""

import numpy as np
import pytest
from tiny_checkpoints import inputs, make, run

import keras_transformer as kt

transformers = pytest.importorskip("transformers")
pytest.importorskip("torch")


def both(key, folder):
    """Return a model of transformers that keeps its weights, and ours."""
    theirs = make(key)
    theirs.save_pretrained(folder)
    # Their fast kernels give no weights.
    theirs.set_attn_implementation("eager")
    return theirs, kt.from_pretrained(folder, tokenizer=False)[0]


def recorded(model, batch):
    with kt.record_attention(model) as record:
        model(batch)
    assert record.not_recorded == []
    return record


def assert_equal_where_valid(ours, theirs, queries, keys):
    """Compare all layers; `queries` and `keys` are masks (B, T) and (B, S)."""
    assert len(ours) == len(theirs) > 0
    for (weights,), expected in zip(ours, theirs, strict=True):
        expected = expected.numpy()
        assert weights.shape == expected.shape
        for row, real in enumerate(queries):
            np.testing.assert_allclose(
                weights[row][:, real], expected[row][:, real], atol=1e-5
            )
            assert not weights[row][:, real][..., ~keys[row]].any()
            np.testing.assert_allclose(weights[row][:, real].sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("key", ["bert", "gpt2"])
def test_padded_texts_get_the_weights_of_transformers(key, side, tmp_path):
    theirs, ours = both(key, tmp_path)
    batch = inputs(key, theirs)
    if side == "left":
        batch = {name: value[:, ::-1].copy() for name, value in batch.items()}
    mask = batch["padding_mask"]
    assert not mask.all()
    more = {}
    if (key, side) == ("gpt2", "left"):  # there padding counts, unless told otherwise
        import torch

        places = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
        more["position_ids"] = torch.tensor(places)
    expected = run(theirs, batch, output_attentions=True, **more).attentions
    record = recorded(ours, batch)
    assert_equal_where_valid(list(record.values()), expected, mask, mask)


def test_both_stacks_of_bart_get_the_weights_of_transformers(tmp_path):
    theirs, ours = both("bart", tmp_path)
    batch = inputs("bart", theirs)
    expected = run(theirs, batch, output_attentions=True)
    record = recorded(ours, batch)
    source = batch["encoder_padding_mask"]
    targets = np.ones(batch["decoder_token_ids"].shape, bool)
    for part, weights, queries, keys in (
        (
            "encoder/block_{}/self_attention",
            expected.encoder_attentions,
            source,
            source,
        ),
        (
            "decoder/block_{}/self_attention",
            expected.decoder_attentions,
            targets,
            targets,
        ),
        (
            "decoder/block_{}/cross_attention",
            expected.cross_attentions,
            targets,
            source,
        ),
    ):
        layers = [record[part.format(number)] for number in range(len(weights))]
        assert_equal_where_valid(layers, weights, queries, keys)
