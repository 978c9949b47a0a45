"""The families that can be loaded and saved.

Dropout: the rates of a config are kept, that of the attention weights apart from the
others. Not kept, with a warning, since these layers have none of their own: dropout
inside the feed-forward part and of whole layers (BART, Marian), and of GPT-2's
embedding where it is another than that of its blocks. T5 has one rate for all; here it
is not applied inside the feed-forward part.
"""

from keras_transformer.models.settings import effective_settings
from keras_transformer.pretrained.bart import Bart
from keras_transformer.pretrained.bert import Bert
from keras_transformer.pretrained.config import Config
from keras_transformer.pretrained.distilbert import DistilBert
from keras_transformer.pretrained.family import Family
from keras_transformer.pretrained.gpt2 import Gpt2
from keras_transformer.pretrained.llama import Llama
from keras_transformer.pretrained.marian import Marian
from keras_transformer.pretrained.roberta import Roberta, XlmRoberta
from keras_transformer.pretrained.t5 import T5

FAMILIES = (Bert, DistilBert, Roberta, XlmRoberta, Gpt2, Llama, T5, Bart, Marian)


def family_table() -> str:
    """Return the families as a Markdown table, read off the code.

    Example:

    >>> print(family_table().splitlines()[0])
    | model_type | architectures | becomes |
    """
    rows = [("model_type", "architectures", "becomes"), ("---", "---", "---")]
    for family in FAMILIES:
        ours = dict.fromkeys(c.__name__ for c in family.architectures.values())
        theirs = [
            f"{name} (tied head)" if name in family.headless else name
            for name in family.architectures
        ]
        rows.append((family.model_type, ", ".join(theirs), ", ".join(ours)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def find_family(config: Config) -> tuple[Family, type]:
    """Return the family of a config, and our class for its architecture.

    Raises:
        ValueError: An unknown family or architecture; it says which are known.
    """
    model_type, names = config.take("model_type"), config.take("architectures")
    for family in FAMILIES:
        if family.model_type == model_type:
            break
    else:
        known = ", ".join(family.model_type for family in FAMILIES)
        if model_type is None:
            fitting = [f for f in FAMILIES if names and names[0] in f.architectures]
            such = [f', "model_type": "{f.model_type}" for {names[0]}' for f in fitting]
            raise ValueError(
                "The config has no model_type (files of before 2020 have none). Add it "
                f"to config.json{''.join(such)}; known are {known}."
            )
        raise ValueError(
            f"The config is of the family {model_type!r}. Families that can be loaded: "
            f"{known}."
        )
    names = names or [next(iter(family.architectures))]
    model_class = family.architectures.get(names[0])
    if model_class is None:
        raise ValueError(
            f"The config is of the architecture {names[0]!r}. Of the family "
            f"{model_type!r} these can be loaded: {', '.join(family.architectures)}."
        )
    return family(), model_class


def describe(model) -> tuple[Family, dict]:
    """Find the family that a model belongs to, and write its config.

    A family fits if the settings that its config would be read as are the model's,
    with the same meaning: `num_decoder_layers=None` is the number of encoder layers.

    Raises:
        ValueError: No family fits; it says what each one lacks.
    """
    known = {
        c: c.__name__ for family in FAMILIES for c in family.architectures.values()
    }
    if type(model) not in known:
        raise ValueError(
            f"A {type(model).__name__} is of no family that transformers has. Models "
            f"that can be: {', '.join(known.values())}."
        )
    settings, reasons = effective_settings(model.get_config()), []
    for family_class in FAMILIES:
        family = family_class()
        if type(model) not in family.architectures.values():
            continue
        try:
            values = family.config(settings)
            read = family.settings(Config(dict(values)), type(model), None)
            read |= _of_the_file(model, read)
            again = effective_settings(type(model)(**read).get_config())
        except (KeyError, TypeError, ValueError) as error:
            reasons.append(f"{family.model_type}: {error}")
            continue
        odd = [
            name
            for name in settings
            if name not in _ANY and _plain(again[name]) != _plain(settings[name])
        ]
        if not odd:
            architecture = family.architecture(type(model))
            return family, {
                "architectures": [architecture],
                "model_type": family.model_type,
                **values,
            }
        shown = ", ".join(f"{name}={settings[name]!r}" for name in odd)
        reasons.append(f"{family.model_type}: {shown}")
    raise ValueError(
        f"This {type(model).__name__} is of no family that transformers has. What does "
        f"not fit: {'; '.join(reasons)}."
    )


# "generation" goes into a file of its own.
_ANY = ("name", "dtype", "trainable", "seed", "generation")


def _of_the_file(model, read):
    """Return what a config does not say, and the tensors of a file do."""
    names = ("pooler", "head_bias", "tie_head")
    return {name: getattr(model, name) for name in names if name in read}


def _plain(value):
    """Return a setting without names, which need not agree."""
    if isinstance(value, dict) and "config" in value:
        config = value["config"]
        if not isinstance(config, dict):
            return value
        return {k: v for k, v in config.items() if k not in ("name", "dtype")}
    return value
