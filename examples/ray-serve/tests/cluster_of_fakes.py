"""Nodes and a clock for tests of the map: a cluster that is simulated, second by second."""

import random
from collections.abc import Mapping
from pathlib import Path

from chiplet_serve.errors import PublishError
from chiplet_serve.shard_map import MapSettings, ShardMap
from chiplet_serve.storage import Manifest, Shard, Storage, key


def build(storage: Storage, name: str, sizes: list[int], copies: int = 1) -> Manifest:
    """A version whose shards have these bytes, and nothing in them."""
    shards = []
    with storage.building() as folder:
        for number, size in enumerate(sizes):
            with (folder / f"{number}.chiplet").open("wb") as file:
                file.truncate(size)
            shards.append(Shard(file=f"{number}.chiplet", rows=1, bytes=size))
        return storage.finish(folder, name, dim=4, metric="l2", copies=copies, shards=shards)


class FakeNode:
    def __init__(self, name: str, cores: int = 8) -> None:
        self.name, self.cores = name, cores
        #: What it offers to routers.
        self.held: set[str] = set()
        #: What it offered after its last report.
        self.told: set[str] = set()
        #: Shards that cannot be opened here.
        self.damaged: set[str] = set()
        #: Whether it leaves alone what it could not open, as if a try took an hour, until that is ordered anew.
        self.rests = False
        self.broken: dict[str, str] = {}
        self.loading: dict[str, float] = {}
        self.ordered: set[str] | None = None

    def follow(self, order: set[str], now: float, load_s: float) -> None:
        self.ordered = order
        self.held &= order
        # All that is missing is tried again, unless it rests.
        self.broken = {name: why for name, why in self.broken.items() if self.rests and name in order}
        missing = order - self.held - self.broken.keys()
        self.loading = {name: self.loading.get(name, now + load_s) for name in missing}

    def load(self, now: float) -> None:
        for name in [name for name, ready in self.loading.items() if ready <= now]:
            del self.loading[name]
            if name in self.damaged:
                self.broken[name] = "damaged"
            else:
                self.held.add(name)


class Cluster:
    def __init__(self, root: Path, *, load_s: float = 2.0, seed: int = 0, **settings: float) -> None:
        self.now = 1000.0
        self.random = random.Random(seed)
        self.load_s = load_s
        self.storage = Storage(root)
        self.settings = MapSettings(**settings)  # type: ignore[arg-type]
        self.nodes: dict[str, FakeNode] = {}
        #: Of each `collection/shard` what its searches ask for, over all nodes.
        self.loads: dict[str, float] = {}
        #: The map was asked for nothing for so long yet.
        self.away_s = 0
        self.catalogues: dict[int, object] = {}
        self.start_map()

    def start_map(self, **settings: float) -> None:
        self.settings = self.settings.model_copy(update=settings)
        self.map = ShardMap(self.storage, self.settings, lambda: self.now)
        self.catalogues = {}

    def join(self, *names: str, cores: int = 8) -> None:
        self.nodes |= {name: FakeNode(name, cores) for name in names}

    def publish(self, name: str, version: int | None = None, *, rounds: int = 30) -> Manifest:
        """As the map's actor does it."""
        manifest = self.map.propose(name, version)
        try:
            for _ in range(rounds):
                if self.map.loaded(manifest):
                    self.map.switch(manifest)
                    return manifest
                self.round()
        except PublishError:
            self.map.withdraw(manifest)
            raise
        waits = self.map.missing(manifest)
        self.map.withdraw(manifest)
        raise PublishError(f"not in time: {waits}")

    def round(self, rounds: int = 1) -> None:
        """Seconds in which each node reports once, in any order."""
        for _ in range(rounds):
            for node in self.random.sample(list(self.nodes.values()), len(self.nodes)):
                self.now += 1 / len(self.nodes)
                node.load(self.now)
                if self.away_s > 0:
                    continue
                order = self.map.report(
                    node.name, node.cores, set(node.held), set(node.told), dict(node.broken), self._loads_of(node)
                )
                if order is not None:
                    node.follow({each.key for each in order}, self.now, self.load_s)
                node.told = set(node.held)
                self.look()
            self.away_s = max(self.away_s - 1, 0)

    def look(self) -> None:
        """What holds after each report."""
        kept = self.map.catalogue()
        self.map._entries.clear()
        now = self.map.catalogue()
        assert kept == now, "an entry of the catalogue changed, and the old one was kept"
        assert self.catalogues.setdefault(self.map.epoch, now) == now, "the catalogue changed, and the epoch did not"

    def holders(self, name: str) -> set[str]:
        return {node.name for node in self.nodes.values() if name in node.held}

    def live_keys(self) -> set[str]:
        return {
            key(name, entry.version, shard)
            for name, entry in self.map.catalogue().items()
            for shard in range(len(entry.holders))
        }

    def homes(self) -> dict[str, set[str]]:
        """Of each shard that serves where it is to be."""
        return {
            key(name, entry.version, shard): set(nodes)
            for name, entry in self.map.catalogue().items()
            for shard, nodes in enumerate(entry.holders)
        }

    def held(self) -> dict[str, set[str]]:
        """Of each shard that any node holds where it is."""
        return {name: self.holders(name) for name in set().union(*(node.held for node in self.nodes.values()))}

    def _loads_of(self, node: FakeNode) -> Mapping[str, float]:
        live = self.live_keys()
        found = {}
        for name in sorted(node.held & live):
            collection, _, rest = name.partition("@")
            total = self.loads.get(f"{collection}/{rest.partition('/')[2]}", 0.0)
            found[name] = total / len(self.holders(name))
        return found
