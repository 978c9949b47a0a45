"""P11: summaries, plots, variable paths and layout maps work on every layer.

Sources: keras-team/keras#19460, #22445, #20746, #19496.
"""

import json
import re
import shutil

import h5py
import keras
import numpy as np
import pytest

import keras_transformer as kt

from .examples import EXAMPLES, block, quick, shape
from .helpers import finish, slow_on, start_process

NONE = {"B": None, "T": None, "S": None}


def model_of(name, scores=False):
    example = EXAMPLES[name]
    inputs = example.symbolic()
    more = {"return_attention_scores": True} if scores else {}
    return keras.Model(inputs, example.make(name="chosen")(*inputs, **more))


def summary(model):
    lines = []
    model.summary(expand_nested=True, print_fn=lines.append)
    return "\n".join(lines)


@pytest.mark.parametrize("name", quick(EXAMPLES))
def test_a_summary_shows_the_true_shape_and_every_parameter(name):
    model = model_of(name)
    text = summary(model)
    output = EXAMPLES[name].output
    if isinstance(output, str) and name != "relative":  # too wide for its column
        assert str(shape(output, **NONE)) in text
    assert "chosen" in text
    counted = re.search(r"Total params: ([\d,]+)", text).group(1)
    weights = sum(int(np.prod(w.shape)) for w in model.variables)
    assert int(counted.replace(",", "")) == weights
    assert model.get_layer("chosen").count_params() == weights


@pytest.mark.parametrize("name", ["self-attentive", "decoder", "stack-alibi"])
def test_a_summary_works_with_scores_as_outputs(name):
    assert "chosen" in summary(model_of(name, scores=True))


@pytest.mark.parametrize("kind", ["sequential", "nested", "subclassed"])
def test_a_summary_of_an_unbuilt_or_nested_model_works(kind):
    layers = [kt.PositionalEmbedding(9, 12, 8), kt.TransformerEncoder(**block())]
    if kind == "sequential":
        model = keras.Sequential(layers)
        assert "positional_embedding" in summary(model)
        model.build((None, None))
        assert "(None, None, 8)" in summary(model)
    elif kind == "nested":
        inner = keras.Sequential(layers, name="inner")
        inputs = keras.Input((None,), dtype="int32")
        text = summary(keras.Model(inputs, inner(inputs)))
        assert "(None, None, 8)" in text
        assert "transformer_encoder" in text
    else:

        class Own(keras.Model):
            def __init__(self):
                super().__init__()
                self.embed, self.encode = layers

            def call(self, ids):
                return self.encode(self.embed(ids))

        model = Own()
        model(np.array([[5, 6, 7], [8, 9, 1]], "int32"))
        assert "transformer_encoder" in summary(model)


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_model_can_be_plotted(name, scores, tmp_path):
    pytest.importorskip("pydot")
    if shutil.which("dot") is None:
        pytest.skip("needs the program dot (graphviz)")
    if scores and EXAMPLES[name].scores is None:
        pytest.skip("has no attention scores")
    file = tmp_path / "model.png"
    keras.utils.plot_model(
        model_of(name, scores), file, show_shapes=True, expand_nested=True
    )
    assert file.stat().st_size > 0


def translator():
    """Return a model of every role: two stacks, cross-attention, plugs."""
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    encoder = kt.TransformerStack(
        **block(num_layers=2, position_bias=kt.RelativePositionBias(2)),
        name="encoder",
    )
    decoder = kt.TransformerStack(
        **block(num_layers=2, causal=True, cross_attention=True, gated=True),
        name="decoder",
    )
    memory = encoder(kt.PositionalEmbedding(9, 12, 8, name="source_embed")(source))
    x = kt.PositionalEmbedding(9, 12, 8, name="target_embed")(target)
    x = decoder(x, memory)
    x = kt.BahdanauAttention(4, name="additive")(x, memory)
    x = kt.MultiHeadAttention(2, 4, name="pooling_attention")(x, x)
    return keras.Model([source, target], x, name="translator")


def paths(model):
    return [variable.path for variable in model.trainable_variables]


def test_variable_paths_are_unique_and_say_block_and_role():
    found = paths(translator())
    assert len(set(found)) == len(found)
    for stack, index, rest in [
        ("encoder", 0, "self_attention/query/kernel"),
        ("encoder", 1, "self_attention/attention_output/bias"),
        ("encoder", 1, "self_attention_norm/gamma"),
        ("encoder", 0, "feed_forward/intermediate/kernel"),
        ("encoder", 0, "feed_forward/feed_forward_output/bias"),
        ("encoder", 1, "feed_forward_norm/beta"),
        ("decoder", 0, "cross_attention/key/kernel"),
        ("decoder", 1, "cross_attention/value/bias"),
        ("decoder", 1, "cross_attention_norm/gamma"),
        ("decoder", 0, "feed_forward/gate/kernel"),
    ]:
        assert f"{stack}/block_{index}/{rest}" in found
    embedded = [path for path in found if path.startswith("source_embed/")]
    assert any("token_embedding" in path for path in embedded)
    assert any("position_embedding" in path for path in embedded)


@pytest.mark.parametrize("name", quick(EXAMPLES))
def test_paths_are_unique_and_the_same_whatever_was_made_before(name):
    shapes = [x.shape for x in EXAMPLES[name].arrays()]
    built = []
    for _ in range(2):
        # Plugs of the user's have names of their own, with counters.
        built.append(EXAMPLES[name].make(name="chosen"))
        built[-1].build(*shapes)
    called = EXAMPLES[name].make(name="chosen")
    called(*EXAMPLES[name].symbolic())
    everything = [variable.path for variable in called.variables]
    assert len(set(everything)) == len(everything)
    assert all(path.startswith("chosen/") for path in everything)
    clean = [
        [(re.sub(r"_bias_\d+/", "_bias/", w.path), w.shape) for w in made.variables]
        for made in (*built, called)
    ]
    assert clean[0] == clean[1] == clean[2]


PRINTING = """
import json
import keras
import keras_transformer as kt

keras.layers.Dense(3)
small = dict(embed_dim=8, num_heads=2, dense_dim=12)
for _ in range({extra}):
    kt.TransformerEncoder(**small)(keras.ops.ones((1, 2, 8)))
source = keras.Input((None,), dtype="int32")
target = keras.Input((None,), dtype="int32")
embed = kt.PositionalEmbedding(9, 12, 8, name="embed")
memory = kt.TransformerStack(2, **small, name="encoder")(embed(source))
decoder = kt.TransformerStack(
    2, **small, causal=True, cross_attention=True, name="decoder"
)
x = kt.TransformerEncoder(**small, name="last")(decoder(embed(target), memory))
x = kt.LuongAttention("general", name="luong")(x, memory)
x = kt.SelfAttentiveEmbedding(3, name="pool")(x)
model = keras.Model([source, target], x)
print(json.dumps([variable.path for variable in model.variables]))
"""


@slow_on("jax", "tensorflow")
def test_paths_with_given_names_are_equal_in_two_new_processes():
    processes = [start_process(PRINTING.format(extra=extra)) for extra in (0, 2)]
    one, two = [finish(process).splitlines()[-1] for process in processes]
    assert one == two
    found = json.loads(one)
    assert len(set(found)) == len(found)
    assert "decoder/block_1/cross_attention/query/kernel" in found


def test_a_layout_map_finds_the_kernels_of_every_attention():
    model = translator()
    mesh = keras.distribution.DeviceMesh((1,), ("model",), devices=["cpu:0"])
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*attention/(query|key|value)/kernel"] = (None, "model", None)
    layout[r"decoder/block_\d+/feed_forward/gate/kernel"] = (None, "model")
    chosen = [variable for variable in model.variables if layout[variable.path]]
    kernels = [variable for variable in chosen if "attention/" in variable.path]
    # Two blocks with one, two blocks with two, and one on its own.
    assert len(kernels) == 3 * (2 + 2 * 2 + 1)
    assert all(len(variable.shape) == 3 for variable in kernels)
    assert len(chosen) - len(kernels) == 2


def test_names_of_saved_weights_are_those_of_the_attributes(tmp_path):
    decoder = kt.TransformerStack(
        **block(num_layers=2, causal=True, cross_attention=True, gated=True)
    )
    inputs = [keras.Input((None, 8)), keras.Input((None, 8))]
    model = keras.Model(inputs, decoder(*inputs))
    model.save_weights(tmp_path / "model.weights.h5")
    groups = []
    with h5py.File(tmp_path / "model.weights.h5") as file:
        file.visit(groups.append)
    text = "\n".join(groups)
    for part in (
        "self_attention/query/vars",
        "self_attention_norm/vars",
        "cross_attention_layer/key/vars",
        "cross_attention_norm/vars",
        "feed_forward/intermediate/vars",
        "feed_forward/gate/vars",
        "feed_forward/feed_forward_output/vars",
        "feed_forward_norm/vars",
    ):
        assert part in text
