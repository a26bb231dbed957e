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
from typing import TYPE_CHECKING, Any

from ._chiplet import Filter, Flat, Hnsw, Ivf, Table, __version__, close_all, from_faiss, open, place
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
from ._executor import Executor
from ._hits import Hits, HitsOver

if TYPE_CHECKING:
    from . import ann_benchmarks as ann_benchmarks
    from . import compat as compat

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
    "HitsOver",
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

# Tracebacks, help() and pickles name things as users do.
for _name in __all__:
    if isinstance(_public := globals()[_name], type):
        _public.__module__ = __name__


def __getattr__(name: str) -> Any:
    # Seldom used: `import chiplet` does not wait for them.
    if name in ("ann_benchmarks", "compat"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# A callable that runs on a worker needs the interpreter.
atexit.register(close_all)
