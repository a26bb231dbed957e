"""When a second replica is asked, and how often at most."""

import asyncio
import dataclasses
from collections.abc import Collection
from typing import Any

import pytest
from searches_of_fakes import QUERY, TWO, Cluster, hang, late, refusing, run, true
from searches_of_fakes import WORK_S as WORK_S_OF_FAKES

from chiplet_serve import errors
from chiplet_serve.batch import Lost
from chiplet_serve.hedge import Hedges
from chiplet_serve.wire import Group

NAMES = ("a", "b")
WORK_S = 0.01


class Clock:
    now = 100.0


def made(part: float = 0.05, names: Collection[str] = NAMES) -> Hedges:
    return Hedges(part, lambda: names, lambda: Clock.now)


def answered(hedges: Hedges, name: str, *seconds: float, work_s: float = WORK_S) -> None:
    for each in seconds:
        hedges.answered(name, each, work_s)


def left(hedges: Hedges, count: float) -> None:
    """So many hedges are saved up."""
    hedges._estimates["a"].left_s = (count + 0.01) * WORK_S


def turns(hedges: Hedges, *others: bool, held_up_s: float = 0) -> list[tuple[bool, float]]:
    """All of them, where nobody answers; the first takes `held_up_s` longer. `others` are there at first, then, ..."""
    Clock.now = 100.0
    found = []
    there = iter(others)
    for ask, until in hedges.turns("a", 104.0, lambda: next(there, not others)):
        found.append((ask, round(until, 3)))
        Clock.now = until + held_up_s
        held_up_s = 0
    return found


def test_nothing_is_late_before_an_answer_was_seen() -> None:
    hedges = made()
    assert hedges.late_s("a") == float("inf")
    answered(hedges, "a", 0.1)
    assert hedges.late_s("a") == pytest.approx(0.5), "of one answer little is known"
    answered(hedges, "a", 0.3)
    # RFC 6298, 2.3: the deviation is from the mean before.
    assert hedges.late_s("a") == pytest.approx(0.125 + 8 * (0.05 + (0.2 - 0.05) / 4))
    answered(hedges, "a", *[0.1] * 50)
    assert 0.1 < hedges.late_s("a") < 0.11
    assert hedges.late_s("b") == float("inf")


def test_a_collection_that_is_slow_by_nature_is_not_late() -> None:
    hedges = made()
    answered(hedges, "a", *[0.001, 0.002] * 50)
    answered(hedges, "b", *[0.5, 0.7] * 50)
    assert hedges.late_s("a") == 0.05, "what a busy core takes"
    assert 0.7 < hedges.late_s("b") < 2


def test_what_is_late_follows_the_load() -> None:
    hedges = made()
    answered(hedges, "a", *[0.001] * 100)
    answered(hedges, "a", *[0.3] * 100)
    assert 0.3 < hedges.late_s("a") < 0.4
    answered(hedges, "a", *[0.001] * 100)
    assert hedges.late_s("a") == 0.05


def test_one_answer_after_half_a_minute_does_not_end_hedging() -> None:
    hedges = made()
    answered(hedges, "a", *[0.01] * 100)
    answered(hedges, "a", 29.9)
    assert hedges.late_s("a") < 1
    answered(hedges, "a", *[0.01] * 20)
    assert hedges.late_s("a") < 0.1


def test_hedges_are_a_part_of_the_searches() -> None:
    hedges = made()
    assert not hedges._spend("a"), "nothing was asked yet"
    spent = 0
    for _ in range(2000):
        answered(hedges, "a", 0.001)
        spent += hedges._spend("a")
    # Sums of 0.05, and ten that a collection starts with.
    assert 109 <= spent <= 111
    answered(hedges, "a", *[0.001] * 100_000)
    assert sum(hedges._spend("a") for _ in range(1000)) in (9, 10), "no more is saved up"


@pytest.mark.parametrize(("often", "work_s"), [(100, 0.3), (33, 0.3), (20, 0.2), (1000, 3.0)])
def test_hedges_are_a_part_of_the_work(often: int, work_s: float) -> None:
    """What is late costs more than most."""
    hedges = made()
    work = extra = 0.0
    for number in range(50_000):
        costs = work_s if number % often == 0 else 0.002
        work += costs
        if costs > hedges.late_s("a") and hedges._spend("a"):
            hedges.hedged("a", costs)
            extra += costs
        else:
            answered(hedges, "a", costs, work_s=costs)
    assert 0 < extra < 0.06 * work


def test_all_collections_together_have_a_budget_too() -> None:
    names = [f"c{at}" for at in range(500)]
    hedges = made(names=names)
    for name in names:
        answered(hedges, name, *[0.001] * 400)
    assert sum(hedges._spend(name) for name in names for _ in range(10)) in (99, 100)


def test_work_that_took_no_time_is_not_free() -> None:
    hedges = made()
    answered(hedges, "a", *[0.001] * 1000, work_s=0.0)
    assert sum(hedges._spend("a") for _ in range(1000)) in (9, 10)


def test_without_a_part_nothing_is_early() -> None:
    hedges = made(0.0)
    answered(hedges, "a", *[0.001] * 1000)
    assert turns(hedges) == [(True, 102.0), (True, 104.0)]


def test_collections_that_are_gone_are_forgotten() -> None:
    names = [f"c{at}" for at in range(2000)]
    hedges = made(names=names)
    for name in [*names, *(f"gone-{at}" for at in range(10_000)), *names]:
        answered(hedges, name, 0.1)
    assert len(hedges._estimates) <= 1024 + len(names)
    assert all(hedges.late_s(name) < 0.5 for name in names), "those that serve are known for two answers"


def test_a_second_replica_is_asked_when_the_first_is_late_and_at_half_of_the_time() -> None:
    hedges = made()
    assert turns(hedges) == [(True, 102.0), (True, 104.0)], "no estimate yet"
    answered(hedges, "a", *[0.001] * 50)
    begin = [(True, 100.05), (True, 100.15), (True, 100.35), (True, 100.75), (True, 101.55)]
    assert turns(hedges) == [*begin, (True, 102.0), (True, 104.0)], "ten are saved up"
    left(hedges, 2)
    # For 50 ms and 100 ms later. For the one after that there is no budget.
    assert turns(hedges) == [(True, 100.05), (True, 100.15), (True, 100.35), (False, 102.0), (True, 104.0)]
    assert turns(hedges) == [(True, 100.05), (False, 102.0), (True, 104.0)]
    answered(hedges, "a", *[0.001] * 20)
    assert turns(hedges) == [(True, 100.05), (True, 100.15), (False, 102.0), (True, 104.0)], "one for twenty"
    assert turns(hedges, False) == [(True, 104.0)]
    answered(hedges, "a", *[0.001] * 50)
    assert turns(hedges, True, False) == [(True, 100.05), (False, 102.0), (False, 104.0)], "the other one has refused"
    assert turns(hedges, True, True, False) == [(True, 100.05), (True, 100.15), (False, 102.0), (False, 104.0)]
    answered(hedges, "a", *[3.0] * 50)
    assert turns(hedges) == [(True, 102.0), (True, 104.0)], "late begins after half of the time"


def test_no_replica_is_late_because_the_loop_was_held_up() -> None:
    hedges = made()
    answered(hedges, "a", *[0.001] * 60)
    assert turns(hedges, held_up_s=0.5)[:3] == [(True, 100.05), (True, 100.65), (True, 100.85)]
    answered(hedges, "a", *[0.001] * 60)
    assert turns(hedges, held_up_s=3) == [(True, 100.05), (True, 103.1), (True, 104.0)]
    answered(hedges, "a", *[0.001] * 60)
    assert turns(hedges, held_up_s=9) == [(True, 100.05), (True, 104.0), (True, 104.0)], "to the deadline"


async def warm(cluster: Cluster) -> None:
    """Answers enough for an estimate."""
    for _ in range(60):
        await cluster.searcher.search("c", QUERY)


def test_a_replica_that_hangs_is_helped_long_before_the_deadline() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        await warm(cluster)
        cluster.replicas[0].fault = hang
        before = dataclasses.replace(cluster.searcher._hedges._estimates["c"])
        async with asyncio.timeout(20):
            result = await cluster.searcher.search("c", QUERY, timeout_s=60)
        true(cluster, result)
        assert result.retries == 1
        after = cluster.searcher._hedges._estimates["c"]
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


def slow(cluster: Cluster, number: int, seconds: float) -> None:
    async def fault(_: list[Group]) -> None:
        await asyncio.sleep(seconds)

    cluster.replicas[number].fault = fault


@pytest.mark.parametrize("why", ["failed", "deadline_passed", "overloaded", "not_here"])
def test_a_hedge_that_is_refused_ends_no_search(why: str) -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        await warm(cluster)
        first, second = cluster.replicas
        asked, hedges = len(first.got), len(second.got)

        async def until_the_hedge_is_back(_: list[Group]) -> None:
            while len(second.got) == hedges:
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.05)

        first.fault = until_the_hedge_is_back
        refusing(second, why)
        result = await cluster.searcher.search("c", QUERY, timeout_s=30)
        true(cluster, result)
        assert result.retries == 1 and len(first.got) == asked + 1, "what runs is not thrown away"
        await cluster.idle()

    run(test())


def test_the_only_replica_left_is_asked_once() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        await warm(cluster)
        asked = len(cluster.replicas[1].got)
        refusing(cluster.replicas[0], "overloaded")
        slow(cluster, 1, 0.4)
        result = await cluster.searcher.search("c", QUERY, timeout_s=30)
        true(cluster, result)
        assert len(cluster.replicas[1].got) == asked + 1

    run(test())


def test_searches_tell_the_estimate_seconds() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        slow(cluster, 0, 0.1)
        slow(cluster, 1, 0.1)
        for _ in range(20):
            await cluster.searcher.search("c", QUERY)
        assert 0.1 < cluster.searcher._hedges.late_s("c") < 20, "and no milliseconds"
        assert cluster.searcher._hedges._estimates["c"].work_s == pytest.approx(WORK_S_OF_FAKES)

    run(test())


def test_a_hedge_that_costs_much_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        await warm(cluster)
        cluster.replicas[0].fault = hang
        monkeypatch.setattr("searches_of_fakes.WORK_S", 5.0)
        assert (await cluster.searcher.search("c", QUERY, timeout_s=60)).retries == 1
        assert -5 < cluster.searcher._hedges._estimates["c"].left_s < -4.98

    run(test())


def test_hedges_can_be_switched_off() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO, hedge=0)
        await warm(cluster)
        slow(cluster, 0, 0.4)
        slow(cluster, 1, 0.4)
        assert (await cluster.searcher.search("c", QUERY, timeout_s=30)).retries == 0

    run(test())


def test_beyond_the_budget_half_of_the_time_is_waited_for() -> None:
    async def test() -> None:
        cluster = Cluster(replicas=TWO)
        await warm(cluster)
        for number in range(2):
            slow(cluster, number, 0.5)
        results = await asyncio.gather(*(cluster.searcher.search("c", QUERY, timeout_s=60) for _ in range(40)))
        for result in results:
            true(cluster, result)
        assert sum(result.retries for result in results) <= 10, "as many as are saved up"
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
