"""The layers inside a model, and those that are attention of other libraries."""

import re

import keras

PACKAGE = "keras_transformer"
# Class names of Keras and KerasHub: MultiHeadAttention, LlamaAttention,
# MultiHeadAttentionPooling, Attention2d, ...; not ComputeAttentionMask.
ATTENTION = re.compile(r"Attention(Pooling|With\w+|\d+[dD])?$")


def layer_tree(model) -> dict[str, keras.layers.Layer]:
    """Return all layers inside a model, at any depth, by their place in it.

    A place is the names on the way to the layer, joined by "/", as its path is;
    but a path begins at the model in which the layer was built, a place always at
    `model`. A layer that stands at several places is named by the first.
    """
    places, seen = {}, {id(model)}

    def visit(layer, place):
        for child in _children(layer):
            if id(child) in seen:
                continue
            seen.add(id(child))
            below = f"{place}/{child.name}" if place else child.name
            places[_unused(below, places)] = child
            visit(child, below)

    visit(model, "")
    return places


def foreign_attention(model) -> list[str]:
    """Return the places of the attention layers that are not of this library.

    They are known by their classes' names, as in `keras.layers` and `keras_hub`. A
    layer that is made of attention layers is not one itself.
    """
    layers = {model.name: model} if _is_foreign(model) else layer_tree(model)
    return [place for place, layer in layers.items() if _is_foreign(layer)]


def _is_foreign(layer):
    if not _is_attention(layer) or any(
        c.__module__.split(".")[0] == PACKAGE for c in type(layer).__mro__
    ):
        return False
    return not any(map(_is_attention, layer_tree(layer).values()))


def _is_attention(layer):
    return any(ATTENTION.search(c.__name__) for c in type(layer).__mro__)


def _children(layer):
    attributes = dict(vars(layer))
    attributes.update(attributes.get("_modules") or {})  # PyTorch keeps them here
    # A functional model names its layers; others hold them as attributes.
    yield from _layers_in(getattr(layer, "layers", None))
    for value in attributes.values():
        yield from _layers_in(value)


def _layers_in(value):
    if isinstance(value, keras.layers.Layer):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _layers_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _layers_in(item)


def _unused(name, names):
    """Return the name, with a number if it is taken."""
    number, free = 1, name
    while free in names:
        number += 1
        free = f"{name} ({number})"
    return free
