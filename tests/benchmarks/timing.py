"""Paired timing for the benchmarks.

Rivals take turns in one process (A B C A B C ...), so a slow phase of a shared machine
hits all of them, and medians over the rounds are compared.
"""

import importlib
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from importlib import metadata
from pathlib import Path

import keras

Times = dict[str, list[float]]  # name of the rival -> seconds a call, one per round


def seconds_per_call(call: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def time_in_turn(
    calls: dict[str, Callable[[], object]], rounds: int, seconds: float = 0.2
) -> Times:
    """Time every call once a round, each measurement about `seconds` long.

    The calls must wait for their result themselves. Two calls of each go untimed
    (compiling), two more find out how many calls fill `seconds`.
    """
    repeats = {}
    for name, call in calls.items():
        seconds_per_call(call, 2)
        once = min(seconds_per_call(call, 1) for _ in range(2))
        repeats[name] = max(1, math.ceil(seconds / once))
    times: Times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds_per_call(call, repeats[name]))
    return times


def ratio(times: Times, rival: str, ours: str = "ours") -> float:
    """Median time of the rival / median time of ours: above 1, ours is faster."""
    return statistics.median(times[rival]) / statistics.median(times[ours])


def ratio_cell(times: Times, rival: str, ours: str = "ours") -> str:
    """The ratio of medians, and the lowest and highest ratio within one round."""
    if rival not in times:
        return ""
    pairs = [a / b for a, b in zip(times[rival], times[ours], strict=True)]
    return f"{ratio(times, rival, ours):.2f} ({min(pairs):.2f}-{max(pairs):.2f})"


def milliseconds(values: Sequence[float]) -> str:
    return " ".join(f"{1000 * value:.2f}" for value in values)


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def details(summary: str, text: str) -> str:
    """Text that a page shows folded."""
    return (
        f"<details><summary>{summary}</summary>\n\n```text\n{text}\n```\n\n</details>"
    )


def versions(*packages: str) -> str:
    """What ran: Python, Keras, the backend and the named packages."""
    backend = keras.backend.backend()
    found = {
        "Python": platform.python_version(),
        "keras": keras.version(),
        backend: importlib.import_module(backend).__version__,
    }
    for package in packages:
        if package not in found:
            found[package] = metadata.version(package)
    return ", ".join(f"{name} {version}" for name, version in found.items())


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load() -> str:
    """How busy the machine was over the last five minutes, ourselves included."""
    if not hasattr(os, "getloadavg"):
        return ""
    return f", load {os.getloadavg()[1]:.1f}"


def run_line(command: str, *packages: str) -> str:
    """One paragraph that says what ran where."""
    return (
        f"`KERAS_BACKEND={keras.backend.backend()} python {command}`, "
        f"{date.today().isoformat()}, {cores()} cores ({platform.machine()}){load()}, "
        f"{versions(*packages)}."
    )


def write_section(path: Path, name: str, text: str) -> None:
    """Put `text` between the comment markers `name`, leaving all else as it is."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = path.read_text(encoding="utf-8") if path.exists() else "# Benchmarks\n"
    section = f"{begin}\n{text.strip()}\n{end}"
    if begin in old and end in old:
        before, rest = old.split(begin, 1)
        new = before + section + rest.split(end, 1)[1]
    else:
        new = f"{old.rstrip()}\n\n{section}\n"
    path.write_text(new, encoding="utf-8")


def read_section(path: Path, name: str) -> str:
    """The text that `write_section` put there, or nothing."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    return old.partition(begin)[2].partition(end)[0].strip()


class Progress:
    """A line on stderr: done/total, time gone, time left, what runs now."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.start = time.perf_counter()

    def step(self, label: str) -> None:
        """Show that `label` starts now."""
        gone = time.perf_counter() - self.start
        left = (
            f"{gone / self.done * (self.total - self.done):.0f}s" if self.done else "?"
        )
        self._show(f"{self.done}/{self.total} [{gone:.0f}s<{left}] {label}")
        self.done += 1

    def close(self) -> None:
        gone = time.perf_counter() - self.start
        self._show(f"{self.done}/{self.total} [{gone:.0f}s]")
        sys.stderr.write("\n")

    def _show(self, text: str) -> None:
        sys.stderr.write(f"\r{text:<78}")
        sys.stderr.flush()
