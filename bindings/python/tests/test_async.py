"""Answers on event loops."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from conftest import Rows

import chiplet

Run = Callable[[Awaitable[Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    factory: Any = asyncio.new_event_loop
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:

        async def awaited(what: Awaitable[Any]) -> Any:
            return await what

        yield lambda what: runner.run(awaited(what))


@pytest.fixture
def roomy() -> Iterator[chiplet.Executor]:
    """As many may wait as are asked for here."""
    with chiplet.Executor(queue_limit=4_000, table_queue_limit=2_000) as executor:
        yield executor


def test_a_thousand_on_one_loop(run: Run, roomy: chiplet.Executor, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    executor = roomy
    executor.add("rows", hnsw)
    want = executor.search("rows", queries, k=5, ef=50)
    threads = threading.active_count()
    most = 0

    async def one(row: int) -> chiplet.Hits:
        nonlocal most
        hits = await executor.asearch("rows", queries[row % 200], k=5, ef=50)
        most = max(most, threading.active_count())
        return hits

    async def all_of_them() -> list[chiplet.Hits]:
        return await asyncio.gather(*(one(row) for row in range(1_000)))

    for row, hits in enumerate(run(all_of_them())):
        assert hits.ids.tolist() == want.ids[row % 200].tolist()
        assert hits.distances.tolist() == want.distances[row % 200].tolist()
    # No thread a query.
    assert most == threads
    assert executor.snapshot()["total"]["done"] == 1_200


def test_blocks_and_callables(run: Run, executor: chiplet.Executor, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    executor.add("rows", hnsw)

    async def both() -> tuple[chiplet.Hits, int]:
        block, called = executor.asearch("rows", queries, k=3), executor.arun("rows", sum, [1, 2, 3])
        return await block, await called

    hits, total = run(both())
    assert hits.ids.shape == (200, 3) and total == 6


def test_errors_are_raised_where_they_are_awaited(
    run: Run, executor: chiplet.Executor, hnsw: chiplet.Hnsw, queries: Rows
) -> None:
    executor.add("rows", hnsw)
    executor.add("none", hnsw, queue_limit=0)

    async def failing() -> None:
        with pytest.raises(chiplet.QueryError):
            await executor.asearch("rows", [float("nan")] * 24)
        with pytest.raises(chiplet.Overloaded):
            await executor.asearch("none", queries[0])
        with pytest.raises(chiplet.Expired):
            await executor.asearch("rows", queries[0], deadline=0)
        with pytest.raises(ZeroDivisionError):
            await executor.arun("rows", lambda: 1 // 0)

    run(failing())


def test_cancelling_drops_the_search(run: Run, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    with chiplet.Executor(max_workers=1, queue_limit=4_000, table_queue_limit=2_000) as executor:
        executor.add("rows", hnsw)
        begun, held = threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            held.wait(60)

        async def cancelled() -> None:
            holding = executor.arun("rows", hold)
            await asyncio.to_thread(begun.wait)
            waiting = [asyncio.ensure_future(executor.asearch("rows", query)) for query in queries]
            await asyncio.sleep(0)
            for task in waiting[::2]:
                task.cancel()
            ends = await asyncio.gather(*waiting[::2], return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ends)
            # The loop tells who waits for the end of a future a turn later.
            await asyncio.sleep(0)
            held.set()
            await holding
            answered = await asyncio.gather(*waiting[1::2])
            assert len(answered) == 100

        run(cancelled())
        total = executor.snapshot()["total"]
        assert (total["done"], total["cancelled"]) == (101, 100)


def test_a_timeout(run: Run, executor: chiplet.Executor, hnsw: chiplet.Hnsw) -> None:
    executor.add("rows", hnsw)

    async def late() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(executor.arun("rows", time.sleep, 0.3), 0.01)

    run(late())


def test_loops_leave_nothing_behind(executor: chiplet.Executor, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    executor.add("rows", hnsw)

    async def one() -> chiplet.Hits:
        return await executor.asearch("rows", queries[0], k=1)

    asyncio.run(one())
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        assert asyncio.run(one()).ids.shape == (1,)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_loops_in_several_threads(roomy: chiplet.Executor, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    executor = roomy
    executor.add("rows", hnsw)
    want = executor.search("rows", queries, k=2).ids.tolist()
    got: dict[int, list[list[int]]] = {}

    def loop(number: int) -> None:
        async def all_of_them() -> list[list[int]]:
            asked = [executor.asearch("rows", query, k=2) for query in queries]
            return [(await hits).ids.tolist() for hits in asked]

        got[number] = asyncio.run(all_of_them())

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(got[number] == want for number in range(4))


def test_without_a_loop(executor: chiplet.Executor, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    executor.add("rows", hnsw)
    with pytest.raises(RuntimeError, match="no running event loop"):
        executor.asearch("rows", queries[0])


def test_a_loop_that_closes_with_searches_open(executor: chiplet.Executor, hnsw: chiplet.Hnsw) -> None:
    executor.add("rows", hnsw)

    async def leave() -> None:
        executor.arun("rows", time.sleep, 0.05)

    asyncio.run(leave())
    gc.collect()
    assert executor.run("rows", int) == 0


def test_a_callable_that_raises_stop_iteration(run: Run, executor: chiplet.Executor, hnsw: chiplet.Hnsw) -> None:
    executor.add("rows", hnsw)

    async def all_of_them() -> list[Any]:
        asked: list[asyncio.Future[Any]] = [executor.arun("rows", next, iter(())) for _ in range(6)]
        asked += [executor.arun("rows", int) for _ in range(6)]
        return await asyncio.gather(*asked, return_exceptions=True)

    ends = run(all_of_them())
    assert all(isinstance(end, RuntimeError) and isinstance(end.__cause__, StopIteration) for end in ends[:6])
    assert ends[6:] == [0] * 6


def test_loops_that_close_with_searches_open_leave_nothing(executor: chiplet.Executor, hnsw: chiplet.Hnsw) -> None:
    executor.add("rows", hnsw)

    async def leave() -> None:
        executor.arun("rows", time.sleep, 0.005)

    for _ in range(3):
        asyncio.run(leave())
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        asyncio.run(leave())
    executor.run("rows", int)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1
