"""What a cluster does when parts of it die, move or change, while searches come.

The order of the tests counts: one that kills a node puts another in its place.
"""

import asyncio
import json
import os
import shutil
import signal
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from conftest import REPORT, World, all_answered, under_load
from ray.util.state import list_actors

from chiplet_serve.__main__ import ask_map
from chiplet_serve.build import build
from chiplet_serve.errors import StorageError
from chiplet_serve.storage import Storage
from local.cluster import FAST, until
from local.data import COLLECTIONS, words
from local.load import GrpcClient
from local.truth import OneExecutor


def status() -> dict[str, Any]:
    """What the map says. With a node the map may have died: then the next one is waited for."""

    def asked() -> dict[str, Any] | None:
        try:
            return ask_map("status")
        # Ray raises ValueError where no actor has the name: the next map is not there yet.
        except (ray.exceptions.RayError, RuntimeError, TimeoutError, ValueError):
            return None

    return until(asked, "the map's answer")


def the_map(world: World) -> Any:
    """Ray's view of the map's actor."""

    def found() -> Any:
        actors = list_actors(world.cluster.dashboard, filters=[("state", "=", "ALIVE")], limit=1000)
        return next((each for each in actors if "MapActor" in each.class_name), None)

    return until(found, "the map's actor")


def settled() -> dict[str, Any] | None:
    """The map's state, if three nodes hold all that they shall."""
    said = status()
    wanted = sum(len(nodes) for each in said["collections"].values() for nodes in each["shards"])
    held = sum(node["held"] for node in said["nodes"].values())
    fresh = all(node["seen_s_ago"] < 4 for node in said["nodes"].values())
    return said if len(said["nodes"]) == 3 and fresh and held >= wanted else None


def test_a_replica_is_killed(world: World) -> None:
    until(settled, "three nodes")
    victim = world.cluster.replicas("Shards")[0]
    run = under_load(world, "kill -9 of a replica", lambda: os.kill(victim["pid"], signal.SIGKILL), after_s=6)
    all_answered(run)
    until(lambda: len(world.cluster.replicas("Shards")) == 3 and settled(), "another replica")
    assert victim["replica_id"] not in {each["replica_id"] for each in world.cluster.replicas("Shards")}


def test_a_replica_hangs(world: World) -> None:
    """SIGSTOP: it neither answers nor breaks off. Each search that it has is asked for elsewhere in time."""
    until(settled, "three nodes")
    victim = world.cluster.replicas("Shards")[0]
    try:
        run = under_load(world, "a replica hangs", lambda: os.kill(victim["pid"], signal.SIGSTOP), after_s=5)
    finally:
        try:
            os.kill(victim["pid"], signal.SIGCONT)
        except ProcessLookupError:
            pass
    all_answered(run)
    assert run.retries > 0
    until(lambda: len(world.cluster.replicas("Shards")) == 3 and settled(), "three replicas")


def test_a_worker_node_is_killed(world: World) -> None:
    until(settled, "three nodes")
    # The hardest case, if the map is no guest of the head: its node dies, and with it the map.
    node_of_map = the_map(world).node_id
    victim = next((name for name, node in world.cluster.workers.items() if node.node_id == node_of_map), "worker-0")
    also = " that has the map, too" if world.cluster.workers[victim].node_id == node_of_map else ""
    run = under_load(world, f"kill -9 of a worker node{also}", lambda: world.cluster.kill(victim), after_s=12)
    all_answered(run)
    # Each shard has two homes again, on the two nodes that are left.
    until(lambda: all(len(nodes) == 2 for nodes in homes(status()).values()) and len(status()["nodes"]) == 2, "homes")

    run = under_load(world, "a node joins", lambda: world.cluster.add("worker-2"), after_s=10)
    all_answered(run)
    until(settled, "the node that joined")


def homes(said: dict[str, Any]) -> dict[str, set[str]]:
    return {
        f"{name}/{shard}": set(nodes)
        for name, each in said["collections"].items()
        for shard, nodes in enumerate(each["shards"])
    }


def at_rest() -> dict[str, set[str]] | None:
    """All homes, if nodes hold these and nothing besides, and the map leaves them so for two balancings."""
    said = settled()
    if said is None:
        return None
    first = homes(said)
    if sum(node["held"] for node in said["nodes"].values()) != sum(map(len, first.values())):
        return None
    time.sleep(2 * FAST["rebalance_s"] + 1)
    return first if homes(status()) == first else None


def test_the_map_dies(world: World) -> None:
    """Searches go on by what routers know; the next map learns from storage and nodes, and leaves shards where they are."""
    before = until(at_rest, "homes that stay")
    after: dict[str, set[str]] = {}

    def placed() -> bool:
        said = status()
        after.update(homes(said))
        return len(said["nodes"]) == 3 and all(after.values())

    def kill() -> None:
        os.kill(the_map(world).pid, signal.SIGKILL)
        # As soon as it has placed them: later on the load asks for moves of its own.
        until(placed, "the next map's homes")

    run = under_load(world, "kill -9 of the map", kill, after_s=8)
    all_answered(run)
    # A copy that load added or took back is no move.
    moved = [shard for shard, nodes in before.items() if not (nodes <= after[shard] or after[shard] <= nodes)]
    assert len(moved) <= 4, moved


def test_the_hot_collection_gets_a_copy_and_gives_it_back(world: World) -> None:
    """All searches go to one collection, then to another: a third copy follows them."""
    until(settled, "three nodes")
    hot = ["hot-0", "hot-1"]
    np.save(world.folder / "hot.npy", words().vectors[:8000])
    manifests = []
    for name in hot:
        manifests += build(str(world.root), str(world.folder / "hot.npy"), collection=name, metric="cosine")
        ask_map("publish", name, None, 60)
    with OneExecutor(world.root, manifests) as one:
        truth = one.answers(hot, world.vectors)

    def copies() -> list[int]:
        return [len(status()["collections"][name]["shards"][0]) for name in hot]

    assert copies() == [2, 2]
    for now, then in ([1.0, 0.0], [3, 2]), ([0.0, 1.0], [2, 3]):
        run = under_load(
            world,
            f"all searches to {hot[now.index(1.0)]}, until copies are {then}",
            lambda then=then: until(lambda: copies() == then, f"copies as {then}", every_s=1),
            collections=hot,
            truth=truth,
            weights=np.array(now),
        )
        all_answered(run)
    until(lambda: copies() == [2, 2], "two copies each", every_s=1)


def changed(world: World, collection: str, sign: float = -1.0) -> int:
    """Builds another version, of the negated rows: the answers to a vector are others."""
    ids = np.arange(COLLECTIONS.index(collection), 30_000, len(COLLECTIONS))
    rows = sign * words().vectors[ids]
    folder = world.folder / f"{collection}-{sign}.parquet"
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows, np.float32).ravel()), rows.shape[1])
    pq.write_table(pa.table({"id": ids, "vector": vectors}), folder)
    [manifest] = build(str(world.root), str(folder), collection=collection, id_column="id", shards=2, metric="cosine")
    return manifest.version


def test_a_version_is_rolled_out_and_back(world: World) -> None:
    until(settled, "three nodes")
    hot = COLLECTIONS[0]
    version = changed(world, hot)
    storage = Storage(world.root)
    with OneExecutor(world.root, [*world.manifests, storage.manifest(hot, version)]) as one:
        truth = one.answers(COLLECTIONS, world.vectors)

    def publish() -> None:
        said = world.cluster.command("python", "-m", "chiplet_serve", "publish", hot)
        assert json.loads(said)["version"] == version

    run = under_load(world, "a version is rolled out", publish, truth=truth)
    all_answered(run)
    assert run.versions[1] > 0 and run.versions[version] > 0
    assert storage.live(hot) == (version, 1)

    run = under_load(
        world,
        "rolled back",
        lambda: world.cluster.command("python", "-m", "chiplet_serve", "rollback", hot),
        truth=truth,
    )
    all_answered(run)
    assert storage.live(hot) == (1, version)


def test_a_damaged_version_does_not_serve(world: World) -> None:
    until(settled, "three nodes")
    name = COLLECTIONS[1]
    version = changed(world, name)
    storage = Storage(world.root)
    manifest = storage.manifest(name, version)
    path = storage.shard(manifest, 1)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF

    def publish(expect: str) -> None:
        with pytest.raises(RuntimeError, match=expect):
            world.cluster.command("python", "-m", "chiplet_serve", "publish", name)

    path.write_bytes(flipped)
    run = under_load(world, "a damaged version is refused", lambda: publish("cannot load"))
    all_answered(run)
    path.write_bytes(whole[: len(whole) // 2])
    publish("the manifest says")
    path.unlink()
    publish("is not there")
    assert storage.live(name) == (1, None)
    with pytest.raises(RuntimeError, match="no version before"):
        world.cluster.command("python", "-m", "chiplet_serve", "rollback", name)
    with pytest.raises(RuntimeError, match="has no version 99"):
        world.cluster.command("python", "-m", "chiplet_serve", "publish", name, "--version", "99")
    shutil.rmtree(path.parent)


def test_a_build_that_fails_leaves_nothing(world: World) -> None:
    before = sorted(each.name for each in world.root.iterdir())
    rows = np.random.default_rng(0).standard_normal((100, 8), dtype=np.float32)
    rows[57, 3] = np.nan
    path = world.folder / "nan.parquet"
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), 8)
    pq.write_table(pa.table({"id": np.arange(100), "vector": vectors}), path)
    with pytest.raises(StorageError, match="NaN"):
        build(str(world.root), str(path), collection="fresh", id_column="id", shards=2)
    assert sorted(each.name for each in world.root.iterdir()) == before


def test_a_partial_answer_names_what_is_missing(world: World) -> None:
    """A collection with one copy, and the node that holds one of its shards dies."""
    until(settled, "three nodes")
    name = "single"
    # Its shards are so large beside the others that no node can be the one for all of them.
    np.save(world.folder / "rows.npy", np.random.default_rng(1).standard_normal((60_000, 50), dtype=np.float32))
    [manifest] = build(
        str(world.root), str(world.folder / "rows.npy"), collection=name, shards=6, copies=1, table="flat"
    )
    ask_map("publish", name, manifest.version, 60)
    homes = [set(nodes) for nodes in status()["collections"][name]["shards"]]
    assert all(len(nodes) == 1 for nodes in homes)
    victim = next(each for each in world.cluster.replicas("Shards") if each["node_id"] in set.union(*homes))
    lost = [number for number, nodes in enumerate(homes) if victim["node_id"] in nodes]
    assert 0 < len(lost) < len(homes), homes

    async def ask(partial: bool, timeout_s: float) -> Any:
        async with GrpcClient(
            world.cluster.grpc, [name], world.vectors, timeout_s=timeout_s, allow_partial=partial
        ) as client:
            return await client.ask(0, 0)

    assert asyncio.run(ask(True, 5)).what == "answered"
    os.kill(victim["pid"], signal.SIGKILL)
    partial = asyncio.run(ask(True, 0.8))
    whole = asyncio.run(ask(False, 0.8))
    REPORT.append(f"shards {lost} of {len(homes)} lost: {partial.what} where allowed, {whole.what} where not")
    assert partial.what == "partial" and len(partial.ids) == 10
    assert whole.what in ("DEADLINE_EXCEEDED", "UNAVAILABLE")
    # Another node takes the shards, and all is there again.
    until(lambda: asyncio.run(ask(False, 2)).what == "answered", "all shards")
