"""Tensors of a folder are compared without holding two of them."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from keras_transformer.pretrained import checkpoint
from keras_transformer.pretrained.checkpoint import Checkpoint

safetensors = pytest.importorskip("safetensors.numpy")


def write(folder, **tensors):
    safetensors.save_file(tensors, str(folder / "model.safetensors"))
    return Checkpoint(folder)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_equal_tensors_are_told_from_others_by_any_value(dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_SLICE", 6)  # two rows
    dtype = {"bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype)
    values = np.arange(15).reshape(5, 3).astype(dtype)
    others = {f"other{i}": values.copy() for i in range(5)}
    for row, other in enumerate(others.values()):
        other[row, row % 3] = 99
    found = write(
        tmp_path,
        one=values,
        same=values.copy(),
        short=values[:4].copy(),
        scalar=np.array(1.0, "float32"),
        empty=np.zeros((0, 3), "float32"),
        **others,
    )
    assert found.same("one", "same") and found.same("one", "one")
    assert found.same("scalar", "scalar") and found.same("empty", "empty")
    assert not any(found.same("one", name) for name in [*others, "short"])


def peak_of(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_comparison_holds_slices_of_two_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_SLICE", 2**14)
    table = np.random.default_rng(0).normal(size=(2**12, 2**8)).astype("float32")
    found = write(tmp_path, one=table, other=table.copy())
    found.same("one", "other")  # imports
    assert peak_of(lambda: found.same("one", "other")) < table.nbytes / 4
    assert peak_of(lambda: found.read("one")) > table.nbytes  # it is seen
