"""BLEU and chrF of the translator, beside retrieval from its own training pairs.

    KERAS_BACKEND=torch python tests/benchmarks/translator.py bundled --minutes 4
    KERAS_BACKEND=jax python tests/benchmarks/translator.py ko_en --source en
    KERAS_BACKEND=jax python tests/benchmarks/translator.py multi30k --minutes 70 \
        --model num_layers=4 --fit learning_rate=0.005 warmup_steps=2000

Trains for --minutes, all runs of one command together: what a run has done lies in
--work, and the same command goes on from there, an epoch that was cut short anew; its
time counts. A changed program begins anew, and so do other pairs. Then it translates
the test pairs greedily and with beams. Retrieval answers with the target of the
training pair whose source is nearest (TF-IDF of character n-grams). Choose settings
with --validation, which scores the validation pairs and leaves the test pairs alone.
With --output a second section compares all recipes that --work has trained with this
program for the same time on the same pairs.

multi30k and ko_en are read from --data: folders that hold the files as published
(task 1, raw; all_pairs.tsv.gz with the columns source, split, ko and en).
"""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

import keras
import pandas as pd
import timing
import translator_scores
from provenance import hash_of, program_hash

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # measure this checkout
from keras_transformer import Translator  # noqa: E402
from keras_transformer.datasets import load_pairs, read_pairs, split  # noqa: E402

PARTS = ("ops", "layers", "models", "generation", "training", "datasets")
PARTS += ("tokenizers", "tasks")
FILES = [Path(__file__), Path(translator_scores.__file__)]
COMMAND = "tests/benchmarks/translator.py"
RESULTS = Path(__file__).with_name("RESULTS.md")
LANGUAGES = {"bundled": ("ko", "en"), "multi30k": ("en", "de"), "ko_en": ("ko", "en")}
RECIPES = ("transformer", "2014", "2015", "luong")
MULTI30K = ("train", "val", "test_2016_flickr")
KO_EN = ("jhe", "tatoeba", "xnli", "sts_human")  # news and encyclopedia left out
HELD_OUT = 400  # of tatoeba, by English sentence: for validation, and for the test
WARMUP = 400  # steps, where no number of epochs is given
CURVE = 20  # most rows that are printed of the validation curve


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
    """Stop once the minutes are over, those of earlier runs included.

    The time is noted as it passes, not at the end of an epoch: what is lost when a
    process is killed was spent all the same. Each epoch's logs get their `minutes`.

    Args:
        file: Where the time is noted.
        minutes: Most minutes; the validation after the last step comes on top.
        every: Seconds from one note to the next.
    """

    def __init__(self, file: Path, minutes: float, every: float = 1.0):
        super().__init__()
        self.file, self.limit, self.every = file, 60 * minutes, every
        old = json.loads(file.read_text()) if file.exists() else {}
        self.before, self.epochs = old.get("seconds", 0.0), old.get("epochs", 0)

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.start

    def on_train_begin(self, logs=None):
        self.start = time.perf_counter()
        self.noted = self.seconds

    def on_train_batch_end(self, batch, logs=None):
        seconds = self.seconds
        if seconds >= self.limit:
            self.model.stop_training = True
        if seconds >= self.noted + self.every:
            self.note(seconds)

    def on_epoch_end(self, epoch, logs=None):
        self.epochs = epoch + 1
        self.note(self.seconds)
        if logs is not None:
            logs["minutes"] = self.noted / 60

    def note(self, seconds: float):
        """Write the time to the file, whole or not at all."""
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({"seconds": seconds, "epochs": self.epochs}))
        new.replace(self.file)
        self.noted = seconds


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
        epochs = {"epochs": options.epochs}
        if options.epochs is None:  # the time ends it; `fit`'s warm-up is of epochs
            epochs = {"epochs": 1_000_000, "warmup_steps": WARMUP}
        log = keras.callbacks.CSVLogger(folder / "curve.csv", append=True)
        translator.fit(
            parts["train"],
            validation_data=parts["validation"],
            seed=options.seed,
            checkpoint_folder=folder / "checkpoint",
            keep_checkpoints=True,  # the time is over: without them it begins anew
            callbacks=[Clock(note, options.minutes), log],
            verbose=2,
            **{**epochs, **dict(options.fit)},
        )
        translator.save(done)
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    return Translator.load(done), json.loads(note.read_text())


def curve(file: Path, most: int = CURVE) -> str:
    """The validation curve as a table, of `most` epochs evenly spread."""
    frame = pd.read_csv(file).drop_duplicates("epoch", keep="last")
    step = -(-len(frame) // most)
    frame = frame.iloc[::-1][::step][::-1]  # the last one is always there
    columns = ["minutes", "perplexity", "val_perplexity", "val_accuracy"]
    rows = [
        [int(row.epoch) + 1, *(f"{getattr(row, name):.3f}" for name in columns)]
        for row in frame.itertuples()
    ]
    return timing.markdown_table(["epoch", *columns], rows)


def report(found, taken, parts, options, translator, table: str) -> str:
    """The section of RESULTS.md; `table` is the validation curve."""
    size = translator.target_tokenizer.vocabulary_size
    signatures = found["signatures"]
    texts = [
        f"## {title(options)}",
        timing.run_line(" ".join([COMMAND, *options.given]), "sacrebleu"),
        f"Recipe {options.recipe}: {translator.model.count_params():,} weights, "
        f"{size:,} token ids, {len(parts['train']):,} training pairs, "
        f"{taken['seconds'] / 60:.1f} minutes with the validation, in which "
        f"{taken['epochs']} epochs were begun. BLEU (cased, detokenised): "
        f"{signatures['bleu']}; chrF: {signatures['chrf']}; {translator_scores.WORDS} "
        "(a stand-in for Moses' tokenizer, in lower case): "
        f"{signatures['words']}.",
        *translator_scores.score_tables(found),
        translator_scores.published(options, found),
        f"The validation curve, before weights are averaged:\n\n{table}",
    ]
    return "\n\n".join(filter(None, texts))


def title(options) -> str:
    kind = "validation, " if options.validation else ""
    return f"{task(options)}, {kind}{options.recipe}, seed {options.seed}, {backend()}"


def task(options) -> str:
    return f"{options.name}, {options.source} to {options.target}"


def backend() -> str:
    return keras.backend.backend()


def setting(text: str) -> tuple[str, object]:
    """`name=value` as a pair; the value is read as JSON where it is that."""
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def parse(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("name", choices=list(LANGUAGES), metavar="DATA", help=", ".join(LANGUAGES))
    add("--source", help="language to translate from (the data's first)")
    add("--target", help="language to translate into (the data's second)")
    add("--recipe", choices=RECIPES, default="transformer", help=", ".join(RECIPES))
    add("--minutes", type=float, default=5, help="of training (%(default)s)")
    add("--epochs", type=int, help="most epochs (as many as fit into --minutes)")
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
    options = parser.parse_args(arguments)
    options.given = sys.argv[1:] if arguments is None else arguments
    if options.name != "bundled" and not options.data:
        parser.error(f"{options.name} needs --data or KERAS_TRANSFORMER_DATA")
    first, second = LANGUAGES[options.name]
    options.source = options.source or (second if options.target == first else first)
    options.target = options.target or (first if options.source == second else second)
    return options


def key_of(options, parts) -> dict:
    """What a training is known by: backend, program, settings, pairs that it reads."""
    names = ("name", "source", "target", "recipe", "epochs", "minutes")
    names += ("vocabulary_size", "model", "fit", "seed")
    read = [parts[part].to_numpy().tolist() for part in ("train", "validation")]
    settings = {name: getattr(options, name) for name in names}
    program = program_hash(*PARTS, files=FILES)
    own = {"backend": backend(), "program": program}
    return {**own, **settings, "pairs": hash_of(read)}


def main(arguments=None) -> None:
    options = parse(arguments)
    parts = load(options)
    key = key_of(options, parts)
    stem = f"{options.name}-{options.target}-{options.recipe}-{options.seed}"
    folder = options.work / f"{stem}-{hash_of(key)}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(key))
    translator, taken = train(parts, folder, options)
    found = translator_scores.measure(translator, parts, options)
    table = curve(folder / "curve.csv")
    text = report(found, taken, parts, options, translator, table)
    print(text)
    several = ""
    if options.rows is None:
        name = f"{'validation' if options.validation else 'test'}-scores.json"
        result = {"key": key, "seconds": taken["seconds"], **found}
        (folder / name).write_text(json.dumps(result))
        several = translator_scores.comparison(options.work, key, name)
        print(several, sep="\n\n")
    if options.output:
        timing.write_section(options.output, title(options), text)
        if several:
            kind = "validation, " if options.validation else ""
            head = f"{task(options)}, {kind}recipes, {options.minutes:g} minutes"
            head += f", {backend()}"
            several = f"## {head}\n\n{several}"
            timing.write_section(options.output, head, several)


if __name__ == "__main__":
    main()
