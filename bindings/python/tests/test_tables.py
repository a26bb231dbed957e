"""Tables: built, saved, opened, adopted, searched by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Rows, nearest

import chiplet


def test_a_table_searches_by_itself(hnsw: chiplet.Hnsw, flat: chiplet.Flat, rows: Rows, queries: Rows) -> None:
    wanted = np.stack([nearest(rows, query, 10) for query in queries])
    assert (flat.search(queries, k=10).ids == wanted).all()
    for threads in (None, 1, 3, 1_000):
        hits = hnsw.search(queries, k=10, ef=100, threads=threads)
        assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(hits.ids, wanted)]) > 0.97
    assert hnsw.search(queries[0], k=10, ef=100).ids.tolist() == hits.ids[0].tolist()


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_signs_and_units(metric: Any, rows: Rows) -> None:
    query = rows[17] * 2
    for table in (chiplet.Flat.build(rows, metric=metric), chiplet.Hnsw.build(rows, metric=metric)):
        assert table.metric == metric and table.dim == 24 and len(table) == 2_000 and table.nbytes >= rows.nbytes
        ids, distances = table.search(query, k=3)
        x = rows[ids].astype(np.float64)
        products = x @ query.astype(np.float64)
        match metric:
            case "l2":
                truth = ((x - query) ** 2).sum(axis=1)
            case "cosine":
                truth = 1 - products / np.linalg.norm(x, axis=1) / np.linalg.norm(query.astype(np.float64))
            case _:
                truth = -products
        np.testing.assert_allclose(distances, truth, rtol=1e-4, atol=1e-5)
        assert (np.diff(distances) >= 0).all()


@pytest.mark.parametrize("mmap", [False, True])
def test_files(mmap: bool, hnsw: chiplet.Hnsw, flat: chiplet.Flat, queries: Rows, tmp_path: Path) -> None:
    for table in (hnsw, flat):
        table.save(tmp_path / "a.chiplet")
        again = chiplet.open(str(tmp_path / "a.chiplet"), mmap=mmap)
        assert type(again) is type(table)
        again.verify()
        want, got = table.search(queries, k=4), again.search(queries, k=4)
        assert (want.ids == got.ids).all() and (want.distances == got.distances).all()


def test_row_formats(rows: Rows, queries: Rows) -> None:
    full = chiplet.Hnsw.build(rows)
    small = chiplet.Hnsw.build(rows, rows="sq8", rerank="f16", m=12, ef_construction=100, ef=50)
    assert small.nbytes < full.nbytes
    same = [len(set(a) & set(b)) for a, b in zip(small.search(queries, k=10).ids, full.search(queries, k=10).ids)]
    assert np.mean(same) > 9
    with pytest.raises(ValueError, match="sq9"):
        chiplet.Hnsw.build(rows, rows="sq9")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_progress(rows: Rows) -> None:
    seen: list[tuple[str, int, int]] = []
    chiplet.Hnsw.build(rows, progress=lambda stage, done, total: seen.append((stage, done, total)))
    stages = ["checking", "adding", "finishing"]
    assert list(dict.fromkeys(stage for stage, _, _ in seen)) == stages
    for stage in stages:
        assert (stage, 0, 2_000) in seen and (stage, 2_000, 2_000) in seen
    # Each stage comes once, and goes on.
    assert seen == sorted(seen, key=lambda each: (stages.index(each[0]), each[1]))


def test_a_progress_that_raises_ends_the_build(rows: Rows) -> None:
    def progress(stage: str, done: int, total: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        chiplet.Hnsw.build(rows, progress=progress)
