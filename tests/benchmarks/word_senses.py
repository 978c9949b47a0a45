"""The homonym experiment of section 6 on several seeds, and its encoder on KoBEST WiC.

    export KERAS_BACKEND=jax
    python tests/benchmarks/word_senses.py --wic ../shared/data/kobest_wic

Trains `homonym_experiment` once a seed, as notebook 06 does; the test sentences and the
chapter's sentence are looked at here alone. WiC asks of two sentences whether a word
has one sense in both: a threshold on the cosine of its vectors is chosen on the
training pairs and measured on the test pairs, for each way to make a vector.
"""

import argparse
import sys
import unicodedata
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import timing

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # measure this checkout
from keras_transformer.datasets import (  # noqa: E402
    load_homonyms,
    load_pairs,
    read_word_in_context,
)
from keras_transformer.tasks import (  # noqa: E402
    evaluate_word_in_context,
    homonym_experiment,
)

COMMAND = "tests/benchmarks/word_senses.py"
RESULTS = Path(__file__).with_name("RESULTS.md")
SENSES = ["boat", "pear", "belly"]


def right(row: pd.Series) -> int:
    """How many of the chapter's three 배 have their sense."""
    found = [row[str(number)] for number in (1, 2, 3)]
    return sum(a == b for a, b in zip(found, SENSES, strict=True))


def normalized(pairs: pd.DataFrame) -> pd.DataFrame:
    """Pairs in NFKC, as SentencePiece reads texts; the spans move along."""

    def nfkc(text):
        return unicodedata.normalize("NFKC", text)

    for side in ("first", "second"):
        rows = list(zip(pairs[side], pairs[f"{side}_span"], strict=True))
        moved = [tuple(len(nfkc(text[:at])) for at in span) for text, span in rows]
        pairs[f"{side}_span"] = moved
        pairs[side] = [nfkc(text) for text, _ in rows]
    return pairs


def measure_wic(encoders, folder: Path) -> tuple[dict[str, float], float, int]:
    """Test accuracy of each encoder, that of the more frequent answer, and pairs."""
    files = [folder / f"{part}.tsv" for part in ("train", "test")]
    choose, test = (normalized(read_word_in_context(file)) for file in files)
    found = {
        name: evaluate_word_in_context(encode, choose, test)
        for name, encode in encoders.items()
    }
    majority = next(iter(found.values()))["majority"]
    return {name: row["accuracy"] for name, row in found.items()}, majority, len(test)


def mean_cell(values) -> str:
    lowest, highest = min(values), max(values)
    return f"{np.mean(values):.3f} ({lowest:.3f}-{highest:.3f})"


def report(tables: list[pd.DataFrame], wic, tests: int, options) -> str:
    """The section of RESULTS.md."""
    seeds = ", ".join(map(str, options.seeds))
    rows = []
    for way in tables[0].index:
        part = [table.loc[way] for table in tables]
        cells = [
            way,
            mean_cell([row["accuracy"] for row in part]),
            " ".join(f"{right(row)}/3" for row in part),
            f"{max(row['spread'] for row in part):.3f}",
        ]
        if wic:
            cells.append(mean_cell([found[way] for found, _, _ in wic]))
        rows.append(cells)
    header = ["vectors", "test accuracy", "배 배 배", "spread"]
    text = [
        timing.run_line(" ".join([COMMAND, *options.given])),
        "`homonym_experiment` on the bundled homonyms and the Korean side of the "
        f"bundled pairs, seeds {seeds}: mean (lowest - highest) of the share of "
        f"{tests} held-out sentences whose nearest known one has their sense; for each "
        "seed how many 배 of the chapter's sentence have their sense; how far their "
        "vectors lie apart at most. That sentence is no held-out test: data/README.md.",
    ]
    if wic:
        header.append("KoBEST WiC")
        _, majority, pairs = wic[0]
        text.append(
            f"KoBEST WiC: accuracy on its {pairs:,} test pairs, threshold chosen on "
            "its training pairs; the answer that is more frequent there has "
            f"{majority:.3f}, and the standard error is {0.5 / pairs**0.5:.3f}."
        )
    return "\n\n".join([*text, timing.markdown_table(header, rows)])


def parse(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, help="in place of the recipe's")
    parser.add_argument("--wic", type=Path, help="folder of KoBEST WiC")
    parser.add_argument("--output", type=Path, default=RESULTS, help="(%(default)s)")
    options = parser.parse_args(arguments)
    options.given = sys.argv[1:] if arguments is None else arguments
    return options


def main(arguments=None) -> None:
    options = parse(arguments)
    known, test = load_homonyms()
    texts = load_pairs().train["source"].tolist()
    more = {} if options.epochs is None else {"epochs": options.epochs}
    tables, wic = [], []
    progress = timing.Progress(len(options.seeds))
    for seed in options.seeds:
        progress.step(f"seed {seed}")
        found = homonym_experiment(known, test, texts, seed=seed, verbose=0, **more)
        tables.append(found.table)
        print(f"\nseed {seed}", found.table.round(3), sep="\n", flush=True)
        if options.wic:
            wic.append(measure_wic(found.encoders, options.wic))
            print(wic[-1], flush=True)
    progress.close()
    text = report(tables, wic, len(test), options)
    print(text)
    title = f"Homonyms, {keras.backend.backend()}"
    timing.write_section(options.output, title, f"## {title}\n\n{text}")


if __name__ == "__main__":
    main()
