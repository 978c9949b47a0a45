"""Refuse numbers that are none, or out of range."""

import numpy as np


def check_count(name: str, value, least: int = 0):
    """Refuse a number that is no integer of at least `least`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(
            f"`{name}` must be an integer of at least {least}. Received: "
            f"{name}={value!r}."
        )


def check_number(
    name: str, value, *, at_least=None, above=None, at_most=None, optional=False
):
    """Refuse a number outside its range."""
    if value is None and optional:
        return
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    bounds = [
        (at_least, lambda x: x >= at_least, "of at least"),
        (above, lambda x: x > above, "above"),
        (at_most, lambda x: x <= at_most, "of at most"),
    ]
    bounds = [bound for bound in bounds if bound[0] is not None]
    finite = number and np.isfinite(value)
    if not finite or not all(holds(value) for _, holds, _ in bounds):
        wanted = " and ".join(f"{words} {limit}" for limit, _, words in bounds)
        wanted = f"a finite number {wanted}".strip()
        raise ValueError(f"`{name}` must be {wanted}. Received: {name}={value!r}.")
