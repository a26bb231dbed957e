"""chiplet for `ann-benchmarks <https://github.com/erikbern/ann-benchmarks>`_: give its ``config.yml`` the module
``chiplet.ann_benchmarks`` and the constructor ``Hnsw``.

    float:
      any:
      - base_args: ['@metric']
        constructor: Hnsw
        disabled: false
        docker_tag: ann-benchmarks-chiplet
        module: chiplet.ann_benchmarks
        name: chiplet
        run_groups:
          M-16:
            args: [{M: 16, efConstruction: 200, rows: sq8, rerank: f16}]
            query_args: [[10, 20, 40, 80, 120, 200, 400, 800]]
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ._chiplet import Hnsw as Graph

_METRICS: dict[str, Literal["l2", "cosine"]] = {"euclidean": "l2", "angular": "cosine"}


class Hnsw:
    """A graph, asked by one thread, or by all for a batch."""

    def __init__(self, metric: str, method_param: dict[str, Any]) -> None:
        if metric not in _METRICS:
            raise NotImplementedError(f"chiplet has no metric {metric!r}; it has {', '.join(_METRICS)}")
        self.name = f"chiplet ({method_param})"
        self._metric: Literal["l2", "cosine"] = _METRICS[metric]
        self._built = method_param
        self._ef = 10
        self._table: Graph | None = None
        self._found: npt.NDArray[np.int64] | None = None

    def fit(self, X: npt.NDArray[np.float32]) -> None:
        """Builds the graph."""
        self._table = Graph.build(
            X,
            metric=self._metric,
            m=self._built.get("M", 16),
            ef_construction=self._built.get("efConstruction", 200),
            rows=self._built.get("rows", "f32"),
            rerank=self._built.get("rerank"),
        )

    def set_query_arguments(self, ef: int) -> None:
        """Candidates that a search keeps."""
        self._ef = ef

    def query(self, q: npt.NDArray[np.float32], n: int) -> npt.NDArray[np.int64]:
        """The ids of the ``n`` nearest."""
        return self._fitted().search(q, n, ef=self._ef).ids

    def batch_query(self, X: npt.NDArray[np.float32], n: int) -> None:
        """The same for each row of ``X``, by all cores."""
        self._found = self._fitted().search(X, n, ef=self._ef).ids

    def get_batch_results(self) -> npt.NDArray[np.int64]:
        """What ``batch_query`` has found."""
        if self._found is None:
            raise RuntimeError("call batch_query first")
        return self._found

    def get_memory_usage(self) -> float:
        """KiB that the table takes."""
        return self._fitted().nbytes / 1024

    def get_additional(self) -> dict[str, Any]:
        """Nothing more is measured."""
        return {}

    def done(self) -> None:
        """Lets go of the table."""
        self._table = None

    def __str__(self) -> str:
        return f"{self.name} ef={self._ef}"

    def _fitted(self) -> Graph:
        if self._table is None:
            raise RuntimeError("call fit first")
        return self._table
