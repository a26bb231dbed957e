"""When a second replica is asked, and how often at most."""

import asyncio
from typing import Any

import pytest
from searches_of_fakes import QUERY, TWO, Cluster, hang, late, run, true

from chiplet_serve import errors
from chiplet_serve.batch import Lost
from chiplet_serve.hedge import Hedges

NAMES = ("a", "b")


def answered(hedges: Hedges, name: str, *seconds: float) -> None:
    for each in seconds:
        hedges.answered(name, each)


def test_nothing_is_late_before_answers_were_seen() -> None:
    hedges = Hedges(0.05, lambda: NAMES)
    assert hedges.delay_s("a") == float("inf")
    answered(hedges, "a", *[0.1] * 15)
    assert hedges.delay_s("a") == float("inf")
    answered(hedges, "a", 0.1)
    assert 0.1 < hedges.delay_s("a") < 0.2
    assert hedges.delay_s("b") == float("inf")


def test_a_collection_that_is_slow_by_nature_is_not_late() -> None:
    hedges = Hedges(0.05, lambda: NAMES)
    answered(hedges, "a", *[0.001, 0.002] * 50)
    answered(hedges, "b", *[0.5, 0.7] * 50)
    assert hedges.delay_s("a") == 0.05, "what a busy core takes"
    assert 0.7 < hedges.delay_s("b") < 2


def test_what_is_late_follows_the_load() -> None:
    hedges = Hedges(0.05, lambda: NAMES)
    answered(hedges, "a", *[0.001] * 100)
    answered(hedges, "a", *[0.3] * 100)
    assert 0.3 < hedges.delay_s("a") < 0.4
    answered(hedges, "a", *[0.001] * 100)
    assert hedges.delay_s("a") == 0.05


def test_hedges_are_a_part_of_the_searches() -> None:
    hedges = Hedges(0.05, lambda: NAMES)
    assert not hedges.spend("a"), "nothing is saved up yet"
    spent = 0
    for _ in range(2000):
        answered(hedges, "a", 0.001)
        spent += hedges.spend("a")
    assert 99 <= spent <= 100
    answered(hedges, "a", *[0.001] * 100_000)
    assert sum(hedges.spend("a") for _ in range(1000)) == 10, "no more is saved up"


def test_all_collections_together_have_a_budget_too() -> None:
    names = [f"c{at}" for at in range(500)]
    hedges = Hedges(0.05, lambda: names)
    for name in names:
        answered(hedges, name, *[0.001] * 400)
    assert sum(hedges.spend(name) for name in names for _ in range(10)) == 100


def test_without_a_part_nothing_is_early() -> None:
    hedges = Hedges(0.0, lambda: NAMES)
    answered(hedges, "a", *[0.001] * 1000)
    assert hedges.delay_s("a") == float("inf") and not hedges.spend("a")


def test_collections_that_are_gone_are_forgotten() -> None:
    hedges = Hedges(0.05, lambda: NAMES)
    for at in range(10_000):
        answered(hedges, f"gone-{at}", 0.1)
    answered(hedges, "a", 0.1)
    assert len(hedges._collections) <= 1024 + len(NAMES)


async def warm(cluster: Cluster) -> None:
    """Answers enough for a hedge: one for each 20."""
    for _ in range(60):
        await cluster.searcher.search("c", QUERY)


def test_a_replica_that_hangs_is_helped_long_before_the_deadline() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        await warm(cluster)
        cluster.replicas[0].fault = hang
        async with asyncio.timeout(20):
            result = await cluster.searcher.search("c", QUERY, timeout_s=60)
        true(cluster, result)
        assert result.retries == 1

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
        assert cluster.searcher._hedges.delay_s("c") == float("inf")

    run(test())


@pytest.mark.parametrize("hedge", [-0.1, 1.1, float("nan")])
def test_a_part_is_from_0_to_1(hedge: float) -> None:
    with pytest.raises(ValueError, match="hedge"):
        Cluster(hedge=hedge)
