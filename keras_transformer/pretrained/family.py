"""What a family of checkpoints has to say: its settings and its weight map."""

import re
from types import MappingProxyType

from keras_transformer.pretrained.config import Config
from keras_transformer.pretrained.weight_map import Rule


class Family:
    """One `model_type` of Hugging Face's configs; subclasses are tables.

    Attributes:
        model_type: Its name in `config.json`.
        architectures: Their class -> ours. The first of each of ours is what
            `save_pretrained` writes.
        renamed: Old names among `architectures` -> what transformers has today.
        headless: Those of `architectures` whose files have no head: they are loaded
            if the config ties it to the embedding.
        prefix: What names of a bare model have before them in a model with a head.
        heads: Beginnings of the names that stand beside that prefix.
        renames: Old names: (pattern, replacement).
        ignored: Patterns of tensors that are no weights, or of other heads.
        generation: What their config class says of generation by default.
    """

    model_type = ""
    architectures: dict[str, type] = {}
    renamed: dict[str, str] = MappingProxyType({})
    headless: tuple[str, ...] = ()
    prefix = ""
    heads: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    generation: dict = MappingProxyType({})

    def settings(self, config: Config, model_class, checkpoint) -> dict:
        """Return the arguments of our model after a config, and take all of it.

        Args:
            config: The settings.
            model_class: Our class, after `architectures`.
            checkpoint: With `shapes` by name, for parts that may be there or not;
                `None` if there are only settings.
        """
        raise NotImplementedError

    def config(self, settings: dict) -> dict:
        """Return the config after the settings (`get_config`) of our model."""
        raise NotImplementedError

    def tie_head(self, config, checkpoint, default: bool) -> bool:
        """Return whether the head is the token table; a missing one must be."""
        tied = config.require("tie_word_embeddings", default, not default)
        name = (config.values.get("architectures") or [""])[0]
        if not tied and name in self.headless and not has(checkpoint, "lm_head.weight"):
            raise ValueError(
                f"The architecture {name!r} has no head, and the config does not tie "
                "one (`tie_word_embeddings` is false): nothing says how the model "
                f"predicts. Take a checkpoint of {next(iter(self.architectures))!r}, "
                "or set `tie_word_embeddings` to true in its config.json if the head "
                "is the embedding."
            )
        return tied

    def rules(self, model) -> list[Rule]:
        """Return the weight map of a model, names without prefix."""
        raise NotImplementedError

    def tied(self, model) -> dict[str, str]:
        """Return tensors that are in files though they repeat another."""
        return {}

    def ignored_of(self, model) -> tuple[str, ...]:
        """Return the patterns of tensors that this model has no use for."""
        return self.ignored

    def zeros(self, model) -> list[str]:
        """Return our paths that are 0 and have no place in their model."""
        return []

    def rename(self, name: str) -> str:
        """Return a name of a file as the rules have it."""
        for pattern, replacement in self.renames:
            name = re.sub(pattern, replacement, name)
        return name.removeprefix(self.prefix)

    def file_name(self, name: str, architecture: str) -> str:
        """Return a name of the rules as files of an architecture have it."""
        bare = architecture.endswith("Model") and "LMHead" not in architecture
        return name if bare or name.startswith(self.heads) else self.prefix + name

    def their_class(self, config) -> str:
        """Return transformers' class of a config, of the first if it names none."""
        names = config.values.get("architectures") or list(self.architectures)
        return self.renamed.get(names[0], names[0])

    def architecture(self, model_class) -> str:
        """Return the name of their class for one of ours."""
        for theirs, ours in self.architectures.items():
            if ours is model_class:
                return theirs
        raise ValueError(
            f"The family {self.model_type!r} has no {model_class.__name__}."
        )


def has(checkpoint, ending: str, default: bool = True) -> bool:
    """Return whether a checkpoint has a tensor of this name, prefixed or not."""
    if checkpoint is None:
        return default
    return any(
        name == ending or name.endswith("." + ending) for name in checkpoint.shapes
    )


def blocks(count: int, table: list[Rule]) -> list[Rule]:
    """Repeat the rules of a block, whose number stands as `#`."""

    def numbered(ours, index):
        if isinstance(ours, str):
            return ours.replace("#", str(index))
        return tuple(path.replace("#", str(index)) for path in ours)

    return [
        Rule(
            rule.theirs.replace("#", str(index)), numbered(rule.ours, index), rule.kind
        )
        for index in range(count)
        for rule in table
    ]
