"""The map of a large cluster without the cluster: its pieces for `local.scale`, one by one."""

import argparse
import asyncio
import itertools
import pickle
import random
import secrets
import statistics
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chiplet

from chiplet_serve import shard_map
from chiplet_serve.map_actor import MapActor
from chiplet_serve.node import Wanted
from chiplet_serve.shard_map import MapSettings, ShardMap
from chiplet_serve.storage import Live, Manifest, Shard, Storage

from .measured import Rows, Times, pickled, resident, seconds, size, timed

DIM = 128
SETTINGS = {"settle_s": 1e9, "rebalance_s": 1e9}


def _write(root: Path, name: str, version: int, asked: argparse.Namespace, files: bool = False) -> None:
    """As a build leaves it, but without vectors, and without waiting for the disk."""
    folder = root / name / f"v{version:06d}"
    folder.mkdir(parents=True)
    shards = [Shard(file=f"shard-{at:05d}.chiplet", rows=1000, bytes=500_000 + 7 * at) for at in range(asked.shards)]
    manifest = Manifest(collection=name, version=version, dim=DIM, metric="l2", copies=asked.copies, shards=shards)
    (folder / "manifest.json").write_text(manifest.model_dump_json(indent=1))
    for shard in shards if files else ():
        with (folder / shard.file).open("wb") as file:
            file.truncate(shard.bytes)


class World:
    """A map that all nodes have reported to, and what they hold."""

    map: ShardMap
    names: list[str]
    held: dict[str, list[str]]
    loads: dict[str, dict[str, float]]

    @classmethod
    def report(cls, name: str) -> list[Wanted] | None:
        held = cls.held[name]
        return cls.map.report(name, 8, held, held, {}, cls.loads[name])


def storage_and_map(asked: argparse.Namespace, root: Path) -> Rows:
    """The map itself, on local disk."""
    for at in range(asked.collections):
        _write(root, f"collection-{at:05d}", 1, asked)
        (root / f"collection-{at:05d}" / "LIVE").write_text(Live(version=1, previous=None).model_dump_json())
    now = [1000.0]
    settings = MapSettings(expect_nodes=asked.nodes, **SETTINGS)
    before = resident()
    made: list[ShardMap] = []
    start = timed(3, lambda: made.append(ShardMap(Storage(root), settings, lambda: now[0])), made.clear)
    World.map = made.pop()
    yield "start: LIVE and manifest of each collection", str(start)
    yield (
        "... where each of 6 calls a collection (stat, two opens, two reads, one listing) takes 1 ms, computed",
        seconds(start.s + 6e-3 * asked.collections),
    )
    # Ray's node ids have 56 digits.
    World.names = [secrets.token_hex(28) for _ in range(asked.nodes)]
    World.held = {name: [] for name in World.names}
    World.loads = {name: {} for name in World.names}
    for name in World.names:
        World.report(name)
    # Twice: the first order of those that reported early was to wait.
    orders = {name: World.report(name) for name in World.names}
    choose = random.Random(1)
    for name, order in orders.items():
        World.held[name] = sorted(each.key for each in order or ())
        World.loads[name] = {key: choose.paretovariate(1.2) * 2e-4 for key in World.held[name]}
    homes = World.map._homes
    report = timed(asked.times, lambda: [World.report(name) for name in World.names])
    report = Times([each / asked.nodes for each in report.each])
    yield f"shards that a node holds, mean of {asked.nodes}", f"{sum(map(len, World.held.values())) / asked.nodes:.0f}"
    yield "a report of a node, with its order", str(report)
    yield "... of all nodes once a second, part of one core, computed", f"{report.s * asked.nodes:.1%}"
    yield "memory of the map's process beyond its start", size(resident() - before)

    inside: list[float] = []
    place = chiplet.place

    def watched(*args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return place(*args, **options)
        finally:
            inside.append(time.perf_counter() - began)

    def again() -> None:
        World.map._homes = homes

    shard_map.chiplet = SimpleNamespace(place=watched)  # type: ignore[attr-defined, assignment]
    states = list(World.map._nodes.values())
    loads = [state.loads for state in states]

    def shifted() -> None:
        again()
        for state, known in zip(states, loads, strict=True):
            state.loads = {key: load * choose.choice([0.25, 1, 4]) for key, load in known.items()}

    def without() -> None:
        again()
        for state, known in zip(states, loads, strict=True):
            state.loads = known
        World.map._nodes = dict(itertools.islice(zip(World.names, states, strict=True), 1, None))

    def moved() -> int:
        return sum(set(nodes) != set(homes[at]) for at, nodes in World.map._homes.items())

    def nobody_holds() -> None:
        World.map._homes = {}
        for state in states:
            state.held = frozenset()

    def hold_again() -> None:
        World.map._homes = {}
        for name, state in zip(World.names, states, strict=True):
            state.held = frozenset(World.held[name])

    for what, before_each in (
        ("from nothing", nobody_holds),
        ("after a restart, from what nodes hold", hold_again),
        ("with the first loads that nodes report", again),
        ("with loads four times as high, or a fourth", shifted),
        ("with a node lost", without),
    ):
        inside.clear()
        took = timed(min(asked.times, 3), World.map.place, before_each)
        share = statistics.median(inside) / took.s
        homes_moved = "" if what == "from nothing" else f"; {moved()} shards with other homes"
        yield f"place() {what}", f"{took}; {share:.0%} in chiplet.place{homes_moved}"
    World.map._nodes = dict(zip(World.names, states, strict=True))
    shard_map.chiplet = chiplet  # type: ignore[attr-defined]
    hold_again()
    again()
    World.map._set_homes(homes)
    for name in World.names:
        World.report(name)

    yield "status()", str(timed(1, World.map.status))
    _write(root, "collection-00000", 2, asked, files=True)
    _write(root, "new", 1, asked, files=True)
    for what, name in (
        ("a version of a collection that has homes", "collection-00000"),
        ("a collection's first version", "new"),
    ):
        proposed: list[Manifest] = []

        def propose(name: str = name, proposed: list[Manifest] = proposed) -> None:
            proposed.append(World.map.propose(name, None))

        def withdraw(proposed: list[Manifest] = proposed) -> None:
            while proposed:
                World.map.withdraw(proposed.pop())

        took = timed(3, propose, withdraw)
        World.map.withdraw(proposed.pop())
        yield f"propose: {what}", str(took)

    catalogue = World.map.catalogue()
    whole = pickled(catalogue)
    written = pickle.dumps(catalogue, protocol=5)
    name = World.names[0]
    held = World.held[name]
    one = pickled(dict(itertools.islice(catalogue.items(), 1)))
    yield "bytes of a report", size(pickled((name, 8, held, held, {}, World.loads[name])))
    yield "bytes of an order", size(pickled(orders[name]))
    yield (
        "... of all nodes a second, computed",
        size(asked.nodes * (pickled((name, 8, held, held, {}, World.loads[name])) + pickled(orders[name]))),
    )
    yield "catalogue(): made", str(timed(asked.times, World.map.catalogue, World.map._entries.clear))
    yield (
        "catalogue(): where one collection has changed",
        str(timed(asked.times, World.map.catalogue, lambda: World.map._entries.pop("collection-00000"))),
    )
    yield "catalogue: pickled, of one router", str(timed(asked.times, lambda: pickle.dumps(catalogue, protocol=5)))
    yield "catalogue: unpickled, at one router", str(timed(asked.times, lambda: pickle.loads(written)))
    yield "bytes of a catalogue, whole", size(whole)
    yield "bytes of a change of one collection", size(one)
    yield f"1,000 publishes to {asked.routers} routers, whole catalogues, computed", size(1000 * whole * asked.routers)
    yield f"1,000 publishes to {asked.routers} routers, changes, computed", size(1000 * one * asked.routers)


def actor(asked: argparse.Namespace, root: Path) -> Rows:
    """The map's actor: what its waiters add to a report. Publishes are real ones that wait for nodes."""
    publishing = min(100, asked.collections - 1)
    for at in range(1, publishing + 1):
        _write(root, f"collection-{at:05d}", 2, asked, files=True)

    async def run() -> list[tuple[str, str]]:
        asked_for = {"expect_nodes": asked.nodes, **SETTINGS}
        made = MapActor(str(root), asked_for)
        rows = []

        async def reports() -> None:
            for name in World.names:
                held = World.held[name]
                await made.report(name, 8, held, held, {}, World.loads[name])

        async def several() -> Times:
            each = []
            for _ in range(asked.times):
                began = time.perf_counter()
                await reports()
                each.append((time.perf_counter() - began) / asked.nodes)
            return Times(each)

        await reports()
        known = (await made.catalogue(-1)).epoch
        rows.append(("a report, nobody waits", str(await several())))
        waiting = [asyncio.ensure_future(made.catalogue(known)) for _ in range(asked.routers)]
        await asyncio.sleep(0)
        rows.append((f"a report, {asked.routers} routers wait", str(await several())))
        began = time.perf_counter()
        publishes = [
            asyncio.ensure_future(made.publish(f"collection-{at:05d}", None, 600)) for at in range(1, publishing + 1)
        ]
        await asyncio.sleep(0)
        rows.append((f"{publishing} publishes begin, each", seconds((time.perf_counter() - began) / publishing)))
        rows.append((f"a report, {asked.routers} routers and {publishing} publishes wait", str(await several())))
        for task in waiting + publishes:
            task.cancel()
        await asyncio.gather(*waiting, *publishes, return_exceptions=True)
        known = (await made.catalogue(-1)).epoch
        waiting = [asyncio.ensure_future(made.catalogue(known)) for _ in range(asked.routers)]
        await asyncio.sleep(0)
        made._map.switch(made._map.propose("collection-00001", None))
        began = time.perf_counter()
        await made._tell()
        said = await asyncio.gather(*waiting)
        rows.append(
            (
                f"a version that serves is told to {asked.routers} routers, before pickling",
                seconds(time.perf_counter() - began),
            )
        )
        began = time.perf_counter()
        sent = sum(pickled(each) for each in said)
        rows.append(("... its pickling for all", f"{seconds(time.perf_counter() - began)}, {size(sent)}"))
        return rows

    yield from asyncio.run(run())
