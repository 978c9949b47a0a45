"""What differs between TensorFlow, JAX and PyTorch; nothing else names them."""

import math
import threading

import keras
from keras import ops


def infers_shapes() -> bool:
    """Return whether Keras infers shapes, also those of a user's own layer.

    On PyTorch it calls layers with 83 in place of an unknown size; on the "meta"
    device, but under a half-precision policy, whose products fail there, on the CPU.
    """
    with keras.SymbolicScope() as scope:  # it knows the scope that it is opened in
        return scope.original_scope is not None


def is_traced(tensor) -> bool:
    """Return whether `tensor` is a placeholder of a trace and has no values.

    True inside `jax.jit`, inside `tf.function` and while Keras infers shapes.
    """
    if infers_shapes():
        return True
    try:
        ops.convert_to_numpy(ops.ravel(tensor)[:1])
    except Exception:  # every backend raises an error of its own
        return True
    return False


def static_size(tensor, axis: int) -> int | None:
    """Return the size of an axis if it is known for certain, else `None`.

    While Keras infers the shapes of unknown axes, JAX has symbols in their place
    and PyTorch has stand-in numbers.
    """
    size = tensor.shape[axis]
    torch = keras.backend.backend() == "torch"
    stand_in = torch and infers_shapes()
    return size if isinstance(size, int) and not stand_in else None


def write_slice(buffer, update, start, axis: int):
    """Return `buffer` with `update` written from index `start` of `axis` on.

    On PyTorch, a buffer that was made in inference mode (as `compiled` does) is
    written in place: a copy of the whole cache at every step of a long text would
    cost more than the step.
    """
    update = ops.cast(update, buffer.dtype)
    if keras.backend.backend() == "torch" and buffer.is_inference():
        import torch

        index = torch.reshape(start, (1,)).long()
        if update.shape[axis] > 1:
            index = index + torch.arange(update.shape[axis], device=buffer.device)
        # A view, so that the result is told apart from what it was made of.
        return buffer.index_copy_(axis, index, update).view_as(buffer)
    zero = ops.zeros((), "int32")
    starts = [start if i == axis else zero for i in range(len(buffer.shape))]
    return ops.slice_update(buffer, starts, update)


def scan_states(function, state, inputs):
    """Run `state = function(state, inputs[:, t])` over time, and keep every state.

    Args:
        function: Function of a state and of one step's inputs (B, ...); returns a
            state of the same structure, shapes and dtypes.
        state: The first state, nested dicts and lists of tensors (B, ...).
        inputs: (B, T, ...).

    Returns:
        The states after each step, the same structure of tensors (B, T, ...).
    """
    inputs = ops.swapaxes(inputs, 0, 1)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # Keras's own scan sets no limit to its loop; XLA needs one for gradients.
        states = tf.scan(function, inputs, state)
    else:

        def step(state, inputs):
            state = function(state, inputs)
            return state, state

        _, states = ops.scan(step, state, inputs)
    return keras.tree.map_structure(lambda x: ops.swapaxes(x, 0, 1), states)


def recurrent_kernel() -> bool | str:
    """Return the `use_cudnn` of recurrent layers.

    On TensorFlow, cuDNN refuses padding on the left and empty rows, and cannot be
    compiled by XLA as a decoding loop is.
    """
    return False if keras.backend.backend() == "tensorflow" else "auto"


def has_accelerator() -> bool:
    """Return whether the backend computes on a GPU or a TPU."""
    if keras.backend.backend() == "torch":
        import torch

        return torch.cuda.is_available()
    devices = keras.distribution.list_devices()
    return any(not device.lower().startswith("cpu") for device in devices)


def has_attention_kernel(length: int | None) -> bool:
    """Return whether `keras.ops.dot_product_attention` is the fast way.

    Without an accelerator it is a kernel on PyTorch alone. On JAX it is the explicit
    operations in another order: a little faster for few keys, and slower for many
    (measured at inference: 0.9 times as long for 256 keys, 1.2 times for 384, 2.4 times
    for 512, with heads of 32; in training 1.3 times for any number). On TensorFlow a
    whole block takes 1.1 times as long for 32 keys, 1.25 times for 512, at inference.

    An unknown number is taken for a small one on JAX, for a large one on TensorFlow.

    Args:
        length: Number of keys, `None` if it is not known.
    """
    if keras.backend.backend() == "torch" or has_accelerator():
        return True
    if keras.backend.backend() == "jax":
        return length is None or length < 320
    return length is not None and length < 16


def compiles_for_cpu() -> bool:
    """Return whether XLA compiles a search, for a CPU."""
    return not runs_loops_in_python() and not has_accelerator()


def fuses_reshaped_kernels() -> bool:
    """Return whether XLA fuses a kernel's reshaping into the product of one row.

    The product is then no longer XLA's fast one (TensorFlow: steps 2.6 times as long).
    """
    return keras.backend.backend() == "tensorflow"


def fusion_barrier(tensor):
    """Keep XLA from fusing what is before with what is behind; compiled code only."""
    if keras.backend.backend() == "tensorflow":
        from tensorflow.compiler.tf2xla.python import xla

        return xla.optimization_barrier(tensor)[0]
    import jax

    return jax.lax.optimization_barrier(tensor)


def without_gradients(function):
    """Return `function` such that PyTorch keeps nothing to differentiate it.

    TensorFlow and JAX differentiate only what they are asked to.
    """
    if keras.backend.backend() != "torch":
        return function
    import torch

    return torch.no_grad()(function)


def trace(function, *args):
    """Run a function once on stand-ins for its tensors, for what it does on the way.

    An error is the one that compiling the function would raise. Not for PyTorch.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.function(function, autograph=False).get_concrete_function(*args)
    else:
        import jax

        with keras.StatelessScope():  # no variable keeps what the trace assigns to it
            jax.eval_shape(function, *args)


def compiled(function, model, key=None):
    """Compile a function of tensors that reads the variables of `model`.

    The weights are read afresh at each call, so training between two calls is
    seen. A new shape or dtype of an argument traces again; a new value does not.

    Args:
        function: Function of tensors (nested dicts and lists too) that calls
            layers of `model`. It must not change any variable.
        model: The built model (or layer) whose variables `function` reads.
        key: If given, the compiled function is kept with the model under this
            key, and handed back for the same key without looking at `function`.

    Returns:
        A function with the same arguments and results: `jax.jit` on JAX,
        `tf.function(jit_compile=True)` on TensorFlow; on PyTorch the function
        itself in inference mode; `compiled_step` traces it there.
    """
    if not model.built:
        raise ValueError(
            f"`model` must be built before it is compiled, but {model.name!r} is "
            "not. Call it once, or call `model.build(shape)`."
        )
    if key is not None:
        # Past Keras's attribute tracking: these are no part of the model.
        kept = vars(model).setdefault("_compiled_functions", {})
        if key not in kept:
            kept[key] = compiled(function, model)
        return kept[key]
    if keras.backend.backend() == "torch":
        import torch

        return torch.inference_mode()(function)
    variables, inner = None, None

    def run(*args):
        nonlocal variables, inner
        now = model.variables
        # `quantize` and `enable_lora` put other variables in the old ones' place.
        if variables is None or list(map(id, now)) != list(map(id, variables)):
            variables, inner = now, _compile(function, now)
        return inner(*args)

    return run


def runs_loops_in_python() -> bool:
    """Return whether a compiled loop is a compiled step in a Python loop."""
    return keras.backend.backend() == "torch"


def compiled_step(function, model, key):
    """Compile a function that is called again and again, as `compiled` does.

    PyTorch spends a third of a decoding step and more on finding out, in Python, what
    to compute. There the operations of one step are written down once they have been
    needed `_STEPS_BEFORE_TRACING` times with tensors of the same shapes, and from then
    on run as they stand. Elsewhere this is `compiled`.

    A function that reads the values of its tensors cannot be written down; it runs
    as it is, there as ever.

    Args:
        function: As in `compiled`.
        model: As in `compiled`.
        key: As in `compiled`.
    """
    if not runs_loops_in_python():
        return compiled(function, model, key)
    variables = [id(variable.value) for variable in model.variables]
    kept = vars(model).setdefault("_traced_steps", {})
    if any(step.variables != variables for step in kept.values()):
        kept.clear()  # they would keep the old variables alive
    return kept.setdefault(key, _TracedStep(function, variables))


_STEPS_BEFORE_TRACING = 16  # writing a step down takes as long as about 16 steps
_tracing = threading.Lock()  # PyTorch's tracer changes modules of the whole process


class _TracedStep:
    """A function of tensors on PyTorch, traced for each set of shapes.

    Args:
        function: Function of nested dicts and lists of tensors.
        variables: What tells the model's variables from others in their place.
    """

    def __init__(self, function, variables):
        self.function, self.variables = function, variables
        self._counts, self._candidates, self._traces = {}, {}, {}

    def __call__(self, *args):
        import torch

        with torch.inference_mode():
            leaves = keras.tree.flatten(args)
            shapes = tuple(map(_shape, leaves))
            trace = self._traces.get(shapes)
            if trace is not None:
                return trace(leaves)
            count = self._counts[shapes] = self._counts.get(shapes, 0) + 1
            # While another thread traces, this one goes on without.
            if count <= _STEPS_BEFORE_TRACING or not _tracing.acquire(blocking=False):
                return self.function(*args)
            try:
                return self._run_and_trace(shapes, args)
            finally:
                _tracing.release()

    def _run_and_trace(self, shapes, args):
        """Run the function and trace it; at the next values, compare the two."""
        copies = keras.tree.map_structure(_copy, args)  # it may write in place
        results = self.function(*args)
        if shapes not in self._candidates:
            self._candidates[shapes] = _trace(self.function, copies)
            return results
        candidate = self._candidates.pop(shapes)
        theirs = candidate and candidate(keras.tree.flatten(copies))
        if candidate and _alike(theirs, results):
            self._traces[shapes] = candidate
        else:
            self._counts[shapes] = -math.inf  # never again
        return results


def _trace(function, args):
    """Return a function of flat arguments, or None: it asks a tensor for its value."""
    from torch.fx.experimental.proxy_tensor import make_fx

    leaves, structure = keras.tree.flatten(args), None

    def flat(*tensors):
        nonlocal structure
        given = iter(tensors)
        filled = [next(given) if ops.is_tensor(leaf) else leaf for leaf in leaves]
        results = function(*keras.tree.pack_sequence_as(args, filled))
        structure = keras.tree.map_structure(lambda _: None, results)
        return keras.tree.flatten(results)

    try:
        graph = make_fx(flat)(*filter(ops.is_tensor, leaves))
    except Exception:  # of many kinds; the function itself has just run without
        return None
    graph.graph.eliminate_dead_code()
    graph.recompile()

    def run(leaves):
        results = graph.forward(*filter(ops.is_tensor, leaves))
        return keras.tree.pack_sequence_as(structure, results)

    return run


def _shape(leaf):
    return (leaf.shape, leaf.dtype, leaf.device) if ops.is_tensor(leaf) else leaf


def _copy(leaf):
    return leaf.clone() if ops.is_tensor(leaf) else leaf


def _alike(ours, theirs):
    def same(one, other):
        if not ops.is_tensor(one):
            return one == other
        return bool(one.double().allclose(other.double(), equal_nan=True))

    return all(map(same, keras.tree.flatten(ours), keras.tree.flatten(theirs)))


def _compile(function, variables):
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=True, autograph=False)
    import jax

    def stateless(values, *args):
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return function(*args)

    jitted = jax.jit(stateless)
    return lambda *args: jitted([v.value for v in variables], *args)
