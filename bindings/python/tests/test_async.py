"""Answers on event loops."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator
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
def held() -> Iterator[Held]:
    """An executor of one worker, which does nothing until it is let go, and of little room."""
    with chiplet.Executor(max_workers=1, table_queue_limit=4) as executor:
        yield Held(executor)


class Held:
    def __init__(self, executor: chiplet.Executor) -> None:
        self.executor = executor
        self.begun, self.go = threading.Event(), threading.Event()

    async def hold(self) -> asyncio.Task[None]:
        """Has the worker wait, beside a full queue of the table "rows"."""
        self.executor.add("other", size_bytes=1)
        holding = asyncio.create_task(self.executor.arun("other", self._hold))
        await asyncio.to_thread(self.begun.wait)
        return holding

    def _hold(self) -> None:
        self.begun.set()
        assert self.go.wait(60)


@pytest.mark.parametrize("room", [384, 2])
def test_a_thousand_on_one_loop(room: int, run: Run, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    with chiplet.Executor(table_queue_limit=room) as executor:
        executor.add("rows", hnsw)
        want = executor.search("rows", queries, k=5, ef=50)
        threads = threading.active_count()

        async def all_of_them() -> list[chiplet.Hits]:
            return await asyncio.gather(*[executor.asearch("rows", queries[row % 200], k=5, ef=50) for row in range(1_000)])

        for row, hits in enumerate(run(all_of_them())):
            assert hits.ids.tolist() == want.ids[row % 200].tolist()
            assert hits.distances.tolist() == want.distances[row % 200].tolist()
        # No thread a query.
        assert threading.active_count() == threads
        # Who waits for room is refused nothing, however often it asks.
        total = executor.snapshot()["total"]
        assert (total["accepted"], total["done"], total["shed"]) == (1_200, 1_200, 0)


def test_a_search_is_a_coroutine(run: Run, executor: chiplet.Executor, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    executor.add("rows", hnsw)

    async def tasks() -> None:
        async with asyncio.TaskGroup() as group:
            one = group.create_task(executor.asearch("rows", queries[0], k=3))
            many = group.create_task(executor.asearch_batch("rows", queries, k=3))
            block = group.create_task(executor.asearch("rows", queries, k=3))
            called = group.create_task(executor.arun("rows", sum, [1, 2, 3]))
        assert one.result().ids.tolist() == many.result().ids[0].tolist() and called.result() == 6
        assert many.result().ids.shape == block.result().ids.shape == (200, 3)
        assert (await asyncio.create_task(executor.asearch("rows", queries[0], k=3))).ids.tolist() == one.result().ids.tolist()
        with pytest.raises(TypeError, match="for one vector there is asearch"):
            await executor.asearch_batch("rows", queries[0])

    run(tasks())
    assert inspect.iscoroutinefunction(executor.asearch)


def test_room_comes_in_turn(run: Run, held: Held, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    executor = held.executor
    executor.add("rows", hnsw)
    order: list[int] = []

    async def all_of_them() -> None:
        holding = await held.hold()
        # The one worker says in which order they had room: answers may be told in another.
        tasks = [asyncio.create_task(executor.arun("rows", order.append, number)) for number in range(300)]
        block = asyncio.create_task(executor.asearch_batch("rows", queries, k=1))
        called = asyncio.create_task(executor.arun("rows", int))
        await asyncio.sleep(0)
        with pytest.raises(chiplet.Overloaded):
            await executor.asearch("rows", queries[0], refuse=True)
        assert not order
        held.go.set()
        await asyncio.gather(holding, called, *tasks)
        assert (await block).ids.shape == (200, 1)

    run(all_of_them())
    assert order == list(range(300))


def test_what_waits_for_room_expires_is_cancelled_and_told(run: Run, held: Held, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    executor = held.executor
    executor.add("rows", hnsw)
    executor.add("gone", hnsw, queue_limit=1)

    async def all_of_them() -> None:
        holding = await held.hold()
        waiting = [asyncio.create_task(executor.asearch("rows", query, k=1)) for query in queries]
        late = [asyncio.create_task(executor.asearch("rows", query, deadline=0.01 * (1 + row % 3))) for row, query in enumerate(queries)]
        gone = [asyncio.create_task(executor.asearch("gone", query, k=1)) for query in queries[:3]]
        # Whoever waits sees its deadline pass, though nothing is answered.
        ends = await asyncio.gather(*late, return_exceptions=True)
        assert all(isinstance(end, chiplet.Expired) for end in ends)
        executor.remove("gone")
        ends = await asyncio.gather(*gone[1:], return_exceptions=True)
        assert all(isinstance(end, chiplet.UnknownTable) for end in ends)
        for task in waiting[::2]:
            task.cancel()
        ends = await asyncio.gather(*waiting[::2], return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        held.go.set()
        answered = await asyncio.gather(holding, *gone[:1], *waiting[1::2])
        assert len(answered) == 102
        # Those that expired are told as refused, each once. The others were answered, cancelled, or their table went.
        total = executor.snapshot()["total"]
        assert (total["done"], total["shed"]) == (102, 200)

    run(all_of_them())


def test_one_timer_looks_after_all_that_wait(
    run: Run, held: Held, hnsw: chiplet.Hnsw, queries: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = held.executor
    executor.add("rows", hnsw)
    timers: list[Callable[[], None]] = []

    def later(known: Any, _seconds: float, *timer: int) -> None:
        timers.append(lambda: known.retry(*timer))

    monkeypatch.setattr("chiplet._loops.later", later)

    async def all_of_them() -> None:
        holding = await held.hold()
        waiting = [asyncio.create_task(executor.asearch("rows", query)) for query in queries[:5]]
        late = [asyncio.create_task(executor.asearch("rows", query, deadline=0)) for query in queries[:5]]
        await asyncio.sleep(0)
        for _ in range(5):
            set_before, timers[:] = timers[:], []
            for fire in set_before:
                fire()
            assert len(timers) == 1
        held.go.set()
        await asyncio.gather(holding, *waiting)
        ends = await asyncio.gather(*late, return_exceptions=True)
        assert all(isinstance(end, chiplet.Expired) for end in ends)

    run(all_of_them())


def test_what_waits_for_room_when_the_executor_closes(run: Run, held: Held, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    executor = held.executor
    executor.add("rows", hnsw)

    async def all_of_them() -> None:
        holding = await held.hold()
        waiting = [asyncio.create_task(executor.asearch("rows", query, k=1)) for query in queries]
        await asyncio.sleep(0)
        closing = asyncio.create_task(asyncio.to_thread(executor.close))
        ends = await asyncio.gather(*waiting[4:], return_exceptions=True)
        assert all(isinstance(end, chiplet.Closed) for end in ends)
        held.go.set()
        assert len(await asyncio.gather(holding, closing, *waiting[:4])) == 6

    run(all_of_them())


def test_a_loop_that_closes_while_searches_wait_for_room(held: Held, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    executor = held.executor
    executor.add("rows", hnsw)

    async def leave() -> weakref.ref[asyncio.Task[chiplet.Hits]]:
        await held.hold()
        tasks = [asyncio.create_task(executor.asearch("rows", query)) for query in queries]
        await asyncio.sleep(0)
        return weakref.ref(tasks[-1])

    last = asyncio.run(leave())
    gc.collect()
    assert last() is None
    held.go.set()
    assert executor.run("other", int) == 0


def test_several_loops_share_the_room(hnsw: chiplet.Hnsw, queries: Rows) -> None:
    with chiplet.Executor(table_queue_limit=2) as executor:
        executor.add("rows", hnsw)
        want = executor.search("rows", queries, k=2).ids.tolist()
        got: dict[int, list[list[int]]] = {}

        def loop(number: int) -> None:
            async def all_of_them() -> list[list[int]]:
                found = await asyncio.gather(*[executor.asearch("rows", query, k=2) for query in queries])
                return [hits.ids.tolist() for hits in found]

            got[number] = asyncio.run(all_of_them())

        threads = [threading.Thread(target=loop, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(got[number] == want for number in range(4))


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
    with chiplet.Executor(max_workers=1, table_queue_limit=50) as executor:
        executor.add("rows", hnsw)
        begun, held = threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            held.wait(60)

        async def cancelled() -> None:
            holding = asyncio.create_task(executor.arun("rows", hold))
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
        # What waited for room was never accepted.
        total = executor.snapshot()["total"]
        assert total["done"] == 101 and 0 < total["cancelled"] <= 25


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


def test_without_a_loop(executor: chiplet.Executor, hnsw: chiplet.Hnsw, queries: Rows) -> None:
    executor.add("rows", hnsw)
    with pytest.raises(RuntimeError, match="no running event loop"):
        executor.asearch("rows", queries[0]).send(None)


async def left(search: Coroutine[Any, Any, Any]) -> None:
    """Begins it, and lets it be."""
    future = search.send(None)
    assert asyncio.isfuture(future)
    search.close()


def test_a_callable_that_raises_stop_iteration(run: Run, executor: chiplet.Executor, hnsw: chiplet.Hnsw) -> None:
    executor.add("rows", hnsw)

    async def all_of_them() -> list[Any]:
        asked: list[Coroutine[Any, Any, Any]] = [executor.arun("rows", next, iter(())) for _ in range(6)]
        asked += [executor.arun("rows", int) for _ in range(6)]
        return await asyncio.gather(*asked, return_exceptions=True)

    ends = run(all_of_them())
    assert all(isinstance(end, RuntimeError) and isinstance(end.__cause__, StopIteration) for end in ends[:6])
    assert ends[6:] == [0] * 6


def test_loops_that_close_with_searches_open_leave_nothing(executor: chiplet.Executor, hnsw: chiplet.Hnsw) -> None:
    executor.add("rows", hnsw)

    async def leave() -> None:
        await left(executor.arun("rows", time.sleep, 0.005))

    for _ in range(3):
        asyncio.run(leave())
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        asyncio.run(leave())
    assert executor.run("rows", int) == 0
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before + 1
