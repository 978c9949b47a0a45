"""BLEU and chrF of the translator, beside retrieval from its own training pairs.

    KERAS_BACKEND=torch python tests/benchmarks/translator.py bundled --minutes 4
    KERAS_BACKEND=jax python tests/benchmarks/translator.py ko_en --source en
    KERAS_BACKEND=jax python tests/benchmarks/translator.py multi30k --minutes 70 \
        --model num_layers=4 --fit learning_rate=0.005 warmup_steps=2000

Trains for --minutes, all runs of one command together: what a run has done lies in
--work, and the same command goes on from there. Then it translates the test pairs
greedily and with beams. Retrieval answers with the target of the training pair whose
source is nearest (TF-IDF of character n-grams). Choose settings with --validation,
which scores the validation pairs and leaves the test pairs alone.

multi30k and ko_en are read from --data: folders that hold the files as published
(task 1, raw; all_pairs.tsv.gz with the columns source, split, ko and en).
"""

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import timing

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # measure this checkout
from keras_transformer import Translator  # noqa: E402
from keras_transformer.datasets import load_pairs, read_pairs, split  # noqa: E402
from keras_transformer.tasks.translation_scores import (  # noqa: E402
    translation_metrics,
    translation_scores,
)

COMMAND = "tests/benchmarks/translator.py"
RESULTS = Path(__file__).with_name("RESULTS.md")
LANGUAGES = {"bundled": ("ko", "en"), "multi30k": ("en", "de"), "ko_en": ("ko", "en")}
RECIPES = ("transformer", "2014", "2015", "luong")
MULTI30K = ("train", "val", "test_2016_flickr")
KO_EN = ("jhe", "tatoeba", "xnli", "sts_human")  # news and encyclopedia left out
HELD_OUT = 400  # of tatoeba, by English sentence: for validation, and for the test
SAMPLES = 8
RETRIEVAL = "nearest training pair"


def load(options) -> dict[str, pd.DataFrame]:
    """Pairs by part: train, validation, and one or more tests."""
    source, target = options.source, options.target
    if options.name == "bundled":
        return load_pairs(source, target)._asdict()
    folder = options.data / options.name
    if options.name == "multi30k":
        parts = [
            read_pairs(folder / f"{part}.{source}.gz", folder / f"{part}.{target}.gz")
            for part in MULTI30K
        ]
        return dict(zip(("train", "validation", "test 2016"), parts, strict=True))
    frame = pd.read_csv(
        folder / "all_pairs.tsv.gz", sep="\t", quoting=3, dtype=str, na_filter=False
    )
    frame = frame.rename(columns={"source": "corpus", "ko": "source", "en": "target"})
    return ko_en_parts(frame, flipped=source == "en")


def ko_en_parts(frame: pd.DataFrame, flipped: bool) -> dict[str, pd.DataFrame]:
    """Junior-high-English and held-out Tatoeba; no English sentence on two sides."""
    frame = frame.copy()
    everyday = frame[frame.corpus == "tatoeba"]
    rows = split(everyday["target"], None, (-1, HELD_OUT, HELD_OUT))
    train, validation, test = (everyday.iloc[part] for part in rows)
    jhe = frame[(frame.corpus == "jhe") & (frame.split == "test")]
    other = frame[(frame.split == "train") & frame.corpus.isin(KO_EN)]
    train = pd.concat([train, other[other.corpus != "tatoeba"]])
    held = {
        fold(text)
        for part in (validation, test, jhe)
        for side in ("source", "target")
        for text in part[side]
    }
    seen = train["source"].map(fold).isin(held) | train["target"].map(fold).isin(held)
    parts = {"train": train[~seen], "validation": validation}
    parts |= {"test jhe": jhe, "test tatoeba": test}
    names = {"source": "target", "target": "source"} if flipped else {}
    return {name: part.rename(columns=names) for name, part in parts.items()}


def fold(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


class Clock(keras.callbacks.Callback):
    """Stop at the end of an epoch once the minutes are over, those of earlier runs
    included."""

    def __init__(self, file: Path, minutes: float):
        super().__init__()
        self.file, self.limit = file, 60 * minutes
        self.before = json.loads(file.read_text())["seconds"] if file.exists() else 0.0

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.start

    def on_train_begin(self, logs=None):
        self.start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.file.write_text(json.dumps({"seconds": self.seconds, "epochs": epoch + 1}))
        if self.seconds >= self.limit:
            self.model.stop_training = True


def train(parts, folder: Path, options) -> tuple[Translator, dict]:
    """A trained translator, and how long it trained."""
    done, start, note = folder / "done", folder / "start", folder / "time.json"
    if not done.exists():
        if start.exists():
            translator = Translator.load(start)
        else:
            keras.utils.set_random_seed(options.seed)
            translator = Translator.from_pairs(
                parts["train"],
                options.recipe,
                vocabulary_size=options.vocabulary_size,
                **dict(options.model),
            )
            translator.save(start)
        history = translator.fit(
            parts["train"],
            validation_data=parts["validation"],
            epochs=options.epochs,
            seed=options.seed,
            checkpoint_folder=folder / "checkpoint",
            callbacks=[Clock(note, options.minutes)],
            verbose=2,
            **dict(options.fit),
        ).history
        pd.DataFrame(history).to_csv(folder / "curve.csv")
        translator.save(done)
    return Translator.load(done), json.loads(note.read_text())


class Retrieval:
    """The target of the training pair whose source is nearest."""

    def __init__(self, pairs: pd.DataFrame):
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.targets = pairs["target"].tolist()
        self.vectors = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(1, 4), sublinear_tf=True
        )
        self.known = self.vectors.fit_transform(pairs["source"])

    def translate(self, texts: list[str]) -> list[str]:
        likeness = self.vectors.transform(texts) @ self.known.T
        nearest = np.asarray(likeness.argmax(axis=1)).ravel()
        return [self.targets[row] for row in nearest]


def pieces_bleu(tokenizer, found, references) -> float:
    """BLEU of lower-case subword pieces, near to what fairseq's figures are of."""
    from sacrebleu.metrics import BLEU

    found, references = (
        [" ".join(tokenizer.encode(text, out_type=str)) for text in texts]
        for texts in (found, references)
    )
    metric = BLEU(tokenize="none", lowercase=True, force=True)
    return metric.corpus_score(found, [references]).score


def measure(translator, parts, options) -> tuple[list[list], dict[str, str]]:
    """The rows of the table, and the metrics' signatures."""
    tests = [name for name in parts if name.startswith("test")]
    retrieval, table = Retrieval(parts["train"]), []
    for test in ["validation"] if options.validation else tests:
        pairs = parts[test][: options.rows]
        sources, targets = pairs["source"].tolist(), pairs["target"].tolist()
        metrics = translation_metrics(targets)
        rivals = {RETRIEVAL: lambda texts: retrieval.translate(texts)}
        for beams in options.beams:
            name = "greedy" if beams == 1 else f"{beams} beams"
            rivals[name] = lambda texts, beams=beams: translator.translate(texts, beams)
        for name, translate in rivals.items():
            start = time.perf_counter()
            found = translate(sources)
            seconds = time.perf_counter() - start
            scores = translation_scores(metrics, found, targets)
            pieces = pieces_bleu(translator.target_tokenizer, found, targets)
            figures = [scores["bleu"], scores["chrf"], pieces]
            table.append(
                [
                    test,
                    len(pairs),
                    name,
                    *(f"{x:.2f}" for x in figures),
                    f"{seconds:.0f}",
                ]
            )
        show = range(0, len(sources), max(1, len(sources) // 8))
        for row in show:
            print(
                f"{sources[row]}\n  = {targets[row]}\n  > {found[row]}", file=sys.stderr
            )
    return table, {name: scores[f"{name}_signature"] for name in ("bleu", "chrf")}


def report(table, signatures, taken, parts, options, translator) -> str:
    """The section of RESULTS.md."""
    header = ["test", "pairs", "by", "BLEU", "chrF", "BLEU of pieces", "seconds"]
    size = translator.target_tokenizer.vocabulary_size
    return "\n\n".join(
        [
            f"## {title(options)}",
            timing.run_line(
                " ".join(["tests/benchmarks/translator.py", *sys.argv[1:]])
            ),
            f"Recipe {options.recipe}: {translator.model.count_params():,} weights, "
            f"{size:,} token ids, {len(parts['train']):,} training pairs, "
            f"{taken['epochs']} epochs in {taken['seconds'] / 60:.1f} minutes. "
            f"BLEU: {signatures['bleu']}; chrF: {signatures['chrf']}; of pieces: of "
            "the tokenizer's pieces in lower case.",
            timing.markdown_table(header, table),
        ]
    )


def title(options) -> str:
    way = f"{options.source} to {options.target}"
    return f"{options.name}, {way}, {options.recipe} on {keras.backend.backend()}"


def setting(text: str) -> tuple[str, object]:
    """`name=value` as a pair; the value is read as JSON where it is that."""
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("name", choices=list(LANGUAGES), metavar="DATA", help=", ".join(LANGUAGES))
    add("--source", help="language to translate from (the data's first)")
    add("--target", help="language to translate into (the data's second)")
    add("--recipe", choices=RECIPES, default="transformer", help=", ".join(RECIPES))
    add("--minutes", type=float, default=5, help="of training (%(default)s)")
    add("--epochs", type=int, default=30, help="most epochs (%(default)s)")
    add("--vocabulary-size", type=int, help="token ids (by the data)")
    add(
        "--model",
        nargs="+",
        type=setting,
        default=[],
        metavar="NAME=VALUE",
        help="settings of the model, such as num_layers=2 dropout=0.1",
    )
    add(
        "--fit",
        nargs="+",
        type=setting,
        default=[],
        metavar="NAME=VALUE",
        help="settings of fit, such as learning_rate=0.005 max_tokens=2048",
    )
    add("--beams", type=int, nargs="+", default=[1, 5], help="(1 5; 1 is greedy)")
    add("--rows", type=int, help="translate so many pairs only")
    add("--seed", type=int, default=0)
    add("--validation", action="store_true", help="score the validation pairs")
    add(
        "--data",
        type=Path,
        default=os.environ.get("KERAS_TRANSFORMER_DATA"),
        help="folder of multi30k/ and ko_en/ ($KERAS_TRANSFORMER_DATA)",
    )
    add(
        "--work",
        type=Path,
        default=ROOT / "build" / "translator",
        help="trainings, begun and done (%(default)s)",
    )
    add("--output", type=Path, nargs="?", const=RESULTS, help="also write a section")
    options = parser.parse_args()
    if options.name != "bundled" and not options.data:
        parser.error(f"{options.name} needs --data or KERAS_TRANSFORMER_DATA")
    first, second = LANGUAGES[options.name]
    options.source = options.source or (second if options.target == first else first)
    options.target = options.target or (first if options.source == second else second)
    return options


def main() -> None:
    options = parse()
    names = ("name", "source", "target", "recipe", "epochs", "minutes")
    names += ("vocabulary_size", "model", "fit", "seed")
    key = json.dumps([keras.backend.backend(), *(getattr(options, n) for n in names)])
    stem = f"{options.name}-{options.target}-{options.recipe}"
    folder = options.work / f"{stem}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(key)
    parts = load(options)
    translator, taken = train(parts, folder, options)
    table, signatures = measure(translator, parts, options)
    text = report(table, signatures, taken, parts, options, translator)
    print(text)
    if options.output:
        timing.write_section(options.output, title(options), text)


if __name__ == "__main__":
    main()
