"""A process is killed at any moment: what lies on disk is whole, and it goes on."""

import json
import os
import signal
import time

import keras
import numpy as np
import pytest

from cases.helpers import finish, start_process
from keras_transformer import TextClassifier

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="signals of POSIX"),
]

TRAIN = """
import json, sys
import keras
from keras_transformer import TextClassifier
TextClassifier.load(sys.argv[1])  # imports and data are ready: tell the parent
texts = ["정말 좋다", "참 재미있다", "너무 나쁘다", "지루하고 싫다"] * 16
labels = [1, 1, 0, 0] * 16
classifier = TextClassifier.load(sys.argv[1])
print("ready", flush=True)
history = classifier.fit(
    texts, labels, validation_data=(texts, labels), epochs=12, batch_size=16,
    patience=None, checkpoint_folder=sys.argv[2], verbose=0,
)
print(json.dumps([history.epoch, classifier.evaluate(texts, labels)["accuracy"]]))
"""

SAVE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from keras_transformer import TextClassifier
classifier, rename = TextClassifier.load(sys.argv[1]), Path.rename
def die(path, target):
    if path.name == "new":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(path, target)
Path.rename = die
print("ready", flush=True)
classifier.save(sys.argv[2])
"""

SAVE = """
import sys
from keras_transformer import TextClassifier
classifier = TextClassifier.load(sys.argv[1])
print("ready", flush=True)
while True:
    classifier.save(sys.argv[2])
"""


@pytest.fixture
def folder(tmp_path):
    texts = ["정말 좋다", "참 재미있다", "너무 나쁘다", "지루하고 싫다"]
    keras.utils.set_random_seed(0)
    with pytest.warns(UserWarning, match="corpus is too small"):
        classifier = TextClassifier.from_texts(
            texts, [1, 1, 0, 0], embed_dim=256, num_heads=2, dense_dim=512
        )
    classifier.save(tmp_path / "task")
    return tmp_path / "task"


def killed(code, *arguments, after):
    """Run code in a process that is killed so many seconds after it says ready."""
    process = start_process(code, *arguments)
    assert process.stdout.readline() == "ready\n"
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_a_training_that_is_killed_again_and_again_comes_to_its_end(folder, tmp_path):
    state = tmp_path / "state"
    rng = np.random.default_rng(0)
    cut = sum(
        killed(TRAIN, folder, state, after=seconds)
        for seconds in rng.uniform(1, 6, size=6)
    )
    assert cut, "no training was killed"
    epochs, accuracy = json.loads(
        finish(start_process(TRAIN, folder, state)).split("\n")[-2]
    )
    assert epochs[-1:] in ([11], []) and accuracy == 1.0
    assert not state.exists()


def test_a_task_that_is_saved_while_its_process_is_killed_is_whole(folder, tmp_path):
    place = tmp_path / "saved"
    TextClassifier.load(folder).save(place)
    text = ["정말 나쁘다"]
    expected = TextClassifier.load(folder).predict_probabilities(text)
    moments = np.random.default_rng(1).uniform(0, 0.5, size=8)
    for code, seconds in [(SAVE_AND_DIE, 60), *((SAVE, moment) for moment in moments)]:
        assert killed(code, folder, place, after=seconds)
        loaded = TextClassifier.load(place)
        np.testing.assert_allclose(
            loaded.predict_probabilities(text), expected, atol=1e-6
        )
