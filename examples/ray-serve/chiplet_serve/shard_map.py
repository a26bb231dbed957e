"""The map of shards to nodes: which node holds what, and which version of each collection serves. It knows no Ray.

Nodes report about once a second: their cores, the shards that they hold, those that routers were told of a report ago,
and the load of each. The mapper that places tables on a machine's domains (`chiplet.place`) places shards on nodes, each
in as many copies as its collection asks for, and a hot one in more. Four rules keep searches answered meanwhile:

* **A shard is held, and routers know, before another node lets go of it** `drop_after_s` later. Its homes must have
  reported after that, too: one may have died meanwhile.
* **A version serves after all its nodes have loaded it**, and routers know. The one before is held `keep_previous_s`
  longer, for searches under way and for a rollback.
* **A node that has not reported for `lost_after_s` is gone.** Its shards get another copy elsewhere. If none has, the
  map itself was away: then all nodes get that time once more.
* **After a start nothing is placed** before `expect_nodes` have reported or `settle_s` have passed, and what they hold
  already stays where it is. That holds for nodes that report later, too.
"""

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import chiplet
from pydantic import BaseModel, ConfigDict, Field

from .errors import PublishError, StorageError
from .node import Wanted
from .storage import Manifest, Storage, parts


class MapSettings(BaseModel):
    """Times in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    expect_nodes: int = Field(1, ge=1)
    settle_s: float = Field(10, ge=0)
    lost_after_s: float = Field(5, gt=0)
    rebalance_s: float = Field(10, gt=0)
    drop_after_s: float = Field(5, ge=0)
    keep_previous_s: float = Field(60, ge=0)
    #: Part of all cores that the shards are taken to ask for by their bytes alone, so that idle ones are spread, too.
    idle_share: float = Field(0.05, ge=0, le=1)
    #: A shard gets another copy where it asks for more than this part of a node, and loses it below `relax`. The mapper's
    #: own thresholds unless given.
    saturation: float | None = Field(None, gt=0, le=1)
    relax: float | None = Field(None, gt=0, le=1)


class Entry(NamedTuple):
    """A collection as routers see it."""

    version: int
    dim: int
    metric: str
    rows: int
    #: Of each shard the nodes that are to hold it.
    holders: tuple[tuple[str, ...], ...]


Catalogue = dict[str, Entry]


@dataclasses.dataclass
class _Node:
    cores: int
    held: frozenset[str]
    told: frozenset[str]
    broken: Mapping[str, str]
    loads: Mapping[str, float]
    seen: float
    #: What it was told to hold last.
    ordered: frozenset[str] = frozenset()
    #: What it could not open and the next order is to leave out: it tries at once what is ordered anew.
    anew: frozenset[str] = frozenset()
    #: When it may let go of shards that live elsewhere now.
    let_go: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class _Collection:
    live: Manifest | None = None
    previous: int | None = None
    candidate: Manifest | None = None
    #: Versions that no longer serve, and until when they are held.
    leaving: dict[int, tuple[Manifest, float]] = dataclasses.field(default_factory=dict)

    def manifests(self) -> list[Manifest]:
        """Those that nodes hold or load."""
        serving = [each for each in (self.live, self.candidate) if each]
        return serving + [manifest for manifest, _ in self.leaving.values()]


class ShardMap:
    def __init__(self, storage: Storage, settings: MapSettings, now: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        #: Changes with each change that routers have to know.
        self.epoch = 0
        #: Collections that are not served, and why.
        self.unreadable: dict[str, str] = {}
        self._storage = storage
        self._now = now
        self._nodes: dict[str, _Node] = {}
        self._collections: dict[str, _Collection] = {}
        #: Of each `collection/shard` its nodes, with the part of its searches that each is meant for.
        self._homes: dict[str, dict[str, float]] = {}
        #: Of each node the `collection/shard` that it is a home of: a report shall cost what the node holds, and no more.
        self._homes_at: dict[str, list[str]] = {}
        #: Of the catalogue those that have not changed since it was made.
        self._entries: Catalogue = {}
        #: Collections with versions that are leaving.
        self._replaced: set[str] = set()
        self._first_seen: float | None = None
        #: The last report of any node, and the last one after which none came for long.
        self._last_seen = self._woke = now()
        self._placed: float | None = None
        #: Seconds that the last placing took, and whether a publish waits for the next: many are placed at once.
        self._took, self._due = 0.0, False
        for name in storage.collections():
            self._read(name)

    def report(
        self,
        node: str,
        cores: int,
        held: Iterable[str],
        told: Iterable[str],
        broken: Mapping[str, str],
        loads: Mapping[str, float],
    ) -> list[Wanted] | None:
        """A node says how it is. Returns what it shall hold; None says: what it holds.

        `told` is what routers were told that it holds when it reported before: they know by now.
        """
        now = self._now()
        self._first_seen = now if self._first_seen is None else self._first_seen
        if now - self._last_seen > self.settings.lost_after_s:
            self._woke = now
        self._last_seen = now
        before = self._nodes.get(node)
        state = self._nodes[node] = _Node(cores, frozenset(held), frozenset(told), {}, dict(loads), now)
        if before:
            state.ordered, state.anew, state.let_go = before.ordered, before.anew, before.let_go
        # What broke before the node was told to try again is no news.
        state.broken = {name: why for name, why in broken.items() if name in state.ordered}
        lost = [
            name for name, each in self._nodes.items() if now - max(each.seen, self._woke) > self.settings.lost_after_s
        ]
        for name in lost:
            self.forget(name, place=False)
        for name in list(self._replaced):
            collection = self._collections[name]
            collection.leaving = {version: kept for version, kept in collection.leaving.items() if kept[1] > now}
            if not collection.leaving:
                self._replaced.discard(name)
        if self._placed is None:
            waited = now - self._first_seen
            if len(self._nodes) < self.settings.expect_nodes and waited < self.settings.settle_s:
                return None
        new = before is None or before.cores != cores
        if self._placed is None or new or lost or now - self._placed >= self._pause_s():
            self.place(joined=None if before else node)
        return self._order(node)

    def forget(self, node: str, *, place: bool = True) -> None:
        """The node is gone. Its shards get homes elsewhere."""
        if self._nodes.pop(node, None) is not None and place and self._placed is not None:
            self.place()

    def place(self, *, joined: str | None = None) -> None:
        """Homes for all shards, as near to those that they have as balance allows. `joined` reported for the first time."""
        self._placed, self._due = self._now(), False
        for name in self.unreadable.keys() - self._collections.keys():
            self._read(name)
        sizes: dict[str, int] = {}
        copies: dict[str, int] = {}
        for name, collection in self._collections.items():
            for manifest in collection.manifests():
                for number, shard in enumerate(manifest.shards):
                    place = f"{name}/{number}"
                    sizes[place] = max(sizes.get(place, 0), shard.bytes)
                    copies[place] = max(copies.get(place, 1), min(manifest.copies, len(self._nodes)))
        cores = {name: node.cores for name, node in self._nodes.items()}
        if not cores:
            self._set_homes({})
            return
        loads = self._loads()
        # Of few shards on many nodes none is so large by its bytes alone that it gets another copy.
        each = self.settings.idle_share * min(
            sum(cores.values()) / max(sum(sizes.values()), 1), min(cores.values()) / max(sizes.values(), default=1)
        )
        self._set_homes(
            chiplet.place(
                {place: loads.get(place, 0.0) + each * size for place, size in sizes.items()},
                cores,
                current=self._with(joined) if self._homes else self._as_held(sizes),
                copies=copies,
                saturation=self.settings.saturation,
                relax=self.settings.relax,
            )
        )
        self._took = self._now() - self._placed

    def catalogue(self) -> Catalogue:
        """What serves. Shards without a home are there, with no holders."""
        for name, collection in self._collections.items():
            live = collection.live
            if live and name not in self._entries:
                holders = (self._homes.get(f"{name}/{shard}", ()) for shard in range(len(live.shards)))
                self._entries[name] = Entry(
                    live.version, live.dim, live.metric, live.rows, tuple(tuple(sorted(nodes)) for nodes in holders)
                )
        return {name: self._entries[name] for name, collection in self._collections.items() if collection.live}

    def propose(self, name: str, version: int | None) -> Manifest:
        """The version is to be loaded everywhere: the newest, if none is named. `PublishError` says why it cannot be."""
        if version is None:
            versions = self._storage.versions(name)
            if not versions:
                raise PublishError(f"{name} has no version that is whole; build one first")
            version = versions[-1]
        manifest = self._storage.manifest(name, version)
        for number, shard in enumerate(manifest.shards):
            path = self._storage.shard(manifest, number)
            size = path.stat().st_size if path.is_file() else None
            if size != shard.bytes:
                has = "is not there" if size is None else f"has {size} bytes"
                raise PublishError(f"{path} {has}; the manifest says {shard.bytes}")
        collection = self._collections.setdefault(name, _Collection())
        if collection.candidate:
            raise PublishError(f"version {collection.candidate.version} of {name} is being loaded; wait for it")
        if any(held.version == version and held != manifest for held in collection.manifests()):
            raise PublishError(
                f"nodes hold another version {version} of {name}, which was built anew; build the next one"
            )
        collection.candidate = manifest
        keys = {manifest.key(number) for number in range(len(manifest.shards))}
        for node in self._nodes.values():
            node.ordered -= keys
            node.anew |= keys & node.broken.keys()
            node.broken = {name: why for name, why in node.broken.items() if name not in keys}
        # Otherwise its homes are those of the version before, until they are balanced the next time.
        self._due |= not self._has_homes(manifest)
        return manifest

    def loaded(self, manifest: Manifest) -> bool:
        """Whether each home of each of its shards holds it, and routers know. `PublishError` if one cannot."""
        all_held = bool(self._nodes) and self._has_homes(manifest)
        for number in range(len(manifest.shards)):
            wanted = manifest.key(number)
            homes = self._homes.get(f"{manifest.collection}/{number}", {})
            for node in homes:
                state = self._nodes.get(node)
                if state and wanted in state.broken:
                    raise PublishError(f"{node} cannot load {wanted}: {state.broken[wanted]}")
                all_held &= state is not None and wanted in state.told
        return all_held

    def missing(self, manifest: Manifest) -> list[str]:
        """What is not loaded yet, as `shard on node`."""
        return [
            f"{manifest.key(number)} on {node}"
            for number in range(len(manifest.shards))
            for node in self._homes.get(f"{manifest.collection}/{number}") or ("a node yet to be chosen",)
            if node not in self._nodes or manifest.key(number) not in self._nodes[node].told
        ]

    def switch(self, manifest: Manifest) -> None:
        """The version serves from now on, and after a restart."""
        collection = self._collections[manifest.collection]
        before = collection.live
        previous = collection.previous if before is None or before.version == manifest.version else before.version
        self._storage.set_live(manifest.collection, manifest.version, previous)
        if before and before.version != manifest.version:
            collection.leaving[before.version] = (before, self._now() + self.settings.keep_previous_s)
            self._replaced.add(manifest.collection)
        collection.leaving.pop(manifest.version, None)
        collection.live, collection.previous, collection.candidate = manifest, previous, None
        self.unreadable.pop(manifest.collection, None)
        self._entries.pop(manifest.collection, None)
        self.epoch += 1

    def withdraw(self, manifest: Manifest) -> None:
        """The proposed version will not serve."""
        collection = self._collections.get(manifest.collection)
        if collection and collection.candidate == manifest:
            collection.candidate = None
            live = collection.live
            if live is None:
                del self._collections[manifest.collection]
            if live is None or len(manifest.shards) > len(live.shards) or manifest.copies > live.copies:
                self._due = True

    def previous(self, name: str) -> int:
        """The version that a rollback goes to."""
        collection = self._collections.get(name)
        if collection is None or collection.previous is None:
            raise PublishError(f"{name} has no version before this one")
        return collection.previous

    def status(self) -> dict[str, object]:
        """All of it, for people."""
        now = self._now()
        loads: defaultdict[str, float] = defaultdict(float)
        for place, load in self._loads().items():
            loads[place.rpartition("/")[0]] += load
        return {
            "epoch": self.epoch,
            "nodes": {
                name: {
                    "cores": node.cores,
                    "held": len(node.held),
                    "load": round(sum(node.loads.values()), 3),
                    "seen_s_ago": round(now - node.seen, 1),
                    "broken": dict(node.broken),
                }
                for name, node in sorted(self._nodes.items())
            },
            "collections": {
                name: {
                    "version": collection.live.version if collection.live else None,
                    "previous": collection.previous,
                    "loading": collection.candidate.version if collection.candidate else None,
                    "rows": collection.live.rows if collection.live else 0,
                    "load": round(loads[name], 3),
                    "shards": [
                        self._homes.get(f"{name}/{shard}", {})
                        for shard in range(len(collection.live.shards) if collection.live else 0)
                    ],
                }
                for name, collection in sorted(self._collections.items())
            },
            "unreadable": self.unreadable,
        }

    def _read(self, name: str) -> None:
        """What serves of a collection, as storage says."""
        try:
            version, previous = self._storage.live(name)
            self._collections[name] = _Collection(self._storage.manifest(name, version), previous)
        except StorageError as why:
            self.unreadable[name] = str(why)
        else:
            self.unreadable.pop(name, None)
            self.epoch += 1

    def _pause_s(self) -> float:
        """Between two placings. Where publishes ask for them, placing is at most a fifth of what the map does."""
        return min(4 * self._took, self.settings.rebalance_s) if self._due else self.settings.rebalance_s

    def _loads(self) -> dict[str, float]:
        """Of each `collection/shard`, over all nodes and versions."""
        loads: defaultdict[str, float] = defaultdict(float)
        for node in self._nodes.values():
            for name, load in node.loads.items():
                collection, _, shard = parts(name)
                loads[f"{collection}/{shard}"] += load
        return loads

    def _as_held(self, places: Iterable[str]) -> dict[str, dict[str, float]]:
        """After a restart: homes are the nodes that hold a shard."""
        holders: defaultdict[str, list[str]] = defaultdict(list)
        for name in sorted(self._nodes):
            for key in self._nodes[name].held:
                holders[key].append(name)
        held: dict[str, dict[str, float]] = {}
        for place in places:
            collection, _, shard = place.rpartition("/")
            live = self._collections[collection].live
            if live and int(shard) < len(live.shards):
                there = holders.get(live.key(int(shard)))
                if there:
                    held[place] = {name: 1 / len(there) for name in there}
        return held

    def _with(self, joined: str | None) -> dict[str, dict[str, float]]:
        """The homes as they are for a map that a node has joined."""
        homes = dict(self._homes)
        if joined is None:
            return homes
        held = self._nodes[joined].held
        if not held:
            # A home that is meant for less than half of its even part is one for want of a node: now there is another.
            return {
                place: {node: part for node, part in nodes.items() if part >= 0.5 / len(nodes)}
                for place, nodes in homes.items()
            }
        # After a restart it may hold what a home does not hold yet.
        live = [collection.live for collection in self._collections.values() if collection.live]
        for manifest in live:
            for number in range(len(manifest.shards)):
                wanted, place = manifest.key(number), f"{manifest.collection}/{number}"
                ready = [
                    home for home in homes.get(place, ()) if home in self._nodes and wanted in self._nodes[home].held
                ]
                if wanted in held and joined not in ready and len(ready) < len(homes.get(place, ())):
                    there = [*ready, joined]
                    homes[place] = {home: 1 / len(there) for home in there}
        return homes

    def _set_homes(self, homes: dict[str, dict[str, float]]) -> None:
        none: dict[str, float] = {}
        moved = [
            place
            for place in homes.keys() | self._homes.keys()
            if homes.get(place, none).keys() != self._homes.get(place, none).keys()
        ]
        for place in moved:
            self._entries.pop(place.rpartition("/")[0], None)
        self.epoch += bool(moved)
        # One object for each name: pickle writes it once, and a catalogue names nodes often.
        names = {name: name for name in self._nodes}
        self._homes = {
            place: {names.get(node, node): part for node, part in nodes.items()} for place, nodes in homes.items()
        }
        at: defaultdict[str, list[str]] = defaultdict(list)
        for place, nodes in self._homes.items():
            for node in nodes:
                at[node].append(place)
        self._homes_at = dict(at)

    def _has_homes(self, manifest: Manifest) -> bool:
        """Whether each of its shards has as many homes as it asks for."""
        least = min(manifest.copies, len(self._nodes))
        return all(
            len(self._homes.get(f"{manifest.collection}/{number}", ())) >= max(least, 1)
            for number in range(len(manifest.shards))
        )

    def _order(self, node: str) -> list[Wanted]:
        """What the node shall hold."""
        state, now = self._nodes[node], self._now()
        let_go, state.let_go = state.let_go, {}
        wanted: dict[str, Wanted] = {}
        for place in self._homes_at.get(node, ()):
            name, _, number = place.rpartition("/")
            for manifest in self._manifests(name):
                if int(number) < len(manifest.shards):
                    shard = Wanted(name, manifest.version, int(number))
                    wanted[shard.key] = shard
        for key in state.held - wanted.keys():
            shard = Wanted(*parts(key))
            if shard.collection in self.unreadable:
                # It may be what serves, once storage can be read again.
                wanted[key] = shard
            elif any(
                each.version == shard.version and shard.shard < len(each.shards)
                for each in self._manifests(shard.collection)
            ):
                if not self._all_homes_hold(shard):
                    wanted[key] = shard
                    continue
                until = let_go.get(key, now + self.settings.drop_after_s)
                if not self._all_homes_hold(shard, max(until, self._woke)):
                    state.let_go[key] = until
                    wanted[key] = shard
        for key in state.anew:
            wanted.pop(key, None)
        state.ordered, state.anew = frozenset(wanted), frozenset()
        # From here on nobody counts on what the node is told to let go of.
        state.held &= state.ordered
        state.told &= state.ordered
        return list(wanted.values())

    def _manifests(self, collection: str) -> list[Manifest]:
        """Those that nodes hold or load."""
        known = self._collections.get(collection)
        return known.manifests() if known else []

    def _all_homes_hold(self, shard: Wanted, since: float = -math.inf) -> bool:
        """Whether there are homes, and each has said at that time or later that routers know that it holds the shard."""
        homes = [self._nodes.get(home) for home in self._homes.get(f"{shard.collection}/{shard.shard}", ())]
        return bool(homes) and all(home and shard.key in home.told and home.seen >= since for home in homes)
