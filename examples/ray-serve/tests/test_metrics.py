"""Each search is counted once, whatever becomes of it, and what is exported is what the README lists."""

import asyncio
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from searches_of_fakes import DIM, Cluster, hang, refusing, run

from chiplet_serve import errors, metrics, search_pb2
from chiplet_serve.ingress import Ingress
from chiplet_serve.metrics import Meters

HERE = Path(__file__).resolve().parent.parent
#: What Serve wraps.
_PLAIN: Any = Ingress.__base__


class Exported:
    """Takes the place of Ray's counters, gauges and histograms."""

    all: dict[str, "Exported"]

    def __init__(self, name: str, *_: Any, **__: Any) -> None:
        self.counts: Counter[str] = Counter()
        self.now = 0.0
        self.all[name] = self

    def inc(self, value: float, tags: dict[str, str] | None = None) -> None:
        # As Ray has it.
        if value <= 0:
            raise ValueError(f"value must be >0, got {value}")
        self.counts[(tags or {}).get("outcome", "")] += int(value)

    def set(self, value: float) -> None:
        self.now = value

    def observe(self, value: float) -> None:
        self.counts[""] += 1


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> dict[str, Exported]:
    Exported.all = {}
    for kind in ("Counter", "Gauge", "Histogram"):
        monkeypatch.setattr(metrics, kind, Exported)
    return Exported.all


def ingress(cluster: Cluster) -> Any:
    """One that Serve has not made: no tasks run, and the map is not asked."""
    made: Any = object.__new__(_PLAIN)
    made._batcher, made._searcher = cluster.batcher, cluster.searcher
    made._outcomes, made._meters = Counter(), Meters()
    return made


def find(made: Any, vector: Any = None, timeout_s: float = 30, **asked: Any) -> Any:
    given = {"collection": "c", "k": 3, "ef": None, "allow_partial": False} | asked
    return made._find(vector=[1.0] * DIM if vector is None else vector, timeout_s=timeout_s, **given)


def test_each_search_has_one_outcome(exported: dict[str, Exported]) -> None:
    async def test() -> None:
        cluster = Cluster(shards=2, replicas=[[0], [1]], max_open=3)
        made = ingress(cluster)
        await find(made)
        for wrong in ({"vector": [1.0]}, {"k": 0}, {"collection": "x"}, {"timeout_s": -1}):
            with pytest.raises(errors.SearchError):
                await find(made, **wrong)
        cluster.replicas[1].fault = hang
        running = [asyncio.ensure_future(find(made)) for _ in range(3)]
        await asyncio.sleep(0.01)
        with pytest.raises(errors.Overloaded):
            await find(made)
        for each in running:
            each.cancel()
        await asyncio.wait(running)
        refusing(cluster.replicas[1], errors.Failed.code)
        with pytest.raises(errors.Failed):
            await find(made)
        assert (await find(made, allow_partial=True)).missing == [1]
        made._meters.export(made._outcomes, made._searcher, made._batcher)

    run(test())
    expected = {
        "answered": 1, "bad_query": 2, "unknown_collection": 1, "deadline_passed": 1, "overloaded": 1, "cancelled": 3,
        "failed": 1, "partial": 1,
    }  # fmt: skip
    assert exported["chiplet_searches"].counts == expected
    assert exported["chiplet_search_ms"].counts.total() == sum(expected.values())


def test_a_vector_that_is_cut_is_counted_by_grpc_too(exported: dict[str, Exported]) -> None:
    async def test() -> None:
        made = ingress(Cluster())
        context = SimpleNamespace(set_code=lambda _: None, set_details=lambda _: None)
        await made.Find(search_pb2.FindRequest(collection="c", vector=b"12345"), context)
        assert made._outcomes == {"bad_query": 1}

    run(test())


def test_retries_of_searches_that_fail_are_counted_and_nothing_is_counted_twice(exported: dict[str, Exported]) -> None:
    async def test() -> None:
        cluster = Cluster(replicas=[[0], [0]])
        made = ingress(cluster)
        for replica in cluster.replicas:
            refusing(replica, errors.Overloaded.code)
        with pytest.raises(errors.Overloaded):
            await find(made)
        for _ in range(3):
            made._meters.export(made._outcomes, made._searcher, made._batcher)
            made._outcomes = Counter()

    run(test())
    assert exported["chiplet_shard_retries"].counts.total() == 2
    assert exported["chiplet_batches"].counts.total() == exported["chiplet_batched_searches"].counts.total() == 2
    assert exported["chiplet_searches"].counts == {"overloaded": 1}


def test_a_second_that_cannot_be_exported_is_not_the_last() -> None:
    async def test() -> None:
        again = asyncio.Event()

        def export(*_: Any) -> None:
            if calls:
                again.set()
            calls.append(1)
            raise RuntimeError("no agent")

        calls: list[int] = []
        made = ingress_without_meters(export)
        task = asyncio.ensure_future(made._export())
        async with asyncio.timeout(30):
            await again.wait()
        task.cancel()

    run(test())


def ingress_without_meters(export: Any) -> Any:
    made: Any = object.__new__(_PLAIN)
    made._outcomes, made._searcher, made._batcher = Counter(), None, None
    made._meters = SimpleNamespace(export=export)
    return made


def test_the_readme_lists_what_is_exported() -> None:
    code = "".join((HERE / "chiplet_serve" / name).read_text() for name in ("metrics.py", "shards.py"))
    exported = set(re.findall(r'(?:Counter|Gauge|Histogram)\(\s*"(chiplet_\w+)"', code))
    listed = set(re.findall(r"^\| `(chiplet_\w+)`", (HERE / "README.md").read_text(), re.MULTILINE))
    assert listed == exported and len(listed) == 8
