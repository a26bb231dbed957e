"""Searches travel together, none waits for long for another, and nothing is left of those that ended or gave up."""

import asyncio
import logging
import random
import time
from pathlib import Path
from typing import Any

import chiplet
import numpy as np
import pytest
from searches_of_fakes import DIM, Cluster, Replica, hang, raising, refusing, rows, run

from chiplet_serve import errors
from chiplet_serve.batch import Ask, Batcher, Lost, NoHolder, Route
from chiplet_serve.node import Node, Wanted
from chiplet_serve.search import Searcher, SearchSettings
from chiplet_serve.shard_map import Entry
from chiplet_serve.storage import Shard, Storage
from chiplet_serve.wire import Group, Reply

QUERIES = rows(64, seed=5)


def searches(cluster: Cluster, count: int, **asked: Any) -> list[asyncio.Future[Any]]:
    asked = {"timeout_s": 30.0, **asked}
    return [asyncio.ensure_future(cluster.searcher.search("c", QUERIES[at % 64], **asked)) for at in range(count)]


async def all_true(cluster: Cluster, running: list[asyncio.Future[Any]], k: int = 10) -> None:
    for at, result in enumerate(await asyncio.gather(*running)):
        assert (result.ids.tolist(), result.distances.tolist()) == cluster.truth(QUERIES[at % 64], k)
    await cluster.idle()


def sizes(cluster: Cluster) -> list[int]:
    return [sum(group.n for group in groups) for groups in cluster.sent]


def test_searches_of_one_turn_of_the_loop_travel_together() -> None:
    async def test() -> None:
        cluster = Cluster(shards=3, replicas=[(0, 1, 2)])
        await all_true(cluster, searches(cluster, 8))
        assert sizes(cluster) == [24] and [group.n for group in cluster.sent[0]] == [8, 8, 8]
        assert (cluster.batcher.batches, cluster.batcher.asks) == (1, 24)

    run(test())


def test_a_batch_of_one_sends_each_by_itself() -> None:
    async def test() -> None:
        cluster = Cluster(batch=1)
        await all_true(cluster, searches(cluster, 20))
        assert sizes(cluster) == [1] * 20

    run(test())


@pytest.mark.parametrize("batch", [2, 7, 64])
def test_no_batch_is_larger_than_it_may_be(batch: int) -> None:
    async def test() -> None:
        cluster = Cluster(shards=2, replicas=[(0, 1)], batch=batch)
        await all_true(cluster, searches(cluster, 100))
        assert max(sizes(cluster)) <= batch and sum(sizes(cluster)) == 200

    run(test())


def test_searches_with_other_settings_are_groups_of_their_own() -> None:
    async def test() -> None:
        cluster = Cluster()
        running = [*searches(cluster, 3, k=4), *searches(cluster, 2, k=4, ef=9), *searches(cluster, 1, k=5)]
        await asyncio.gather(*running)
        assert [(group.n, group.k, group.ef) for group in cluster.sent[0]] == [(3, 4, None), (2, 4, 9), (1, 5, None)]
        assert len(cluster.sent) == 1

    run(test())


def test_while_one_is_under_way_others_gather_until_it_is_back() -> None:
    async def test() -> None:
        cluster = Cluster(gather_s=1.0)
        back = asyncio.Event()

        async def wait(_: list[Group]) -> None:
            await back.wait()

        cluster.replicas[0].fault = wait
        running = searches(cluster, 1)
        while not cluster.sent:
            await asyncio.sleep(0)
        for _ in range(5):
            running += [asyncio.ensure_future(cluster.searcher.search("c", QUERIES[len(running)], timeout_s=30))]
            await asyncio.sleep(0.001)
        assert sizes(cluster) == [1]
        back.set()
        await all_true(cluster, running)
        assert sizes(cluster) == [1, 5]

    run(test())


def test_a_batch_that_hangs_holds_nobody_up_longer_than_gather_s() -> None:
    async def test() -> None:
        cluster = Cluster(gather_s=0.05)
        cluster.replicas[0].fault = hang
        stuck = searches(cluster, 1)
        while not cluster.replicas[0].got:
            await asyncio.sleep(0)
        cluster.replicas[0].fault = None
        began = time.monotonic()
        await asyncio.gather(*searches(cluster, 3))
        assert time.monotonic() - began >= 0.04, "they did not gather"
        assert sizes(cluster) == [1, 3] and not stuck[0].done()
        stuck[0].cancel()

    run(test())


@pytest.mark.parametrize("when", ["gathering", "under way", "retrying", "missing"])
def test_a_caller_that_gives_up_leaves_nothing_behind(when: str) -> None:
    async def test() -> None:
        cluster = Cluster(shards=3, replicas=[(0, 1, 2)])
        (replica,) = cluster.replicas
        replica.fault = hang if when == "under way" else raising(Lost("gone")) if when == "retrying" else None
        if when == "missing":
            replica.holds.clear()
        # The batch of the one that gives up is waited for until its deadline: others may be in it.
        running = searches(cluster, 5, timeout_s=0.3)
        for _ in range({"gathering": 1, "under way": 10, "retrying": 30, "missing": 30}[when]):
            await asyncio.sleep(0)
        assert cluster.searcher.open == 5
        for each in running:
            each.cancel()
        for each in running:
            with pytest.raises(asyncio.CancelledError):
                await each
        assert cluster.searcher.open == 0
        await cluster.idle()
        assert when != "gathering" or cluster.sent == []

    run(test())


def test_one_that_gives_up_takes_no_other_along() -> None:
    async def test() -> None:
        cluster = Cluster(shards=2, replicas=[(0, 1)])
        running = searches(cluster, 6)
        await asyncio.sleep(0)
        running.pop().cancel()
        await asyncio.sleep(0)
        await all_true(cluster, running)

    run(test())


def test_a_loop_that_ends_loses_what_is_under_way() -> None:
    async def test() -> None:
        async def never(*_: Any) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError

        batcher = Batcher(never)
        answer = batcher.ask(Route(("n",), frozenset()), Ask("c@1/0", QUERIES[0], 3, None, time.monotonic() + 30))
        await asyncio.sleep(0.01)
        for task in list(batcher._tasks):
            task.cancel()
        with pytest.raises(Lost):
            await answer

    run(test())


def test_no_holder_of_one_shard_is_said_to_all_who_ask_for_it() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=[()])
        route = Route((), frozenset())
        asked = [
            cluster.batcher.ask(route, Ask("c@1/0", QUERIES[0], k, None, time.monotonic() + 30)) for k in (1, 1, 2)
        ]
        said = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in said] == [NoHolder] * 3 and len(cluster.sent) == 1

    run(test())


def test_a_batch_that_nobody_takes_is_not_counted_and_its_parts_are_once() -> None:
    """What one replica held by the map's word, two hold by now."""

    async def test() -> None:
        cluster = Cluster(shards=2, replicas=[[0], [1]])
        route = Route(("r0",), frozenset())
        asked = [
            cluster.batcher.ask(route, Ask(f"c@1/{shard}", QUERIES[0], 3, None, time.monotonic() + 30))
            for shard in (0, 1)
        ]
        await asyncio.gather(*asked)
        assert [len(groups) for groups in cluster.sent] == [2, 1, 1]
        await cluster.idle()
        assert (cluster.batcher.batches, cluster.batcher.asks) == (2, 2)

    run(test())


def random_fault(cluster: Cluster, replica: Replica, choose: random.Random) -> None:
    kind = choose.choice(
        ["none", "none", "slow", "lost", "overloaded", "failed", "moved", "unknown", "hang", "odd", "back"]
    )
    replica.fault = None
    if kind == "slow":

        async def slow(_: list[Group]) -> None:
            await asyncio.sleep(choose.random() * 0.02)

        replica.fault = slow
    elif kind in ("lost", "odd"):
        replica.fault = raising(Lost("gone") if kind == "lost" else KeyError("odd"))
    elif kind in ("overloaded", "failed"):
        refusing(replica, kind, 0.1)
    elif kind == "hang":
        replica.fault = hang
    elif kind in ("moved", "unknown") and replica.holds:
        shard = choose.choice(sorted(replica.holds))
        (replica.holds.discard if kind == "moved" else replica.lost.add)(shard)
    elif kind == "back":
        replica.lost.clear()
        replica.holds = {f"c@1/{shard}" for shard in range(cluster.shards)}


@pytest.mark.parametrize("seed", range(2))
def test_whatever_fails_an_answer_is_true_or_an_error_says_why(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="ray.serve")

    async def test() -> None:
        choose = random.Random(seed)
        cluster = Cluster(shards=4, replicas=[(0, 1, 2, 3)] * 3, batch=choose.choice([1, 5, 64]), max_open=200)
        seen: dict[str, int] = {}
        slowest = 0.0

        async def one(at: int) -> None:
            nonlocal slowest
            timeout_s, k, began = choose.choice([0.02, 0.1, 0.3]), choose.choice([1, 10]), time.monotonic()
            try:
                result = await cluster.searcher.search(
                    "c", QUERIES[at % 64], k=k, timeout_s=timeout_s, allow_partial=choose.random() < 0.5
                )
            except errors.SearchError as why:
                seen[why.code] = seen.get(why.code, 0) + 1
            else:
                assert (result.ids.tolist(), result.distances.tolist()) == cluster.truth(
                    QUERIES[at % 64], k, result.missing
                )
                seen["partial" if result.missing else "whole"] = (
                    seen.get("partial" if result.missing else "whole", 0) + 1
                )
            slowest = max(slowest, time.monotonic() - began - timeout_s)

        running = []
        for at in range(1000):
            running.append(asyncio.ensure_future(one(at)))
            if choose.random() < 0.1:
                random_fault(cluster, choose.choice(cluster.replicas), choose)
            if choose.random() < 0.02:
                choose.choice(running).cancel()
            if choose.random() < 0.3:
                await asyncio.sleep(choose.random() * 0.005)
        done = await asyncio.gather(*running, return_exceptions=True)
        assert [each for each in done if each is not None and not isinstance(each, asyncio.CancelledError)] == []
        assert seen["whole"] > 50 and len(seen) >= 4, seen
        assert slowest < 5
        await cluster.idle()

    run(test())


def test_a_search_through_a_real_node_is_the_same(tmp_path: Path) -> None:
    storage, data = Storage(tmp_path), np.random.default_rng(0).standard_normal((300, DIM), dtype=np.float32)
    made = []
    with storage.building() as folder:
        for number in range(3):
            ids = np.arange(number, 300, 3)
            chiplet.Flat.build(data[ids], ids=ids).save(folder / f"{number}.chiplet")
            made.append(Shard(file=f"{number}.chiplet", rows=100, bytes=(folder / f"{number}.chiplet").stat().st_size))
        storage.finish(folder, "c", dim=DIM, metric="l2", copies=1, shards=made)
    node = Node("r0", storage, chiplet.Executor(max_workers=1, pin="none"))

    async def send(groups: list[Group], vectors: bytes, avoid: frozenset[str]) -> Reply:
        return await node.search(groups, vectors)

    async def test() -> None:
        node.order([Wanted("c", 1, shard) for shard in range(3)])
        await node.settled()
        catalogue = {"c": Entry(1, DIM, "l2", 300, (("n",),) * 3)}
        searcher = Searcher(Batcher(send), lambda: catalogue, SearchSettings())
        for k in (1, 10, 150, 400):
            results = await asyncio.gather(*(searcher.search("c", query, k=k, timeout_s=30) for query in data[:40]))
            for query, result in zip(data[:40], results, strict=True):
                truth = ((data - query) ** 2).sum(1)
                assert sorted(result.ids.tolist()) == sorted(np.argsort(truth)[:k].tolist())
                assert np.allclose(result.distances, truth[result.ids], rtol=1e-4, atol=1e-5)
                assert (np.diff(result.distances) >= 0).all()

    try:
        run(test())
    finally:
        node.close()
