"""Accuracy of the text classifier on NSMC, beside what a user would take instead.

    KERAS_BACKEND=jax python tests/benchmarks/classifier.py --quick
    KERAS_BACKEND=jax python tests/benchmarks/classifier.py --rows 20000
    KERAS_BACKEND=jax python tests/benchmarks/classifier.py

Trains each model on the first rows of the training set, watches the 2,000 rows after
them (or, where there are none, 2,000 held back), and predicts the official test set
once. What a run has finished lies in --work; a later run of the same rows, recipe and
program takes it from there. The table goes into RESULTS.md; with --quick to stdout
only, unless --output names a file.
"""

import argparse
import inspect
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import timing
from provenance import code_hash, hash_of

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # measure this checkout
from keras_transformer import TextClassifier  # noqa: E402
from keras_transformer.datasets import load_nsmc, split  # noqa: E402
from keras_transformer.tasks.recipes import CLASSIFIERS  # noqa: E402

RESULTS = Path(__file__).with_name("RESULTS.md")
SIZES = [20_000, 150_000]
WATCHED = 2_000
LINEAR = "TF-IDF + logistic regression"
RECIPES = {
    "ours": "default",
    "chapter's model": "chapter",
    "sentence embedding (2017)": "sentence-embedding",
}
SKLEARN = ("scikit-learn",)
PARTS = ("ops", "layers", "models", "training", "datasets", "tokenizers", "tasks")


@dataclass(frozen=True)
class Data:
    """What a model is trained on, watched on and tested on."""

    train: pd.DataFrame
    validation: pd.DataFrame
    test: pd.DataFrame


def load(folder: Path | None, rows: int, test_rows: int | None) -> Data:
    train, test = load_nsmc(folder)
    if rows + WATCHED <= len(train):
        parts = train[:rows], train[rows : rows + WATCHED]
    else:
        whole = train[:rows]
        places = split(whole["document"], whole["label"], (-1, WATCHED))
        parts = [whole.iloc[place] for place in places]
    return Data(*parts, test[:test_rows])


def pair(frame: pd.DataFrame) -> tuple[list[str], list[int]]:
    return frame["document"].tolist(), frame["label"].tolist()


def made_of(data: Data, recipe: str | None = None) -> str:
    """A hash of all that probabilities come from: the rows, the recipe, the program.

    Without a recipe it is that of the rival from scikit-learn.
    """
    parts = (data.train, data.validation, data.test)
    rows = [part[["document", "label"]].to_numpy().tolist() for part in parts]
    if recipe is None:
        return hash_of([rows, inspect.getsource(linear), timing.versions(*SKLEARN)])
    own = inspect.getsource(neural), timing.versions("sentencepiece")
    chosen = CLASSIFIERS[recipe]
    settings = {**vars(chosen), "build": chosen.build.__name__}  # no place in memory
    return hash_of([rows, settings, code_hash(*PARTS), own])


def neural(recipe: str, data: Data, seed: int, epochs: int | None) -> np.ndarray:
    """The probability of a good review for each test row."""
    keras.utils.set_random_seed(seed)
    classifier = TextClassifier.from_texts(*pair(data.train), recipe)
    classifier.fit(
        *pair(data.train),
        validation_data=pair(data.validation),
        seed=seed,
        verbose=2,
        **({} if epochs is None else {"epochs": epochs}),
    )
    return classifier.predict_probabilities(pair(data.test)[0])[:, 1]


def linear(data: Data) -> np.ndarray:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    vectorizer = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(1, 4), min_df=3, sublinear_tf=True
    )
    model = make_pipeline(vectorizer, LogisticRegression(C=4, max_iter=1000))
    texts, labels = pair(data.train)
    model.fit(texts, labels)
    return model.predict_proba(pair(data.test)[0])[:, 1]


class Runs:
    """Finished runs in a folder: one file of probabilities and one line each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: dict, make) -> tuple[np.ndarray, float]:
        """Probabilities and seconds of a run; it is made where there is none."""
        stem = "-".join(str(value).replace(" ", "_") for value in key.values())
        file, note = self.folder / f"{stem}.npy", self.folder / f"{stem}.json"
        if not note.is_file():
            start = time.perf_counter()
            chances = make()
            seconds = time.perf_counter() - start
            np.save(file, chances.astype("float32"))
            note.write_text(json.dumps({**key, "seconds": seconds}))
        return np.load(file), json.loads(note.read_text())["seconds"]


def seen_in_training(data: Data) -> np.ndarray:
    """Which test texts also stand in the training rows, spaces aside."""

    def folded(frame):
        return frame["document"].str.split().str.join(" ")

    return folded(data.test).isin(set(folded(data.train))).to_numpy()


def measure(data: Data, rows: int, options) -> list[list[str]]:
    """The rows of the table for one size of the training set."""
    runs = Runs(options.work)
    truth = data.test["label"].to_numpy()
    fresh = ~seen_in_training(data)
    table = []

    def add(name, several, seconds):
        cells = []
        for where in (np.ones(len(truth), bool), fresh):
            each = [np.mean((c > 0.5) == truth, where=where) for c in several]
            spread = f" ({min(each):.4f}-{max(each):.4f})" if len(each) > 1 else ""
            cells.append(f"{np.mean(each):.4f}{spread}")
        left = f"{np.mean(seconds):.0f}" if seconds else ""
        table.append([f"{rows:,}", name, len(several), *cells, left])

    size = f"{rows}x{len(data.test)}"
    if LINEAR in options.models:
        chances, seconds = runs.get(
            {"rows": size, "model": "linear", "hash": made_of(data)},
            lambda: linear(data),
        )
        add(LINEAR, [chances], [seconds])
    for name in (name for name in RECIPES if name in options.models):
        several, times = [], []
        for seed in range(options.seeds if name == "ours" else 1):
            key = {
                "rows": size,
                "model": RECIPES[name],
                "backend": keras.backend.backend(),
                "epochs": options.epochs or "all",
                "seed": seed,
                "hash": made_of(data, RECIPES[name]),
            }
            sys.stderr.write(f"{key}\n")

            def train(seed=seed, name=name):
                return neural(RECIPES[name], data, seed, options.epochs)

            chances, seconds = runs.get(key, train)
            several.append(chances)
            times.append(seconds)
        add(name, several, times)
        if len(several) > 1:
            add(f"{name}, mean of {len(several)}", [np.mean(several, axis=0)], [])
    return table


def file_and_rows(frame: pd.DataFrame) -> str:
    """The file of a table, and how many of its rows were taken."""
    name, dropped = Path(frame.attrs["files"][0]).name, frame.attrs["dropped"]
    return f"{name} ({len(frame):,} rows, {dropped} without text left out)"


def report(table: list[list[str]], files: list[str], command: str) -> str:
    """The section of RESULTS.md."""
    header = ["training rows", "model", "seeds", "accuracy", "without seen", "seconds"]
    return "\n\n".join(
        [
            f"## NSMC on {keras.backend.backend()}",
            timing.run_line(command, "scikit-learn"),
            f"Trained on {files[0]}, tested once on {files[1]}; settings were chosen "
            "on other training rows. Mean over the seeds, the lowest and highest in "
            "brackets. *Without seen*: test texts that also stand in the training "
            "rows are left out. A *mean* is of the seeds' probabilities. Seconds: "
            "tokenizer, training and prediction.",
            timing.markdown_table(header, table),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="2,000 rows, one epoch")
    parser.add_argument("--rows", type=int, nargs="+", help="20000 150000")
    parser.add_argument("--seeds", type=int, default=3, help="of ours (3)")
    parser.add_argument("--epochs", type=int, help="most epochs (fit's own number)")
    everything = [LINEAR, *RECIPES]
    parser.add_argument(
        "--models", nargs="+", choices=everything, default=everything, help="(all)"
    )
    parser.add_argument("--data", type=Path, help="folder of NSMC (else downloaded)")
    parser.add_argument(
        "--work", type=Path, default=ROOT / "build" / "nsmc", help="finished runs"
    )
    parser.add_argument("--output", type=Path, help="RESULTS.md, or none with --quick")
    options = parser.parse_args()
    test_rows = 2_000 if options.quick else None
    sizes = options.rows or ([2_000] if options.quick else SIZES)
    if options.quick:
        options.epochs = options.epochs or 1
    table = []
    for rows in sizes:
        data = load(options.data, rows, test_rows)
        table += measure(data, rows, options)
    files = [Path(data.train.attrs["files"][0]).name, file_and_rows(data.test)]
    command = f"tests/benchmarks/classifier.py --rows {' '.join(map(str, sizes))}"
    command += f" --seeds {options.seeds}"
    command += f" --epochs {options.epochs}" if options.epochs else ""
    text = report(table, files, command)
    print(text)
    output = options.output or (None if options.quick else RESULTS)
    if output:
        timing.write_section(output, f"nsmc {keras.backend.backend()}", text)


if __name__ == "__main__":
    main()
