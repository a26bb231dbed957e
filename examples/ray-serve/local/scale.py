"""What a large cluster costs, on paper: the real pieces are run one by one without a cluster, and the rest is arithmetic.

    python -m local.scale --nodes 100 --collections 10000

Each piece is run several times; the table has the median, the least and the most. What follows from it is in
results/lab/2026-11/ray-serve-scale.md.
"""

import argparse
import asyncio
import dataclasses
import pickle
import random
import secrets
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chiplet
import numpy as np

from chiplet_serve.batch import Ask, Batcher, Lost, Route
from chiplet_serve.node import Node
from chiplet_serve.search import Searcher, SearchSettings
from chiplet_serve.shard_map import Entry
from chiplet_serve.storage import Storage
from chiplet_serve.wire import Found, Group, Reply

from .measured import Rows, Times, pickled, seconds, size, timed
from .scale_map import DIM, World, actor, storage_and_map

K = 10


def main() -> None:
    asked = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="chiplet-scale-") as root:
        for part in (storage_and_map, actor, serve, router, searcher, routes, node, series):
            if asked.only and part.__name__ not in asked.only:
                continue
            print(f"\n{part.__name__}: {part.__doc__}\n", flush=True)
            for name, value in part(asked, Path(root)):
                print(f"| {name} | {value} |", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "local.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=100, help="that report once a second (default: 100)")
    parser.add_argument("--collections", type=int, default=10_000, help="default: 10,000")
    parser.add_argument("--shards", type=int, default=2, help="of each collection (default: 2)")
    parser.add_argument("--copies", type=int, default=2, help="nodes that hold each shard (default: 2)")
    parser.add_argument("--routers", type=int, default=100, help="ingresses that follow the map (default: 100)")
    parser.add_argument("--times", type=int, default=5, help="that each piece is run (default: 5)")
    parser.add_argument(
        "--only",
        action="append",
        choices=["storage_and_map", "actor", "serve", "router", "searcher", "routes", "node", "series"],
        help="this part; may be given several times. `actor` and `routes` need `storage_and_map` before them",
    )
    return parser


def _replicas(asked: argparse.Namespace) -> list[Any]:
    """Serve's own records of replicas, as its controller sends them."""
    from ray.serve._private.common import DeploymentID, ReplicaID, RunningReplicaInfo

    from chiplet_serve.alpha import packed

    deployment = DeploymentID(name="Shards", app_name="chiplet")
    each = asked.collections * asked.shards * asked.copies // asked.nodes
    held = getattr(World, "held", None) or {
        secrets.token_hex(28): [
            f"collection-{(at + number * each) // asked.shards % asked.collections:05d}@1/{at % asked.shards}"
            for at in range(each)
        ]
        for number in range(asked.nodes)
    }
    return [
        RunningReplicaInfo(
            replica_id=ReplicaID(unique_id=f"r{at:07d}", deployment_id=deployment),
            node_id=node,
            node_ip="10.0.0.1",
            availability_zone=None,
            actor_name=f"SERVE_REPLICA::chiplet#Shards#r{at:07d}",
            max_ongoing_requests=100,
            routing_stats={"holds": packed(keys)},
            port=40_000,
        )
        for at, (node, keys) in enumerate(held.items())
    ]


def serve(asked: argparse.Namespace, root: Path) -> Rows:
    """Routing statistics: what Serve's controller sends to each process with a handle when one replica's have changed."""
    from ray.serve._private.common import DeploymentTargetInfo

    infos = _replicas(asked)
    sent = DeploymentTargetInfo(is_available=True, running_replicas=infos)
    made = timed(asked.times, lambda: [dataclasses.replace(info) for info in infos])
    whole = pickled(sent)
    pickling = timed(asked.times, lambda: pickle.dumps(sent, protocol=5))
    alone = pickled(infos[0].routing_stats["holds"])
    yield "bytes of one replica's list `holds`, packed", size(alone)
    yield "bytes of a broadcast to one listener: all replicas' lists", size(whole)
    yield "the controller makes all RunningReplicaInfo anew, with their hashes", str(made)
    yield "the controller pickles them for one listener", str(pickling)
    yield (
        f"... for {asked.routers} listeners, computed",
        f"{seconds(pickling.s * asked.routers)}, {size(whole * asked.routers)}",
    )
    yield (
        "broadcasts a second that one core of the controller can pickle, computed",
        f"{1 / (pickling.s * asked.routers):.2f}",
    )


def router(asked: argparse.Namespace, root: Path) -> Rows:
    """HolderRouter.choose_replicas: what choosing costs a batch."""
    from ray.serve._private.request_router.replica_wrapper import RunningReplica

    from chiplet_serve.alpha import HolderRouter, unpacked

    replicas = []
    for info in _replicas(asked):
        replica = RunningReplica.__new__(RunningReplica)
        replica._replica_info = info
        replicas.append(replica)
    choosing = HolderRouter.__new__(HolderRouter)
    choosing._replicas = {each.replica_id: each for each in replicas}
    choosing.initialize_state()
    said = replicas[0]._replica_info.routing_stats["holds"]
    keys = sorted(unpacked(said))
    yield "a list `holds` that has changed is read", str(timed(asked.times, lambda: unpacked(said)))
    for count in (1, 8):
        groups = [Group(key, 1, DIM, K, None, 1.0) for key in keys[:count]]
        pending = SimpleNamespace(
            metadata=SimpleNamespace(call_method="search"),
            routing_context=SimpleNamespace(),
            args=(groups, b"", frozenset()),
        )

        def choose(pending: Any = pending) -> None:
            try:
                choosing.choose_replicas(replicas, pending).send(None)
            except StopIteration:
                return
            raise AssertionError("choosing waits")

        choose()
        yield f"a batch of {count} shards, {asked.nodes} replicas", str(timed(asked.times, choose, calls=200))


def _answers(groups: list[Group]) -> Reply:
    return Reply(
        "r",
        [Found(np.zeros((g.n, g.k), np.int64).tobytes(), np.zeros((g.n, g.k), np.float32).tobytes()) for g in groups],
        0,
        0,
    )


def searcher(asked: argparse.Namespace, root: Path) -> Rows:
    """Searcher and Batcher with a Send that answers at once: what Python takes of the ingress's core a search."""

    async def send(groups: list[Group], vectors: bytes, avoid: frozenset[str]) -> Reply:
        return _answers(groups)

    async def run(shards: int, open_: int, apart: bool) -> Times:
        holders = tuple((f"n{2 * at}", f"n{2 * at + 1}") if apart else ("n0", "n1") for at in range(shards))
        catalogue = {"c": Entry(1, DIM, "l2", 1000, holders)}
        finder = Searcher(Batcher(send), lambda: catalogue, SearchSettings())
        vector = np.zeros(DIM, np.float32)
        rounds = max(2000 // shards // open_, 5)
        each = []
        for _ in range(asked.times):
            began = time.perf_counter()
            for _ in range(rounds):
                await asyncio.gather(*(finder.search("c", vector, k=K, timeout_s=30) for _ in range(open_)))
            each.append((time.perf_counter() - began) / rounds / open_)
        return Times(each)

    for shards in (1, 2, 8, 32):
        alone, apart, together = (asyncio.run(run(shards, *how)) for how in ((1, True), (64, True), (64, False)))
        yield f"a search of {shards} shards: alone", str(alone)
        yield "... 64 open, each shard at other nodes", f"{apart}; {1 / apart.s:,.0f} a second"
        yield "... 64 open, all shards at the same nodes", f"{together}; {1 / together.s:,.0f} a second"


def routes(asked: argparse.Namespace, root: Path) -> Rows:
    """How many sets of holders there are, and how many searches then travel together (a call takes 3 ms)."""

    def sets() -> int:
        return len({nodes for entry in World.map.catalogue().values() for nodes in entry.holders})

    yield "sets of holders after the first placement", str(sets())
    alone = {name: 0 for name in World.names}
    first = World.names[0]
    for nodes in World.map._homes.values():
        if first in nodes:
            for other in nodes:
                alone[other] += other != first
    most = max(alone.values()) / max(sum(alone.values()), 1)
    yield "of what one node holds, the part whose other copy is at one and the same node", f"{most:.0%}"
    for name in World.names[: asked.nodes // 10]:
        World.map.forget(name)
    yield f"after {asked.nodes // 10} nodes were lost one by one", str(sets())
    for name in World.names[: asked.nodes // 10]:
        World.held[name] = []
        World.map.report(name, 8, [], [], {}, {})
    yield "... and as many others have joined", str(sets())
    pairs = asked.nodes * (asked.nodes - 1) // 2

    async def send(groups: list[Group], vectors: bytes, avoid: frozenset[str]) -> Reply:
        await asyncio.sleep(0.003)
        return _answers(groups)

    async def run(count: int, open_: int) -> float:
        batcher = Batcher(send)
        choose = random.Random(2)
        vector = np.zeros(8, np.float32)
        until = time.monotonic() + 1.5

        async def one() -> None:
            while time.monotonic() < until:
                at = choose.randrange(asked.collections * asked.shards)
                route = Route((f"n{at % count}",), frozenset())
                try:
                    await batcher.ask(route, Ask(f"c{at}@1/0", vector, K, None, time.monotonic() + 10))
                except Lost:
                    pass

        await asyncio.gather(*(one() for _ in range(open_)))
        return batcher.asks / batcher.batches

    for count in (1, asked.nodes // 2, asked.nodes, pairs):
        said = ", ".join(f"{asyncio.run(run(count, open_)):.2f} ({open_} open)" for open_ in (16, 64, 256))
        yield f"searches a batch where shards have {count} sets of holders", said


def node(asked: argparse.Namespace, root: Path) -> Rows:
    """A node's executor with as many tables as a node holds shards."""
    tables = max(asked.collections * asked.shards * asked.copies // asked.nodes, 1)
    executor = chiplet.Executor(max_workers=1, pin="none", name="scale")
    table = chiplet.Flat.build(np.zeros((10, DIM), np.float32))
    for at in range(tables):
        executor.add(f"collection-{at:05d}@1/0", table)
    made = Node("r", Storage(root), executor)
    try:
        loads = timed(asked.times, made.loads, calls=20)
        yield f"loads() with {tables} tables", str(loads)
        yield (
            "... 1.2 times a second (a report; autoscaling each 5 s), part of one core, computed",
            f"{1.2 * loads.s:.2%}",
        )
    finally:
        made.close()


def series(asked: argparse.Namespace, root: Path) -> Rows:
    """Time series that Ray exports, computed from Serve's sources. No series names a collection."""
    from ray.serve._private.constants import DEFAULT_LATENCY_BUCKET_MS, SERVE_EVENT_LOOP_LATENCY_HISTOGRAM_BOUNDARIES_MS

    # A histogram has its buckets, one for what is above them, a sum and a count.
    latency, loop = len(DEFAULT_LATENCY_BUCKET_MS) + 3, len(SERVE_EVENT_LOOP_LATENCY_HISTOGRAM_BOUNDARIES_MS) + 3
    shards, ingresses, proxies = asked.nodes, asked.routers, asked.nodes
    # Ingresses route to replicas of `Shards`, proxies to ingresses.
    routing, pairs = ingresses + proxies, ingresses * shards + proxies * ingresses
    counted = [
        ("chiplet_node_load, _shards", shards, 2),
        ("chiplet_search_ms", ingresses, 17 + 3),
        (
            "chiplet_searches (of 9 outcomes), _shard_retries, _open_searches, _batches, _batched_searches",
            ingresses,
            9 + 4,
        ),
        ("serve_deployment_processing_latency_ms (of one route)", shards + ingresses, latency),
        ("serve_user_autoscaling_stats_latency_ms", shards, latency),
        ("five more of a replica, and whether it is healthy", shards + ingresses, 6),
        ("serve_event_loop_*, of two loops", shards + ingresses, 2 * (loop + 2)),
        ("serve_request_router_fulfillment_time_ms, serve_router_args_resolution_latency_ms", routing, 2 * latency),
        ("serve_long_poll_latency_ms (of two namespaces)", routing, 2 * latency),
        ("seven counters and gauges of a handle and its router", routing, 7),
        ("serve_http_request_latency_ms, serve_grpc_request_latency_ms (of one status)", proxies, 2 * latency),
        ("serve_request_router_queue_len, of each router and replica", pairs, 1),
    ]
    for name, times, each in counted:
        yield name, f"{each} x {times:,} = {each * times:,}"
    yield "all of them", f"{sum(each * times for _, times, each in counted):,}"
    yield "what a tag `collection` on chiplet_search_ms alone would add", f"{20 * ingresses * asked.collections:,}"


if __name__ == "__main__":
    main()
