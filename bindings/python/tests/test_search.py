"""Searches through an executor: what is found, in which shape."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import Rows, added, nearest

import chiplet


def test_one_vector_gives_k(executor: chiplet.Executor, flat: chiplet.Flat, rows: Rows, queries: Rows) -> None:
    name = added(executor, flat)
    ids, distances = executor.search(name, queries[3], k=5)
    assert ids.dtype == np.int64 and distances.dtype == np.float32
    assert ids.shape == distances.shape == (5,)
    assert ids.tolist() == nearest(rows, queries[3], 5).tolist()
    squared = ((rows[ids].astype(np.float64) - queries[3]) ** 2).sum(axis=1)
    np.testing.assert_allclose(distances, squared, rtol=1e-4)


def test_k_is_ten_unless_said(executor: chiplet.Executor, flat: chiplet.Flat, queries: Rows) -> None:
    name = added(executor, flat)
    assert executor.search(name, queries[0]).ids.shape == (10,)


def test_many_vectors_give_rows_of_k(executor: chiplet.Executor, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    name = added(executor, hnsw)
    many = executor.search(name, queries, k=7, ef=64)
    assert many.ids.shape == many.distances.shape == (200, 7)
    batch = executor.search_batch(name, queries, k=7, ef=64)
    for row, query in enumerate(queries):
        one = executor.search(name, query, k=7, ef=64)
        assert one.ids.tolist() == many.ids[row].tolist() == batch.ids[row].tolist()
        assert one.distances.tolist() == many.distances[row].tolist()


def test_what_is_not_found_is_padded(executor: chiplet.Executor, queries: Rows) -> None:
    few = added(executor, chiplet.Flat.build(np.eye(3, 24, dtype=np.float32)))
    graph = added(executor, chiplet.Hnsw.build(np.eye(3, 24, dtype=np.float32)))
    for name in (few, graph):
        ids, distances = executor.search(name, queries[0], k=5)
        assert (ids[3:] == -1).all() and np.isinf(distances[3:]).all() and (ids[:3] >= 0).all()
        many = executor.search(name, queries[:2], k=5)
        assert (many.ids[:, 3:] == -1).all() and np.isinf(many.distances[:, 3:]).all()


def test_an_empty_batch(executor: chiplet.Executor, flat: chiplet.Flat) -> None:
    name = added(executor, flat)
    assert executor.search(name, np.empty((0, 24), np.float32), k=3).ids.shape == (0, 3)


def test_radius(executor: chiplet.Executor, flat: chiplet.Flat, queries: Rows) -> None:
    name = added(executor, flat)
    _, all_distances = executor.search(name, queries[0], k=20)
    radius = float(all_distances[9])
    ids, distances = executor.search(name, queries[0], k=20, radius=radius)
    assert (ids >= 0).sum() == (all_distances <= radius).sum()
    assert (distances[ids >= 0] <= radius).all()


def test_filters(executor: chiplet.Executor, flat: chiplet.Flat, rows: Rows, queries: Rows) -> None:
    name = added(executor, flat)
    mask = np.zeros(len(rows), dtype=bool)
    mask[::3] = True
    allowed = np.flatnonzero(mask)
    for way in (mask, allowed, allowed.tolist(), set(allowed.tolist()), chiplet.Filter(mask), mask.tolist()):
        ids, _ = executor.search(name, queries[1], k=9, filter=way)
        assert ids.tolist() == allowed[nearest(rows[allowed], queries[1], 9)].tolist()


def test_a_filter_a_query(executor: chiplet.Executor, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    name = added(executor, hnsw)
    filters = [np.arange(i, 2_000, 7) for i in range(5)]
    ids, _ = executor.search_batch(name, queries[:5], k=6, filter=filters)
    for i in range(5):
        assert (ids[i] % 7 == i).all()
    with pytest.raises(chiplet.QueryError, match="2 filters for 5 queries"):
        executor.search_batch(name, queries[:5], k=6, filter=filters[:2])


def test_a_filter_is_built_once(rows: Rows) -> None:
    made = chiplet.Filter(np.arange(0, 100, 2))
    assert made.count == 50 and 4 in made and 5 not in made
    assert repr(made) == "Filter(50 ids)" and repr(chiplet.Filter([3])) == "Filter(1 id)"


@pytest.mark.parametrize("allowed", [np.arange(0, 6_000_000, 2), np.ones(60_000_000, bool)], ids=["ids", "mask"])
@pytest.mark.thread_unsafe(reason="it counts turns")
def test_others_run_while_a_filter_is_built(allowed: npt.NDArray[Any]) -> None:
    begun, made, turns = threading.Event(), list[chiplet.Filter](), 0

    def make() -> None:
        begun.set()
        made.append(chiplet.Filter(allowed))

    thread = threading.Thread(target=make)
    thread.start()
    begun.wait()
    while not made:
        turns += 1
        time.sleep(0)
    thread.join()
    assert turns > 100 and made[0].count in (3_000_000, 60_000_000)


def test_ids_of_the_callers(queries: Rows, rows: Rows, tmp_path: Path) -> None:
    ids = np.random.default_rng(3).permutation(2_000) * 1_000_003 + (1 << 40)
    graph = chiplet.Hnsw.build(rows, ids=ids)
    assert sorted(graph.ids().tolist()) == sorted(ids.tolist())
    for table in (chiplet.Flat.build(rows, ids=ids), graph):
        found, _ = table.search(queries[5], k=4)
        places = nearest(rows, queries[5], 4)
        assert found.tolist() == ids[places].tolist()
        table.save(tmp_path / "with-ids")
        again = chiplet.open(tmp_path / "with-ids")
        assert again.search(queries[5], k=4).ids.tolist() == found.tolist()


@pytest.mark.thread_unsafe(reason="it counts on names")
def test_a_block_longer_than_any_queue(hnsw: chiplet.Hnsw, queries: Rows) -> None:
    with chiplet.Executor(queue_limit=4, max_workers=1) as executor:
        executor.add("rows", hnsw)
        many = np.tile(queries, (100, 1))
        hits = executor.search("rows", many, k=3)
        assert hits.ids.shape == (20_000, 3)
        assert (hits.ids.reshape(100, 200, 3) == hits.ids[:200]).all()


def test_many_threads(executor: chiplet.Executor, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    name = added(executor, hnsw)
    wanted = executor.search(name, queries, k=5).ids
    together = threading.Barrier(8)

    def some(first: int) -> None:
        together.wait()
        for row in range(first, 200, 8):
            assert executor.search(name, queries[row], k=5).ids.tolist() == wanted[row].tolist()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(some, range(8)))


@pytest.mark.thread_unsafe(reason="it counts on names")
def test_replace_and_remove(executor: chiplet.Executor, rows: Rows, queries: Rows) -> None:
    executor.add("rows", chiplet.Flat.build(rows[:10]))
    executor.replace("rows", chiplet.Flat.build(rows))
    assert (executor.search("rows", queries[:3], k=20).ids >= 0).all()
    assert executor.tables == ["rows"]
    executor.remove("rows")
    assert executor.tables == []
    with pytest.raises(chiplet.UnknownTable, match="no table \"rows\""):
        executor.search("rows", queries[0])


def test_several_tables_at_once(executor: chiplet.Executor, rows: Rows, queries: Rows) -> None:
    names = [added(executor, chiplet.Flat.build(rows[part::3])) for part in range(3)]
    for query in queries[:20]:
        ids, distances, tables = executor.search_over(names, query, k=10)
        assert (ids * 3 + tables).tolist() == nearest(rows, query, 10).tolist()
        assert (np.diff(distances) >= 0).all()
    ids, distances, tables = executor.search_over(names[:1], queries[0], k=700)
    assert (ids[667:] == -1).all() and (tables[667:] == -1).all() and (tables[:667] == 0).all()
    other = added(executor, chiplet.Flat.build(rows, metric="ip"))
    with pytest.raises(chiplet.QueryError, match="differ in metric"):
        executor.search_over([*names, other], queries[0])
    for wrong in ([], names):
        with pytest.raises(TypeError, match="one vector"):
            executor.search_over(wrong, queries[:2] if wrong else queries[0])
    with pytest.raises(chiplet.UnknownTable):
        executor.search_over([*names, "absent"], queries[0])


@pytest.mark.thread_unsafe(reason="it counts on names")
def test_run_on_the_tables_home(executor: chiplet.Executor) -> None:
    executor.add("own", size_bytes=1 << 20)
    here = threading.get_ident()

    def work(x: int, *, y: int) -> tuple[int, bool]:
        return x * y, threading.get_ident() != here

    assert executor.run("own", work, 6, y=7) == (42, True)
    with pytest.raises(ZeroDivisionError):
        executor.run("own", lambda: 1 // 0)
    with pytest.raises(chiplet.QueryError):
        executor.search("own", [0.0])


def test_a_callable_cannot_wait_for_its_own_executor(flat: chiplet.Flat, queries: Rows) -> None:
    # With another worker the answer could be there before it is asked for.
    with chiplet.Executor(max_workers=1) as executor:
        executor.add("rows", flat)
        with pytest.raises(chiplet.Failed, match="own executor"):
            executor.run("rows", executor.search, "rows", queries[0])
        # A table needs no executor.
        assert executor.run("rows", flat.search, queries[0], 3).ids.shape == (3,)


@pytest.mark.thread_unsafe(reason="it counts on names")
def test_what_there_is_to_see(executor: chiplet.Executor, flat: chiplet.Flat, queries: Rows) -> None:
    executor.add("rows", flat, weight=2.0)
    executor.search("rows", queries, k=1)
    snapshot = executor.snapshot()
    assert snapshot["total"]["done"] == 200
    (table,) = snapshot["tables"]
    assert table["name"] == "rows"
    homes = executor.placement()["homes"]["rows"]
    assert sum(homes.values()) == pytest.approx(1)
    topology = executor.topology()
    assert set(homes) <= {str(domain["id"]) for domain in topology["domains"]}
    assert all(domain["cores"] for domain in topology["domains"])
    assert repr(executor).startswith("Executor(") and repr(executor).endswith(", 1 table)")
    assert repr(chiplet.Flat.build([[1.0, 2.0]])).startswith("Flat(1 row of 2, l2, ")
