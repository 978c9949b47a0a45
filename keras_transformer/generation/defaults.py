"""The settings of generation that a model brings along."""

from dataclasses import fields

from keras_transformer.generation.beam_search import Beams
from keras_transformer.generation.sampling import Sampling

_CALLS_OWN = ("processors", "seed")


def check_defaults(settings: dict | None) -> dict | None:
    """Refuse settings that neither `generate` nor `beam_search` has.

    Args:
        settings: Name -> value, plain data that can be saved.

    Raises:
        ValueError: An unknown name, or a value out of range.
    """
    if settings is None:
        return None
    if not isinstance(settings, dict):
        raise ValueError(
            f"`generation` must be a dict of settings. Received: {settings!r}."
        )
    kinds = {kind: {field.name for field in fields(kind)} for kind in (Sampling, Beams)}
    known = sorted(set().union(*kinds.values()) - set(_CALLS_OWN))
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ValueError(
            "`generation` has settings that no search knows: "
            f"{', '.join(map(repr, unknown))}. Remove them. Known are "
            f"{', '.join(known)}."
        )
    for kind, names in kinds.items():
        kind(**{name: value for name, value in settings.items() if name in names})
    return {
        name: list(value) if isinstance(value, (list, tuple)) else value
        for name, value in settings.items()
    }
