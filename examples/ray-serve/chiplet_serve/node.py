"""A node: one executor, and the shards that it holds. It knows nothing of Ray.

The map says which shards to hold. They are opened one after the other in a thread of their own, and checked to the last
byte before the first search. One that is no longer wanted is offered to no router from then on, and removed at the next
order; the executor keeps its memory until no search uses it.
"""

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import chiplet
import numpy as np

from .errors import BadQuery, DeadlinePassed, Failed, Overloaded, SearchError, StorageError
from .storage import Storage, key
from .wire import NOT_HERE, Found, Group, Refused, Reply

log = logging.getLogger("ray.serve")

#: A shard that could not be opened is left alone for this many times as long as the try took. A large file with a fault
#: at its end would else be read again each second.
_REST_TIMES = 10
#: In seconds, and no longer than this: the try may have taken long because the storage hung.
_MOST_REST_S = 300
#: A rest that is shorter is none: that long it takes until the next order, about.
_LEAST_REST_S = 1


class Wanted(NamedTuple):
    """A shard that a node shall hold."""

    collection: str
    version: int
    shard: int

    @property
    def key(self) -> str:
        return key(*self)


class Node:
    """All methods but `close` are for one event loop."""

    def __init__(self, replica: str, storage: Storage, executor: chiplet.Executor) -> None:
        #: Its name in replies: that of the replica.
        self.name = replica
        self.held: set[str] = set()
        #: Why shards could not be opened.
        self.broken: dict[str, str] = {}
        #: When each of these is tried again, with the next order: by `time.monotonic`.
        self._again: dict[str, float] = {}
        self._storage = storage
        self._executor = executor
        self._wanted: dict[str, Wanted] = {}
        self._opener = ThreadPoolExecutor(1, thread_name_prefix="open-shards")
        self._opening: asyncio.Task[None] | None = None

    @property
    def cores(self) -> int:
        return sum(domain["workers"] for domain in self._executor.snapshot()["domains"])

    @property
    def offered(self) -> set[str]:
        """What routers may ask it for."""
        return self.held & self._wanted.keys()

    def order(self, wanted: Iterable[Wanted]) -> None:
        """These shards are to be held, and no others. Returns before they are."""
        before, self._wanted = self._wanted, {each.key: each for each in wanted}
        for gone in self.held - before.keys() - self._wanted.keys():
            self._executor.remove(gone)
            self.held.discard(gone)
        now = time.monotonic()
        self._again = {name: at for name, at in self._again.items() if name in self._wanted}
        # What an earlier try said is no news once a shard is tried again.
        tried = self._opening is None
        self.broken = {
            name: why
            for name, why in self.broken.items()
            if name in self._wanted and not (tried and self._again[name] <= now)
        }
        if tried and not self._wanted.keys() <= self.held | self.broken.keys():
            self._opening = asyncio.get_running_loop().create_task(self._open_all())

    async def settled(self) -> None:
        """Returns when each shard of the last order is held or broken."""
        while self._opening is not None:
            await asyncio.wait([self._opening])

    def loads(self) -> dict[str, float]:
        """Core-seconds a second that each shard asked for in the last ten, served and refused."""
        tables = self._executor.snapshot()["tables"]
        return {table["name"]: table["load_fast"] for table in tables}

    async def search(self, groups: list[Group], vectors: bytes) -> Reply:
        """Answers a batch. A group that fails fails alone."""
        began = time.perf_counter()
        starts = itertools.accumulate((group.n * group.dim for group in groups), initial=0)
        rows = np.frombuffer(vectors, np.float32)
        found = await asyncio.gather(
            *(
                self._search(group, rows[at : at + group.n * group.dim])
                for group, at in zip(groups, starts, strict=False)
            )
        )
        searched = time.perf_counter() - began
        answers = [self._packed(each) for each in found]
        return Reply(self.name, answers, time.perf_counter() - began, searched)

    def close(self) -> None:
        """Waits for searches that run, at most ten seconds."""
        self._opener.shutdown(wait=False, cancel_futures=True)
        self._executor.close(timeout=10)

    async def _search(self, group: Group, rows: np.ndarray[Any, np.dtype[np.float32]]) -> chiplet.Hits | Refused:
        if group.left <= 0:
            return Refused.of(DeadlinePassed("the deadline passed before the node had the search"))
        if group.key not in self.held:
            return Refused(NOT_HERE, f"{self.name} does not hold {group.key}")
        try:
            return await self._executor.asearch(
                group.key, rows.reshape(group.n, group.dim), group.k, ef=group.ef, deadline=group.left, refuse=True
            )
        except (chiplet.UnknownTable, chiplet.Closed) as why:
            # Removed or closed since it was looked up.
            return Refused(NOT_HERE, str(why))
        except Exception as why:
            # Whatever it is: the other groups of the batch have nothing to do with it.
            return Refused.of(self._as_error(why))

    def _as_error(self, why: Exception) -> SearchError:
        match why:
            case chiplet.Overloaded():
                return Overloaded(str(why), why.expected_wait)
            case chiplet.Expired():
                return DeadlinePassed("the deadline passed in the node's queue")
            case ValueError() | TypeError():
                return BadQuery(str(why))
        return Failed(f"{self.name}: {type(why).__name__}: {why}")

    @staticmethod
    def _packed(hits: chiplet.Hits | Refused) -> Found | Refused:
        return hits if isinstance(hits, Refused) else Found(hits.ids.tobytes(), hits.distances.tobytes())

    async def _open_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            # The order may change meanwhile: what is wanted is looked up for each anew.
            while missing := [name for name in self._wanted if name not in self.held and name not in self.broken]:
                name = missing[0]
                wanted, began = self._wanted[name], time.monotonic()
                try:
                    table = await loop.run_in_executor(self._opener, self._open, wanted)
                    if name in self._wanted:
                        self._executor.add(name, table)
                        self.held.add(name)
                except Exception as why:
                    log.warning("%s: %s cannot be opened: %s", self.name, name, why)
                    if name in self._wanted:
                        self.broken[name] = str(why) or type(why).__name__
                        now = time.monotonic()
                        rest_s = min(_REST_TIMES * (now - began), _MOST_REST_S)
                        self._again[name] = now + (rest_s if rest_s > _LEAST_REST_S else 0)
        finally:
            self._opening = None

    def _open(self, wanted: Wanted) -> chiplet.Table:
        manifest = self._storage.manifest(wanted.collection, wanted.version)
        path = self._storage.shard(manifest, wanted.shard)
        said = manifest.shards[wanted.shard]
        table = chiplet.open(path, mmap=True)
        if (len(table), table.dim, table.metric) != (said.rows, manifest.dim, manifest.metric):
            raise StorageError(
                f"{path} has {len(table)} rows of {table.dim}, {table.metric}; the manifest says {said.rows} of {manifest.dim}, "
                f"{manifest.metric}"
            )
        # Reads all of it once: what is damaged is found now and not by a search, and what is whole is in memory.
        table.verify()
        return table


def executor(cpus: list[int] | None, workers: int | None, **options: Any) -> chiplet.Executor:
    """The node's executor. Ray counts cpus and pins nothing, so the executor is told which are the node's.

    `cpus` are their numbers; without them it takes those that this process may use, as cgroups and affinity say.
    """
    if cpus:
        os.sched_setaffinity(0, cpus)
    return chiplet.Executor(max_workers=workers, name="shards", **options)
