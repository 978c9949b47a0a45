"""The recurrent translators of 2014 and 2015, one sentence and token at a time.

Sums over vectors in float64, with a model's own weights, no masks: a sentence has
no padding here. For 2015 there are two readings of what the last layers see: the
paper's text has the new state, `g(y_{i-1}, s_i, c_i)`, its appendix A.2.2 the one
before, `s_{i-1}`. Here, as in the models, it is the new one.
"""

import numpy as np
from parity_tools import to_numpy


def weight(tensor):
    return to_numpy(tensor).astype("float64")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(scores):
    powers = np.exp(scores - np.max(scores))
    return powers / powers.sum()


def cell_step(cell, x, states):
    """Return the next states of a GRU (reset after the product) or LSTM cell."""
    kernel, recurrent, bias = (
        weight(w) for w in (cell.kernel, cell.recurrent_kernel, cell.bias)
    )
    h = states[0]
    if len(states) == 1:
        x_z, x_r, x_h = np.split(x @ kernel + bias[0], 3)
        h_z, h_r, h_h = np.split(h @ recurrent + bias[1], 3)
        z, r = sigmoid(x_z + h_z), sigmoid(x_r + h_r)
        return [z * h + (1 - z) * np.tanh(x_h + r * h_h)]
    i, f, g, o = np.split(x @ kernel + h @ recurrent + bias, 4)
    c = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(c), c]


def read_with(layer, xs, count):
    states = [np.zeros(layer.units) for _ in range(count)]
    outputs = []
    for x in xs:
        states = cell_step(layer.cell, x, states)
        outputs.append(states[0])
    return np.array(outputs), states


def encode(model, source):
    """Return H (S, W), and each layer's last states."""
    count = 2 if model.cell == "lstm" else 1
    xs = weight(model.source_embedding.embeddings)[source]
    all_states = []
    for layer in model.encoder.recurrent_layers:
        if model.bidirectional:
            ahead, states = read_with(layer.forward_layer, xs, count)
            back, more = read_with(layer.backward_layer, xs[::-1], count)
            xs = np.concatenate([ahead, back[::-1]], axis=1)
            states = states + more
        else:
            xs, states = read_with(layer, xs, count)
        all_states.append(states)
    return xs, all_states


def first_states(model, last):
    """Return s_0 of each layer."""
    if not model.bidirectional:
        return last
    half = 2 if model.cell == "lstm" else 1
    first = []
    for index, states in enumerate(last):
        bridges = model.decoder.bridges[index * half : (index + 1) * half]
        backward = states[half:]
        if model.attention is None:
            backward = [
                np.concatenate([states[i], states[half + i]]) for i in range(half)
            ]
        first.append(
            [
                np.tanh(weight(b.kernel).T @ h)
                for b, h in zip(bridges, backward, strict=True)
            ]
        )
    return first


def score_function(model):
    """Return the score of a state and one of the encoder's outputs."""
    layer = model.decoder.attention_layer
    if model.attention == "bahdanau":
        w, u = weight(layer.query.kernel), weight(layer.key.kernel)
        v = weight(layer.score_weight)
        return lambda s, h: v @ np.tanh(w.T @ s + u.T @ h)
    if model.score == "dot":
        return lambda s, h: s @ h
    kernel = weight(layer.kernel)
    if model.score == "general":
        return lambda s, h: s @ kernel @ h
    v = weight(layer.score_weight)
    return lambda s, h: v @ np.tanh(kernel.T @ np.concatenate([s, h]))


def translate(model, source, target):
    """Return the logits (T, V) and the alignments (T, S) of one sentence."""
    annotations, last = encode(model, source)
    cells = first_states(model, last)
    embeddings = weight(model.target_embedding.embeddings)
    readout, head = model.decoder.readout, model.head
    vector = annotations[-1]
    if model.attention is None and model.bidirectional:
        half = annotations.shape[1] // 2
        vector = np.concatenate([annotations[-1, :half], annotations[0, half:]])
    score = None if model.attention is None else score_function(model)

    def attend(state):
        alpha = softmax(np.array([score(state, h) for h in annotations]))
        return sum(a * h for a, h in zip(alpha, annotations, strict=True)), alpha

    fed = np.zeros(model.decoder.output_width)
    logits, alignments = [], []
    for token in target:
        y = x = embeddings[token]
        context, alpha = vector, None
        if model.attention == "bahdanau":
            context, alpha = attend(cells[-1][0])
        if model.attention != "luong":
            x = np.concatenate([y, context])
        elif model.input_feeding is not False:
            x = np.concatenate([y, fed])
        for index, layer in enumerate(model.decoder.recurrent_layers):
            cells[index] = cell_step(layer.cell, x, cells[index])
            x = cells[index][0]
        if model.attention == "luong":
            context, alpha = attend(x)
            both = np.concatenate([context, x])
            output = fed = np.tanh(both @ weight(readout.kernel))
        else:
            read = np.concatenate([x, y, context])  # x is s_i, not s_{i-1}
            pairs = read @ weight(readout.kernel) + weight(readout.bias)
            output = np.array([max(pairs[i : i + 2]) for i in range(0, len(pairs), 2)])
        logits.append(output @ weight(head.kernel) + weight(head.bias))
        alignments.append(alpha)
    return np.array(logits), alignments
