"""Time against length: recurrent translators and the Transformer (text 2, section 1).

    KERAS_BACKEND=jax python tests/benchmarks/step_time.py --quick
    KERAS_BACKEND=jax python tests/benchmarks/step_time.py

Times one training step on sources and targets of n tokens, and writing n tokens from n
tokens, for growing n, and fits the exponent p of `time = c n**p`. A recurrent model
takes n steps one after the other, a Transformer n**2 pairs at once. The table goes into
RESULTS.md and the figures into --work; with --quick the table goes to stdout only.
"""

import argparse
import gc
import statistics
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import timing
from lengths import MODELS, Sizes

from keras_transformer import generate
from keras_transformer.training import TokenCrossentropy
from keras_transformer.visualization import plot_lines

RESULTS = Path(__file__).with_name("RESULTS.md")
WORK = Path(__file__).resolve().parents[2] / "build" / "step_time"
VOCABULARY, BATCH = 32, 8
NAMES = ("2014", "2015", "Luong", "sinusoidal")
LENGTHS = [16, 32, 64, 128, 256]
KINDS = ("training", "decoding")


def training(name: str, length: int, sizes: Sizes):
    """One training step as a function of nothing."""
    model, ids = _model(name, length, sizes)
    model.compile("adam", TokenCrossentropy())
    inputs = {"encoder_token_ids": ids, "decoder_token_ids": ids}
    return lambda: float(model.train_on_batch(inputs, ids))


def decoding(name: str, length: int, sizes: Sizes):
    """The search of `length` tokens as a function of nothing."""
    model, ids = _model(name, length, sizes)
    return lambda: generate(model, ids, max_new_tokens=length, stop_ids=[])


def _model(name, length, sizes):
    keras.utils.set_random_seed(0)
    model = MODELS[name](VOCABULARY, sizes, length + 1)
    model.build()
    ids = np.random.default_rng(0).integers(4, VOCABULARY, (BATCH, length))
    return model, ids.astype("int32")


def measure(lengths, rounds: int, sizes: Sizes, seconds: float) -> dict:
    """Return a table of medians in ms for each kind, length x model."""
    makers = dict(zip(KINDS, (training, decoding), strict=True))
    tables = {kind: {} for kind in KINDS}
    progress = timing.Progress(len(KINDS) * len(lengths))
    for kind, make in makers.items():
        for length in lengths:
            progress.step(f"{kind}, {length} tokens")
            calls = {name: make(name, length, sizes) for name in NAMES}
            times = timing.time_in_turn(calls, rounds, seconds)
            tables[kind][length] = {
                name: 1000 * statistics.median(values) for name, values in times.items()
            }
            del calls
            gc.collect()
    progress.close()
    index = pd.Index(lengths, name="tokens")
    return {k: pd.DataFrame(t).T.set_index(index) for k, t in tables.items()}


def exponents(table: pd.DataFrame) -> pd.Series:
    """Return p of `time = c n**p` for each column, by least squares of the logs."""
    n, times = np.log(table.index.to_numpy()), np.log(table.to_numpy(dtype=float))
    return pd.Series(np.polyfit(n, times, 1)[0], index=table.columns)


def draw(kind: str, table: pd.DataFrame, path: Path):
    """Draw times against length on logarithmic axes."""
    powers = exponents(table)
    names = {name: f"{name}: n^{powers[name]:.2f}" for name in table}
    return plot_lines(
        table.rename(columns=names),
        title=f"{kind.capitalize()}, {BATCH} sequences at once",
        y_label="ms",
        x_scale="log",
        y_scale="log",
        path=path,
    )


def report(tables: dict, sizes: Sizes, command: str) -> str:
    """The section of RESULTS.md."""
    rows = []
    for kind, table in tables.items():
        whole, last = exponents(table), exponents(table.iloc[-2:])
        for name in table:
            times = [f"{value:.1f}" for value in table[name]]
            rows.append([kind, name, *times, f"{whole[name]:.2f}", f"{last[name]:.2f}"])
    lengths = list(tables["training"].index)
    header = ["", "model", *lengths, "exponent", f"{lengths[-2]} to {lengths[-1]}"]
    return "\n\n".join(
        [
            f"## Time against length, {keras.backend.backend()}",
            timing.run_line(command),
            f"Milliseconds (medians) of one training step, and of writing n tokens "
            f"from n, for {BATCH} sequences of n tokens at once; models {sizes.units} "
            "wide as in the table of lengths. The exponent is the slope of log time "
            "over log n, over all lengths and between the last two.",
            timing.markdown_table(header, rows),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two lengths, tiny models")
    parser.add_argument("--rounds", type=int, help="5, or 1 with --quick")
    parser.add_argument("--work", type=Path, help="where figures go (build/step_time)")
    parser.add_argument("--output", type=Path, help="RESULTS.md, or none with --quick")
    options = parser.parse_args()
    quick = options.quick
    rounds = options.rounds or (1 if quick else 5)
    output = options.output or (None if quick else RESULTS)
    work = options.work or (None if quick else WORK)
    sizes = Sizes(units=8) if quick else Sizes()
    lengths = LENGTHS[:2] if quick else LENGTHS
    tables = measure(lengths, rounds, sizes, 0.01 if quick else 0.2)
    text = report(tables, sizes, f"tests/benchmarks/step_time.py --rounds {rounds}")
    print(text)
    if work:
        work.mkdir(parents=True, exist_ok=True)
        for kind, table in tables.items():
            draw(kind, table, work / f"{kind}.png")
    if output:
        timing.write_section(output, f"step time {keras.backend.backend()}", text)


if __name__ == "__main__":
    main()
