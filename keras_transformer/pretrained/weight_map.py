"""Their names and shapes of weights, and ours: a table read in both directions."""

import re
from dataclasses import dataclass
from math import prod

import numpy as np
from keras import ops

from keras_transformer.pretrained.checkpoint import _some


@dataclass(frozen=True)
class Rule:
    """One tensor of theirs, and what it is here.

    Attributes:
        theirs: Name in the checkpoint.
        ours: Path of our variable; several, if theirs is cut into equal parts along
            its last axis.
        kind: `"same"` shape; `"flat"`: ours has more axes; `"linear"`: theirs is
            (out, in), ours begins with the in axis; `"linear_out"`: ours begins
            with two in axes (heads and their size); `"conv"`, `"conv_out"`: the
            same, but theirs is (in, out), as GPT-2's Conv1D has it; `"row"`: theirs
            is (1, V), ours (V,).
    """

    theirs: str
    ours: str | tuple[str, ...]
    kind: str = "same"

    @property
    def paths(self) -> tuple[str, ...]:
        """Our paths, one or several."""
        return (self.ours,) if isinstance(self.ours, str) else self.ours

    def their_shape(self, shapes) -> tuple[int, ...]:
        """Return the shape that theirs must have for ours of `shapes`."""
        *rest, last = _flat_shape(self.kind, shapes[0])
        return (*rest, last * len(shapes))

    def load(self, array, shapes) -> list[np.ndarray]:
        """Turn their tensor into ours."""
        parts = np.split(array, len(shapes), axis=-1) if len(shapes) > 1 else [array]
        if self.kind.startswith("linear"):
            parts = [part.T for part in parts]
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def save(self, arrays) -> np.ndarray:
        """Turn our tensors into theirs."""
        parts = []
        for array in arrays:
            shape = _flat_shape(self.kind, array.shape)
            if self.kind.startswith("linear"):
                parts.append(array.reshape(shape[::-1]).T)
            else:
                parts.append(array.reshape(shape))
        return np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]


def _flat_shape(kind, shape):
    """Return the shape of one part of theirs."""
    if kind == "same":
        return tuple(shape)
    if kind == "flat":
        return (prod(shape),)
    if kind == "row":
        return (1, *shape)
    inside = 2 if kind.endswith("_out") else 1
    pair = prod(shape[:inside]), prod(shape[inside:])
    return pair[::-1] if kind.startswith("linear") else pair


def norm(theirs: str, ours: str, bias: bool = True) -> list[Rule]:
    """Return the rules of a norm: layer norm, or RMS norm without bias."""
    if not bias:
        return [Rule(f"{theirs}.weight", f"{ours}/scale")]
    return [
        Rule(f"{theirs}.weight", f"{ours}/gamma"),
        Rule(f"{theirs}.bias", f"{ours}/beta"),
    ]


def dense(theirs: str, ours: str, kind: str = "linear", bias: bool = True):
    """Return the rules of a projection: kernel, and bias if there is one."""
    rules = [Rule(f"{theirs}.weight", f"{ours}/kernel", kind)]
    return [*rules, Rule(f"{theirs}.bias", f"{ours}/bias", "flat")] if bias else rules


def projections(theirs: dict, ours: str, bias: bool = True) -> list[Rule]:
    """Return the rules of attention's four projections by our names."""
    rules = []
    for name, their_name in theirs.items():
        kind = "linear_out" if name == "attention_output" else "linear"
        rules += dense(their_name, f"{ours}/{name}", kind, bias)
    return rules


def relative_path(variable, model) -> str:
    """Return a variable's path without the model's own name."""
    return variable.path.removeprefix(f"{model.name}/")


def fill(model, checkpoint, rules, *, rename, tied=None, ignored=(), zeros=()):
    """Fill a model tensor by tensor; all names and shapes are checked before.

    Args:
        model: The built model.
        checkpoint: A `Checkpoint`.
        rules: The `Rule`s of its weights.
        rename: Function of a tensor's name in the file that returns its name in the
            rules: prefixes and old names.
        tied: Name -> name of another tensor with the same values (tied heads).
        ignored: Patterns of tensors that are no weights, or of other heads.
        zeros: Our paths that the checkpoint has not, and that are 0.

    Raises:
        ValueError: A tensor missing or left over, another shape, variables without
            a rule, tied tensors that differ. The model is untouched then.
    """
    files = {}
    for name in checkpoint.shapes:
        if files.setdefault(rename(name), name) != name:
            raise ValueError(
                f"The checkpoint has the tensor {rename(name)!r} twice: as {name!r} "
                f"and as {files[rename(name)]!r}."
            )
    variables = {relative_path(v, model): v for v in model.weights}
    _check_rules(rules, variables, zeros)
    wanted = {rule.theirs for rule in rules}
    tied = {one: other for one, other in (tied or {}).items() if one not in wanted}
    for one, other in tied.items():
        if one in files and other not in files:
            files[other] = files[one]  # saved under one of its names
    missing = sorted(wanted - set(files))
    if missing:
        raise ValueError(f"The checkpoint lacks the tensor {_some(missing)}.")
    left = set(files) - wanted - set(tied)
    unused = sorted(n for n in left if not any(re.fullmatch(p, n) for p in ignored))
    if unused:
        raise ValueError(
            f"The checkpoint has the tensor {_some(unused)}, for which this model has "
            "no place."
        )
    for rule in rules:
        shape = rule.their_shape([variables[path].shape for path in rule.paths])
        found = checkpoint.shapes[files[rule.theirs]]
        if found != shape:
            raise ValueError(
                f"The tensor {files[rule.theirs]!r} must have the shape {shape} "
                f"after the config. The checkpoint has {found}."
            )
    for one, other in tied.items():
        if one in files and not checkpoint.same(files[one], files[other]):
            raise ValueError(
                f"The config ties {files[one]!r} to {files[other]!r}, but the "
                "checkpoint has other values for it. Set `tie_word_embeddings` to "
                "false in its config.json if it is meant to be free."
            )
    for rule in rules:
        targets = [variables[path] for path in rule.paths]
        array = checkpoint.read(files[rule.theirs])
        parts = rule.load(array, [tuple(v.shape) for v in targets])
        for variable, part in zip(targets, parts, strict=True):
            variable.assign(part)
    for path in zeros:
        variables[path].assign(np.zeros(variables[path].shape, "float32"))


def _check_rules(rules, variables, zeros):
    ruled = [*zeros, *(path for rule in rules for path in rule.paths)]
    if sorted(ruled) != sorted(variables):
        odd = sorted(set(ruled) ^ set(variables)) or sorted(ruled)
        raise ValueError(f"The weight map and the model disagree about {_some(odd)}.")


def collect(model, rules, zeros=()) -> dict:
    """Return a model's weights under their names, as NumPy arrays.

    Raises:
        ValueError: The model has more weights: it is quantized, or has LoRA weights.
    """
    variables = {relative_path(v, model): v for v in model.weights}
    more = set(variables) - {path for rule in rules for path in rule.paths}
    if more := sorted(more - set(zeros)):
        raise ValueError(
            f"The model has the weights {_some(more)}, for which transformers' files "
            "have no place: it is quantized, or has LoRA weights. Nothing was written. "
            "Keras's `model.save` keeps a quantized model, and merges LoRA weights "
            "into the kernels that it saves."
        )
    _check_rules(rules, variables, zeros)
    return {
        rule.theirs: rule.save(
            [ops.convert_to_numpy(variables[path].value) for path in rule.paths]
        )
        for rule in rules
    }
