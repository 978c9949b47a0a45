"""Blocks and stacks are PyTorch's Transformer layers, with PyTorch's weights."""

import keras
import numpy as np
import pytest
from parity_tools import (
    BATCH,
    HEADS,
    HIDDEN,
    SOURCE,
    TIME,
    WIDTH,
    assert_same,
    lower_triangle,
    numbers,
    real,
)

import keras_transformer as kt

torch = pytest.importorskip("torch")

EPSILON = 1e-5

settings = pytest.mark.parametrize(
    ("norm_first", "activation"),
    [(False, "relu"), (False, "gelu"), (True, "relu"), (True, "gelu")],
)


def reference(module, seed=0):
    """Move a torch module to the CPU and give all its parameters random values."""
    generator = np.random.default_rng(seed)
    module = module.cpu()
    with torch.no_grad():
        for parameter in module.parameters():
            values = generator.normal(scale=0.4, size=tuple(parameter.shape))
            parameter.copy_(torch.tensor(values, dtype=torch.float32))
    return module


def their_layer(kind, norm_first, activation):
    return kind(
        WIDTH,
        HEADS,
        dim_feedforward=HIDDEN,
        dropout=0.0,
        activation=activation,
        layer_norm_eps=EPSILON,
        batch_first=True,
        norm_first=norm_first,
        device="cpu",
    )


def our_settings(norm_first, activation):
    return {
        "embed_dim": WIDTH,
        "num_heads": HEADS,
        "dense_dim": HIDDEN,
        "activation": activation,
        "normalize_first": norm_first,
        "layer_norm_epsilon": EPSILON,
    }


def array(parameter):
    """Copy a parameter: backends may share a numpy array's memory with torch."""
    return parameter.detach().numpy().copy()


def attention_weights(attention):
    """Return the weights of a torch attention in Keras's order and shapes."""
    size = WIDTH // HEADS
    weights = []
    kernels = np.split(array(attention.in_proj_weight), 3)
    biases = np.split(array(attention.in_proj_bias), 3)
    for kernel, bias in zip(kernels, biases, strict=True):
        weights.append(kernel.T.reshape(WIDTH, HEADS, size))
        weights.append(bias.reshape(HEADS, size))
    weights.append(array(attention.out_proj.weight).T)
    weights[-1] = weights[-1].reshape(HEADS, size, WIDTH)
    weights.append(array(attention.out_proj.bias))
    return weights


def dense_weights(linear):
    return [array(linear.weight).T, array(linear.bias)]


def norm_weights(norm):
    return [array(norm.weight), array(norm.bias)]


def block_weights(layer):
    """Return the weights of a torch layer in the order of our block."""
    weights = attention_weights(layer.self_attn) + norm_weights(layer.norm1)
    last = layer.norm2
    if hasattr(layer, "multihead_attn"):
        weights += attention_weights(layer.multihead_attn) + norm_weights(layer.norm2)
        last = layer.norm3
    weights += dense_weights(layer.linear1) + dense_weights(layer.linear2)
    return weights + norm_weights(last)


def tensor(array):
    return torch.tensor(array, device="cpu")


def hidden(mask):
    """Return torch's form of a mask: true where attending is forbidden."""
    return None if mask is None else tensor(~mask)


def run(module, *inputs, **masks):
    with torch.no_grad():
        return module(*map(tensor, inputs), **masks).numpy()


def encoders(norm_first, activation):
    theirs = reference(
        their_layer(torch.nn.TransformerEncoderLayer, norm_first, activation)
    )
    ours = kt.TransformerEncoder(**our_settings(norm_first, activation))
    ours.build((None, None, WIDTH))
    ours.set_weights(block_weights(theirs))
    return ours, theirs


def decoders(norm_first, activation):
    theirs = reference(
        their_layer(torch.nn.TransformerDecoderLayer, norm_first, activation)
    )
    ours = kt.TransformerDecoder(**our_settings(norm_first, activation))
    ours.build((None, None, WIDTH), (None, None, WIDTH))
    ours.set_weights(block_weights(theirs))
    return ours, theirs


@settings
def test_an_encoder_layer_equals_torch(norm_first, activation):
    ours, theirs = encoders(norm_first, activation)
    inputs = numbers(1, BATCH, TIME, WIDTH)
    assert_same(ours(inputs), run(theirs, inputs))


@settings
def test_a_padded_encoder_layer_equals_torch_at_real_positions(norm_first, activation):
    ours, theirs = encoders(norm_first, activation)
    inputs, mask = numbers(2, BATCH, TIME, WIDTH), real([TIME, 3], TIME)
    expected = run(theirs, inputs, src_key_padding_mask=hidden(mask))
    assert_same(ours(inputs, padding_mask=mask), expected, where=mask)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_masked_encoder_layer_equals_torch(norm_first):
    ours, theirs = encoders(norm_first, "relu")
    inputs = numbers(3, BATCH, TIME, WIDTH)
    allowed = np.random.default_rng(3).random((TIME, TIME)) < 0.5
    np.fill_diagonal(allowed, True)
    expected = run(theirs, inputs, src_mask=hidden(allowed))
    assert_same(ours(inputs, attention_mask=allowed[None]), expected)


@settings
def test_a_causal_decoder_layer_equals_torch(norm_first, activation):
    ours, theirs = decoders(norm_first, activation)
    targets, memory = numbers(4, BATCH, TIME, WIDTH), numbers(5, BATCH, SOURCE, WIDTH)
    expected = run(theirs, targets, memory, tgt_mask=hidden(lower_triangle(TIME)))
    assert_same(ours(targets, memory), expected)


@settings
def test_a_padded_decoder_layer_equals_torch_at_real_positions(norm_first, activation):
    ours, theirs = decoders(norm_first, activation)
    targets, memory = numbers(6, BATCH, TIME, WIDTH), numbers(7, BATCH, SOURCE, WIDTH)
    target_mask, source_mask = real([TIME, 3], TIME), real([4, SOURCE], SOURCE)
    expected = run(
        theirs,
        targets,
        memory,
        tgt_mask=hidden(lower_triangle(TIME)),
        tgt_key_padding_mask=hidden(target_mask),
        memory_key_padding_mask=hidden(source_mask),
    )
    outputs = ours(
        targets, memory, padding_mask=target_mask, encoder_padding_mask=source_mask
    )
    assert_same(outputs, expected, where=target_mask)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_masked_decoder_layer_equals_torch(norm_first):
    ours, theirs = decoders(norm_first, "relu")
    targets, memory = numbers(8, BATCH, TIME, WIDTH), numbers(9, BATCH, SOURCE, WIDTH)
    generator = np.random.default_rng(8)
    own = generator.random((TIME, TIME)) < 0.5
    np.fill_diagonal(own, True)
    cross = generator.random((TIME, SOURCE)) < 0.5
    cross[:, 0] = True
    expected = run(
        theirs,
        targets,
        memory,
        tgt_mask=hidden(own & lower_triangle(TIME)),
        memory_mask=hidden(cross),
    )
    outputs = ours(
        targets,
        memory,
        attention_mask=own[None],
        cross_attention_mask=cross[None],
    )
    assert_same(outputs, expected)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_weights_of_attention_equal_torch(norm_first):
    ours, theirs = encoders(norm_first, "relu")
    inputs, mask = numbers(10, BATCH, TIME, WIDTH), real([TIME, 3], TIME)
    with torch.no_grad():
        seen = theirs.norm1(tensor(inputs)) if norm_first else tensor(inputs)
        _, expected = theirs.self_attn(
            seen,
            seen,
            seen,
            key_padding_mask=hidden(mask),
            average_attn_weights=False,
        )
    _, scores = ours(inputs, padding_mask=mask, return_attention_scores=True)
    assert_same(scores, expected.numpy())


def test_the_gradients_of_a_decoder_layer_equal_torch():
    ours, theirs = decoders(True, "gelu")
    inputs = [keras.Input((TIME, WIDTH)), keras.Input((SOURCE, WIDTH))]
    model = keras.Model(inputs, ours(*inputs))
    feed = [numbers(11, BATCH, TIME, WIDTH), numbers(12, BATCH, SOURCE, WIDTH)]
    goal = numbers(13, BATCH, TIME, WIDTH)

    outputs = theirs(*map(tensor, feed), tgt_mask=hidden(lower_triangle(TIME)))
    loss = torch.mean((outputs - tensor(goal)) ** 2)
    loss.backward()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter -= parameter.grad

    model.compile(keras.optimizers.SGD(1.0), loss="mse")
    model.train_on_batch(feed, goal)
    for mine, other in zip(ours.get_weights(), block_weights(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)


def test_a_stack_of_pre_norm_blocks_equals_torch_with_a_final_norm():
    layer = their_layer(torch.nn.TransformerEncoderLayer, True, "gelu")
    norm = torch.nn.LayerNorm(WIDTH, eps=EPSILON)
    theirs = reference(
        torch.nn.TransformerEncoder(layer, 3, norm=norm, enable_nested_tensor=False)
    )
    ours = kt.TransformerStack(num_layers=3, **our_settings(True, "gelu"))
    ours.build((None, None, WIDTH))
    weights = [array for block in theirs.layers for array in block_weights(block)]
    ours.set_weights(weights + norm_weights(theirs.norm))

    inputs, mask = numbers(14, BATCH, TIME, WIDTH), real([TIME, 3], TIME)
    assert_same(ours(inputs), run(theirs, inputs))
    expected = run(theirs, inputs, src_key_padding_mask=hidden(mask))
    assert_same(ours(inputs, padding_mask=mask), expected, where=mask)


def test_a_stack_of_post_norm_blocks_equals_torch_without_a_final_norm():
    layer = their_layer(torch.nn.TransformerEncoderLayer, False, "relu")
    theirs = reference(
        torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    )
    ours = kt.TransformerStack(num_layers=2, **our_settings(False, "relu"))
    ours.build((None, None, WIDTH))
    ours.set_weights(
        [array for block in theirs.layers for array in block_weights(block)]
    )
    inputs, mask = numbers(15, BATCH, TIME, WIDTH), real([TIME, 3], TIME)
    expected = run(theirs, inputs, src_key_padding_mask=hidden(mask))
    assert_same(ours(inputs, padding_mask=mask), expected, where=mask)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_stack_of_decoder_blocks_equals_torch(norm_first):
    layer = their_layer(torch.nn.TransformerDecoderLayer, norm_first, "relu")
    norm = torch.nn.LayerNorm(WIDTH, eps=EPSILON) if norm_first else None
    theirs = reference(torch.nn.TransformerDecoder(layer, 2, norm=norm))
    ours = kt.TransformerStack(
        num_layers=2,
        causal=True,
        cross_attention=True,
        **our_settings(norm_first, "relu"),
    )
    ours.build((None, None, WIDTH), (None, None, WIDTH))
    weights = [array for block in theirs.layers for array in block_weights(block)]
    ours.set_weights(weights + (norm_weights(theirs.norm) if norm_first else []))

    targets = numbers(16, BATCH, TIME, WIDTH)
    memory = numbers(17, BATCH, SOURCE, WIDTH)
    target_mask, source_mask = real([TIME, 3], TIME), real([4, SOURCE], SOURCE)
    expected = run(
        theirs,
        targets,
        memory,
        tgt_mask=hidden(lower_triangle(TIME)),
        tgt_key_padding_mask=hidden(target_mask),
        memory_key_padding_mask=hidden(source_mask),
    )
    outputs = ours(
        targets, memory, padding_mask=target_mask, encoder_padding_mask=source_mask
    )
    assert_same(outputs, expected, where=target_mask)
