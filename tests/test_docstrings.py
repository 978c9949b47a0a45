"""The examples in the docstrings run."""

import doctest
import importlib
from pathlib import Path

import keras
import pytest

import keras_transformer as kt
from keras_transformer import datasets, tasks, tokenizers

PACKAGE = Path(kt.__file__).parent
MODULES = [
    ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
    for file in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in file.read_text("utf-8")
]
# What needs files, a trained model or minutes.
NOT_RUN = {
    "datasets.bucketed_dataset": {"BucketedDataset"},
    "datasets.pairs": {"read_pairs"},
    "datasets.reviews": {"load_nsmc", "read_reviews"},
    "datasets.splits": {"split"},
    "datasets.word_in_context": {"read_word_in_context"},
    "pretrained.folder": {"from_pretrained", "save_pretrained"},
    "tasks.prompts": {"Continuation"},
    "tasks.text_classifier": {"TextClassifier"},
    "tasks.text_generator": {"TextGenerator"},
    "tasks.translator": {"Translator"},
    "tasks.words.compare_word_senses": {"compare_word_senses"},
    "tasks.words.context_words": {"ContextWords"},
    "tasks.words.homonym_experiment": {"homonym_experiment"},
    "tasks.words.masked_words": {"fit_masked_words"},
    "tasks.words.word_in_context": {"evaluate_word_in_context"},
    "tasks.words.word_senses": {"WordSenses"},
    "tasks.words.word_vectors": {"word_pieces", "word_vectors"},
    "tasks.write_samples": {"WriteSamples"},
    "tokenizers.huggingface_tokenizer": {"HuggingFaceTokenizer"},
    "training.keep_last": {"KeepLast"},
    "training.token_crossentropy": {
        "Perplexity",
        "TokenAccuracy",
        "TokenCrossentropy",
    },
}


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name):
    module = importlib.import_module(f"keras_transformer.{name}")
    if name.startswith("visualization.plot_"):
        pytest.importorskip("matplotlib")
    names = {"keras": keras}
    for part in (tokenizers, datasets, tasks, kt, module):
        names.update(vars(part))
    found = doctest.DocTestFinder().find(module, module.__name__, extraglobs=names)
    examples = {
        test.name.removeprefix(f"{module.__name__}."): test
        for test in found
        if test.examples
    }
    left_out = NOT_RUN.get(name, set())
    assert left_out <= set(examples), "NOT_RUN has names without an example"
    runner = doctest.DocTestRunner()
    for test in (examples[key] for key in sorted(set(examples) - left_out)):
        assert runner.run(test).failed == 0, test.name
