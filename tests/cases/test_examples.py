"""The table of examples is complete: a new public layer cannot be forgotten."""

import inspect

import pytest

from .complete_examples import COMPLETE
from .examples import CORE, EXAMPLES, public_layers, quick
from .helpers import array


def test_the_examples_miss_no_public_layer():
    assert {example.layer for example in EXAMPLES.values()} == set(public_layers())


def test_the_complete_examples_miss_no_public_layer():
    assert {example.layer for example in COMPLETE.values()} == set(public_layers())


def test_the_core_examples_miss_no_public_layer():
    assert {EXAMPLES[name].layer for name in CORE} == set(public_layers())


@pytest.mark.parametrize("name", COMPLETE)
def test_the_complete_examples_change_every_constructor_argument(name):
    example = COMPLETE[name]
    given = example.arguments()
    for parameter in inspect.signature(public_layers()[example.layer]).parameters:
        if parameter in ("name", "dtype", "trainable", "kwargs"):
            continue
        assert parameter in given, f"{example.layer}: no value for {parameter!r}"
        default = inspect.signature(public_layers()[example.layer]).parameters[
            parameter
        ]
        assert given[parameter] != default.default


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_mask_argument_of_a_call_is_in_the_table(name):
    example = EXAMPLES[name]
    parameters = inspect.signature(public_layers()[example.layer].call).parameters
    masks = {
        parameter
        for parameter in parameters
        # `query_mask` hides nothing; some masks belong to inputs not given here.
        if parameter.endswith("mask") and parameter not in ("query_mask",)
    }
    masks.discard("use_causal_mask")
    if "query_mask" in parameters:
        masks.discard("mask")  # another name for it
    if not example.scores:
        return
    if len(example.inputs) == 1:
        masks -= {
            "encoder_outputs_mask",
            "encoder_padding_mask",
            "cross_attention_mask",
        }
    if name == "attention-values":
        masks -= {"key_mask"}
    assert masks <= set(example.masks)


@pytest.mark.parametrize("name", quick(EXAMPLES))
def test_every_example_runs(name):
    example = EXAMPLES[name]
    result = example.make()(*example.arrays())
    if isinstance(example.output, str):
        assert array(result).size
    else:
        assert set(result) == set(example.output)
