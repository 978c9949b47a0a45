"""What the benchmark of the translator counts: BLEU, chrF, by length, and the order."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import timing

from keras_transformer.tasks.translation_scores import (
    translation_metrics,
    translation_scores,
)

RETRIEVAL = "nearest training pair"
YEARS = {"transformer": "2017", "2015": "2015", "luong": "Luong 2015", "2014": "2014"}
WORDS = "BLEU of words"
RUN = ("recipe", "settings", "seed")  # what tells the compared runs apart
BY_LENGTH = {"bleu": "BLEU", "chrf": "chrF"}
BINS = 4  # of the sources' lengths, with as many pairs in each as can be
SAMPLES = 8
PUBLISHED = {  # data and languages -> BLEU and what it is of
    ("multi30k", "en", "de"): (
        41.02,
        "a Transformer trained on two GPUs for 8,000 updates, BLEU of fairseq's "
        "tokenised text of test 2016 (Wu et al. 2021, "
        "https://arxiv.org/abs/2105.14462)",
    )
}


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


def words_metric():
    """BLEU of lower-case words, cut by sacrebleu's `13a`.

    It stands in for the BLEU of text that Moses' tokenizer cut and lower-cased, which
    many papers print: the two cut most, not all, words alike.
    """
    from sacrebleu.metrics import BLEU

    return BLEU(tokenize="13a", lowercase=True)


def length_bins(texts: list[str], count: int = BINS) -> list[tuple[str, np.ndarray]]:
    """Names and rows of bins of texts by their number of words, about equally full."""
    lengths = np.array([len(text.split()) for text in texts])
    edges = np.quantile(lengths, np.linspace(0, 1, count + 1), method="nearest")
    edges = np.unique(edges)  # each bin holds its upper edge
    lowest, bins = edges[0], []
    for highest in edges[1:] if len(edges) > 1 else edges:
        rows = np.flatnonzero((lengths >= lowest) & (lengths <= highest))
        name = f"{lowest}-{highest}" if lowest < highest else str(lowest)
        bins.append((name, rows))
        lowest = highest + 1
    return bins


def measure(translator, parts, options) -> dict:
    """Scores of each test by each way of translating, whole and by length."""
    tests = [name for name in parts if name.startswith("test")]
    retrieval, found, signatures = Retrieval(parts["train"]), [], {}
    for test in ["validation"] if options.validation else tests:
        pairs = parts[test][: options.rows]
        sources, targets = pairs["source"].tolist(), pairs["target"].tolist()
        metrics = {**translation_metrics(targets), "words": words_metric()}
        rivals = {RETRIEVAL: retrieval.translate}
        for beams in sorted(options.beams):
            name = "greedy" if beams == 1 else f"{beams} beams"
            rivals[name] = lambda texts, beams=beams: translator.translate(texts, beams)
        for name, translate in rivals.items():
            start = time.perf_counter()
            texts = translate(sources)
            seconds = time.perf_counter() - start
            scores = translation_scores(metrics, texts, targets)
            signatures |= {key: scores[f"{key}_signature"] for key in metrics}
            bins = {}
            for label, rows in length_bins(sources):
                part = [[side[row] for row in rows] for side in (texts, targets)]
                scored = {
                    key: metrics[key].corpus_score(part[0], [part[1]]).score
                    for key in BY_LENGTH
                }
                bins[label] = {"pairs": len(rows), **scored}
            found.append(
                {
                    **{"test": test, "pairs": len(pairs), "by": name},
                    **{key: scores[key] for key in metrics},
                    **{"bins": bins, "seconds": seconds},
                }
            )
        for row in range(0, len(sources), max(1, len(sources) // SAMPLES)):
            sample = f"{sources[row]}\n  = {targets[row]}\n  > {texts[row]}"
            print(sample, file=sys.stderr)
    return {"signatures": signatures, "scores": found}


def score_tables(found: dict) -> list[str]:
    """A table of the scores, and for each test one by length."""
    header = ["test", "pairs", "by", "BLEU", "chrF", WORDS, "seconds"]
    table = [
        [
            *(row[key] for key in ("test", "pairs", "by")),
            *(f"{row[key]:.2f}" for key in ("bleu", "chrf", "words")),
            f"{row['seconds']:.0f}",
        ]
        for row in found["scores"]
    ]
    texts = [timing.markdown_table(header, table)]
    for test in dict.fromkeys(row["test"] for row in found["scores"]):
        rows = [row for row in found["scores"] if row["test"] == test]
        texts += [f"{test}, by the source's words:", by_length(rows, "by")]
    return texts


def by_length(rows: list[dict], *names: str) -> str:
    """BLEU and chrF of rows of one test in each bin; a bin's pairs in brackets.

    Args:
        rows: The rows.
        *names: The keys of what tells them apart.
    """
    bins = rows[0]["bins"].items()
    header = [*names, "score", *(f"{label} ({bin['pairs']})" for label, bin in bins)]
    table = [
        [
            *(row[name] for name in names),
            score,
            *(f"{bin[key]:.2f}" for bin in row["bins"].values()),
        ]
        for row in rows
        for key, score in BY_LENGTH.items()
    ]
    return timing.markdown_table(header, table)


def published(options, found: dict) -> str:
    """The published figure beside ours, with the conditions of both; or nothing."""
    known = PUBLISHED.get((options.name, options.source, options.target))
    rows = [row for row in found["scores"] if row["test"].startswith("test")]
    rows = [row for row in rows if row["by"] != RETRIEVAL]
    if known is None or not rows:
        return ""
    ours = ", ".join(f"{row['by']} {row['words']:.2f}" for row in rows)
    return (
        f"Published: {known[0]}: {known[1]}. Ours, {WORDS}: {ours}. The two are not of "
        "one kind: other words, and other time on other machines."
    )


def same_task(key: dict) -> dict:
    """What runs share that are compared: all but recipe, its settings and the seed."""
    own = ("recipe", "model", "fit", "seed")
    return {name: value for name, value in key.items() if name not in own}


def comparison(work: Path, key: dict, name: str) -> str:
    """All finished runs of one task, and the order of the years with each seed.

    Runs of one recipe and settings stand together, the best of these first.

    Args:
        work: The folder of runs.
        key: Any of these runs' settings.
        name: The file of a run's scores.
    """
    runs = []
    for file in sorted(work.glob(f"*/{name}")):
        run = json.loads(file.read_text("utf-8"))
        if same_task(run["key"]) == same_task(key):
            runs.append(run)
    if not runs:
        return ""
    texts = []
    for test in dict.fromkeys(row["test"] for run in runs for row in run["scores"]):
        rows = _grouped([row for run in runs if (row := _line(run, test))])
        header = [*RUN, "minutes", "by", "BLEU", "chrF", WORDS]
        table = [
            [
                *(row[key] for key in (*RUN, "minutes", "by")),
                *(f"{row[key]:.2f}" for key in ("bleu", "chrf", "words")),
            ]
            for row in rows
        ]
        texts += [
            f"{test}: the recipes, best first",
            timing.markdown_table(header, table),
            "By the source's words:",
            by_length(rows, *RUN),
            *(
                f"Order as measured with seed {seed}, by BLEU: {_order(rows, seed)}."
                for seed in sorted({row["seed"] for row in rows})
            ),
        ]
    return "\n\n".join(texts)


def _grouped(rows: list[dict]) -> list[dict]:
    """Rows by recipe and settings, the best mean BLEU first; then by seed."""
    groups = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        groups.setdefault((row["recipe"], row["settings"]), []).append(row)
    means = {name: np.mean([row["bleu"] for row in g]) for name, g in groups.items()}
    return [row for name in sorted(groups, key=means.get)[::-1] for row in groups[name]]


def _order(rows: list[dict], seed: int) -> str:
    """The years of one seed's rows, the best BLEU first."""
    rows = [row for row in rows if row["seed"] == seed]
    named = [
        [YEARS[row["recipe"]], *row["settings"].split(), f"({row['bleu']:.2f})"]
        for row in sorted(rows, key=lambda row: -row["bleu"])
    ]
    return ", ".join(map(" ".join, named))


def _line(run: dict, test: str) -> dict | None:
    """The best way of translating of one run, as a row of the comparison."""
    rows = [row for row in run["scores"] if row["test"] == test]
    rows = [row for row in rows if row["by"] != RETRIEVAL]
    if not rows:
        return None
    key, best = run["key"], rows[-1]  # the most beams
    settings = " ".join(f"{k}={v}" for k, v in [*key["model"], *key["fit"]])
    return {
        **best,
        **{"recipe": key["recipe"], "settings": settings, "seed": key["seed"]},
        "minutes": f"{run['seconds'] / 60:.1f}",
    }
