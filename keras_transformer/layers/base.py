"""What every layer and model has in common: its config, its name, its masks."""

import functools
import inspect

import keras
import numpy as np
from keras import ops

from keras_transformer.ops.backend import is_traced, static_size
from keras_transformer.ops.checks import check_name

PACKAGE = "keras_transformer"


def as_integers(name: str, values):
    """Return ids or positions as int32, and refuse those that are no whole numbers.

    Keras casts float arguments of a call to half precision under a mixed policy,
    where 2909 becomes 2912. Other floats must be whole where their values are known:
    not in a model's symbolic call or a compiled function.
    """
    values = ops.convert_to_tensor(values)
    dtype = keras.backend.standardize_dtype(values.dtype)
    if dtype in ("float16", "bfloat16"):
        raise ValueError(
            f"`{name}` must be integers. Received half-precision floats, which round "
            'numbers above 256. Use dtype="int32", as in '
            'keras.Input(shape, dtype="int32").'
        )
    if "float" in dtype and not is_traced(values):
        array = ops.convert_to_numpy(values)
        whole = np.isfinite(array) & (array == np.floor(array))
        if not whole.all():
            raise ValueError(
                f"`{name}` must be integers. Received floats, {array[~whole][0]} among "
                'them. Round them as they are meant, and use dtype="int32".'
            )
    return ops.cast(values, "int32")


def full_dtype(dtype) -> str:
    """Return float32 for half precision, and what is as exact as it is.

    Keras's `result_type` would make float32 of float64.
    """
    dtype = keras.backend.standardize_dtype(dtype)
    return dtype if dtype == "float64" else "float32"


def check_positions(positions, inputs):
    """Return positions (T,) or (1 or B, T) of `inputs` (B, T, ...) as int32."""
    positions = as_integers("positions", positions)
    rank = len(positions.shape)
    got = [static_size(positions, axis) for axis in range(rank)]
    time, batch = static_size(inputs, 1), static_size(inputs, 0)
    fits = rank in (1, 2) and (None in (got[-1], time) or got[-1] == time)
    if fits and rank == 2:
        fits = None in (got[0], batch) or got[0] in (1, batch)
    if not fits:
        raise ValueError(
            "`positions` must have the shape (time,) or (batch, time) of the tokens, "
            f"{tuple(inputs.shape[:2])}. Received shape {tuple(positions.shape)}."
        )
    return positions


VECTORS = ("batch", "time", "width")


def check_axes(name: str, shape, axes: tuple[str, ...]):
    """Refuse a tensor of other axes, such as one text without a batch.

    Keras broadcasts, and other numbers of axes would fail late or mean others.
    """
    if shape is not None and len(shape) != len(axes):
        raise ValueError(
            f"`{name}` must have the shape ({', '.join(axes)}). Received shape "
            f"{tuple(shape)}."
        )


def check_plug(name: str, value):
    """Refuse a plug that is not a layer."""
    if value is not None and not isinstance(value, keras.layers.Layer):
        raise ValueError(
            f"`{name}` must be a layer, such as RotaryEmbedding() or AlibiBias(8), or "
            f"None. Received: {name}={value!r}."
        )


def check_common(layer_class, settings: dict):
    """Refuse settings that a layer would hand to its base class, and not save."""
    unknown = sorted(set(settings) - {"name", "dtype", "trainable"})
    if unknown:
        raise ValueError(
            f"{layer_class.__name__} has no setting {', '.join(map(repr, unknown))}. "
            "TransformerBlock has every setting of a Transformer layer."
        )


def check_sources(query, value, key):
    """Refuse values of another batch than the queries, and keys that do not fit them.

    Only some backends would broadcast a batch of one.
    """
    tensors = {"query": query, "value": value, "key": key}
    tensors = {name: x for name, x in tensors.items() if x is not None}
    sizes = [static_size(x, 0) for x in tensors.values()]
    sizes = {size for size in sizes if size is not None}
    lengths = [static_size(x, 1) for x in (value, key) if x is not None]
    lengths = {length for length in lengths if length is not None}
    if len(sizes) > 1 or len(lengths) > 1:
        shapes = (f"{name} of shape {tuple(x.shape)}" for name, x in tensors.items())
        raise ValueError(
            "`query`, `value` and `key` must have the same batch, `key` and `value` "
            f"the same length too. Received: {', '.join(shapes)}."
        )


def check_left_out(value, key):
    """Refuse values beside those that a cache from `precompute` holds."""
    given = {"value": value, "key": key}
    given = [f"`{name}`" for name, x in given.items() if x is not None]
    if given:
        raise ValueError(
            "A cache from `precompute` holds the keys and values that are attended "
            f"to. Received: {' and '.join(given)} beside it. Pass value=None; for "
            "another source call `precompute` again."
        )


def shifted_seed(seed: int | None, shift: int) -> int | None:
    """Give a sublayer its own seed: equal seeds would drop the same places."""
    return None if seed is None else seed + shift


def _is_ours(cls):
    return cls.__module__.split(".")[0] == PACKAGE


class Base:
    """Put before a Keras class: its config is read off its constructor's signature.

    A subclass stores each constructor argument under its own name (or with a
    leading underscore), makes its sublayers in `__init__`, builds them in
    `build`, and names both `mask` and `<first argument>_mask` in `call`, because
    Keras fills the first for one tensor argument and the second for several.
    """

    # Other names under which a mask may be given -> the argument of `call`.
    mask_aliases: dict[str, str] = {}
    # Constructor arguments taken as `**settings` and handed to a part, and the
    # name of the attribute that is the part and keeps them.
    part_settings: tuple[str, ...] = ()
    part_with_settings: str | None = None

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "build" in vars(cls):
            cls.build = _freezing(cls.build)
        if _is_ours(cls):
            keras.saving.register_keras_serializable(package=PACKAGE)(cls)

    def __init__(self, **kwargs):
        check_name(kwargs.get("name"))
        super().__init__(**kwargs)
        self.supports_masking = True

    def __call__(self, *args, **kwargs):
        for alias, argument in self.mask_aliases.items():
            given = kwargs.pop(alias, None)
            if given is None:
                continue
            if kwargs.get(argument) is not None:
                raise ValueError(
                    f"`{alias}` and `{argument}` of layer {self.name!r} are the same "
                    "mask under two names. Pass one of them."
                )
            kwargs[argument] = given
        return super().__call__(*args, **kwargs)

    def compute_output_spec(self, *args, **kwargs):
        # Keras would answer from `compute_output_shape`, which knows nothing of
        # scores and caches; tracing `call` gives every output its own shape.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        config = super().get_config()
        for name in (*_constructor_arguments(type(self)), *self.part_settings):
            if name not in config:
                config[name] = _serialize(name, self._constructor_value(name))
        return config

    def _constructor_value(self, name):
        for attribute in (name, f"_{name}"):
            if hasattr(self, attribute):
                return getattr(self, attribute)
        if name in self.part_settings:
            return getattr(getattr(self, self.part_with_settings), name)
        raise ValueError(
            f"{type(self).__name__} must store its constructor argument {name!r} as "
            f"`self.{name}`, so that a saved model keeps it."
        )

    @classmethod
    def from_config(cls, config):
        return cls(
            **{
                name: keras.saving.deserialize_keras_object(value)
                if name != "dtype" and isinstance(value, dict) and "class_name" in value
                else value
                for name, value in config.items()
            }
        )

    def get_build_config(self):
        # Quantized parts have other variables than those that `__init__` makes, and
        # frozen ones look like others; loading restores both from here.
        config = super().get_build_config()
        if config:
            config = dict(config)
            found = {"quantized": _quantizations(self), "trainable": _exceptions(self)}
            config.update((name, paths) for name, paths in found.items() if paths)
        return config

    def build_from_config(self, config):
        config = dict(config)
        quantized, trainable = config.pop("quantized", {}), config.pop("trainable", {})
        frozen = dict.fromkeys(config.pop("frozen", ()), False)  # of older files
        trainable = {**frozen, **trainable}
        super().build_from_config(config)
        for path, part, whole in _parts(self):  # what a whole sets, its parts mend
            if path in trainable or part.trainable != whole.trainable:
                _set_trainable(part, trainable.get(path, whole.trainable))
        parts = {path: part for path, part, _ in _parts(self)}
        for path, how in quantized.items():
            if parts[path].quantization_mode is None:  # a plug may have done it itself
                how = keras.saving.deserialize_keras_object(how)
                parts[path].quantize(config=how)


class BaseLayer(Base, keras.layers.Layer):
    """A layer of this library."""


class BaseModel(Base, keras.Model):
    """A model of this library; it may hold attributes that Keras does not track."""


class CarriedMask(keras.layers.Layer):
    """Return the mask that a tensor carries, (B, S) of (B, S, E); `True` if none.

    Keras shows a mask to the layers that a tensor passes through, to nobody else.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, mask=None):
        return ops.ones(ops.shape(inputs)[:-1], "bool") if mask is None else mask


def _freezing(build):
    """Freeze the variables that `build` makes, where the layer was made frozen.

    Keras lets them be trained: of a layer's parts it asks the variables alone.
    """

    @functools.wraps(build)
    def wrapped(self, *args, **kwargs):
        build(self, *args, **kwargs)
        if not self.trainable:
            _set_trainable(self, False)

    return wrapped


def _set_trainable(layer, value):
    """Set whether a layer is trained, and all that it holds."""
    layer.trainable = not value  # TensorFlow passes over a value that is there
    layer.trainable = value


def _constructor_arguments(cls):
    """Name the arguments of a user's subclasses and of our class below them."""
    names = []
    for base in cls.__mro__:
        if "__init__" in vars(base):
            parameters = inspect.signature(base.__init__).parameters.values()
            names += [p.name for p in parameters if p.kind not in _VARIADIC]
        if _is_ours(base):
            break
    return [name for name in dict.fromkeys(names) if name != "self"]


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _serialize(name, value):
    if inspect.isfunction(value):
        if value.__name__ == "<lambda>":
            raise ValueError(
                f"`{name}` is a lambda, which a saved model could not find again. Use "
                "a named function with @keras.saving.register_keras_serializable()."
            )
        return keras.activations.serialize(value)
    if isinstance(value, np.generic):
        return value.item()
    config = keras.saving.serialize_keras_object(value)
    if isinstance(value, keras.layers.Layer):
        # In a file, Keras marks an object that it meets again as shared, but not the
        # place where it met it first: what is copied into the file has no mark. The
        # dtype policy, met again here, shows whether a file is written: to ask a layer
        # twice where nothing is marked would double the cost with each level.
        policy = keras.saving.serialize_keras_object(value.dtype_policy)
        if "shared_object_id" in policy and "shared_object_id" not in config:
            config = keras.saving.serialize_keras_object(value)
        config.pop("build_config", None)  # it is built as a part, under its own path
    return config


# Where Keras and its backends keep once more the layers that are attributes.
_KEPT_AGAIN = {"_layers", "_modules", "_self_unconditional_dependency_names"}


def _sublayers(layer):
    """Yield (attribute path, layer) of the layers held by `layer`."""
    if isinstance(layer, keras.Model) and not isinstance(layer, Base):
        return _held({"layers": layer.layers}.items())
    attributes = dict(vars(layer))
    attributes.update(attributes.get("_modules") or {})  # PyTorch keeps them here
    return _held((k, v) for k, v in attributes.items() if k not in _KEPT_AGAIN)


def _held(named):
    """Yield (path, layer) of the layers among named values, and in their containers.

    In a container a layer's name is its place: keys may have any text, such as "/".
    """
    for name, value in named:
        if isinstance(value, keras.layers.Layer):
            yield str(name), value
        elif isinstance(value, (dict, list, tuple)):
            values = value.values() if isinstance(value, dict) else value
            inner = _held(enumerate(values))
            yield from ((f"{name}/{path}", layer) for path, layer in inner)


def _parts(layer, above=()):
    """Yield (path, part, layer that holds it) at every depth, a whole before its parts.

    A part of two layers comes under each of its paths.
    """
    above = (*above, layer)
    for name, part in _sublayers(layer):
        if part not in above:
            yield name, part, layer
            for path, inner, whole in _parts(part, above):
                yield f"{name}/{path}", inner, whole


def _exceptions(layer):
    """Return path -> `trainable` of the parts that are unlike what holds them."""
    return {
        path: part.trainable
        for path, part, whole in _parts(layer)
        if part.trainable != whole.trainable
    }


def _quantizations(layer):
    """Return path -> how it is quantized, of the quantized parts."""
    return {
        path: keras.saving.serialize_keras_object(part.quantization_config)
        for path, part, _ in _parts(layer)
        if part.quantization_mode is not None and not isinstance(part, Base)
    }
