#!/usr/bin/env python3
"""Writes small indexes of hnswlib and what hnswlib itself answers, for ../../adopt.rs.

pip install hnswlib==0.8.0 numpy, then run it in this folder. Deterministic: one thread and fixed seeds.
"""

import json

import hnswlib
import numpy as np

ROWS, DIM, M, K = 60, 4, 3, 4

random = np.random.default_rng(7)
rows = random.normal(size=(ROWS, DIM)).astype(np.float32)
queries = random.normal(size=(12, DIM)).astype(np.float32)
labels = 1000 + 7 * np.arange(ROWS, dtype=np.uint64)
expected = {"dim": DIM, "k": K, "queries": [[float(x) for x in row] for row in queries], "files": {}}


def index(space, dim=DIM):
    made = hnswlib.Index(space, dim)
    made.set_num_threads(1)
    return made


for space in ["l2", "ip", "cosine"]:
    made = index(space)
    made.init_index(max_elements=2 * ROWS, M=M, ef_construction=8, random_seed=3)
    # One label that needs more than 32 bits.
    own = labels.copy()
    if space == "l2":
        own[5] = 2**40
    made.add_items(rows, own)
    made.save_index(f"{space}.bin")
    answers = []
    for ef in [K, 8, ROWS]:
        made.set_ef(ef)
        for number, query in enumerate(queries):
            ids, distances = made.knn_query(query, k=K)
            answers.append({
                "query": number,
                "ef": ef,
                "ids": [int(x) for x in ids[0]],
                "distances": [float(x) for x in distances[0]],
            })
    expected["files"][space] = answers

made = index("l2")
made.init_index(max_elements=8, M=M, ef_construction=8, random_seed=3)
made.save_index("empty.bin")
made.add_items(rows[:8], labels[:8])
made.mark_deleted(int(labels[2]))
made.save_index("deleted.bin")

with open("expected.json", "w") as out:
    json.dump(expected, out, separators=(",", ":"))
    out.write("\n")
