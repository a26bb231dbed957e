"""When a second replica is asked, and how often at most."""

import asyncio
import dataclasses
from typing import Any

import pytest
from searches_of_fakes import QUERY, TWO, Cluster, hang, late, refusing, run, true

from chiplet_serve import errors
from chiplet_serve.batch import Lost
from chiplet_serve.hedge import Hedges

NAMES = ("a", "b")


def answered(hedges: Hedges, name: str, *seconds: float) -> None:
    for each in seconds:
        hedges.answered(name, each)


def test_nothing_is_late_before_an_answer_was_seen() -> None:
    hedges = Hedges(0.05, lambda: NAMES)
    assert hedges.late_s("a") == float("inf")
    answered(hedges, "a", 0.1)
    assert hedges.late_s("a") == pytest.approx(0.5), "of one answer little is known"
    answered(hedges, "a", *[0.1] * 20)
    assert 0.1 < hedges.late_s("a") < 0.11
    assert hedges.late_s("b") == float("inf")


def test_a_collection_that_is_slow_by_nature_is_not_late() -> None:
    hedges = Hedges(0.05, lambda: NAMES)
    answered(hedges, "a", *[0.001, 0.002] * 50)
    answered(hedges, "b", *[0.5, 0.7] * 50)
    assert hedges.late_s("a") == 0.05, "what a busy core takes"
    assert 0.7 < hedges.late_s("b") < 2


def test_what_is_late_follows_the_load() -> None:
    hedges = Hedges(0.05, lambda: NAMES)
    answered(hedges, "a", *[0.001] * 100)
    answered(hedges, "a", *[0.3] * 100)
    assert 0.3 < hedges.late_s("a") < 0.4
    answered(hedges, "a", *[0.001] * 100)
    assert hedges.late_s("a") == 0.05


def test_hedges_are_a_part_of_the_searches() -> None:
    hedges = Hedges(0.05, lambda: NAMES)
    assert not hedges._spend("a"), "nothing was asked yet"
    spent = 0
    for _ in range(2000):
        answered(hedges, "a", 0.001)
        spent += hedges._spend("a")
    # One of all 100 waits for its turn: sums of 0.05.
    assert 99 <= spent <= 100
    answered(hedges, "a", *[0.001] * 100_000)
    assert sum(hedges._spend("a") for _ in range(1000)) == 10, "no more is saved up"


def test_all_collections_together_have_a_budget_too() -> None:
    names = [f"c{at}" for at in range(500)]
    hedges = Hedges(0.05, lambda: names)
    for name in names:
        answered(hedges, name, *[0.001] * 400)
    assert sum(hedges._spend(name) for name in names for _ in range(10)) == 100


def test_without_a_part_nothing_is_early() -> None:
    hedges = Hedges(0.0, lambda: NAMES)
    answered(hedges, "a", *[0.001] * 1000)
    assert hedges.late_s("a") == float("inf") and not hedges._spend("a")


def test_collections_that_are_gone_are_forgotten() -> None:
    hedges = Hedges(0.05, lambda: NAMES)
    for at in range(10_000):
        answered(hedges, f"gone-{at}", 0.1)
    answered(hedges, "a", 0.1)
    assert len(hedges._collections) <= 1024 + len(NAMES)


def turns(hedges: Hedges, holders: int = 2) -> list[tuple[bool, float]]:
    return [(another, round(until, 3)) for another, until in hedges.turns("a", 100.0, 104.0, holders)]


def test_a_second_replica_is_asked_when_the_first_is_late_and_at_half_of_the_time() -> None:
    hedges = Hedges(0.05, lambda: NAMES)
    assert turns(hedges) == [(True, 102.0), (True, 104.0)], "no estimate yet"
    answered(hedges, "a", *[0.001] * 50)
    # Two are saved up, for 50 ms and 100 ms later. For the one after that there is no budget.
    assert turns(hedges) == [(True, 100.05), (True, 100.15), (True, 100.35), (False, 102.0), (True, 104.0)]
    assert turns(hedges) == [(True, 100.05), (False, 102.0), (True, 104.0)]
    assert turns(hedges, holders=1) == turns(hedges, holders=0) == [(True, 104.0)]
    answered(hedges, "a", *[3.0] * 50)
    assert turns(hedges) == [(True, 102.0), (True, 104.0)], "late begins after half of the time"


async def warm(cluster: Cluster) -> None:
    """Answers enough for two hedges."""
    for _ in range(60):
        await cluster.searcher.search("c", QUERY)


def test_a_replica_that_hangs_is_helped_long_before_the_deadline() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        await warm(cluster)
        cluster.replicas[0].fault = hang
        before = dataclasses.replace(cluster.searcher._hedges._collections["c"])
        async with asyncio.timeout(20):
            result = await cluster.searcher.search("c", QUERY, timeout_s=60)
        true(cluster, result)
        assert result.retries == 1
        after = cluster.searcher._hedges._collections["c"]
        assert (after.mean_s, after.deviation_s) == (before.mean_s, before.deviation_s), "nobody knows who was late"

    run(test())


def test_two_of_three_replicas_hang() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=((0,), (0,), (0,)))
        await warm(cluster)
        for replica in cluster.replicas[:2]:
            replica.fault = hang
        async with asyncio.timeout(20):
            result = await cluster.searcher.search("c", QUERY, timeout_s=60)
        true(cluster, result)
        assert result.retries == 2

    run(test())


def test_beyond_the_budget_half_of_the_time_is_waited_for() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        await warm(cluster)
        cluster.replicas[0].fault = hang
        results = await asyncio.gather(*(cluster.searcher.search("c", QUERY, timeout_s=2) for _ in range(40)))
        for result in results:
            true(cluster, result)
        await cluster.idle()

    run(test())


def test_answers_alone_say_how_long_one_takes() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)

        async def die(_: Any) -> None:
            raise Lost("gone")

        for replica in cluster.replicas:
            replica.fault = die
        for _ in range(40):
            await late(cluster, errors.DeadlinePassed, timeout_s=0.02)
        for replica in cluster.replicas:
            refusing(replica, errors.Overloaded.code, 0.1)
        await late(cluster, errors.Overloaded)
        assert cluster.searcher._hedges.late_s("c") == float("inf")

    run(test())


@pytest.mark.parametrize("hedge", [-0.1, 1.1, float("nan")])
def test_a_part_is_from_0_to_1(hedge: float) -> None:
    with pytest.raises(ValueError, match="hedge"):
        Cluster(hedge=hedge)
