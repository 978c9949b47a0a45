"""Every constructor argument of every layer with a value other than the default."""

import keras

import keras_transformer as kt

from .examples import VOCABULARY, Example

COMMON = dict(
    embed_dim=10,
    num_heads=4,
    dense_dim=14,
    key_dim=6,
    dropout=0.25,
    activation="gelu",
    normalize_first=True,
    layer_norm_epsilon=1e-5,
    seed=3,
)
BLOCK = dict(
    **COMMON,
    num_key_value_heads=2,
    attention_dropout=0.5,
    causal=True,
    cross_attention=True,
    gated=True,
    norm="rms",
    use_bias=False,
    attention_scale=0.5,
    sliding_window=3,
)


def _plug():
    return kt.RotaryEmbedding(max_wavelength=500, layout="interleaved")


def _table():
    return keras.layers.ReversibleEmbedding(VOCABULARY, 8, name="table")


# Every constructor argument of every class with a value other than the default.
COMPLETE = {
    "attention": Example(
        "MultiHeadAttention",
        lambda: dict(
            num_heads=4,
            key_dim=6,
            value_dim=3,
            dropout=0.25,
            use_bias=False,
            output_shape=10,
            num_key_value_heads=2,
            rotary=_plug(),
            scale=0.5,
            sliding_window=3,
            flash_attention=False,
            kernel_initializer=keras.initializers.HeNormal(seed=1),
            bias_initializer="ones",
            kernel_regularizer=keras.regularizers.L2(0.25),
            bias_regularizer=keras.regularizers.L1(0.5),
            kernel_constraint=keras.constraints.MaxNorm(2.5),
            bias_constraint="non_neg",
            seed=3,
        ),
        ("float B T 8", "float B S 6"),
        "B T 10",
        scores="B 4 T S",
    ),
    "bahdanau": Example(
        "BahdanauAttention",
        lambda: dict(units=4, dropout=0.25, seed=3),
        ("float B T 8", "float B S 6"),
        "B T 6",
        scores="B T S",
    ),
    "luong": Example(
        "LuongAttention",
        lambda: dict(score="concat", units=4, dropout=0.25, seed=3),
        ("float B T 8", "float B S 6"),
        "B T 6",
        scores="B T S",
    ),
    "self-attentive": Example(
        "SelfAttentiveEmbedding",
        lambda: dict(num_hops=3, attention_dim=4, penalty=0.25),
        ("float B S 8",),
        "B 3 8",
        scores="B 3 S",
    ),
    "pooling": Example(
        "SequencePooling", lambda: dict(mode="max"), ("float B S 8",), "B 8"
    ),
    "feed-forward": Example(
        "FeedForward",
        lambda: dict(
            embed_dim=8, dense_dim=12, activation="silu", gated=True, use_bias=False
        ),
        ("float B T 8",),
        "B T 8",
    ),
    "positional": Example(
        "PositionalEmbedding",
        lambda: dict(
            sequence_length=9,
            input_dim=VOCABULARY,
            output_dim=8,
            encoding="sinusoidal",
            pad_id=3,
            layout="concatenated",
            position_offset=2,
            num_segments=2,
            scale_embedding=True,
            layer_norm_epsilon=1e-5,
            dropout=0.25,
            shared_embedding=_table(),
            seed=3,
        ),
        ("ids B T",),
        "B T 8",
    ),
    "head": Example(
        "TokenHead",
        lambda: dict(
            vocabulary_size=VOCABULARY,
            token_embedding=_table(),
            use_bias=True,
            scale=0.5,
        ),
        ("float B T 8",),
        f"B T {VOCABULARY}",
    ),
    "sinusoidal": Example(
        "SinusoidalEncoding",
        lambda: dict(layout="concatenated", max_wavelength=500),
        ("float B T 8",),
        "B T 8",
    ),
    "rotary": Example(
        "RotaryEmbedding",
        lambda: dict(
            max_wavelength=500,
            layout="interleaved",
            scaling={"type": "linear", "factor": 2.0},
        ),
        ("float B T 2 6",),
        "B T 2 6",
    ),
    "alibi": Example(
        "AlibiBias",
        lambda: dict(num_heads=3),
        ("positions B T", "positions B S"),
        {"slopes": "3", "distances": "B T S"},
    ),
    "relative": Example(
        "RelativePositionBias",
        lambda: dict(num_heads=3, num_buckets=8, max_distance=12, bidirectional=False),
        ("positions B T", "positions B S"),
        "B 3 T S",
    ),
    "block": Example(
        "TransformerBlock",
        lambda: dict(**BLOCK, rotary=_plug()),
        ("float B T 10", "float B S 9"),
        "B T 10",
        scores=("B 4 T T", "B 4 T S"),
    ),
    "encoder": Example(
        "TransformerEncoder",
        lambda: dict(**COMMON, rotary=_plug()),
        ("float B T 10",),
        "B T 10",
        scores="B 4 T T",
    ),
    "decoder": Example(
        "TransformerDecoder",
        lambda: dict(**COMMON, rotary=_plug(), cross_attention=False),
        ("float B T 10",),
        "B T 10",
        scores="B 4 T T",
    ),
    "stack": Example(
        "TransformerStack",
        lambda: dict(
            **BLOCK,
            num_layers=2,
            rotary=_plug(),
            final_norm=False,
            position_bias=kt.AlibiBias(4),
        ),
        ("float B T 10", "float B S 9"),
        "B T 10",
        scores=[("B 4 T T", "B 4 T S")] * 2,
    ),
}
