"""The same rows, held-out queries and exact neighbours for everything that is measured.

Each data set is one `.npy` file of all vectors. The queries are held out of it by the rule of `chiplet bench`
(`hold_out` in apps/cli/src/bench/shelf.rs), so that only the file has to be handed over: 1,000 rows, evenly spread.
Ids are row numbers among the rest. For the cosine all vectors are scaled to length 1 once, and kept in a file of their
own; their inner product then ranks as the cosine does.
"""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sets import QUERIES, REPOSITORY, SETS  # noqa: F401  (others take them from here)

METRICS = ("cosine", "l2", "ip")

# Distances this near to the k-th count as equal to it: ROUNDING in lab/workload/src/metric.rs.
ROUNDING = 1e-6
# How far off a vector is that was scaled to length 1 in f32: `Metric::scale` there.
UNIT_OFF = 1.2e-7

# Queries whose inner products with all rows are computed at once.
BLOCK = 32


@dataclass
class Vectors:
    """A data set in memory, and what is asked of it."""

    name: str
    metric: str
    k: int
    file: Path  # all vectors, queries included: what `chiplet bench --data` is given
    rows: np.ndarray  # [n][dim] f32; of length 1 for the cosine
    queries: np.ndarray  # [QUERIES][dim] f32
    near: np.ndarray  # [QUERIES][..] row numbers as near as the k-th nearest; padded with -1

    @property
    def title(self):
        return f"{self.name}, {self.metric}, k = {self.k}"

    def recall(self, found):
        """Recall@k of `found`, [QUERIES][k] row numbers: `Truth::recall` of lab/workload."""
        hits = 0
        # Query by query, as all pairs of 100 and 100 ids at once would take long.
        for near, ids in zip(self.near, np.asarray(found)[:, : self.k]):
            hits += np.isin(near[near >= 0], ids).sum()
        return float(hits / (len(self.near) * self.k))


def load(folder, name, metric="l2", k=10):
    """Data set `name`, made in `folder` if it is not there yet."""
    file = vectors_file(folder, name, metric)
    every = np.load(file)
    step = len(every) // QUERIES
    held_out = np.zeros(len(every), bool)
    held_out[np.arange(QUERIES) * step] = True
    rows, queries = every[~held_out], every[held_out]
    truth = folder / f"{name}.{metric}.{k}.near.npy"
    if not truth.exists():
        print(f"{name}: finding the exact {k} neighbours by {metric}", file=sys.stderr)
        save(truth, exact(rows, queries, metric, k))
    return Vectors(name, metric, k, file, rows, queries, np.load(truth))


def vectors_file(folder, name, metric):
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.npy"
    if not file.exists():
        print(f"{name}: preparing the vectors", file=sys.stderr)
        made = np.ascontiguousarray(SETS[name].make(folder), dtype=np.float32)
        digest = hashlib.sha256(made.tobytes()).hexdigest()
        if SETS[name].sha256 not in (None, digest):
            sys.exit(f"the vectors of {name} have SHA-256 {digest}, expected {SETS[name].sha256}: see sets.py")
        if not np.isfinite(made).all():
            sys.exit(f"the vectors of {name} are not all finite: see sets.py")
        save(file, made)
    if metric != "cosine":
        return file
    unit = folder / f"{name}.unit.npy"
    if not unit.exists():
        every = np.load(file).astype(np.float64)
        lengths = np.linalg.norm(every, axis=1, keepdims=True)
        save(unit, (every / np.where(lengths > 0, lengths, 1)).astype(np.float32))
    return unit


def save(file, array):
    """Writes `file` whole or not at all."""
    partial = file.with_suffix(".partial")
    with open(partial, "wb") as out:
        np.save(out, array)
    partial.rename(file)


def exact(rows, queries, metric, k):
    """For each query the row numbers that are as near as its k-th nearest, by float64 distances."""
    rows = rows.astype(np.float64)
    squares = np.einsum("ij,ij->i", rows, rows)
    queries = queries.astype(np.float64)
    found = []
    for first in range(0, len(queries), BLOCK):
        block = queries[first : first + BLOCK]
        for query, products in zip(block, block @ rows.T):
            found.append(nearest(rows, squares, query, products, metric, k))
    near = np.full((len(found), max(map(len, found))), -1, np.int64)
    for line, ids in zip(near, found):
        line[: len(ids)] = ids
    return near


def nearest(rows, squares, query, products, metric, k):
    """The row numbers as near to `query` as its k-th nearest; `products` are its inner products with the rows."""
    # The quick form picks candidates; it errs by far less than the margin. The exact form decides.
    rough = -products if metric == "ip" else squares - 2 * products + query @ query
    kth = np.partition(rough, k - 1)[k - 1]
    margin = 1e-5 * abs(kth) + 1e-6 * (squares.max() + query @ query)
    candidates = np.flatnonzero(rough <= kth + margin)
    distances = rough[candidates] if metric == "ip" else ((rows[candidates] - query) ** 2).sum(axis=1)
    order = np.argsort(distances)
    kth = distances[order[k - 1]]
    # What a search in f32 cannot tell from the k-th.
    if metric == "l2":
        near = kth * ROUNDING
    elif metric == "ip":
        near = ROUNDING * np.sqrt(squares[candidates[order[k - 1]]] * (query @ query))
    else:
        # Half the squared distance is 1 less the cosine.
        near = kth * ROUNDING + 2 * (UNIT_OFF * np.sqrt(kth) + UNIT_OFF**2 / 2)
    return candidates[distances <= kth + near]
