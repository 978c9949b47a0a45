"""Small models that decode, one for each kind of position."""

import numpy as np

import keras_transformer as kt
from cases.helpers import randomize

VOCABULARY = 13
SIZES = dict(
    vocabulary_size=VOCABULARY, num_layers=2, embed_dim=8, num_heads=2, dense_dim=12
)


def _relative(name, bidirectional):
    return kt.RelativePositionBias(
        2, num_buckets=8, max_distance=12, bidirectional=bidirectional, name=name
    )


LANGUAGE_MODELS = {
    "learned": lambda: dict(sequence_length=40, normalize_first=True),
    "sinusoidal": lambda: dict(positions="sinusoidal", scale_embedding=True),
    "rotary": lambda: dict(
        positions=None,
        rotary=kt.RotaryEmbedding(),
        num_key_value_heads=1,
        norm="rms",
        normalize_first=True,
        gated=True,
        use_bias=False,
        activation="silu",
        tie_head=False,
    ),
    "relative": lambda: dict(positions=None, position_bias=_relative("bias", False)),
    "alibi": lambda: dict(positions=None, position_bias=kt.AlibiBias(2)),
    "window": lambda: dict(positions="sinusoidal", sliding_window=3, head_bias=True),
}
TRANSLATORS = {
    "learned": lambda: dict(
        positions="learned",
        sequence_length=40,
        position_offset=2,
        embedding_norm=True,
        head_bias=True,
    ),
    "sinusoidal": lambda: dict(position_layout="concatenated", num_decoder_layers=1),
    "rotary": lambda: dict(
        positions=None,
        rotary=kt.RotaryEmbedding(),
        normalize_first=True,
        share_embeddings=False,
        source_vocabulary_size=11,
        num_decoder_heads=4,
        key_dim=2,
    ),
    "relative": lambda: dict(
        positions=None,
        encoder_position_bias=_relative("encoder_bias", True),
        decoder_position_bias=_relative("decoder_bias", False),
        norm="rms",
        normalize_first=True,
        use_bias=False,
        attention_scale=1.0,
        key_dim=3,
        scale_embedding=False,
        head_scale=8**-0.5,
        start_id=0,
    ),
    "alibi": lambda: dict(
        positions=None,
        encoder_position_bias=kt.AlibiBias(2),
        decoder_position_bias=kt.AlibiBias(2),
        tie_head=False,
        decoder_dense_dim=10,
    ),
}
ENCODERS = {
    "learned": lambda: dict(sequence_length=40, num_segments=2, position_offset=2),
    "rotary": lambda: dict(
        positions=None, rotary=kt.RotaryEmbedding(), embedding_norm=False
    ),
}


def make(model_class, settings, **more):
    """Return a built model with fixed random weights."""
    model = model_class(**{**SIZES, **settings(), **more})
    model.build((None, None))
    return randomize(model)


def language_model(position, **more):
    """Return a small language model by its kind of position."""
    return make(kt.LanguageModel, LANGUAGE_MODELS[position], **more)


def translator(position, **more):
    """Return a small encoder-decoder by its kind of position."""
    return make(kt.Seq2SeqTransformer, TRANSLATORS[position], **more)


def random_ids(*shape, seed=0):
    """Return token ids that are neither padding, start nor stop."""
    return np.random.default_rng(seed).integers(3, 11, shape).astype("int32")


def padded(rows, side, length=None, pad_id=0):
    """Return rows of ids as one batch, and its mask."""
    length = length or max(map(len, rows))
    ids = np.full((len(rows), length), pad_id, "int32")
    mask = np.zeros((len(rows), length), bool)
    for index, row in enumerate(rows):
        where = slice(length - len(row), None) if side == "left" else slice(len(row))
        ids[index, where], mask[index, where] = row, True
    return ids, mask
