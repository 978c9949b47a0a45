"""What recording costs: nothing when off, and seconds for a large model when on.

    KERAS_BACKEND=torch python tests/benchmarks/recording.py --rounds 2
    KERAS_BACKEND=torch python tests/benchmarks/recording.py --output

First the same call before `record_attention` was ever opened in the process, and after
it was closed. The two cannot take turns in one process: what was opened once stays so.
So processes take turns: two that never opened it, whose ratio is the noise, and one
that did. Then one text through 12 layers of 12 heads: recorded, plotted, written as a
page. Calls are counted in processor time: other work on the machine is none of ours.
With --output the section goes into RESULTS.md, or into another file.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import keras
import numpy as np
from timing import markdown_table, ratio_cell, run_line, write_section

import keras_transformer as kt

RESULTS = Path(__file__).with_name("RESULTS.md")
NEVER, AGAIN, BEFORE = PROCESSES = ("never", "never again", "opened before")


def small_model():
    model = kt.LanguageModel(100, 2, embed_dim=64, num_heads=4, dense_dim=128)
    model.build((None, None))
    return model


def child(opened: bool):
    """Print the seconds of a call, eager and compiled, whenever a line comes in."""
    model = small_model()
    ids = np.random.default_rng(0).integers(0, 100, (4, 32)).astype("int32")
    compiled = model.predict_on_batch
    if opened:
        with kt.record_attention(model):
            model(ids)
    calls = {"model(x)": lambda: wait(model(ids)), "predict": lambda: compiled(ids)}
    for call in calls.values():
        call(), call(), call()
    print("ready", flush=True)
    for _ in sys.stdin:
        times = {}
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(10):
                call()
            times[name] = (time.process_time() - start) / 10
        print(json.dumps(times), flush=True)


def wait(tensor):
    return keras.ops.convert_to_numpy(tensor)


def off(rounds: int) -> dict:
    """Let the processes take turns, and return their times by call and process."""
    processes = {
        name: subprocess.Popen(
            [sys.executable, __file__, "--child", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in PROCESSES
    }
    for process in processes.values():
        while process.stdout.readline().strip() != "ready":
            pass
    times = {}
    for _ in range(rounds):
        for name, process in processes.items():
            process.stdin.write("\n")
            process.stdin.flush()
            for call, value in json.loads(process.stdout.readline()).items():
                times.setdefault(call, {}).setdefault(name, []).append(value)
    for process in processes.values():
        process.stdin.close()
        process.wait()
    return times


def large(layers: int = 12, heads: int = 12, tokens: int = 200) -> str:
    """Record, plot and write a page of a model of the size of BERT; tell how long."""
    model = kt.TextEncoder(
        1000, layers, embed_dim=64 * heads, num_heads=heads, dense_dim=256 * heads
    )
    model.build((None, None))
    ids = np.random.default_rng(0).integers(1, 1000, (1, tokens)).astype("int32")
    names = [f"piece{number}" for number in range(tokens)]
    seconds, marks = {}, [time.perf_counter()]

    def done(name):
        marks.append(time.perf_counter())
        seconds[name] = marks[-1] - marks[-2]

    with kt.record_attention(model) as record:
        model(ids)
    done("record")
    with tempfile.TemporaryDirectory() as folder:
        last = record[list(record)[-1]][0]
        kt.plot_attention(last, names, path=Path(folder) / "plot.png")
        done("plot of 12 heads")
        page = Path(folder) / "page.html"
        kt.attention_view(record, page, tokens=names)
        done("page")
        size = page.stat().st_size
    parts = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    return (
        f"{layers} layers x {heads} heads x {tokens} tokens: {parts}, together "
        f"{sum(seconds.values()):.2f} s; the page has {size / 1e6:.1f} MB."
    )


def report(times: dict, whole: str, command: str) -> str:
    """The section of RESULTS.md; `times` from `off`, `whole` from `large`."""
    header = ["call", "never opened, ms", "opened before / never opened", "noise"]
    rows = [
        [
            call,
            f"{1000 * statistics.median(found[NEVER]):.2f}",
            ratio_cell(found, BEFORE, NEVER),
            ratio_cell(found, AGAIN, NEVER),
        ]
        for call, found in times.items()
    ]
    return "\n\n".join(
        [
            f"## {title()}",
            run_line(command),
            "Processor time of a call in processes that never opened "
            "`record_attention`, and in one that opened and closed it before (ratios "
            "of medians; in brackets the lowest and highest in one round). Noise: of "
            "two that never did. Below, one text through a large model, on the clock.",
            markdown_table(header, rows),
            whole,
        ]
    )


def title() -> str:
    return f"Recording on {keras.backend.backend()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--child", choices=PROCESSES, help=argparse.SUPPRESS)
    parser.add_argument(
        "--output", type=Path, nargs="?", const=RESULTS, help="also write a section"
    )
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child == BEFORE)
        return
    command = f"tests/benchmarks/recording.py --rounds {arguments.rounds}"
    text = report(off(arguments.rounds), large(), command)
    print(text)
    if arguments.output:
        write_section(arguments.output, title(), text)


if __name__ == "__main__":
    main()
