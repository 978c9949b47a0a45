import keras
import numpy as np
import pandas as pd
import pytest
from word_examples import TARGET, TEXTS

from cases.helpers import slow_on
from keras_transformer.tasks import homonym_experiment

KNOWN = pd.DataFrame(
    {
        "word": "배",
        "sense": ["boat", "boat", "pear", "pear", "belly"],
        "sentence": TEXTS,
    }
)
WAYS = ["trained", "untrained", "no positions", "embedding", "context"]


@slow_on("tensorflow")
@pytest.mark.filterwarnings("ignore:The corpus is too small")
def test_five_ways_are_measured_with_the_same_sentences():
    found = homonym_experiment(
        KNOWN, KNOWN, [TARGET], vocabulary_size=60, epochs=1, verbose=0
    )
    table = found.table
    assert table.index.tolist() == list(found.encoders) == WAYS
    assert list(table) == ["accuracy", "1", "2", "3", "spread"]
    for way in ("no positions", "embedding"):
        assert table.loc[way, "spread"] < 1e-4
        assert table.loc[way, ["1", "2", "3"]].nunique() == 1
    assert (table.loc[["trained", "untrained"], "spread"] > 1e-3).all()
    assert len(found.history.history["loss"]) == 1
    span = [(0, 1)]
    trained, untrained = (found.encoders[way]([TARGET], span) for way in WAYS[:2])
    assert np.abs(trained - untrained).max() > 1e-4
    ids = np.array([found.tokenizer.encode(TARGET)], "int32")
    ids[0, 0] = found.tokenizer.piece_to_id("<mask>")
    outputs = keras.ops.convert_to_numpy(found.model.encode(ids))
    np.testing.assert_allclose(trained[0], outputs[0, 0], atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"known": KNOWN.drop(columns="sense")}, "`known` must have the columns"),
        ({"test": KNOWN.assign(word="눈")}, "No sentence of `known` has the word '눈'"),
        ({"text": "사과를 먹었다"}, "No token of the text begins with the word"),
        ({"num_neighbors": 0}, "`num_neighbors` must be a positive integer"),
        ({"texts": "배 타고"}, "must be several texts"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_any_training(change, message):
    settings = {"known": KNOWN, "test": KNOWN, **change}
    with pytest.raises((TypeError, ValueError), match=message):
        homonym_experiment(**settings, epochs=10**9)
