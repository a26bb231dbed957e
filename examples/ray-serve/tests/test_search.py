"""A search over replicas that fail: the true answer, or an error that says why, before its deadline."""

import asyncio
from typing import Any

import numpy as np
import pytest
from searches_of_fakes import DIM, QUERY, SHORT_S, TWO, Cluster, hang, late, raising, refusing, rows, run, true

from chiplet_serve import errors
from chiplet_serve.batch import Lost
from chiplet_serve.search import merge
from chiplet_serve.wire import Found, Group, Reply


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("k", [1, 7, 60, 61, 1000])
def test_answers_are_those_of_numpy(shards: int, k: int) -> None:
    async def test() -> None:
        cluster = Cluster(shards=shards, replicas=[range(shards), range(shards)])
        for query in rows(20, seed=3):
            result = await cluster.searcher.search("c", query, k=k)
            true(cluster, result, k, query)
            assert (result.version, result.missing, result.retries) == (1, [], 0) and result.hops is not None
        await cluster.idle()

    run(test())


def test_merge_takes_the_lower_id_of_equal_distances_and_no_fillers() -> None:
    ids, distances = merge(
        [np.array([9, 4, -1]), np.array([3, 8, -1]), np.array([-1, -1, -1])],
        [np.array(each, np.float32) for each in ([1, 2, np.inf], [1, 2, np.inf], [np.inf] * 3)],
        3,
    )
    assert ids.tolist() == [3, 9, 4] and distances.tolist() == [1, 1, 2]
    assert merge([np.array([-1])], [np.array([np.inf], np.float32)], 1)[0].tolist() == []
    assert merge([np.array([0, 2])], [np.array([np.inf, -np.inf], np.float32)], 5)[0].tolist() == [2, 0]


@pytest.mark.parametrize(
    "vector",
    [
        [], [1.0] * (DIM - 1), [1.0] * (DIM + 1), [[1.0] * DIM], [[1.0], [1.0, 2.0]], [float("nan")] + [0.0] * (DIM - 1),
        [float("inf")] + [0.0] * (DIM - 1), [1e300] + [0.0] * (DIM - 1), [-3.5e38] + [0.0] * (DIM - 1),
        [10**400] + [0] * (DIM - 1), ["1"] * DIM, ["x"] * DIM, [None] * DIM, None, 5, "12345678", b"", b"1" * (4 * DIM - 1), b"1" * (4 * DIM + 4), {}, {1: 2},
        [1j] * DIM, np.ones(DIM, complex), np.array(["1"] * DIM), object(), [[]] * DIM, np.ones((DIM, 1)), np.zeros(DIM, "M8[s]"),
    ],
    ids=lambda each: repr(each)[:20],
)  # fmt: skip
def test_what_is_no_vector_is_a_bad_query(vector: Any) -> None:
    async def test() -> None:
        cluster = Cluster()
        with pytest.raises(errors.BadQuery):
            await cluster.searcher.search("c", vector)
        assert cluster.sent == []

    run(test())


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8", "u2", "?", ">f4"])
def test_numbers_of_any_type_are_a_vector(dtype: str) -> None:
    async def test() -> None:
        cluster = Cluster()
        query = np.abs(QUERY).astype(dtype)
        true(cluster, await cluster.searcher.search("c", query), query=query.astype(np.float32))
        true(
            cluster,
            await cluster.searcher.search("c", np.repeat(query, 2)[::2].tolist()),
            query=query.astype(np.float32),
        )

    run(test())


def test_bytes_are_the_numbers_that_they_hold() -> None:
    async def test() -> None:
        cluster = Cluster()
        query = np.arange(DIM, dtype=np.float32)
        assert np.array_equal(
            (await cluster.searcher.search("c", query.astype("<f4").tobytes())).ids,
            (await cluster.searcher.search("c", query)).ids,
        )

    run(test())


def test_k_and_ef_have_ends() -> None:
    async def test() -> None:
        cluster = Cluster(max_k=20, max_ef=30)
        for good in ({"k": 1}, {"k": 20}, {"ef": 1}, {"ef": 30}):
            await cluster.searcher.search("c", QUERY, **good)  # type: ignore[arg-type]
        for bad in ({"k": 0}, {"k": -1}, {"k": 21}, {"k": 2**80}, {"ef": 0}, {"ef": 31}, {"ef": -(2**80)}):
            with pytest.raises(errors.BadQuery):
                await cluster.searcher.search("c", QUERY, **bad)  # type: ignore[arg-type]
        with pytest.raises(errors.UnknownCollection, match="'d'"):
            await cluster.searcher.search("d", QUERY)
        for timeout_s in (0, -1, float("nan"), float("-inf")):
            with pytest.raises(errors.DeadlinePassed):
                await cluster.searcher.search("c", QUERY, timeout_s=timeout_s)
        true(cluster, await cluster.searcher.search("c", QUERY, timeout_s=float("inf")))
        assert len(cluster.sent) == 5

    run(test())


@pytest.mark.parametrize("fault", ["overloaded", "not_here", "lost"])
def test_another_replica_answers_where_one_cannot(fault: str) -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        first, second = cluster.replicas
        if fault == "lost":
            # The router sees that it is gone after the first call.
            async def die(_: list[Group]) -> None:
                first.holds.clear()
                raise Lost("connection reset")

            first.fault = die
        else:
            refusing(first, fault, 0.5)
        result = await cluster.searcher.search("c", QUERY, timeout_s=30)
        true(cluster, result)
        assert result.retries == 1 and len(first.got) == len(second.got) == 1
        await cluster.idle()

    run(test())


def test_all_overloaded_says_when_to_come_back() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        for at, replica in enumerate(cluster.replicas):
            refusing(replica, "overloaded", 0.25 + at)
        for partial in (False, True):
            why = await late(cluster, errors.Overloaded, timeout_s=30, allow_partial=partial)
            assert why.retry_after in (0.25, 1.25)

    run(test())


def test_a_replica_that_hangs_is_helped_by_another() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        cluster.replicas[0].fault = hang
        result = await cluster.searcher.search("c", QUERY, timeout_s=1)
        true(cluster, result)
        assert result.retries == 1
        await cluster.idle()

    run(test())


def test_the_first_of_two_answers_counts_and_a_failed_one_does_not() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        asked_too = asyncio.Event()

        async def slow(_: list[Group]) -> None:
            await asked_too.wait()
            await asyncio.sleep(0.05)

        async def die(_: list[Group]) -> None:
            asked_too.set()
            raise Lost("gone")

        cluster.replicas[0].fault, cluster.replicas[1].fault = slow, die
        result = await cluster.searcher.search("c", QUERY, timeout_s=1)
        true(cluster, result)
        assert result.retries == 1
        await cluster.idle()

    run(test())


@pytest.mark.parametrize("replicas", [1, 2])
def test_if_all_hang_the_deadline_holds(replicas: int) -> None:
    async def test() -> None:
        cluster = Cluster(replicas=[(0,)] * replicas)
        for replica in cluster.replicas:
            replica.fault = hang
        await late(cluster, errors.DeadlinePassed)
        assert len(cluster.sent) == replicas, "one that hangs alone is not asked again"

    run(test())


def test_replicas_that_stay_lost_end_at_the_deadline() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        for replica in cluster.replicas:
            replica.fault = raising(Lost("connection refused"))
        assert "connection refused" in str(await late(cluster, errors.DeadlinePassed))

    run(test())


def test_a_node_that_is_too_late_or_fails_says_so() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        for why, expected in (
            ("deadline_passed", errors.DeadlinePassed), ("bad_query", errors.BadQuery), ("failed", errors.Failed),
            ("what nobody knows", errors.Failed),
        ):  # fmt: skip
            for replica in cluster.replicas:
                refusing(replica, why)
            await late(cluster, expected, timeout_s=30)

    run(test())


@pytest.mark.parametrize("partial", [False, True])
def test_any_exception_of_a_call_is_a_failed_search(partial: bool) -> None:
    async def test() -> None:
        cluster = Cluster()
        cluster.replicas[0].fault = raising(KeyError("odd"))
        assert "KeyError" in str(await late(cluster, errors.Failed, timeout_s=30, allow_partial=partial))

    run(test())


@pytest.mark.parametrize(
    "answers",
    [[], [Found(b"", b"")], [Found(b"", b"")] * 2, [Found(b"12345678", b"")], [Found(b"1", b"2")]],
    ids=repr,
)
def test_a_reply_that_is_none_fails_at_once(answers: Any) -> None:
    async def test() -> None:
        cluster = Cluster()

        async def nonsense(_: list[Group]) -> Reply:
            return Reply("r0", answers, 0.0, 0.0)

        cluster.replicas[0].fault = nonsense
        await late(cluster, errors.Failed, timeout_s=1000)

    run(test())


def test_a_shard_that_nobody_holds_is_missing_or_is_named() -> None:
    async def test() -> None:
        cluster = Cluster(shards=3, replicas=[(0,), (2,)])
        assert "shard 1" in str(await late(cluster, errors.ShardsMissing))
        result = await cluster.searcher.search("c", QUERY, allow_partial=True, timeout_s=30)
        assert result.missing == [1]
        true(cluster, result)
        for replica in cluster.replicas:
            replica.holds.clear()
        why = await late(cluster, errors.ShardsMissing, allow_partial=True, timeout_s=30)
        assert why.retry_after == 1.0

    run(test())


def test_a_shard_that_the_map_knows_and_no_replica_holds_is_missing() -> None:
    async def test() -> None:
        cluster = Cluster()
        entry = cluster.catalogue()
        cluster.searcher._catalogue = lambda: entry
        cluster.replicas[0].holds.clear()
        await late(cluster, errors.ShardsMissing)
        # One that comes while the search waits is asked.
        search = asyncio.ensure_future(cluster.searcher.search("c", QUERY, timeout_s=30))
        sent = len(cluster.sent)
        while len(cluster.sent) < sent + 2:
            await asyncio.sleep(0.001)
        cluster.replicas[0].holds.add("c@1/0")
        true(cluster, await search)

    run(test())


def test_shards_that_fail_leave_a_partial_answer() -> None:
    async def test() -> None:
        cluster = Cluster(shards=4, replicas=[(0,), (1,), (2,), (3,)])
        cluster.replicas[0].fault = hang
        refusing(cluster.replicas[1], "failed")
        refusing(cluster.replicas[2], "overloaded")
        result = await cluster.searcher.search("c", QUERY, allow_partial=True, timeout_s=SHORT_S)
        assert result.missing == [0, 1, 2]
        true(cluster, result)
        await late(cluster, errors.SearchError)

    run(test())


def test_shards_that_moved_apart_are_asked_one_by_one() -> None:
    async def test() -> None:
        cluster = Cluster(shards=2, replicas=[(0,), (1,)])
        old = cluster.catalogue()["c"]
        cluster.searcher._catalogue = lambda: {"c": old._replace(holders=(("r0",), ("r0",)))}
        result = await cluster.searcher.search("c", QUERY, timeout_s=30)
        true(cluster, result)
        assert [len(groups) for groups in cluster.sent] == [2, 1, 1]

    run(test())


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("router_knows", [False, True])
def test_a_search_whose_version_is_replaced_begins_anew(partial: bool, router_knows: bool) -> None:
    async def test() -> None:
        cluster = Cluster(shards=2, replicas=[(0, 1)])
        (replica,) = cluster.replicas
        old = cluster.catalogue()
        cluster.searcher._catalogue = lambda: old if not cluster.sent else cluster.catalogue()
        cluster.version, cluster.shards = 2, 3
        replica.holds |= {f"c@2/{shard}" for shard in range(3)}
        gone = {"c@1/0", "c@1/1"}
        if router_knows:
            replica.holds -= gone
        else:
            replica.lost |= gone
        result = await cluster.searcher.search("c", QUERY, timeout_s=30, allow_partial=partial)
        true(cluster, result)
        assert (result.version, result.missing) == (2, [])
        await cluster.idle()

    run(test())


def test_more_than_max_open_are_refused() -> None:
    async def test() -> None:
        cluster = Cluster(max_open=3)
        held = asyncio.Event()

        async def wait(_: list[Group]) -> None:
            await held.wait()

        cluster.replicas[0].fault = wait
        running = [asyncio.ensure_future(cluster.searcher.search("c", QUERY, timeout_s=30)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(errors.Overloaded) as why:
            await cluster.searcher.search("c", QUERY)
        assert why.value.retry_after and why.value.retry_after > 0
        held.set()
        for result in await asyncio.gather(*running):
            true(cluster, result)
        await cluster.searcher.search("c", QUERY)
        await cluster.idle()

    run(test())
