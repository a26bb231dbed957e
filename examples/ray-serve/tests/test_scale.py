"""What the map costs grows with what a node holds and with what changes, and not with all that there is."""

import asyncio
import pickle
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cluster_of_fakes import Cluster, build

from chiplet_serve.alpha import HolderRouter, packed, unpacked
from chiplet_serve.catalogue import Changes
from chiplet_serve.map_actor import MapActor
from chiplet_serve.shard_map import Catalogue, Entry


def calls(run: Callable[[], object]) -> int:
    """How many functions `run` calls, Python's own and its library's: work that no other process disturbs."""
    count = 0

    def counted(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count


def serving(root: Path, nodes: int, collections: int) -> Cluster:
    root.mkdir(exist_ok=True)
    cluster = Cluster(root, expect_nodes=nodes, rebalance_s=1e6)
    for number in range(collections):
        build(cluster.storage, f"c{number}", [10], 1)
        cluster.storage.set_live(f"c{number}", 1, None)
    cluster.start_map()
    cluster.join(*(f"node-{number:050d}" for number in range(nodes)))
    cluster.round(8)
    assert sorted(len(node.held) for node in cluster.nodes.values()) == [collections // nodes] * nodes
    return cluster


def report(cluster: Cluster) -> None:
    node = next(iter(cluster.nodes.values()))
    loads = dict.fromkeys(node.held, 0.01)
    order = cluster.map.report(node.name, node.cores, set(node.held), set(node.told), {}, loads)
    assert {each.key for each in order or ()} == node.held


def test_a_report_costs_what_its_node_holds(tmp_path: Path) -> None:
    small, large = serving(tmp_path / "small", 2, 40), serving(tmp_path / "large", 16, 320)
    assert calls(lambda: report(large)) < 1.5 * calls(lambda: report(small))


def test_status_costs_what_there_is_once(tmp_path: Path) -> None:
    small, large = serving(tmp_path / "small", 2, 40), serving(tmp_path / "large", 2, 320)
    for cluster in (small, large):
        for node in cluster.nodes.values():
            cluster.map.report(node.name, node.cores, node.held, node.told, {}, dict.fromkeys(node.held, 0.01))
    assert calls(large.map.status) < 1.5 * 8 * calls(small.map.status)
    assert large.map.status()["collections"]["c7"]["load"] == 0.01  # type: ignore[index]


def test_a_restart_looks_at_what_is_held_once(tmp_path: Path) -> None:
    small, large = serving(tmp_path / "small", 2, 80), serving(tmp_path / "large", 16, 80)
    places = [f"c{number}/0" for number in range(80)]
    assert calls(lambda: large.map._as_held(places)) < 1.5 * calls(lambda: small.map._as_held(places))


def test_a_catalogue_names_each_node_once(tmp_path: Path) -> None:
    cluster = serving(tmp_path, 2, 40)
    written = pickle.dumps(cluster.map.catalogue(), protocol=5)
    assert [written.count(name.encode()) for name in cluster.nodes] == [1, 1]


def test_of_the_catalogue_only_what_changed_is_made_anew(tmp_path: Path) -> None:
    cluster = serving(tmp_path, 2, 40)
    before = cluster.map.catalogue()
    build(cluster.storage, "c7", [10], 1)
    cluster.publish("c7")
    after = cluster.map.catalogue()
    assert after["c7"].version == 2
    cluster.map._entries.pop("c7")
    assert calls(cluster.map.catalogue) < 40
    assert {name for name in after if after[name] != before[name]} == {"c7"}


def placings(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    seen: list[None] = []
    place = cluster.map.place

    def counted(**options: Any) -> None:
        seen.append(None)
        place(**options)

    monkeypatch.setattr(cluster.map, "place", counted)
    return seen


def test_a_version_of_a_collection_that_has_homes_places_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = serving(tmp_path, 2, 8)
    seen, homes = placings(cluster, monkeypatch), cluster.homes()
    for number in range(8):
        build(cluster.storage, f"c{number}", [10], 1)
        cluster.publish(f"c{number}")
    assert seen == []
    assert cluster.homes() == {name.replace("@1", "@2"): nodes for name, nodes in homes.items()}


def test_collections_that_are_published_together_are_placed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = serving(tmp_path, 2, 8)
    for number in range(20):
        build(cluster.storage, f"new{number}", [10, 10], 2)
    build(cluster.storage, "c0", [10, 10], 2)
    seen = placings(cluster, monkeypatch)
    manifests = [cluster.map.propose(f"new{number}", None) for number in range(20)] + [cluster.map.propose("c0", None)]
    assert not any(cluster.map.loaded(manifest) for manifest in manifests)
    assert cluster.map.missing(manifests[0]) == [f"new0@1/{shard} on a node yet to be chosen" for shard in (0, 1)]
    cluster.round(6)
    assert len(seen) == 1
    for manifest in manifests:
        assert cluster.map.loaded(manifest)
        cluster.map.switch(manifest)
    cluster.round()
    assert {len(nodes) for name, nodes in cluster.homes().items() if not name.endswith("@1/0") or "new" in name} == {2}


def test_placing_for_publishes_leaves_the_map_time_for_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = serving(tmp_path, 2, 8)
    seen = placings(cluster, monkeypatch)
    slow = cluster.map._set_homes

    def set_homes(homes: dict[str, dict[str, float]]) -> None:
        cluster.now += 1
        slow(homes)

    monkeypatch.setattr(cluster.map, "_set_homes", set_homes)
    for number in range(60):
        build(cluster.storage, f"new{number}", [10], 1)
        cluster.map.propose(f"new{number}", None)
        cluster.round()
    # 60 s of reports, and a second for each placing.
    assert 2 <= len(seen) <= 20


def test_routers_that_follow_changes_know_what_one_that_asks_for_all_knows() -> None:
    choose = random.Random(0)
    first = 10**9
    for _ in range(50):
        changes, epoch, serves = Changes(first), first, dict[str, Entry]()
        routers: list[tuple[int, Catalogue]] = [(-1, {})] * 4
        for _ in range(40):
            if choose.random() < 0.05:
                first = epoch + choose.randint(1, 10**9)
                changes, epoch = Changes(first), first
            for _ in range(choose.randrange(4)):
                name = choose.choice("abcdef")
                epoch += 1
                if choose.random() < 0.3:
                    serves.pop(name, None)
                else:
                    serves[name] = Entry(choose.randint(1, 3), 4, "l2", 1, (("n",),))
            at = choose.randrange(len(routers))
            known, catalogue = routers[at]
            change = changes.since(known, epoch, lambda serves=serves: dict(serves))
            routers[at] = change.epoch, change.applied(catalogue)
            assert routers[at] == (epoch, serves)


def test_what_a_replica_holds_arrives_as_it_left_and_is_small() -> None:
    for keys in ([], ["a@1/0"], [f"collection-{number:05d}@{number % 7 + 1}/0" for number in range(400)]):
        assert unpacked(packed(keys)) == set(keys)
    assert len(pickle.dumps(packed(keys))) < len(pickle.dumps(keys)) / 2
    assert unpacked(b"") == frozenset()


def test_a_router_reads_a_list_that_is_sent_again_once() -> None:
    router: Any = HolderRouter.__new__(HolderRouter)
    router._replicas = {}
    router.initialize_state()
    replica: Any = SimpleNamespace(replica_id="r", routing_stats={"holds": packed(["a@1/0"])})
    first = router._holds(replica)
    replica.routing_stats = pickle.loads(pickle.dumps(replica.routing_stats))
    assert router._holds(replica) is first == {"a@1/0"}
    replica.routing_stats = {"holds": packed(["b@1/0"])}
    assert router._holds(replica) == {"b@1/0"}
    replica.routing_stats = {}
    assert router._holds(replica) == frozenset()


def test_many_routers_are_told_one_change_and_not_all(tmp_path: Path) -> None:
    build(Cluster(tmp_path).storage, "songs", [10])
    cluster = serving(tmp_path, 2, 20)

    async def run() -> None:
        actor = MapActor(str(tmp_path), {"expect_nodes": 2, "rebalance_s": 1e6})
        made = 0
        catalogue = actor._map.catalogue

        def counted() -> Catalogue:
            nonlocal made
            made += 1
            return catalogue()

        actor._map.catalogue = counted  # type: ignore[method-assign]

        async def reports(held: dict[str, set[str]]) -> None:
            for name in cluster.nodes:
                order = await actor.report(name, 8, sorted(held[name]), sorted(held[name]), {}, {})
                held[name] = {each.key for each in order or ()} or held[name]

        held = {name: set(node.held) for name, node in cluster.nodes.items()}
        await reports(held)
        known = await actor.catalogue(-1)
        assert known.whole and len(known.entries) == 20 and made == 1
        routers = [asyncio.ensure_future(actor.catalogue(known.epoch)) for _ in range(50)]
        await asyncio.sleep(0)
        for _ in range(5):
            await reports(held)
        assert made == 1 and not any(router.done() for router in routers)
        publish = asyncio.ensure_future(actor.publish("songs", None, 30))
        await asyncio.sleep(0)
        while not publish.done():
            await reports(held)
            await asyncio.sleep(0)
        assert (await publish)["version"] == 1
        told = {id(change): change for change in await asyncio.gather(*routers)}
        # Songs got its homes, and served later.
        assert made <= 3
        for change in told.values():
            assert not change.whole and change.entries.keys() <= {"songs"}
        last = await actor.catalogue(known.epoch)
        assert last.applied(known.applied({})) == catalogue() and "songs" in last.entries

    asyncio.run(run())
