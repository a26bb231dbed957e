"""Inverted lists of the sample, in files that Faiss writes: the demo reads them without Faiss.

Faiss trains nothing here. Its k-means depends on threads and on the processor, so centroids are computed by numpy in
float64 and rounded to a grid that hides the last bits; what Faiss adds, assignment and codes, depends on no order.
"""

import numpy as np

import glove

PARTS = 2
LISTS = 128
ROUNDS = 20
# Lists that a search visits unless it says otherwise.
NPROBE = 20
# Centroids are multiples of its inverse.
GRID = 1024


def files(vectors):
    """By name, an `IVF128,SQ4` index of every second word, at length 1, for inner products."""
    unit = glove.unit(vectors)
    return {f"ivf-{part}.faiss": index(unit[part::PARTS]) for part in range(PARTS)}


def index(rows):
    # Here, so that `fetch_full.py` runs without it.
    import faiss

    dim = rows.shape[1]
    quantizer = faiss.IndexFlatIP(dim)
    quantizer.add(centroids(rows).astype("<f4"))
    lists = faiss.IndexIVFScalarQuantizer(
        quantizer, dim, LISTS, faiss.ScalarQuantizer.QT_4bit, faiss.METRIC_INNER_PRODUCT
    )
    rows = np.ascontiguousarray(rows, "<f4")
    # Centroids are there, so this finds the range of each component alone.
    lists.train(rows)
    lists.add(rows)
    lists.nprobe = NPROBE
    return faiss.serialize_index(lists).tobytes()


def centroids(rows):
    """Those of k-means on the sphere, begun with the most frequent words."""
    found = rows[:LISTS]
    for _ in range(ROUNDS):
        nearest = np.argmax(rows @ found.T, axis=1)
        sums = np.zeros_like(found)
        np.add.at(sums, nearest, rows)
        kept = np.bincount(nearest, minlength=LISTS)[:, None] == 0
        found = np.round(np.where(kept, found, glove.unit(sums + kept)) * GRID) / GRID
    return found
