import keras
import numpy as np
import pandas as pd
import pytest
from word_examples import TARGET, TEXTS

from keras_transformer.tasks import homonym_experiment

KNOWN = pd.DataFrame(
    {
        "word": "배",
        "sense": ["boat", "boat", "pear", "pear", "belly"],
        "sentence": TEXTS,
    }
)
WAYS = ["trained", "untrained", "no positions", "embedding", "context"]


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
