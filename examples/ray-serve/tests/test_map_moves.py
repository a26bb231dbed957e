"""The map under any sequence of events: no shard that some node holds goes unheld, and all comes to rest."""

from pathlib import Path

import pytest
from cluster_of_fakes import Cluster, build

from chiplet_serve.errors import PublishError, StorageError

NAMES = [f"n{number}" for number in range(6)]


class Watched(Cluster):
    """Looks after each report whether each shard that serves is still held."""

    def start_map(self, **settings: float) -> None:
        self.served: dict[str, set[str]] = getattr(self, "served", {})
        self.excused: dict[str, float] = getattr(self, "excused", {})
        super().start_map(**settings)

    def look(self) -> None:
        super().look()
        now = {name: self.holders(name) for name in self.live_keys()}
        for name, nodes in self.served.items():
            if name in now and nodes & self.nodes.keys() and self.now > self.excused.get(name, 0):
                assert now[name], f"{name} was held by {sorted(nodes)} and is by nobody"
        self.served = now

    def died(self, name: str) -> None:
        """What the node held is held by it no longer. Where it was a home, the map may count on it until its next report."""
        for shard, nodes in self.served.items():
            if name in nodes:
                nodes.discard(name)
                if name in self.homes().get(shard, ()):
                    self.excused[shard] = self.now + 1.5


def event(cluster: Watched) -> None:
    """Something happens."""
    choose = cluster.random
    kind = choose.choice(["join", "lose", "restart", "cores", "loads", "publish", "rollback", "map", "away", "slow"])
    collection = choose.choice(["a", "b"])
    if kind == "join":
        cluster.join(choose.choice(NAMES))
    elif kind in ("lose", "restart") and len(cluster.nodes) > 1:
        name = choose.choice(sorted(cluster.nodes))
        del cluster.nodes[name]
        if kind == "restart":
            cluster.join(name)
        elif choose.random() < 0.3:
            cluster.map.forget(name)
    elif kind == "cores":
        cluster.nodes[choose.choice(sorted(cluster.nodes))].cores = choose.choice([4, 8, 16])
    elif kind == "loads":
        cluster.loads = {f"{name}/{shard}": choose.choice([0, 0.5, 2, 6, 20]) for name in "ab" for shard in range(6)}
    elif kind == "publish":
        build(
            cluster.storage,
            collection,
            [choose.randint(1, 100) for _ in range(choose.randint(1, 6))],
            choose.randint(1, 3),
        )
        publish(cluster, collection, None)
    elif kind == "rollback":
        try:
            version = cluster.map.previous(collection)
        except PublishError:
            return
        publish(cluster, collection, version)
    elif kind == "map":
        cluster.start_map(expect_nodes=choose.choice([1, len(cluster.nodes)]))
    elif kind == "away":
        cluster.away_s = choose.randint(1, 12)
    elif kind == "slow":
        cluster.load_s = choose.choice([0, 1, 4, 15])


def publish(cluster: Watched, collection: str, version: int | None) -> None:
    try:
        manifest = cluster.publish(collection, version, rounds=cluster.random.choice([2, 10, 60]))
    except (PublishError, StorageError):
        return
    # Of those that are gone, or have just started and not reported yet, the map cannot know it.
    known = {name for name, node in cluster.nodes.items() if node.ordered is not None}
    for number, nodes in enumerate(cluster.map.catalogue()[collection].holders):
        assert set(nodes) & known <= cluster.holders(manifest.key(number)), "it serves, and not all homes hold it"


@pytest.mark.parametrize("drop_after_s", [0.0, 3.0])
@pytest.mark.parametrize("seed", [*range(10), 57, 513])
def test_whatever_happens_shards_stay_held_and_come_to_rest(tmp_path: Path, seed: int, drop_after_s: float) -> None:
    cluster = Watched(tmp_path, seed=seed, drop_after_s=drop_after_s, keep_previous_s=20, rebalance_s=5, settle_s=4)
    cluster.join("n0", "n1", "n2")
    for name in "ab":
        build(cluster.storage, name, [50, 20, 20, 10], copies=2)
        cluster.publish(name)
    for _ in range(30):
        before = dict(cluster.nodes)
        event(cluster)
        for name, node in before.items():
            if cluster.nodes.get(name) is not node:
                cluster.died(name)
        cluster.round(cluster.random.randint(1, 8))
    cluster.load_s = 1
    cluster.round(150)
    assert cluster.held() == cluster.homes() != {}
    for name, entry in cluster.map.catalogue().items():
        manifest = cluster.storage.manifest(name, entry.version)
        assert all(len(nodes) >= min(manifest.copies, len(cluster.nodes)) for nodes in entry.holders)
    rest = cluster.map.epoch, cluster.homes()
    cluster.round(60)
    assert (cluster.map.epoch, cluster.homes()) == rest, "nothing happens, and shards move"
