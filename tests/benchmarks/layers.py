"""Encoder and decoder blocks against the chapter's code, keras-hub and torch.nn.

    KERAS_BACKEND=jax python tests/benchmarks/layers.py --quick
    KERAS_BACKEND=jax python tests/benchmarks/layers.py
    KERAS_BACKEND=jax python tests/benchmarks/layers.py --only "64 x 32" --output

Times one training step (`train_on_batch`, SGD) and one inference call
(`predict_on_batch`), compiled as Keras does by default, and writes the table into
RESULTS.md. With --quick or --only it goes to stdout only, unless --output is given:
then --only puts its rows in the place of those that were measured before.
"""

import argparse
import gc
import statistics
import warnings
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import keras
import numpy as np
import timing
from rivals import RIVALS, Block, build_models

RESULTS = Path(__file__).with_name("RESULTS.md")
SIZES = [(128, 4, 256), (512, 8, 2048)]  # embed_dim, num_heads, dense_dim
LENGTHS = [32, 128, 512]
TOKENS = {128: 2048, 512: 256}  # a batch, by width: calls of about 5 to 100 ms
WORKS = ["train", "infer"]
TOLERANCE = 1e-4  # between the rivals' outputs
SLOW = 0.95  # rows with a rival's ratio below it are named
RATIOS = "Ratios are the rival's median time / ours"


@dataclass(frozen=True)
class Case:
    block: Block
    length: int

    @property
    def batch_size(self) -> int:
        return max(1, TOKENS[self.block.embed_dim] // self.length)

    @property
    def columns(self) -> list[str]:
        block = self.block
        sizes = f"{block.embed_dim}/{block.num_heads}/{block.dense_dim}"
        shape = f"{self.batch_size} x {self.length}"
        return [block.kind, sizes, shape, str(block.dropout)]


ALL = [
    Case(Block(kind, *sizes, dropout), length)
    for kind, sizes, length, dropout in product(
        ["encoder", "decoder"], SIZES, LENGTHS, [0.0, 0.1]
    )
]
QUICK = [
    Case(Block("encoder", *SIZES[0], 0.0), 128),
    Case(Block("decoder", *SIZES[0], 0.1), 128),
]
Results = dict[tuple[Case, str], timing.Times]  # (case, work) -> times


def make_batch(case: Case, seed: int = 0):
    """Inputs with valid lengths from half to all of `length`, and targets."""
    rng = np.random.default_rng(seed)
    steps = np.arange(1, case.batch_size + 1) / (case.batch_size + 1)
    valid = np.ceil(case.length * (1 - steps / 2))  # a batch of one: three quarters
    mask = np.arange(case.length) < valid[:, None]  # (B, T)
    shape = (*mask.shape, case.block.embed_dim)
    inputs = []
    for _ in range(1 if case.block.kind == "encoder" else 2):
        inputs += [rng.normal(size=shape).astype("float32"), mask]
    return inputs, rng.normal(size=shape).astype("float32")


def check_agreement(models: dict[str, keras.Model], inputs) -> None:
    """The rivals must compute the same thing at every valid position."""
    valid = inputs[1]
    expected = models["ours"].predict_on_batch(inputs)[valid]
    for name, model in models.items():
        difference = np.abs(model.predict_on_batch(inputs)[valid] - expected).max()
        if not difference < TOLERANCE:
            raise ValueError(
                f"The outputs of {name} and ours differ by {difference}, more than "
                f"{TOLERANCE}: their times would not compare the same work."
            )


def measure(case: Case, rounds: int) -> Results:
    inputs, targets = make_batch(case)
    models = build_models(case.block)
    check_agreement(models, inputs)
    inputs = [keras.ops.convert_to_tensor(value) for value in inputs]
    targets = keras.ops.convert_to_tensor(targets)
    calls = {
        "train": lambda model: lambda: model.train_on_batch(inputs, targets),
        "infer": lambda model: lambda: model.predict_on_batch(inputs),
    }
    results = {}
    for work in WORKS:
        rivals = {name: calls[work](model) for name, model in models.items()}
        results[case, work] = timing.time_in_turn(rivals, rounds)
    return results


def measure_all(cases: list[Case], rounds: int) -> Results:
    progress = timing.Progress(len(cases))
    results = {}
    for case in cases:
        progress.step(" ".join(case.columns))
        results.update(measure(case, rounds))
        keras.backend.clear_session()
        gc.collect()
    progress.close()
    return results


def means_table(results: Results, rivals: list[str]) -> str:
    """Over all rows: the geometric mean of the ratios, and the lowest."""
    rows = []
    for work, rival in product(WORKS, rivals):
        ratios = [
            timing.ratio(times, rival)
            for (_, row_work), times in results.items()
            if row_work == work
        ]
        mean = statistics.geometric_mean(ratios)
        rows.append([work, rival, f"{mean:.2f}", f"{min(ratios):.2f}"])
    return timing.markdown_table(["work", "rival", "mean", "lowest"], rows)


def slow_rows(results: Results, rivals: list[str]) -> str:
    """Name the rows in which a rival was faster than the noise explains."""
    found = []
    for (case, work), times in results.items():
        ratios = {r: timing.ratio(times, r) for r in rivals if r in times}
        slow = [f"{name} {x:.2f}" for name, x in ratios.items() if x < SLOW]
        if slow:
            found.append(f"- {', '.join([*case.columns, work])}: {', '.join(slow)}")
    listed = "\n".join(found) or "none"
    return f"Rows below {SLOW}, {len(found)} of {len(results)}:\n\n{listed}"


def read_results(section: str) -> Results:
    """The raw times that a section holds."""
    rows = {", ".join([*c.columns, w]): (c, w) for c in ALL for w in WORKS}
    results = {}
    for line in section.splitlines():
        name, _, values = line.partition(": ")
        row, _, rival = name.rpartition(", ")
        if row in rows:
            times = [float(value) / 1000 for value in values.split()]
            results.setdefault(rows[row], {})[rival] = times
    return results


def merge(section: str, new: Results, run: str) -> tuple[Results, list[str]]:
    """A section's results with new rows in place of old ones, and what ran when.

    Args:
        section: Text of an earlier `report`, or nothing.
        new: The rows that were measured again.
        run: What measured them, a paragraph.
    """
    old = read_results(section)
    if not old:
        return new, [run]
    paragraphs = section.split("\n\n")
    ends = [text.startswith(RATIOS) for text in paragraphs].index(True)
    again = "; ".join(", ".join([*case.columns, work]) for case, work in new)
    results = {**old, **new}
    order = [(c, w) for c in ALL for w in WORKS if (c, w) in results]
    runs = [*paragraphs[1:ends], f"Measured again ({again}): {run}"]
    return {row: results[row] for row in order}, runs


def report(results: Results, runs: list[str]) -> str:
    """The section of RESULTS.md; `runs` are paragraphs on what ran when."""
    backend = keras.backend.backend()
    rivals = [name for name in RIVALS if name != "ours"]
    rows, raw = [], []
    for (case, work), times in results.items():
        label = [*case.columns, work]
        ours = f"{1000 * statistics.median(times['ours']):.1f}"
        rows.append([*label, ours, *(timing.ratio_cell(times, r) for r in rivals)])
        for name, values in times.items():
            raw.append(f"{', '.join(label)}, {name}: {timing.milliseconds(values)}")
    header = ["block", "width/heads/inner", "batch x length", "dropout", "work"]
    note = "The chapter has no decoder and no dropout; both are added in its manner. "
    if backend == "torch":
        note += "torch.nn runs in TorchModuleWrapper, without its inner dropout."
    else:
        note += "torch.nn is left out: another backend."
    return "\n\n".join(
        [
            f"## Layers on {backend}",
            *runs,
            f"{RATIOS} (above 1: ours is faster); in "
            "brackets the lowest and highest ratio within one round. Train is one "
            "`train_on_batch` with SGD, infer one `predict_on_batch`; every batch is "
            "padded and masked, all rivals hold the same weights and gave the same "
            f"outputs to {TOLERANCE} at valid positions. {note}",
            means_table(results, rivals),
            slow_rows(results, rivals),
            timing.markdown_table([*header, "ours, ms", *rivals], rows),
            timing.details("Raw times in ms, one a round", "\n".join(raw)),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two cases, 3 rounds")
    parser.add_argument("--only", help="cases of this text, as '64 x 32'")
    parser.add_argument("--rounds", type=int, help="6, or 3 with --quick")
    parser.add_argument(
        "--output", type=Path, nargs="?", const=RESULTS, help="RESULTS.md, or none"
    )
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.quick else 6)
    part = options.quick or options.only is not None
    output = options.output or (None if part else RESULTS)
    command = f"tests/benchmarks/layers.py --rounds {rounds}"
    command += " --quick" if options.quick else ""
    cases = QUICK if options.quick else ALL
    if options.only is not None:
        command += f" --only '{options.only}'"
        cases = [case for case in cases if options.only in " ".join(case.columns)]
        if not cases:
            parser.error(f"no case has {options.only!r} in its first four columns")
    # said by sublayers of the rivals; they get the right masks, as the check shows
    warnings.filterwarnings("ignore", message=".* passed an input with a mask")
    results = measure_all(cases, rounds)
    section = f"layers {keras.backend.backend()}"
    runs = [timing.run_line(command, "keras-hub")]
    if output and options.only is not None:
        results, runs = merge(timing.read_section(output, section), results, *runs)
    text = report(results, runs)
    print(text)
    if output:
        timing.write_section(output, section, text)


if __name__ == "__main__":
    main()
