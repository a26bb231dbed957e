"""The map as an actor: the only one of its deployment, asked by nodes, routers and people."""

import asyncio
import time
from typing import Any

from .catalogue import Change, Changes
from .errors import PublishError
from .node import Wanted
from .shard_map import MapSettings, ShardMap
from .storage import Storage

#: Seconds after which a router that waits for news is told that there is none.
_POLL_S = 10.0


class MapActor:
    """If it dies Serve starts another, which reads from storage what serves, and learns from nodes what they hold."""

    def __init__(self, root: str, settings: dict[str, Any]) -> None:
        self._map = ShardMap(Storage(root), MapSettings(**settings))
        # Another than that of any map before it: a router that knew that one shall see that this one differs.
        self._map.epoch = time.time_ns()
        self._changes = Changes(self._map.epoch)
        #: Routers wait for another epoch, publishers for reports: there are many of both, and reports come all the time.
        self._other_epoch, self._news = asyncio.Condition(), asyncio.Condition()
        self._told_epoch = self._map.epoch

    async def report(
        self, node: str, cores: int, held: list[str], told: list[str], broken: dict[str, str], loads: dict[str, float]
    ) -> list[Wanted] | None:
        order = self._map.report(node, cores, held, told, broken, loads)
        await self._tell()
        return order

    async def catalogue(self, known: int) -> Change:
        """What serves otherwise than at the epoch that is known, as soon as there is another."""
        try:
            async with asyncio.timeout(_POLL_S), self._other_epoch:
                await self._other_epoch.wait_for(lambda: self._map.epoch != known)
        except TimeoutError:
            pass
        return self._changes.since(known, self._map.epoch, self._map.catalogue)

    async def publish(self, collection: str, version: int | None, timeout_s: float) -> dict[str, Any]:
        """Loads a version everywhere, then lets it serve. `PublishError` if it cannot; the one before it then goes on."""
        self._must_be_alone()
        manifest = self._map.propose(collection, version)
        await self._tell()
        try:
            async with asyncio.timeout(timeout_s), self._news:
                await self._news.wait_for(lambda: self._map.loaded(manifest))
            self._must_be_alone()
            self._map.switch(manifest)
        except TimeoutError:
            waits = self._map.missing(manifest)
            self._map.withdraw(manifest)
            raise PublishError(
                f"version {manifest.version} of {collection} was not loaded within {timeout_s:g} s; {len(waits)} shards wait: "
                f"{', '.join(waits[:3])}"
            ) from None
        except BaseException:
            self._map.withdraw(manifest)
            raise
        finally:
            await self._tell()
        return {
            "collection": collection,
            "version": manifest.version,
            "rows": manifest.rows,
            "shards": len(manifest.shards),
        }

    async def rollback(self, collection: str, timeout_s: float) -> dict[str, Any]:
        """Lets the version serve again that served before."""
        return await self.publish(collection, self._map.previous(collection), timeout_s)

    async def status(self) -> dict[str, Any]:
        return self._map.status()

    def others(self) -> list[str]:
        """Maps of the same cluster besides this one: while code or settings change there are two."""
        return []

    def _must_be_alone(self) -> None:
        """The other map has read already what serves: it would never know of a version that serves by this one's word."""
        if self.others():
            raise PublishError(
                "the cluster's code or settings are being changed; publish when `serve status` says RUNNING"
            )

    async def _tell(self) -> None:
        if self._map.epoch != self._told_epoch:
            self._told_epoch = self._map.epoch
            async with self._other_epoch:
                self._other_epoch.notify_all()
        async with self._news:
            self._news.notify_all()
