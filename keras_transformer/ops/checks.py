"""Refuse settings of the wrong kind or out of range, by their names."""

import re

import numpy as np


def check_integer(name: str, value, least: int = 1, most=None, optional: bool = False):
    """Return an integer of `least` to `most` as an int, and refuse all else.

    Args:
        name: Name of the argument, for the message.
        value: A Python or NumPy integer.
        least: The smallest value.
        most: The largest value; `None` for no bound.
        optional: Let `None` through.

    Raises:
        ValueError: Anything else, truth values and whole floats included.
    """
    if value is None and optional:
        return None
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if whole and value >= least and (most is None or value <= most):
        return int(value)
    wanted = "a positive integer" if least == 1 else f"an integer of at least {least}"
    if most is not None:
        wanted = f"an integer of at least {least} and at most {most}"
    raise _refusal(name, value, wanted, optional)


def check_number(
    name: str,
    value,
    *,
    at_least=None,
    above=None,
    at_most=None,
    below=None,
    optional: bool = False,
):
    """Refuse what is no finite number within the bounds.

    Raises:
        ValueError: Anything else, truth values included.
    """
    if value is None and optional:
        return
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    bounds = [
        (at_least, lambda limit: value >= limit, "of at least"),
        (above, lambda limit: value > limit, "above"),
        (at_most, lambda limit: value <= limit, "of at most"),
        (below, lambda limit: value < limit, "below"),
    ]
    bounds = [bound for bound in bounds if bound[0] is not None]
    if number and np.isfinite(value) and all(holds(x) for x, holds, _ in bounds):
        return
    words = " and ".join(f"{words} {limit}" for limit, _, words in bounds)
    raise _refusal(name, value, f"a finite number {words}".strip(), optional)


def check_id(name: str, value, size: int, size_name: str, optional: bool = True):
    """Refuse a token id that is not below the vocabulary's size; `None` may pass."""
    known = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not (value is None and optional) and not (known and 0 <= value < size):
        raise ValueError(
            f"`{name}` must be an id below `{size_name}`{', or None' * optional}. "
            f"Received: {name}={value!r}, {size_name}={size}."
        )


def check_choice(name: str, value, choices):
    """Refuse a value that is not one of `choices`."""
    if value not in choices:
        raise ValueError(
            f"`{name}` must be one of {', '.join(map(repr, choices))}. Received: "
            f"{name}={value!r}."
        )


def check_name(name: str | None):
    """Refuse a layer or model name that some backend cannot carry.

    TensorFlow fails late on Hangul and spaces, PyTorch on dots; a name that is
    accepted here works on every backend.
    """
    if name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", str(name)):
        raise ValueError(
            "`name` must consist of ASCII letters, digits, '_' and '-', and begin "
            f"with a letter or digit. Received: name={name!r}. Use such a name, and "
            "keep other scripts for titles and labels."
        )


def _refusal(name, value, wanted, optional):
    shown = name if "`" in name else f"`{name}`"  # or words around a name
    return ValueError(
        f"{shown} must be {wanted}{' or None' if optional else ''}. Received: "
        f"{name.replace('`', '')}={value!r}."
    )
