"""The module for ann-benchmarks does what its runner asks."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Rows

import chiplet
from chiplet.ann_benchmarks import Hnsw


@pytest.mark.parametrize("metric, ours", [("euclidean", "l2"), ("angular", "cosine")])
def test_as_the_runner_asks(metric: str, ours: str, rows: Rows, queries: Rows) -> None:
    algorithm = Hnsw(metric, {"M": 12, "efConstruction": 100, "rows": "sq8", "rerank": "f16"})
    algorithm.fit(rows)
    truth = chiplet.Flat.build(rows, metric=ours).search(queries, k=10).ids  # type: ignore[arg-type]  # pyright: ignore
    shares = []
    for ef in (10, 100):
        algorithm.set_query_arguments(ef)
        algorithm.batch_query(queries, 10)
        found = algorithm.get_batch_results()
        assert (algorithm.query(queries[3], 10) == found[3]).all()
        shares.append(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, truth)]))
        assert str(ef) in str(algorithm)
    assert shares[0] <= shares[1] and shares[1] > 0.95
    assert algorithm.get_memory_usage() > 0
    algorithm.done()


def test_other_metrics_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="hamming"):
        Hnsw("hamming", {})
