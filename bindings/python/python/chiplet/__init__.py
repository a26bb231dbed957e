"""Vector search whose queries run where their tables are in cache.

    import chiplet
    import numpy as np

    songs = np.random.default_rng(0).standard_normal((10_000, 64), dtype=np.float32)
    table = chiplet.Hnsw.build(songs, metric="cosine")
    with chiplet.Executor() as executor:
        executor.add("songs", table)
        ids, distances = executor.search("songs", songs[0], k=10)

Distances are the same everywhere, and smaller is nearer: *squared* Euclidean for ``"l2"``, ``1 - cos`` for ``"cosine"``,
the *negated* product for ``"ip"``. Times are in seconds, sizes in bytes.
"""

import atexit

from ._chiplet import Executor, Filter, Flat, Hnsw, Ivf, Table, __version__, close_all, from_faiss, open, place
from ._errors import (
    BuildError,
    Closed,
    Error,
    Expired,
    Failed,
    FileError,
    Forked,
    MissingFile,
    NameTaken,
    Overloaded,
    QueryError,
    TopologyWarning,
    UnknownTable,
)
from ._hits import Hits

__all__ = [
    "BuildError",
    "Closed",
    "Error",
    "Executor",
    "Expired",
    "Failed",
    "FileError",
    "Filter",
    "Flat",
    "Forked",
    "Hits",
    "Hnsw",
    "Ivf",
    "MissingFile",
    "NameTaken",
    "Overloaded",
    "QueryError",
    "Table",
    "TopologyWarning",
    "UnknownTable",
    "__version__",
    "from_faiss",
    "open",
    "place",
]

# A callable that runs on a worker needs the interpreter.
atexit.register(close_all)
