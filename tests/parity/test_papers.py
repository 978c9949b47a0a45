"""The attentions before the Transformer are their papers' equations."""

import keras
import numpy as np
import pytest
from parity_tools import (
    BATCH,
    SOURCE,
    TIME,
    assert_same,
    carrying,
    numbers,
    randomize,
    real,
    to_numpy,
)

import keras_transformer as kt

UNITS = 8
QUERY_WIDTH, KEY_WIDTH, VALUE_WIDTH = 8, 9, 7


def softmax(scores):
    """Return the softmax of a list of numbers."""
    powers = [np.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def attend_by_hand(score, query, key, value, allowed):
    """Return contexts and weights, one query and one key at a time.

    A query with nothing to attend to gets zeros.
    """
    weights = np.zeros((BATCH, TIME, SOURCE))
    contexts = np.zeros((BATCH, TIME, value.shape[-1]))
    for batch in range(BATCH):
        for time in range(TIME):
            keys = [place for place in range(SOURCE) if allowed[batch, time, place]]
            if not keys:
                continue
            scores = [score(query[batch, time], key[batch, place]) for place in keys]
            for place, weight in zip(keys, softmax(scores), strict=True):
                weights[batch, time, place] = weight
                contexts[batch, time] += weight * value[batch, place]
    return contexts, weights


def bahdanau(layer):
    """Return score(s, h) = v . tanh(W s + U h), of 2015."""
    query_kernel = to_numpy(layer.query.kernel)
    key_kernel = to_numpy(layer.key.kernel)
    vector = to_numpy(layer.score_weight)

    def score(state, annotation):
        total = 0.0
        for unit in range(UNITS):
            inside = state @ query_kernel[:, unit] + annotation @ key_kernel[:, unit]
            total += vector[unit] * np.tanh(inside)
        return total

    return score


def luong_dot(layer):
    """Return score(t, s) = t . s."""
    assert not layer.weights
    return lambda target, source: sum(
        t * s for t, s in zip(target, source, strict=True)
    )


def luong_general(layer):
    """Return score(t, s) = t . W s."""
    kernel = to_numpy(layer.kernel)

    def score(target, source):
        return sum(
            target[row] * kernel[row, column] * source[column]
            for row in range(kernel.shape[0])
            for column in range(kernel.shape[1])
        )

    return score


def luong_concat(layer):
    """Return score(t, s) = v . tanh(W [t; s])."""
    kernel, vector = to_numpy(layer.kernel), to_numpy(layer.score_weight)

    def score(target, source):
        both = np.concatenate([target, source])
        return sum(
            vector[unit] * np.tanh(both @ kernel[:, unit]) for unit in range(UNITS)
        )

    return score


ATTENTIONS = {
    "bahdanau": (lambda: kt.BahdanauAttention(UNITS), bahdanau),
    "luong_dot": (lambda: kt.LuongAttention("dot"), luong_dot),
    "luong_general": (lambda: kt.LuongAttention("general"), luong_general),
    "luong_concat": (lambda: kt.LuongAttention("concat", units=UNITS), luong_concat),
}

every_attention = pytest.mark.parametrize("name", ATTENTIONS)


def widths(name):
    """Return the widths of query, key and value that an attention can join."""
    if name == "luong_dot":
        return KEY_WIDTH, KEY_WIDTH, VALUE_WIDTH
    return QUERY_WIDTH, KEY_WIDTH, VALUE_WIDTH


def built(name, seed, separate_key=True):
    """Return (layer, its score by hand, query, key, value), with random weights."""
    make, by_hand = ATTENTIONS[name]
    query_width, key_width, value_width = widths(name)
    value_width = value_width if separate_key else key_width
    query = numbers(seed, BATCH, TIME, query_width)
    key = numbers(seed + 1, BATCH, SOURCE, key_width)
    value = numbers(seed + 2, BATCH, SOURCE, value_width)
    key = key if separate_key else value
    layer = make()
    if separate_key:
        layer.build(query.shape, value.shape, key.shape)
    else:
        layer.build(query.shape, value.shape)
    randomize(layer, seed)
    return layer, by_hand(layer), query, key, value


def assert_equals_the_paper(layer, score, query, key, value, allowed, **arguments):
    contexts, weights = attend_by_hand(score, query, key, value, allowed)
    given_key = None if key is value else key
    outputs, alignments = layer(
        query, value, given_key, return_attention_scores=True, **arguments
    )
    assert_same(outputs, contexts)
    assert_same(alignments, weights)
    assert_same(layer(query, value, given_key, **arguments), contexts)


@every_attention
def test_attention_equals_its_paper(name):
    everything = np.ones((BATCH, TIME, SOURCE), dtype=bool)
    assert_equals_the_paper(*built(name, 1), everything)
    assert_equals_the_paper(*built(name, 4, separate_key=False), everything)


@every_attention
def test_attention_under_every_mask_equals_its_paper(name):
    parts = built(name, 7)
    value_mask, key_mask = real([5, 4], SOURCE), real([SOURCE, 2], SOURCE)
    allowed = np.random.default_rng(7).random((BATCH, TIME, SOURCE)) < 0.5
    allowed[..., 0] = True
    arguments = {
        "query_mask": real([TIME, 2], TIME),
        "value_mask": value_mask,
        "key_mask": key_mask,
        "attention_mask": allowed,
    }
    together = allowed & value_mask[:, None] & key_mask[:, None]
    assert_equals_the_paper(*parts, together, **arguments)


@every_attention
def test_a_query_with_nothing_to_attend_to_gets_zeros(name):
    allowed = np.ones((BATCH, TIME, SOURCE), dtype=bool)
    allowed[1, 2] = False
    assert_equals_the_paper(*built(name, 10), allowed, attention_mask=allowed)


@every_attention
def test_a_mask_carried_by_the_values_equals_the_paper(name):
    layer, score, query, _, value = built(name, 13, separate_key=False)
    mask = real([SOURCE, 2], SOURCE)
    value = value * mask[..., None]
    allowed = np.broadcast_to(mask[:, None], (BATCH, TIME, SOURCE))
    contexts, weights = attend_by_hand(score, query, value, value, allowed)
    outputs, alignments = layer(
        query, carrying(value, mask), return_attention_scores=True
    )
    assert_same(outputs, contexts)
    assert_same(alignments, weights)


def test_bahdanau_attention_of_equal_spaces_equals_keras_additive_attention():
    query = numbers(16, BATCH, TIME, UNITS)
    value = numbers(17, BATCH, SOURCE, UNITS)
    mask = real([SOURCE, 2], SOURCE)
    theirs = keras.layers.AdditiveAttention()
    theirs.build([query.shape, value.shape])
    (scale,) = randomize(theirs, 16)
    ours = kt.BahdanauAttention(UNITS)
    ours.build(query.shape, value.shape)
    ours.query.kernel.assign(np.eye(UNITS))
    ours.key.kernel.assign(np.eye(UNITS))
    ours.score_weight.assign(scale)
    expected, weights = theirs(
        [query, value], mask=[None, mask], return_attention_scores=True
    )
    outputs, alignments = ours(
        query, value, value_mask=mask, return_attention_scores=True
    )
    assert_same(outputs, expected)
    assert_same(alignments, weights)


def test_luongs_dot_attention_equals_keras_attention():
    query = numbers(18, BATCH, TIME, UNITS)
    value = numbers(19, BATCH, SOURCE, UNITS)
    key = numbers(20, BATCH, SOURCE, UNITS)
    mask = real([SOURCE, 2], SOURCE)
    expected, weights = keras.layers.Attention()(
        [query, value, key], mask=[None, mask, None], return_attention_scores=True
    )
    outputs, alignments = kt.LuongAttention("dot")(
        query, value, key, value_mask=mask, return_attention_scores=True
    )
    assert_same(outputs, expected)
    assert_same(alignments, weights)


def self_attentive_by_hand(layer, inputs, mask):
    """Return A = softmax(W2 tanh(W1 H^T)), M = A H and the mean of ||A A^T - I||^2."""
    first = to_numpy(layer.attention.kernel).T
    second = to_numpy(layer.annotation.kernel).T
    matrices, annotations, penalties = [], [], []
    for sequence, row in zip(inputs, mask, strict=True):
        scores = second @ np.tanh(first @ sequence.T)
        annotation = np.zeros_like(scores)
        for hop in range(len(scores)):
            annotation[hop, row] = softmax(list(scores[hop, row]))
        overlap = annotation @ annotation.T
        penalty = 0.0
        for left in range(len(overlap)):
            for right in range(len(overlap)):
                penalty += (overlap[left, right] - (left == right)) ** 2
        matrices.append(annotation @ sequence)
        annotations.append(annotation)
        penalties.append(penalty)
    return np.stack(matrices), np.stack(annotations), np.mean(penalties)


@pytest.mark.parametrize("way", ["unmasked", "mask", "carried"])
def test_self_attentive_embedding_equals_its_paper(way):
    inputs = numbers(24, BATCH, SOURCE, VALUE_WIDTH)
    mask = real([SOURCE, SOURCE if way == "unmasked" else 2], SOURCE)
    inputs = inputs * mask[..., None]
    layer = kt.SelfAttentiveEmbedding(3, attention_dim=UNITS, penalty=0.5)
    layer.build(inputs.shape)
    randomize(layer)
    matrix, annotation, penalty = self_attentive_by_hand(layer, inputs, mask)

    given = carrying(inputs, mask) if way == "carried" else inputs
    arguments = {"mask": mask} if way == "mask" else {}
    outputs, weights = layer(given, return_attention_scores=True, **arguments)
    assert_same(outputs, matrix)
    assert_same(weights, annotation)
    assert_same(sum(to_numpy(loss) for loss in layer.losses), 0.5 * penalty)
    assert_same(layer(given, **arguments), matrix)


def test_self_attentive_embedding_without_penalty_has_no_loss():
    layer = kt.SelfAttentiveEmbedding(3, attention_dim=UNITS)
    layer(numbers(25, BATCH, SOURCE, VALUE_WIDTH))
    assert not layer.losses


def test_the_penalty_is_trained_on():
    """One step on the penalty alone moves the weights against its slope."""
    inputs = numbers(26, BATCH, SOURCE, VALUE_WIDTH)
    everything = np.ones((BATCH, SOURCE), dtype=bool)
    layer = kt.SelfAttentiveEmbedding(3, attention_dim=UNITS, penalty=1.0)
    entrance = keras.Input((SOURCE, VALUE_WIDTH))
    # Multiplied by zero, the output has no gradient of its own.
    model = keras.Model(entrance, layer(entrance) * 0.0)
    randomize(layer)
    _, _, before = self_attentive_by_hand(layer, inputs, everything)
    model.compile(keras.optimizers.SGD(1e-2), loss="mse")
    reported = model.train_on_batch(inputs, np.zeros((BATCH, 3, VALUE_WIDTH)))
    assert_same(np.asarray(reported), np.asarray(before))
    _, _, after = self_attentive_by_hand(layer, inputs, everything)
    assert after < before
