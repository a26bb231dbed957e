"""The deployment that holds shards: one replica a node, each with one executor."""

import asyncio
import logging
from typing import Any

import ray
from ray.serve.metrics import Gauge

from .node import Node, executor
from .storage import Storage
from .wire import Group, Reply

log = logging.getLogger("ray.serve")

#: Seconds between two reports before the replica is ready; afterwards Serve asks.
_FIRST_BEATS_S = 0.2


class Shards:
    """`find_map` gives the handle of the map's actor."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it.
        self, root: str, *, cpus: list[int] | None = None, workers: int | None = None, pin: str | None = None
    ) -> None:
        from ray import serve

        replica = serve.get_replica_context().replica_id.unique_id
        self._node_id = ray.get_runtime_context().get_node_id()
        self._node = Node(replica, Storage(root), executor(cpus, workers, pin=pin))
        self._cores = self._node.cores
        self._map: Any = None
        #: What routers have been told that the node holds.
        self._told: list[str] = []
        self._load_gauge = Gauge(
            "chiplet_node_load", "Part of the node's cores that searches ask for.", tag_keys=("node",)
        )
        self._held_gauge = Gauge("chiplet_node_shards", "Shards that the node holds.", tag_keys=("node",))
        for gauge in (self._load_gauge, self._held_gauge):
            gauge.set_default_tags({"node": self._node_id})
        # A replica that is ready can answer: what the map wants it to hold is loaded first.
        while not await self.beat():
            await asyncio.sleep(_FIRST_BEATS_S)
        await self._node.settled()

    async def search(self, groups: list[Group], vectors: bytes, avoid: frozenset[str]) -> Reply:
        """`avoid` is for the request router."""
        return await self._node.search(groups, vectors)

    async def map_handle(self) -> Any:
        """For those who are no replica of this deployment: routers, and people at a terminal."""
        return self.find_map()

    async def beat(self) -> bool:
        """Tells the map how the node is, and follows its order. False if the map has none yet, or does not answer."""
        loads = self._node.loads()
        try:
            self._map = self._map or self.find_map()
            order = await self._map.report.remote(
                self._node_id, self._cores, sorted(self._node.offered), self._told, self._node.broken, loads
            )
        except (ray.exceptions.RayError, ValueError) as why:
            # It died, is not there yet, or failed. What is held stays and is searched; the next beat tries again.
            log.warning("the map of shards does not answer: %s", why)
            self._map = None
            return False
        self._load_gauge.set(self._part(loads))
        self._held_gauge.set(len(self._node.held))
        if order is None:
            return False
        self._node.order(order)
        return True

    def offers(self) -> list[str]:
        """What routers may ask the node for. They are about to be told."""
        self._told = sorted(self._node.offered)
        return self._told

    def load(self) -> float:
        """Part of the node's cores that searches ask for, served and refused. More than 1 says that it cannot keep up."""
        return self._part(self._node.loads())

    def _part(self, loads: dict[str, float]) -> float:
        return sum(loads.values()) / max(self._cores, 1)

    def find_map(self) -> Any:
        raise NotImplementedError

    def __del__(self) -> None:
        if node := getattr(self, "_node", None):
            node.close()
