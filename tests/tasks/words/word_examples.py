"""What the tests of a word in its sentence read: texts, a tokenizer, a small model."""

import keras

from keras_transformer import MaskedLanguageModel
from keras_transformer.tokenizers import SentencePieceTokenizer

TARGET = "배 타고 배 먹으니 배 아프다"
TEXTS = [
    "배를 타고 섬에 갔다",
    "배에 올랐다",
    "배를 깎아 먹었다",
    "달콤한 배 하나",
    "배가 고프다",
]


def train_tokenizer():
    return SentencePieceTokenizer.train(
        [TARGET, *TEXTS], 60, user_defined_symbols=["<mask>"]
    )


def small(tokenizer, **settings):
    keras.utils.set_random_seed(3)
    model = MaskedLanguageModel(
        tokenizer.vocabulary_size, 2, 16, num_heads=2, dense_dim=16, **settings
    )
    model.build()
    return model
