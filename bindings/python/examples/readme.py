"""The README's search."""

import numpy as np

import chiplet

songs = np.random.default_rng(0).standard_normal((10_000, 64), dtype=np.float32)
table = chiplet.Hnsw.build(songs, metric="cosine")

with chiplet.Executor() as executor:
    executor.add("songs", table)
    ids, distances = executor.search("songs", songs[0], k=10)

print(ids, distances)
assert ids[0] == 0
