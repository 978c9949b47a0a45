"""Exact match against length: a fixed vector, attention, the Transformer (section 1).

    KERAS_BACKEND=jax python tests/benchmarks/lengths.py --quick
    KERAS_BACKEND=jax python tests/benchmarks/lengths.py --task reversal
    KERAS_BACKEND=jax python tests/benchmarks/lengths.py --task sentences --seconds 60

Trains the translators of 2014, 2015 and 2017, the last with each kind of position, on
short sequences, and has them write sequences of up to twice the length. `reversal`
turns a row of random tokens round; `sentences` translates `synthetic_pairs`, whose
length is counted in clauses. JAX is the fastest backend here. Each finished training
lies in --work; a later run of the same program takes it from there. The table goes
into RESULTS.md, the figure beside the finished runs; with --quick the table goes to
stdout only.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import timing
from provenance import program_hash

from keras_transformer import (
    AlibiBias,
    RecurrentSeq2Seq,
    RelativePositionBias,
    RotaryEmbedding,
    Seq2SeqTransformer,
    generate,
)
from keras_transformer.datasets import synthetic_pairs
from keras_transformer.training import InverseSquareRoot, TokenCrossentropy
from keras_transformer.visualization import plot_lines

RESULTS = Path(__file__).with_name("RESULTS.md")
WORK = Path(__file__).resolve().parents[2] / "build" / "lengths"
PARTS = ("ops", "layers", "models", "generation", "training", "datasets")
PAD, START, STOP = 0, 2, 3  # tokens of a text are counted from 4 on
SYMBOLS = 16
NUMERALS = frozenset("일이삼사오육칠팔구십백천만영")


@dataclass(frozen=True)
class Sizes:
    """How much a model is trained on and tested with."""

    updates: int = 1500
    seconds: float | None = None  # of the processor, in place of the updates
    batch_size: int = 64
    units: int = 64
    tested: int = 100  # texts of each bin


QUICK = Sizes(updates=3, batch_size=8, units=8, tested=2)


@dataclass(frozen=True)
class Task:
    """Pairs of token lists, whose length is counted in `unit`s."""

    unit: str
    longest: int  # of the training; twice as long is tested
    bin_width: int
    make: Callable  # (seed, count, shortest, longest) -> pairs

    @property
    def bins(self) -> list[tuple[int, int]]:
        """First and last length of each bin."""
        ends = range(self.bin_width, 2 * self.longest + 1, self.bin_width)
        return [(end - self.bin_width + 1, end) for end in ends]


def reversals(seed, count, shortest, longest):
    """Rows of random symbols, and the same backwards."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(shortest, longest + 1, count)
    rows = [rng.integers(0, SYMBOLS, length).tolist() for length in lengths]
    return [(row, row[::-1]) for row in rows]


def sentences(seed, count, shortest, longest):
    """`synthetic_pairs` as words, numbers as digits."""
    pairs = synthetic_pairs(seed, count, clauses=(shortest, longest), digits=3)
    return [(words(source), words(target)) for source, target in pairs]


def words(text: str) -> list[str]:
    """Return the words of a text, its numbers digit by digit."""
    return [
        piece
        for word in text.replace(",", " ,").split()
        for piece in (word if set(word) <= NUMERALS or word.isdigit() else [word])
    ]


TASKS = {
    "reversal": Task("tokens", 12, 3, reversals),
    "sentences": Task("clauses", 3, 1, sentences),
}


def recurrent(**settings):
    """Return a function that makes a recurrent translator."""

    def make(vocabulary, sizes, _):
        return RecurrentSeq2Seq(
            vocabulary,
            sizes.units,
            sizes.units,
            share_embeddings=True,
            start_id=START,
            stop_id=STOP,
            **settings,
        )

    return make


def transformer(settings: Callable):
    """Return a function that makes a Transformer of `settings(length, heads)`."""

    def make(vocabulary, sizes, length):
        heads = 4
        return Seq2SeqTransformer(
            vocabulary,
            2,
            sizes.units,
            heads,
            2 * sizes.units,
            normalize_first=True,
            start_id=START,
            stop_id=STOP,
            **{"positions": None, **settings(length, heads)},
        )

    return make


def both_biases(make: Callable):
    """Return the biases of the self-attention of encoder and decoder."""
    return dict(encoder_position_bias=make(True), decoder_position_bias=make(False))


MODELS = {
    "2014": recurrent(),
    "2015": recurrent(attention="bahdanau"),
    "Luong": recurrent(attention="luong"),
    "sinusoidal": transformer(lambda *_: dict(positions="sinusoidal")),
    "learned": transformer(
        lambda length, _: dict(positions="learned", sequence_length=length)
    ),
    "rotary": transformer(lambda *_: dict(rotary=RotaryEmbedding())),
    "ALiBi": transformer(
        lambda _, heads: both_biases(lambda _: AlibiBias(heads)),
    ),
    "relative": transformer(
        lambda _, heads: both_biases(
            lambda two_way: RelativePositionBias(heads, bidirectional=two_way)
        )
    ),
}
RECURRENT = ("2014", "2015", "Luong")


def as_arrays(pairs, ids: dict) -> tuple[list, list]:
    """Return lists of ids: sources with their end, targets without."""
    sources = [[ids[token] for token in source] + [STOP] for source, _ in pairs]
    return sources, [[ids[token] for token in target] for _, target in pairs]


def padded(rows, width: int) -> np.ndarray:
    array = np.full((len(rows), width), PAD, "int32")
    for index, row in enumerate(rows):
        array[index, : len(row)] = row
    return array


class StopAfter(keras.callbacks.Callback):
    """End a training after so many seconds of the processor.

    The processor's time is the same however busy the machine is. The first update,
    which compiles, is not counted.
    """

    def __init__(self, seconds: float | None):
        super().__init__()
        self.seconds, self.start, self.updates = seconds, None, 0

    def on_train_batch_end(self, batch, logs=None):
        self.updates += 1
        if self.start is None:
            self.start = time.process_time()
        elif self.seconds and time.process_time() - self.start > self.seconds:
            self.model.stop_training = True


def train_and_test(task: Task, name: str, seed: int, sizes: Sizes, verbose=1) -> dict:
    """Train one model from scratch, and return what it wrote rightly in each bin."""
    count = sizes.updates * sizes.batch_size
    train = task.make(1000 + seed, count, 1, task.longest)
    test = [pair for bin in task.bins for pair in task.make(7, sizes.tested, *bin)]
    seen = sorted({t for source, target in train + test for t in source + target})
    ids = {token: index for index, token in enumerate(seen, start=4)}
    sources, targets = as_arrays(train, ids)
    width, target_width = (max(map(len, rows)) for rows in (sources, targets))
    inputs = {
        "encoder_token_ids": padded(sources, width),
        "decoder_token_ids": padded([[START, *t] for t in targets], target_width + 1),
    }
    labels = padded([[*target, STOP] for target in targets], target_width + 1)

    sources, targets = as_arrays(test, ids)
    longest = max(len(row) for row in sources + targets) + 2
    keras.utils.set_random_seed(seed)
    model = MODELS[name](4 + len(ids), sizes, longest)
    model.build()
    peak, warmup = (5e-3, 200) if name in RECURRENT else (2e-3, 400)
    model.compile(
        keras.optimizers.Adam(InverseSquareRoot(peak, warmup), global_clipnorm=1.0),
        TokenCrossentropy(),
    )
    stop = StopAfter(sizes.seconds)
    history = model.fit(
        inputs,
        labels,
        sample_weight=(labels != PAD).astype("float32"),
        batch_size=sizes.batch_size,
        epochs=1000 if sizes.seconds else 1,
        callbacks=[stop],
        verbose=verbose,
    )
    seconds = time.process_time() - stop.start
    written = generate(model, padded(sources, longest), max_new_tokens=longest)
    right = [
        row[: len(target) + 1].tolist() == [*target, STOP]
        for row, target in zip(written, targets, strict=True)
    ]
    trained = {tuple(source) for source, _ in train}
    known = [tuple(source) in trained for source, _ in test]
    shares = {"exact": right, "known": known}
    return {
        **{name: by_bin(task, values) for name, values in shares.items()},
        "loss": history.history["loss"][-1],
        "updates": stop.updates,
        "seconds": seconds,
        "weights": model.count_params(),
    }


def by_bin(task: Task, values) -> list[float]:
    """Return the mean of the texts' values in each bin."""
    return np.reshape(values, (len(task.bins), -1)).mean(axis=1).tolist()


def finished(work: Path | None, key: dict, make: Callable) -> dict:
    """Return a run from its file in `work`; make it where there is none."""
    if work is None:
        return make()
    file = work / ("-".join(str(value) for value in key.values()) + ".json")
    if not file.is_file():
        work.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")  # whole, or not there
        new.write_text(json.dumps({**key, **make()}), encoding="utf-8")
        new.replace(file)
    return json.loads(file.read_text(encoding="utf-8"))


def measure(name: str, models, seeds, sizes: Sizes, work: Path | None = None) -> dict:
    """Return the runs of every model, a list over the seeds."""
    runs = {}
    program = program_hash(*PARTS, files=[Path(__file__)])
    progress = timing.Progress(len(models) * len(seeds))
    for seed in seeds:
        for model in models:
            progress.step(f"{model}, seed {seed}\n")
            key = dict(task=name, model=model, seed=seed, **asdict(sizes))
            key |= dict(backend=keras.backend.backend(), program=program)

            def make(model=model, seed=seed):
                return train_and_test(TASKS[name], model, seed, sizes)

            runs.setdefault(model, []).append(finished(work, key, make))
    progress.close()
    return runs


def curves(task: Task, runs: dict) -> pd.DataFrame:
    """Return exact match by the longest text of each bin, the mean of the seeds."""
    index = pd.Index([end for _, end in task.bins], name=f"length in {task.unit}")
    return pd.DataFrame(
        {
            name: np.mean([r["exact"] for r in each], axis=0)
            for name, each in runs.items()
        },
        index=index,
    )


def draw(task: Task, table: pd.DataFrame, path: Path):
    """Draw exact match against length."""
    return plot_lines(
        table,
        title=f"Trained on up to {task.longest} {task.unit}",
        y_label="exact match",
        path=path,
    )


def report(name: str, runs: dict, sizes: Sizes, command: str) -> str:
    """The section of RESULTS.md."""
    task = TASKS[name]
    rows = []
    for model, each in runs.items():
        cells = []
        for values in zip(*(run["exact"] for run in each), strict=True):
            spread = f" ({min(values):.2f}-{max(values):.2f})" if len(each) > 1 else ""
            cells.append(f"{np.mean(values):.2f}{spread}")
        seconds, updates = (
            np.mean([r[k] for r in each]) for k in ("seconds", "updates")
        )
        rows.append([model, *cells, f"{updates:,.0f}", f"{seconds:.0f}"])
    known = np.mean([run["known"] for run in next(iter(runs.values()))], axis=0)
    rows.append(["trained on", *(f"{share:.2f}" for share in known), "", ""])
    bins = [str(b) if a == b else f"{a}-{b}" for a, b in task.bins]
    inside = sum(end <= task.longest for _, end in task.bins)
    seeds = len(next(iter(runs.values())))
    budget = (
        f"{sizes.seconds:g} seconds" if sizes.seconds else f"{sizes.updates:,} updates"
    )
    return "\n\n".join(
        [
            f"## Length: {name}, {keras.backend.backend()}",
            timing.run_line(command),
            f"Exact match of greedy texts by their length in {task.unit}, "
            f"{sizes.tested} in each bin; trained for {budget} of {sizes.batch_size} "
            f"on 1 to {task.longest} {task.unit}: the first {inside} columns are of "
            "trained lengths. There are few short texts: the last row has the share of "
            f"the tested ones that training had too. Mean over {seeds} seeds (of "
            "several, the lowest and highest in brackets). All are "
            f"{sizes.units} wide; the recurrent ones have one layer, the Transformers "
            "2 + 2 blocks and 4 heads. Seconds of the processor, without the first "
            "update, which compiles.",
            timing.markdown_table(["model", *bins, "updates", "seconds"], rows),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="3 updates, tiny models")
    parser.add_argument("--task", choices=TASKS, default="reversal")
    parser.add_argument(
        "--models", nargs="+", choices=MODELS, default=list(MODELS), help="(all)"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many (3)")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--updates", type=int, help=f"of each ({Sizes.updates})")
    budget.add_argument("--seconds", type=float, help="of the processor, for each")
    parser.add_argument("--work", type=Path, help="finished runs (build/lengths)")
    parser.add_argument("--output", type=Path, help="RESULTS.md, or none with --quick")
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    given = {k: getattr(options, k) for k in ("updates", "seconds")}
    sizes = Sizes(**{**asdict(sizes), **{k: v for k, v in given.items() if v}})
    work = options.work or (None if options.quick else WORK)
    output = options.output or (None if options.quick else RESULTS)
    seeds = range(1 if options.quick else options.seeds)

    runs = measure(options.task, options.models, seeds, sizes, work)
    command = f"tests/benchmarks/lengths.py --task {options.task} --seeds {len(seeds)}"
    if options.models != list(MODELS):
        command += f" --models {' '.join(options.models)}"
    command += "".join(f" --{name} {value:g}" for name, value in given.items() if value)
    text = report(options.task, runs, sizes, command)
    print(text)
    task = TASKS[options.task]
    if work:
        draw(task, curves(task, runs), work / f"{options.task}.png")
    if output:
        timing.write_section(output, f"lengths {options.task}", text)


if __name__ == "__main__":
    main()
