"""Replicas for tests of searches: each holds rows of its shards, answers as numpy does, and fails as it is told."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import numpy as np
import pytest

from chiplet_serve import errors
from chiplet_serve.batch import Batcher, NoHolder
from chiplet_serve.search import Result, Searcher, SearchSettings
from chiplet_serve.shard_map import Entry
from chiplet_serve.wire import NOT_HERE, Found, Group, Refused, Reply

DIM = 8
#: What a node says that a batch took.
WORK_S = 0.001
Rows = np.ndarray[Any, np.dtype[np.float32]]
#: What a replica does with a batch instead of answering it; None answers.
Fault = Callable[[list[Group]], Awaitable[Reply | None]]


def rows(count: int, seed: int = 0) -> Rows:
    # Whole numbers: distances are exact, and many are equal.
    return np.random.default_rng(seed).integers(-3, 4, (count, DIM)).astype(np.float32)


def nearest(data: Rows, ids: Any, query: Rows, k: int) -> tuple[Any, Any]:
    """By distance, then by id."""
    distances = ((data - query) ** 2).sum(1)
    order = np.lexsort((ids, distances))[:k]
    return ids[order], distances[order]


TWO = ((0,), (0,))
QUERY = rows(1, seed=9)[0]
#: Deadlines of searches that have to reach them, and how much later they may end on a busy machine.
SHORT_S, SLACK_S = 0.15, 5.0


class Replica:
    def __init__(self, name: str, *keys: str) -> None:
        self.name = name
        self.holds = set(keys)
        #: What the router does not know yet.
        self.lost: set[str] = set()
        self.busy = 0
        self.got: list[list[Group]] = []
        self.fault: Fault | None = None


class Cluster:
    """One collection of `shards` shards; row number i is in shard i % shards."""

    def __init__(
        self, *, shards: int = 1, count: int = 60, replicas: Sequence[Sequence[int]] = ((0,),), **settings: Any
    ) -> None:
        self.data = rows(count)
        self.ids = np.arange(count)
        self.shards = shards
        self.replicas = [Replica(f"r{at}", *(f"c@1/{shard}" for shard in held)) for at, held in enumerate(replicas)]
        self.version = 1
        self.sent: list[list[Group]] = []
        self.settings = SearchSettings(**settings)
        self.batcher = Batcher(self.send, batch=self.settings.batch, gather_s=self.settings.gather_s)
        self.searcher = Searcher(self.batcher, self.catalogue, self.settings)

    def catalogue(self) -> dict[str, Entry]:
        holders = tuple(
            tuple(each.name for each in self.replicas if f"c@{self.version}/{shard}" in each.holds)
            for shard in range(self.shards)
        )
        return {"c": Entry(self.version, DIM, "l2", len(self.data), holders)}

    def truth(self, query: Rows, k: int, missing: Sequence[int] = ()) -> tuple[list[int], list[float]]:
        here = ~np.isin(self.ids % self.shards, missing)
        ids, distances = nearest(self.data[here], self.ids[here], query, k)
        return ids.tolist(), distances.tolist()

    async def send(self, groups: list[Group], vectors: bytes, avoid: frozenset[str]) -> Reply:
        """To the holder with the least to do, as the request router does it."""
        self.sent.append(groups)
        await asyncio.sleep(0)
        needs = {group.key for group in groups}
        fit = [each for each in self.replicas if each.name not in avoid and needs <= each.holds]
        if not fit:
            raise NoHolder(f"no replica holds {needs}")
        replica = min(fit, key=lambda each: each.busy)
        replica.got.append(groups)
        replica.busy += 1
        try:
            said = await replica.fault(groups) if replica.fault else None
            return said or self.answer(replica, groups, vectors)
        finally:
            replica.busy -= 1

    def answer(self, replica: Replica, groups: list[Group], vectors: bytes) -> Reply:
        said: list[Found | Refused] = []
        given = np.frombuffer(vectors, np.float32)
        for group in groups:
            queries, given = given[: group.n * group.dim].reshape(group.n, -1), given[group.n * group.dim :]
            if group.key in replica.lost or group.key not in replica.holds:
                said.append(Refused(NOT_HERE, f"{replica.name} does not hold {group.key}"))
                continue
            here = self.ids % self.shards == int(group.key.rpartition("/")[2])
            ids = np.full((group.n, group.k), -1, np.int64)
            distances = np.full((group.n, group.k), np.inf, np.float32)
            for at, query in enumerate(queries):
                found = nearest(self.data[here], self.ids[here], query, group.k)
                ids[at, : len(found[0])], distances[at, : len(found[0])] = found
            said.append(Found(ids.tobytes(), distances.tobytes()))
        assert len(given) == 0, "vectors without a group"
        return Reply(replica.name, said, WORK_S, WORK_S)

    async def idle(self) -> None:
        """Nothing is left of searches that have ended."""
        batcher = self.batcher
        async with asyncio.timeout(20):
            while batcher._tasks or batcher._waiting or batcher._timers or batcher._under_way:
                await asyncio.sleep(0.001)
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            await asyncio.wait(others) if others else None
        assert self.searcher.open == 0
        assert all(replica.busy == 0 for replica in self.replicas)


def refusing(replica: Replica, why: str, retry_after: float | None = None) -> None:
    async def fault(groups: list[Group]) -> Reply:
        return Reply(replica.name, [Refused(why, f"{replica.name} says so", retry_after)] * len(groups), 0.0, 0.0)

    replica.fault = fault


def raising(what: BaseException) -> Fault:
    async def fault(_: list[Group]) -> None:
        raise what

    return fault


async def hang(_: list[Group]) -> None:
    await asyncio.Event().wait()


def run(test: Coroutine[Any, Any, None]) -> None:
    """To its end; what asyncio complains of is an error."""
    complaints: list[Any] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(60):
            await test

    asyncio.run(bounded())
    # Futures complain when they are collected.
    gc.collect()
    assert complaints == []


def true(cluster: Cluster, result: Result, k: int = 10, query: Any = QUERY) -> None:
    ids, distances = cluster.truth(query, k, result.missing)
    assert result.ids.tolist() == ids and result.distances.tolist() == distances


async def late(cluster: Cluster, expected: type[errors.SearchError], **asked: Any) -> errors.SearchError:
    """The error of a search that is not answered, by its deadline."""
    began = time.monotonic()
    with pytest.raises(expected) as raised:
        await cluster.searcher.search("c", QUERY, **{"timeout_s": SHORT_S, **asked})
    assert time.monotonic() - began < SHORT_S + SLACK_S
    await cluster.idle()
    return raised.value
