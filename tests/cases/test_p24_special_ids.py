"""P24: the padding id of tokenizer, model and batches is one and the same.

Sources: google/sentencepiece#770, #559; kpe/bert-for-tf2#68; CyberZHG/keras-gpt-2#9.
The tokenizer's own part is in tests/tokenizers.
"""

import numpy as np
import pytest

from keras_transformer import TextClassifier

from .examples import quick
from .helpers import array, assert_close, randomize, run
from .ready_models import READY

pytestmark = pytest.mark.filterwarnings("ignore:The corpus is too small")


@pytest.mark.parametrize("pad", quick([0, 3, 11], [3]))
@pytest.mark.parametrize("name", READY)
def test_a_model_masks_its_own_padding_id_and_no_other(name, pad):
    model = randomize(READY[name](pad_id=pad))
    word = 0 if pad else 3  # an id that is padding elsewhere, and a word here

    def call(*ids):
        return array(run(model, "__call__", np.array([ids])))

    short = call(word, 5)
    assert_close(call(word, 5, pad), short)
    assert_close(call(word, 5, pad, pad, pad), short)
    assert np.abs(short - call(5)).max() > 1e-4


@pytest.mark.parametrize("name", READY)
@pytest.mark.parametrize("pad", [-1, 12, 0.0, "0", True])
def test_a_padding_id_outside_the_vocabulary_is_refused(name, pad):
    with pytest.raises(ValueError, match="`pad_id` must be an id below"):
        READY[name](pad_id=pad)


@pytest.mark.parametrize(
    "recipe", quick(["default", "chapter", "sentence-embedding"], ["default"])
)
def test_a_task_pads_with_the_id_that_its_tokenizer_was_given(recipe):
    texts = ["참 좋은 영화", "참 나쁜 영화", "영화"] * 2
    classifier = TextClassifier.from_texts(
        texts, [1, 0] * 3, recipe, vocabulary_size=20, pad_id=3
    )
    assert classifier.tokenizer.pad_id == 3
    randomize(classifier.model)
    alone = classifier.predict_probabilities(texts[-1:])
    together = classifier.predict_probabilities(texts)
    np.testing.assert_allclose(alone[0], together[-1], atol=1e-5)
    unknown = classifier.tokenizer.encode("漢")  # is no padding
    assert unknown and 3 not in unknown
