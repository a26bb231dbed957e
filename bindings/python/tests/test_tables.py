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


def test_fit_keeps_the_fewest_bits_that_find_enough(rows: Rows) -> None:
    fitted = chiplet.Hnsw.build(rows, fit=0.95)
    assert fitted.formats != ("f32", None) and fitted.nbytes < chiplet.Hnsw.build(rows).nbytes
    assert chiplet.Hnsw.build(rows).formats == ("f32", None)
    assert chiplet.Hnsw.build(rows, fit=0.5, rows="sq4", rerank="f16").formats == ("sq4", "f16")
    with pytest.raises(chiplet.BuildError, match="recall is 2"):
        chiplet.Hnsw.build(rows, fit=2)
    with pytest.raises(chiplet.BuildError, match="sq8 finds 0"):
        chiplet.Hnsw.build(rows, fit=1.0, rows="sq8")


@pytest.mark.parametrize("own_ids", [False, True])
@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_rows_by_their_ids(metric: Any, own_ids: bool, rows: Rows, tmp_path: Path) -> None:
    ids = np.random.default_rng(4).permutation(2_000) * 3 + (1 << 35) if own_ids else np.arange(2_000)
    kept = rows / np.linalg.norm(rows, axis=1, keepdims=True) if metric == "cosine" else rows
    given = ids if own_ids else None
    tables: list[tuple[chiplet.Table, float]] = [
        (chiplet.Flat.build(rows, metric=metric, ids=given), 1e-6),
        (chiplet.Hnsw.build(rows, metric=metric, ids=given, rows="sq4", rerank="f32"), 1e-6),
    ]
    for format, wrong in (("f32", 1e-6), ("f16", 1e-2), ("bf16", 1e-1), ("sq8", 1e-1)):
        tables.append((chiplet.Hnsw.build(rows, metric=metric, ids=given, rows=format), wrong))  # type: ignore[arg-type]  # pyright: ignore
    for table, wrong in tables:
        table.save(tmp_path / "t")
        for each in (table, chiplet.open(tmp_path / "t", mmap=True)):
            assert sorted(each.ids()) == sorted(ids)
            asked = ids[::-7]
            vectors = each.vectors(asked)
            assert vectors.dtype == np.float32 and vectors.shape == (len(asked), 24)
            np.testing.assert_allclose(vectors, kept[::-7], atol=wrong)
            assert ids[17] in each and int(ids[5]) in each
            assert 2**64 - 1 not in each and -1 not in each and "a" not in each and ids.max() + 1 not in each
            with pytest.raises(chiplet.QueryError, match="no row of id 1000001"):
                each.vectors([ids[0], 1_000_001])
            assert each.vectors([]).shape == (0, 24)


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
