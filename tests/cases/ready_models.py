"""The ready models of this library, small, for the cases that hold for each."""

import keras
import numpy as np

import keras_transformer as kt

VOCABULARY, CLASSES = 12, 3


def text_classifier(**settings):
    return kt.build_text_classifier(VOCABULARY, 8, 2, 12, **settings)


def sentence_embedding(**settings):
    return kt.build_sentence_embedding_classifier(
        VOCABULARY, 6, 4, 3, attention_dim=5, penalty=0.1, **settings
    )


# name -> function of further settings that returns an untrained model
READY = {
    "chapter": text_classifier,
    "text-classifier": lambda **settings: text_classifier(
        num_layers=2,
        positions="learned",
        sequence_length=16,
        num_classes=CLASSES,
        normalize_first=True,
        pooling="max",
        **settings,
    ),
    "sentence-embedding": sentence_embedding,
}


def batch(model, seed=0):
    """Return ids (6, 5), the second half of the rows padded, and a class a row."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(4, VOCABULARY, (6, 5))
    ids[3:, 3:] = 0
    classes = max(2, model.output_shape[-1])
    return ids.astype("int32"), np.arange(6) % classes


def compiled(model, **settings):
    """Compile a classifier for training."""
    binary = model.output_shape[-1] == 1
    loss = "binary_crossentropy" if binary else "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.Adam(1e-2), loss, **settings)
    return model
