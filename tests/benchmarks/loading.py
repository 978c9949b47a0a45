"""Loading a checkpoint: seconds and peak memory, against transformers.

    KERAS_BACKEND=jax python tests/benchmarks/loading.py --quick
    KERAS_BACKEND=jax python tests/benchmarks/loading.py

transformers writes a random checkpoint of GPT-2 small's shape (some 500 MB), and each
rival loads it in a process of its own, in turn (A B A B ...). The table goes into
RESULTS.md. With --quick it goes to stdout only, unless --output names a file.
"""

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import timing

RESULTS = Path(__file__).with_name("RESULTS.md")
PACKAGE_FOLDER = Path(__file__).resolve().parents[2]
RIVALS = ("ours", "transformers")
QUICK = dict(n_layer=2, n_embd=64, n_head=2, vocab_size=1000)
QUICK |= dict(bos_token_id=0, eos_token_id=0)
MEGABYTE = 1e6
Runs = dict[str, list[dict]]  # name of the rival -> what each of its processes said


def write_checkpoint(folder: Path, settings: dict) -> int:
    """Write a random GPT-2; return the bytes of its weights."""
    code = (
        "import json, sys, transformers\n"
        "config = transformers.GPT2Config(**json.loads(sys.argv[2]))\n"
        "transformers.GPT2LMHeadModel(config).save_pretrained(sys.argv[1])"
    )
    command = [sys.executable, "-c", code, str(folder), json.dumps(settings)]
    subprocess.run(command, check=True)
    return (folder / "model.safetensors").stat().st_size


def memory(name: str) -> float:
    """Memory of this process in bytes: `VmRSS` (now) or `VmHWM` (at its peak).

    The peak of `getrusage`, which is all that systems other than Linux have, counts
    what the parent had when it started this process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(re.search(rf"{name}:\s+(\d+)", status.read_text())[1])
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_peak() -> None:
    """Let the peak begin anew, so that imports do not count."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # another system, where the peak of imports stays
        return


def load(rival: str, folder: str) -> dict:
    """Load the checkpoint, and read each weight once, in this process."""
    if rival == "ours":
        from keras import ops

        from keras_transformer.pretrained import from_pretrained

        forget_peak()
        before, start = memory("VmRSS"), time.perf_counter()
        model, _ = from_pretrained(folder, tokenizer=False)
        loaded = time.perf_counter()
        sums = [
            (w.shape, ops.convert_to_numpy(ops.sum(w.value)).item())
            for w in model.weights
        ]
    else:
        import transformers

        transformers.utils.logging.disable_progress_bar()
        # the class is imported when it is first asked for
        model_class = transformers.GPT2LMHeadModel
        forget_peak()
        before, start = memory("VmRSS"), time.perf_counter()
        model = model_class.from_pretrained(folder)
        loaded = time.perf_counter()
        sums = [(w.shape, w.detach().sum().item()) for w in model.parameters()]
    end = time.perf_counter()
    return {
        "load": loaded - start,
        "load and read": end - start,
        "peak": memory("VmHWM"),
        "growth": memory("VmHWM") - before,
        "count": sum(math.prod(shape) for shape, _ in sums),
        "sum": sum(value for _, value in sums),
    }


def run(rival: str, folder: Path) -> dict:
    """Load in a fresh process."""
    command = [sys.executable, __file__, "--rival", rival, "--folder", str(folder)]
    paths = [str(PACKAGE_FOLDER), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, env=environment, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def check_agreement(runs: Runs) -> None:
    """The rivals must hold the same values."""
    ours, theirs = (runs[name][0] for name in RIVALS)
    difference = abs(ours["sum"] - theirs["sum"])
    if ours["count"] != theirs["count"] or difference > 1e-3 * abs(theirs["sum"]):
        raise ValueError(
            f"The rivals hold other weights: {ours['count']} values with the sum "
            f"{ours['sum']}, and {theirs['count']} with {theirs['sum']}."
        )


def measure(folder: Path, rounds: int) -> Runs:
    progress = timing.Progress(rounds * len(RIVALS))
    runs: Runs = {name: [] for name in RIVALS}
    for _ in range(rounds):
        for name in RIVALS:
            progress.step(name)
            runs[name].append(run(name, folder))
    progress.close()
    return runs


MEASURES = {
    "load": ("loading, s", 1, 2),
    "load and read": ("loading and reading each weight, s", 1, 2),
    "peak": ("peak memory of the process, MB", MEGABYTE, 0),
    "growth": ("peak above the memory after imports, MB", MEGABYTE, 0),
}


def report(runs: Runs, size: int, command: str) -> str:
    """The section of RESULTS.md."""
    import keras

    rows, raw = [], []
    for measure, (label, unit, digits) in MEASURES.items():
        found = {
            name: [one[measure] / unit for one in runs_of]
            for name, runs_of in runs.items()
        }
        medians = [statistics.median(found[name]) for name in RIVALS]
        cell = timing.ratio_cell(found, "transformers")
        rows.append([label, *(f"{m:.{digits}f}" for m in medians), cell])
        for name, values in found.items():
            shown = " ".join(f"{value:.{digits}f}" for value in values)
            raw.append(f"{label}, {name}: {shown}")
    return "\n\n".join(
        [
            f"## Loading a checkpoint on {keras.backend.backend()}",
            timing.run_line(command, "transformers", "torch", "safetensors"),
            f"A random GPT-2 that transformers wrote ({size / MEGABYTE:.0f} MB, "
            "float32, one safetensors file, in the system's cache), loaded in a fresh "
            "process for each figure, the rivals in turn; imports are not timed. "
            "Medians; the ratio is transformers' / ours (above 1: ours is faster, or "
            "smaller), in brackets the lowest and highest ratio within one round. "
            "Reading each weight once (its sum) makes work that was put off count, "
            "and compiles the sums where the backend compiles.",
            timing.markdown_table(["measure", *RIVALS, "ratio"], rows),
            timing.details("Raw figures, one a process", "\n".join(raw)),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tiny one, 2 rounds")
    parser.add_argument("--rounds", type=int, help="6, or 2 with --quick")
    parser.add_argument("--output", type=Path, help="RESULTS.md, or none with --quick")
    parser.add_argument("--rival", choices=RIVALS, help="load --folder, print JSON")
    parser.add_argument("--folder", type=Path, help="checkpoint of --rival")
    options = parser.parse_args()
    if options.rival:
        print(json.dumps(load(options.rival, str(options.folder))))
        return
    rounds = options.rounds or (2 if options.quick else 6)
    output = options.output or (None if options.quick else RESULTS)
    command = f"tests/benchmarks/loading.py --rounds {rounds}"
    command += " --quick" if options.quick else ""
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "checkpoint"
        size = write_checkpoint(folder, QUICK if options.quick else {})
        runs = measure(folder, rounds)
    check_agreement(runs)
    text = report(runs, size, command)
    print(text)
    if output:
        import keras

        timing.write_section(output, f"loading {keras.backend.backend()}", text)


if __name__ == "__main__":
    main()
