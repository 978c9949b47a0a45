"""Which rows are padded to which length: the plan behind `BucketedDataset`."""

from itertools import groupby
from typing import NamedTuple

import numpy as np

BUCKETS = 5
CANDIDATES = 256  # lengths that are tried as edges


class Run(NamedTuple):
    """Rows start..stop of the sorted rows: batches of one shape."""

    start: int
    stop: int
    size: int  # rows a batch
    batches: int
    edges: tuple[int, ...]  # padded length of each input


def least_padding(lengths: np.ndarray, buckets: int = BUCKETS) -> np.ndarray:
    """Choose at most `buckets` edges for which the rows need least padding.

    cost(edges) = sum over rows of the smallest edge >= length, by dynamic
    programming over the last edge.
    """
    edges = np.unique(lengths)
    if len(edges) > CANDIDATES:
        edges = edges[np.linspace(0, len(edges) - 1, CANDIDATES).round().astype(int)]
    rows = np.searchsorted(np.sort(lengths), edges, side="right")
    rows = np.concatenate([[0], rows])  # rows[j]: those within the first j edges
    cost = np.full(len(rows), np.inf)
    cost[0] = 0.0
    ascending = np.tri(len(edges), len(rows), dtype=bool)
    sources = []
    for _ in range(buckets):
        # From the first k edges' rows to the first j+1 edges' rows, by edge j.
        step = cost + (rows[1:, None] - rows) * edges[:, None]
        step = np.where(ascending, step, np.inf)
        sources.append(step.argmin(axis=1))
        cost = np.concatenate([[0.0], step.min(axis=1)])
    chosen, reached = [], len(edges)
    for source in reversed(sources):
        if reached:
            chosen.append(edges[reached - 1])
            reached = source[reached - 1]
    return np.unique(chosen)


def make_runs(lengths, edges, capacity, drop_remainder) -> tuple[np.ndarray, list[Run]]:
    """Sort the rows and cut them into runs of batches of one shape.

    Each bucket is filled with whole batches of its shortest rows; the others go up
    into the next one. What the last bucket holds is shared evenly: batches of two
    sizes at most, the larger ones of its shorter rows.

    Edges never fall from run to run. TensorFlow looks at two batches only and takes
    an axis on which they agree for constant: the first and the last run differ on
    every axis on which any two do.

    Args:
        lengths: (inputs, rows).
        edges: (inputs, edges), ascending; `None` to choose them.
        capacity: Function of a bucket's longest edge: the rows of a batch.
        drop_remainder: Whether rows that fill no batch are left out.

    Returns:
        The row numbers, sorted, and the runs.
    """
    # A row is as long as its longest sequence, measured in that input's mean.
    mean = np.maximum(lengths.mean(axis=1, keepdims=True), 1e-9)
    key = (lengths / mean).max(axis=0)
    if edges is None:
        bucket = np.searchsorted(least_padding(key), key)
    else:
        fits = [np.searchsorted(e, n) for e, n in zip(edges, lengths, strict=True)]
        bucket = np.max(fits, axis=0)
    rows = np.lexsort((key, bucket))

    lowest = np.ones(len(lengths), "int64")

    def edges_of(place, start, stop):
        if edges is not None:
            return edges[:, place]
        return np.maximum(lengths[:, rows[start:stop]].max(axis=1), lowest)

    runs, start, stops = [], 0, np.cumsum(np.bincount(bucket)).tolist()
    for place, stop in enumerate(stops):
        if start == stop:
            continue
        size = capacity(int(edges_of(place, start, stop).max()))
        last = stop == len(rows)
        if last and drop_remainder and stop - start < size and runs:
            # Else the longest rows would be left out in every epoch.
            run = runs.pop()
            start = run.stop - run.size
            if run.batches > 1:
                runs.append(run._replace(stop=start, batches=run.batches - 1))
        if last and not drop_remainder:
            batches = -(-(stop - start) // size)
            base, larger = divmod(stop - start, batches)
            cuts = [(base + 1, larger), (base, batches - larger)]
        else:
            cuts = [(size, (stop - start) // size)]
        for size, batches in cuts:
            if batches:
                end = stop if last and drop_remainder else start + size * batches
                lowest = edges_of(place, start, end)
                runs.append(Run(start, end, size, batches, tuple(lowest.tolist())))
                start = end
    return rows, runs


def cut_into_sizes(lengths, edges, sizes, limit) -> tuple[np.ndarray, list[Run]]:
    """Sort the rows of one input and cut them into batches of given sizes.

    A batch has the smallest edge that holds its rows. Edges that are longer than the
    last follow a rule, so that all draws of the same rows share them: each is a
    quarter more, up to `limit`. Batches that all have one edge would look constant to
    TensorFlow: the last gets the next edge, beyond `limit` if need be. Rows that are
    left over are of the last run.

    Args:
        lengths: (rows,).
        edges: Ascending.
        sizes: The rows of each batch, from the shortest rows to the longest.
        limit: The longest that a row can be; `None` if there is no such length.

    Returns:
        The row numbers, sorted, and the runs.
    """
    rows = np.argsort(lengths, kind="stable")
    longest = lengths[rows[np.cumsum(sizes) - 1]]
    longest[-1] = lengths[rows[-1]]
    edges = list(edges)

    def add_edge():
        further = edges[-1] + max(1, edges[-1] // 4)
        within = limit is None or edges[-1] >= limit
        edges.append(further if within else min(further, limit))

    while edges[-1] < longest[-1]:
        add_edge()
    places = np.searchsorted(edges, longest)
    if places[0] == places[-1]:
        if places[-1] + 1 == len(edges):
            add_edge()
        places[-1] += 1
    runs, start = [], 0
    for (size, place), group in groupby(zip(sizes, places, strict=True)):
        batches = len(list(group))
        stop = start + size * batches
        runs.append(Run(start, stop, int(size), batches, (int(edges[place]),)))
        start = stop
    runs[-1] = runs[-1]._replace(stop=len(rows))
    return rows, runs
