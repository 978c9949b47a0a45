"""Bits per character of a language model on NSMC, beside a 5-gram of the same pieces.

    KERAS_BACKEND=torch python tests/benchmarks/language_model.py --quick
    KERAS_BACKEND=jax python tests/benchmarks/language_model.py --validation
    KERAS_BACKEND=jax python tests/benchmarks/language_model.py --minutes 55 \
        --model num_layers=3 dropout=0.05 --fit learning_rate=0.001 max_tokens=4096

Trains tokenizer and model from scratch on NSMC's training texts, for --minutes of the
clock together: a fiftieth of them measures how long a step takes, and the learning rate
falls to nothing within the steps that fit into the rest. What a run has done lies in
--work, and the same command goes on from there, after the last whole epoch. The
baseline is `kneser_ney.py`, which takes seconds.

Of the training texts 3,000 are held back for validation: the epoch is chosen by them,
and settings should be (--validation leaves the test alone). Tested once, on the
official test texts.
"""

import argparse
import hashlib
import json
import shutil
import sys
import time
import unicodedata
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import timing
from kneser_ney import KneserNey
from translator import setting

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # measure this checkout
from keras_transformer import TextGenerator  # noqa: E402
from keras_transformer.datasets import load_nsmc, split  # noqa: E402
from keras_transformer.tokenizers import SentencePieceTokenizer  # noqa: E402

COMMAND = "tests/benchmarks/language_model.py"
RESULTS = Path(__file__).with_name("RESULTS.md")
ORDER = 5
MAX_LENGTH = 512  # pieces; no text of NSMC has as many, so that none is cut
MODEL = dict(
    num_layers=4,
    embed_dim=256,
    num_heads=4,
    num_key_value_heads=4,
    dense_dim=704,
    dropout=0.1,
)
FIT = dict(learning_rate=1.5e-3, max_tokens=2048)
QUICK_MODEL = dict(num_layers=2, embed_dim=32, num_heads=2, dense_dim=64, dropout=0.0)
QUICK_MODEL |= dict(num_key_value_heads=2)
QUICK_FIT = dict(learning_rate=1e-2, max_tokens=1024)
HELD_BACK, QUICK_HELD_BACK = 3_000, 200
PROMPTS = ("", "이 영화는", "배우들의 연기가", "마지막 장면에서")
SLACK = 0.93  # of the time is planned for steps; validation takes some


@dataclass(frozen=True)
class Score:
    """What one model needed, and the bits of each text by part."""

    model: str
    parameters: str
    seconds: float
    bits: dict[str, np.ndarray]


def clean(texts) -> list[str]:
    """Texts as both models read them: NFC, white space as single spaces, none empty."""
    texts = (" ".join(unicodedata.normalize("NFC", text).split()) for text in texts)
    return [text for text in texts if text]


def load(options) -> tuple[dict[str, list[str]], list[str]]:
    """Texts by part (train, validation, and perhaps test), and the names of files."""
    frames = load_nsmc(options.data)
    files = [Path(frame.attrs["files"][0]).name for frame in frames]
    train, test = (clean(frame["document"]) for frame in frames)
    train = train[: options.texts]
    held_back = QUICK_HELD_BACK if options.quick else HELD_BACK
    rows = split(train, None, (-1, held_back))
    train, validation = ([train[row] for row in part] for part in rows)
    parts = {"train": train, "validation": validation}
    if not options.validation:
        parts["test"] = test[:500] if options.quick else test
    return parts, files


class Stopwatch(keras.callbacks.Callback):
    """Measure the seconds of a step, for so many seconds; compiling is not counted."""

    def __init__(self, seconds: float):
        super().__init__()
        self.limit, self.times = seconds, []

    def on_train_begin(self, logs=None):
        self.start = self.last = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        self.times.append(now - self.last)
        self.last = now
        if now - self.start >= self.limit and len(self.times) >= 10:
            self.model.stop_training = True

    @property
    def seconds_per_step(self) -> float:
        times = np.array(self.times)
        return float(times[times <= 3 * np.median(times)].mean())


class Clock(keras.callbacks.Callback):
    """Stop after so many steps, or seconds, those of earlier runs included.

    Args:
        notes: What is noted of the run; `"training"` and `"done"` are counted on.
        steps: Most steps.
        seconds: Most seconds, of all that is noted in seconds.
    """

    def __init__(self, notes: "Notes", steps: int, seconds: float):
        super().__init__()
        self.notes, self.most_steps, self.most_seconds = notes, steps, seconds
        self.before, self.steps = notes.get("training", 0.0), notes.get("done", 0)
        self.others = notes.get("tokenizer", 0.0) + notes.get("calibration", 0.0)

    @property
    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.start

    def on_train_begin(self, logs=None):
        self.start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        over = self.others + self.seconds >= self.most_seconds
        if over or self.steps >= self.most_steps:
            self.model.stop_training = True

    def on_epoch_end(self, epoch, logs=None):
        self.notes.add(training=self.seconds, done=self.steps, epochs=epoch + 1)


class Notes(dict):
    """Numbers that a later run needs, in a file."""

    def __init__(self, file: Path):
        super().__init__(json.loads(file.read_text()) if file.exists() else {})
        self.file = file

    def add(self, **numbers) -> None:
        self.update(numbers)
        new = self.file.with_suffix(".new")  # whole, or not there
        new.write_text(json.dumps(self))
        new.replace(self.file)


def prepare(texts: list[str], folder: Path, notes: Notes, options) -> None:
    """Save an untrained generator with its tokenizer in `folder`."""
    start = time.perf_counter()
    tokenizer = SentencePieceTokenizer.train(
        texts, options.vocabulary_size, byte_fallback=True
    )
    notes.add(tokenizer=time.perf_counter() - start)
    keras.utils.set_random_seed(options.seed)
    generator = TextGenerator.from_texts(
        texts,
        options.recipe,
        tokenizer=tokenizer,
        max_length=MAX_LENGTH,
        **options.model,
    )
    generator.save(folder)


def plan(parts, start: Path, notes: Notes, options) -> None:
    """Note how many steps fit into the time, as a generator of its own takes them."""
    began = time.perf_counter()
    stopwatch = Stopwatch(60 * options.minutes / 50)
    TextGenerator.load(start).fit(
        parts["train"],
        validation_data=parts["validation"][:8],
        callbacks=[stopwatch],
        **{**options.fit, "learning_rate": 1e-6, "epochs": 1, "verbose": 0},
    )
    calibration = time.perf_counter() - began
    each = stopwatch.seconds_per_step
    compiling = max(0, calibration - each * len(stopwatch.times))  # comes once more
    left = 60 * options.minutes - notes["tokenizer"] - calibration - compiling
    steps = max(1, int(SLACK * left / each))
    notes.add(calibration=calibration, steps=steps)
    sys.stderr.write(f"{each:.3f} s a step, {steps:,} steps\n")


def train(parts, folder: Path, options) -> tuple[TextGenerator, Notes]:
    """A trained generator, and what it took."""
    done, start = folder / "done", folder / "start"
    notes = Notes(folder / "notes.json")
    if not done.exists():
        if not start.exists():
            prepare(parts["train"], start, notes, options)
        if options.steps:
            notes.add(steps=options.steps)
        elif "steps" not in notes:
            plan(parts, start, notes, options)
        steps, fit = notes["steps"], dict(options.fit)
        warmup = fit.pop("warmup_steps", max(1, steps // 20))
        fit["learning_rate"] = keras.optimizers.schedules.CosineDecay(
            0.0,
            max(1, steps - warmup),
            warmup_target=fit["learning_rate"],
            warmup_steps=warmup,
        )
        generator = TextGenerator.load(start)
        clock = Clock(notes, steps, 60 * options.minutes)
        log = keras.callbacks.CSVLogger(folder / "curve.csv", append=True)
        generator.fit(
            parts["train"],
            validation_data=parts["validation"],
            seed=options.seed,
            checkpoint_folder=folder / "checkpoint",
            keep_checkpoints=True,  # the time is over: without them it begins anew
            callbacks=[clock, log],
            **{"epochs": 1000, "verbose": 2, **fit},
        )
        generator.save(done)
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    return TextGenerator.load(done), notes


def generator_bits(generator, texts: list[str], size: int = 2000) -> np.ndarray:
    """Bits of each text, its end included."""
    found, progress = [], timing.Progress(-(-len(texts) // size))
    for first in range(0, len(texts), size):
        progress.step("thousands of texts are read")
        some = texts[first : first + size]
        pieces = np.array([len(row) + 1 for row in generator.tokenizer.encode(some)])
        found.append(pieces * np.log2(generator.perplexity(some, batch_size=64)))
    progress.close()
    return np.concatenate(found)


def ngram_bits(model: KneserNey, rows: list[list[int]]) -> np.ndarray:
    """Bits of each text; a row has the start id and the end."""
    bits = -model.log2_probabilities(rows)
    ends = np.cumsum([len(row) - 1 for row in rows])
    return np.diff(np.cumsum(bits)[ends - 1], prepend=0)


def per_character(bits: np.ndarray, texts: list[str]) -> float:
    return float(bits.sum() / sum(map(len, texts)))


def lower_by(ours: np.ndarray, theirs: np.ndarray, texts: list[str]) -> list[float]:
    """How many bits a character ours are fewer, and the standard error over texts."""
    difference, lengths = theirs - ours, np.array([len(text) for text in texts])
    mean = difference.sum() / lengths.sum()
    spread = np.std(difference - mean * lengths) * np.sqrt(len(texts))
    return [float(mean), float(spread / lengths.sum())]


def measure(parts, generator, notes: Notes) -> list[Score]:
    """Score both models on the parts that are held out."""
    tokenizer = generator.tokenizer
    rows = {
        name: tokenizer.encode(texts, add_bos=True, add_eos=True)
        for name, texts in parts.items()
    }
    start = time.perf_counter()
    ngrams = KneserNey(rows.pop("train"), tokenizer.vocabulary_size, ORDER)
    seconds = time.perf_counter() - start
    size = f"{ngrams.parameters:,} n-grams"
    bits = {name: ngram_bits(ngrams, part) for name, part in rows.items()}
    theirs = Score(f"Kneser-Ney, {ORDER}-gram", size, seconds, bits)
    size = f"{generator.model.count_params():,} weights"
    bits = {name: generator_bits(generator, parts[name]) for name in rows}
    return [theirs, Score("ours", size, notes["training"], bits)]


def report(scores: list[Score], parts, files, generator, notes, options) -> str:
    """The section of RESULTS.md."""
    held = [name for name in ("validation", "test") if name in parts]
    last, known = held[-1], set(parts["train"])
    fresh = np.array([text not in known for text in parts[last]])
    fresh_texts = [text for text in parts[last] if text not in known]
    pieces = sum(len(row) + 1 for row in generator.tokenizer.encode(parts[last]))
    header = ["model", "parameters", *held, f"{last} without seen"]
    header += ["perplexity of a piece", "seconds"]
    table = []
    for score in scores:
        each = [per_character(score.bits[name], parts[name]) for name in held]
        each.append(per_character(score.bits[last][fresh], fresh_texts))
        perplexity = 2 ** (score.bits[last].sum() / pieces)
        cells = [score.model, score.parameters, *(f"{value:.4f}" for value in each)]
        table.append([*cells, f"{perplexity:.2f}", f"{score.seconds:.0f}"])
    theirs, ours = (score.bits[last] for score in scores)
    mean, error = lower_by(ours, theirs, parts[last])
    sizes = ", ".join(f"{len(texts):,} {name}" for name, texts in parts.items())
    tested = f", tested once on {files[1]}" if "test" in parts else ""
    others = notes["tokenizer"] + notes.get("calibration", 0)
    return "\n\n".join(
        [
            f"## {title(options)}",
            timing.run_line(" ".join([COMMAND, *options.given])),
            f"Trained on {files[0]}, from which the validation texts were held "
            f"back{tested} ({sizes} texts). Bits per character: the bits of all pieces "
            "of all texts, the end-of-text piece of each included, over the number of "
            "characters (NFC, white space as single spaces). Both models "
            f"predict the same pieces ({generator.tokenizer.vocabulary_size:,} ids, "
            "learned from the training texts; a character without one is its UTF-8 "
            "bytes, so that every text comes back whole), each from those before it in "
            "its text and the start-of-text piece: the n-gram from the last "
            f"{ORDER - 1}. *Without seen*: {last} texts that also stand in the "
            f"training are left out. Perplexity: of a {last} piece. Seconds: of "
            f"training; {others:.0f} more to learn the tokenizer and to measure how "
            "long a step takes. Ours: recipe "
            f"{options.recipe}, {notes['done']:,} of {notes['steps']:,} planned steps, "
            f"{notes['epochs']} epochs begun.",
            timing.markdown_table(header, table),
            f"The n-gram less ours, on the {last} texts: {mean:+.4f} bits a character, "
            f"standard error over the texts {error:.4f}.",
        ]
    )


def samples(generator, seed: int) -> str:
    """A few texts as the model writes them."""
    texts = generator.generate(
        PROMPTS * 2, max_new_tokens=60, temperature=0.8, top_p=0.95, seed=seed
    )
    return "\n".join(f"    {text}" for text in texts)


def title(options) -> str:
    kind = "validation, " if options.validation else ""
    return f"Language model, NSMC, {kind}{keras.backend.backend()}"


def parse(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    pairs = dict(nargs="+", type=setting, default=[], metavar="NAME=VALUE")
    add("--quick", action="store_true", help="2,000 texts, a tiny model, half a minute")
    add("--minutes", type=float, help="of tokenizer and training (55)")
    add("--steps", type=int, help="of training, in place of measuring how many fit")
    add("--texts", type=int, help="take so many of the training texts (all)")
    add("--vocabulary-size", type=int, help="token ids (4000)")
    add("--recipe", choices=("gpt2", "llama"), default="llama", help="(%(default)s)")
    add("--model", help=f"settings of the model ({MODEL})", **pairs)
    add("--fit", help=f"settings of fit ({FIT}, warmup_steps: a 20th)", **pairs)
    add("--seed", type=int, default=0)
    add("--validation", action="store_true", help="leave the test texts alone")
    add("--data", type=Path, help="folder of NSMC (else downloaded)")
    add("--work", type=Path, default=ROOT / "build" / "language_model", help="runs")
    add("--output", type=Path, help="RESULTS.md; none with --quick or --validation")
    options = parser.parse_args(arguments)
    options.given = sys.argv[1:] if arguments is None else arguments
    quick = options.quick
    options.minutes = options.minutes or (0.5 if quick else 55)
    options.texts = options.texts or (2_000 if quick else None)
    options.vocabulary_size = options.vocabulary_size or (2500 if quick else 4000)
    options.model = {**(QUICK_MODEL if quick else MODEL), **dict(options.model)}
    options.fit = {**(QUICK_FIT if quick else FIT), **dict(options.fit)}
    if not (quick or options.validation):
        options.output = options.output or RESULTS
    return options


def main(arguments=None) -> None:
    options = parse(arguments)
    parts, files = load(options)
    names = ("quick", "minutes", "steps", "texts", "vocabulary_size", "recipe", "model")
    key = [keras.backend.backend(), *(getattr(options, name) for name in names)]
    learned = [parts["train"], parts["validation"]]
    read = hashlib.sha256(json.dumps(learned).encode()).hexdigest()
    key = json.dumps([*key, options.fit, options.seed, read])
    folder = options.work / hashlib.sha256(key.encode()).hexdigest()[:8]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(key)
    generator, notes = train(parts, folder, options)
    scores = measure(parts, generator, notes)
    text = report(scores, parts, files, generator, notes, options)
    print(text, "\nSamples:\n", samples(generator, options.seed), sep="\n")
    if options.output:
        timing.write_section(options.output, title(options), text)


if __name__ == "__main__":
    main()
