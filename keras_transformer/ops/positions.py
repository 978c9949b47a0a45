"""Positions as numbers: sinusoids, rotary angles, relative buckets, ALiBi."""

import math

import numpy as np
from keras import ops


def sinusoids(positions, width: int, *, layout="interleaved", max_wavelength=10000):
    """Encode positions by sines and cosines of falling frequency.

    `PE[p, 2i] = sin(p / max_wavelength**(2i / width))`,
    `PE[p, 2i + 1] = cos(p / max_wavelength**(2i / width))`

    Args:
        positions: Integers of any shape (...,).
        width: Size of the encoding; an odd width has one sine more.
        layout: `"interleaved"` as above (the 2017 paper, the chapter's section
            10), or `"concatenated"`: all sines, then all cosines.
        max_wavelength: The longest period is 2 pi times this.

    Returns:
        float32 encoding (..., width).
    """
    frequencies = max_wavelength ** (-np.arange(0, width, 2) / width)
    angles = _angles(positions, frequencies)  # (..., ceil(width / 2))
    sines, cosines = ops.sin(angles), ops.cos(angles[..., : width // 2])
    if layout == "concatenated":
        return ops.concatenate([sines, cosines], axis=-1)
    if width % 2:
        pairs = ops.stack([sines[..., :-1], cosines], axis=-1)
        pairs = ops.reshape(pairs, (*ops.shape(positions), width - 1))
        return ops.concatenate([pairs, sines[..., -1:]], axis=-1)
    pairs = ops.stack([sines, cosines], axis=-1)
    return ops.reshape(pairs, (*ops.shape(positions), width))


def rotary_angles(positions, head_dim: int, *, max_wavelength=10000, scaling=None):
    """Return the angles by which rotary embedding turns each pair of features.

    `angle[p, i] = p * f(max_wavelength**(-2i / head_dim))`

    Args:
        positions: Integers (T,) or (B, T).
        head_dim: Size of a head, even.
        max_wavelength: The base of the frequencies (`rope_theta`).
        scaling: `None`; `{"type": "linear", "factor": f}` divides positions by f;
            `{"type": "llama3", "factor", "low_freq_factor", "high_freq_factor",
            "original_max_position_embeddings"}` divides only long wavelengths.

    Returns:
        float32 angles (..., head_dim / 2).
    """
    frequencies = max_wavelength ** (-np.arange(0, head_dim, 2) / head_dim)
    if scaling is not None:
        frequencies = _SCALINGS[scaling["type"]](frequencies, scaling)
    return _angles(positions, frequencies)


def rotate(inputs, angles, layout="half"):
    """Turn the pairs of features of each head by their angles.

    Args:
        inputs: Queries or keys (B, T, N, H).
        angles: (T, H / 2) or (B, T, H / 2), from `rotary_angles`.
        layout: `"half"` pairs feature i with i + H / 2 (Hugging Face's
            checkpoints); `"interleaved"` pairs 2i with 2i + 1 (the RoFormer
            paper, Meta's own code).

    Returns:
        (B, T, N, H) in the dtype of `inputs`.
    """
    if len(angles.shape) == 2:
        angles = angles[None]
    angles = ops.expand_dims(angles, 2)  # (B, T, 1, H / 2)
    cosines = ops.cast(ops.cos(angles), inputs.dtype)
    sines = ops.cast(ops.sin(angles), inputs.dtype)
    if layout == "half":
        first, second = ops.split(inputs, 2, axis=-1)
    else:
        first, second = inputs[..., 0::2], inputs[..., 1::2]
    turned = (
        first * cosines - second * sines,
        first * sines + second * cosines,
    )
    if layout == "half":
        return ops.concatenate(turned, axis=-1)
    return ops.reshape(ops.stack(turned, axis=-1), ops.shape(inputs))


def relative_positions(query_positions, key_positions):
    """Return key minus query positions, int32 (1 or B, T, S).

    Args:
        query_positions: Integers (T,) or (B, T).
        key_positions: Integers (S,) or (B, S).
    """
    query = ops.expand_dims(query_positions, -1)
    relative = ops.expand_dims(key_positions, -2) - query
    return relative[None] if len(relative.shape) == 2 else relative


def relative_positions_shape(query_shape, key_shape) -> tuple:
    """Return the shape of `relative_positions` of positions of these shapes."""
    batches = [shape[0] for shape in (query_shape, key_shape) if len(shape) == 2]
    return (batches[0] if batches else 1, query_shape[-1], key_shape[-1])


def relative_buckets(
    relative, *, bidirectional=True, num_buckets: int = 32, max_distance: int = 128
):
    """Sort relative positions into T5's buckets: exact near, logarithmic far.

    Args:
        relative: Integers, key position minus query position, any shape.
        bidirectional: Whether keys after the query get buckets of their own
            (encoders); otherwise they share bucket 0 (decoders).
        num_buckets: Number of buckets in all.
        max_distance: Distances from here on share the last bucket.

    Returns:
        int32 buckets in [0, num_buckets), of the shape of `relative`.

    Source: Raffel et al. 2020, https://arxiv.org/abs/1910.10683
    """
    relative = ops.cast(relative, "int32")
    if bidirectional:
        num_buckets //= 2
        side = num_buckets * ops.cast(relative > 0, "int32")
        distance = ops.abs(relative)
    else:
        side = 0
        distance = ops.maximum(-relative, 0)
    exact = num_buckets // 2
    # Comparing with the integer edges of the buckets spares a float logarithm,
    # which rounds differently on different backends just at the edges.
    ratio = np.log(np.arange(1, max_distance + 1) / exact) / math.log(
        max_distance / exact
    )
    far = exact + (ratio.astype("float32") * (num_buckets - exact)).astype("int32")
    edges = [
        1 + int(np.argmax(far >= bucket)) for bucket in range(exact + 1, num_buckets)
    ]
    bucket = ops.minimum(distance, exact)
    for edge in edges:
        bucket = bucket + ops.cast(distance >= edge, "int32")
    return ops.cast(side + bucket, "int32")


def alibi_slopes(num_heads: int) -> np.ndarray:
    """Return ALiBi's slope of each head: 2**(-8/N), 2**(-16/N), ..., 2**-8.

    For a number of heads that is no power of two, the slopes of the next lower
    power, and then every second slope of the next higher one.

    Source: Press et al. 2022, https://arxiv.org/abs/2108.12409
    """

    def geometric(count):
        return 2.0 ** (-8.0 * np.arange(1, count + 1) / count)

    lower = 2 ** int(math.floor(math.log2(num_heads)))
    slopes = geometric(lower)
    if lower < num_heads:
        slopes = np.append(slopes, geometric(2 * lower)[0::2][: num_heads - lower])
    return slopes.astype("float32")


def alibi_bias(slopes, distances):
    """Return the bias (1 or B, N, T, S) `-slope[n] * distance[t, s]` in float32."""
    slopes = ops.cast(slopes, "float32")[None, :, None, None]
    return -slopes * ops.cast(ops.expand_dims(distances, 1), "float32")


def _angles(positions, frequencies):
    positions = ops.cast(ops.expand_dims(positions, -1), "float32")
    return positions * ops.convert_to_tensor(frequencies, dtype="float32")


def _linear(frequencies, scaling):
    return frequencies / scaling["factor"]


def _llama3(frequencies, scaling):
    # Source: Llama 3.1's published rope scaling. Wavelengths shorter than the
    # high-frequency edge stay, longer than the low-frequency edge are divided,
    # those between are blended.
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return frequencies * (kept + (1.0 - kept) / scaling["factor"])


_SCALINGS = {"linear": _linear, "llama3": _llama3}
