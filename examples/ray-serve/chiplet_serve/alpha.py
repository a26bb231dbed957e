"""All that touches what Ray 2.60 calls alpha: request routing, deployment actors, statistics of replicas, scaling by a
policy of one's own, and calls between deployments by gRPC. A newer Ray that changes one of them is followed here.
"""

import math
import random
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import grpc
import ray
from ray import serve
from ray.exceptions import RayActorError, RayTaskError
from ray.serve.config import AutoscalingContext, DeploymentActorConfig, RequestRouterConfig
from ray.serve.exceptions import DeploymentUnavailableError, ReplicaUnavailableError, RequestCancelledError
from ray.serve.handle import DeploymentHandle, DeploymentResponse
from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from .batch import Lost, NoHolder, Send
from .map_actor import MapActor
from .shards import Shards
from .wire import Group, Reply

_MAP = "shard_map"


class HolderRouter(RequestRouter):
    """Sends a batch to the replica with the fewest requests of those that hold all its shards."""

    def initialize_state(self, **_: Any) -> None:
        self._held: dict[Any, tuple[bytes, frozenset[str]]] = {}

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        candidates = list(candidate_replicas)
        if pending_request is None or pending_request.metadata.call_method != "search":
            return [_shuffled(candidates)]
        # Without this Serve asks again at once, and again.
        pending_request.routing_context.should_backoff = True
        groups, _, avoid = pending_request.args
        needs = {group.key for group in groups}
        holders = [each for each in candidates if each.replica_id.unique_id not in avoid and needs <= self._holds(each)]
        if holders:
            return [_shuffled(holders)]
        # Serve would look again until the caller gives up. Callers have better to do: see search.py.
        if not pending_request.future.done():
            self._remove_pending_request_from_indices(pending_request)
            pending_request.future.set_exception(NoHolder(f"no replica holds {', '.join(sorted(needs)[:3])}"))
        # Serve ends the routing of a request that is done when it sees the next candidate.
        return [candidates[:1]]

    def _holds(self, replica: RunningReplica) -> frozenset[str]:
        said = replica.routing_stats.get("holds", b"")
        kept = self._held.get(replica.replica_id)
        if kept is None or kept[0] is not said:
            if len(self._held) > 2 * len(self._replicas) + 8:
                self._held.clear()
            # Serve sends all replicas' lists again where one has changed.
            held = kept[1] if kept and kept[0] == said else unpacked(said)
            kept = self._held[replica.replica_id] = said, held
        return kept[1]


def packed(keys: Iterable[str]) -> bytes:
    """Serve's controller pickles the lists of all replicas for each router: small ones, and not string by string."""
    return zlib.compress("\n".join(keys).encode())


def unpacked(said: bytes) -> frozenset[str]:
    return frozenset(zlib.decompress(said).decode().split("\n") if said else ()) - {""}


def _shuffled(replicas: list[RunningReplica]) -> list[RunningReplica]:
    """Serve takes the first of those with equally many requests."""
    random.shuffle(replicas)
    return replicas


def sender(handle: DeploymentHandle) -> Send:
    """Sends batches to replicas of `handle`, by gRPC and not through Ray's object store."""
    search = handle.options(_by_reference=False, request_serialization="pickle", response_serialization="pickle").search

    async def send(groups: list[Group], vectors: bytes, avoid: frozenset[str]) -> Reply:
        try:
            reply: Reply = await search.remote(groups, vectors, avoid)
            return reply
        except NoHolder:
            raise
        except (RayActorError, ReplicaUnavailableError, DeploymentUnavailableError, RequestCancelledError) as why:
            raise Lost(f"{type(why).__name__}: {why}") from None
        except grpc.RpcError as why:
            raise Lost(f"{why.code().name}: {why.details()}") from None
        except RayTaskError:
            raise
        except RuntimeError as why:
            # What Serve makes of a connection that breaks while the answer begins.
            if "Unexpected error" in str(why):
                raise Lost(str(why)) from None
            raise

    return send


def map_of(handle: DeploymentHandle) -> DeploymentResponse:
    """The handle of the map's actor, for those who are no replica of `Shards`. Ask again when it does not answer."""
    return handle.options(_by_reference=True).map_handle.remote()


class DeployedMapActor(MapActor):
    """`MapActor` with the name that Serve gives it, of which the code's version is a part."""

    def others(self) -> list[str]:
        own = ray.get_runtime_context().get_actor_name()
        all_named = [each["name"] for each in ray.util.list_named_actors(all_namespaces=True)]
        return [name for name in all_named if name != own and _without_version(name) == _without_version(own)]


def _without_version(actor: str | None) -> list[str]:
    """Of `SERVE_DEPLOYMENT_ACTOR::application::deployment::version::name` all but the version."""
    parts = (actor or "").split("::")
    return parts[:-2] + parts[-1:]


class ShardsDeployment(Shards):
    """`Shards` with Serve's hooks."""

    def find_map(self) -> Any:
        return serve.get_deployment_actor(_MAP)

    async def record_routing_stats(self) -> dict[str, Any]:
        """Serve asks each period, and tells all routers what has changed. So it holds only what seldom does."""
        await self.beat()
        return {"holds": packed(self.offers())}

    def record_autoscaling_stats(self) -> dict[str, float]:
        return {"load": self.load()}


def shards(
    root: str, map_settings: Mapping[str, Any], *, stats_period_s: float, options: Mapping[str, Any]
) -> serve.Deployment:
    """The deployment, one replica a node. `options` are Serve's, of `@serve.deployment`."""
    actor = DeploymentActorConfig(
        name=_MAP,
        actor_class=ray.remote(DeployedMapActor),
        init_kwargs={"root": root, "settings": dict(map_settings)},
        # Each router has one call that waits for news, each publish another; of 1,000, Ray's own bound, reports would wait.
        actor_options={"num_cpus": 0, "max_concurrency": 20_000},
    )
    return serve.deployment(
        name="Shards",
        max_replicas_per_node=1,
        deployment_actors=[actor],
        request_router_config=RequestRouterConfig(
            request_router_class=HolderRouter,
            request_routing_stats_period_s=stats_period_s,
            request_routing_stats_timeout_s=max(10.0, 2 * stats_period_s),
        ),
        **options,
    )(ShardsDeployment)


class NodesForLoad:
    """The application's scaling policy: as many replicas of `Shards` as their executors' load asks for.

    Nodes are added where they are asked for more than `high` of their cores, so many that `aim` of them is; one is given up
    where the others would be asked for less than `low`. Between the two nothing happens. Serve waits `upscale_delay_s` and
    `downscale_delay_s` before it follows, and keeps to the least and most replicas.
    """

    def __init__(self, high: float = 0.7, aim: float = 0.55, low: float = 0.4) -> None:
        if not 0 < low < aim < high:
            raise ValueError(f"low, aim and high are {low:g}, {aim:g} and {high:g}: they must rise from above 0")
        self._high, self._aim, self._low = high, aim, low

    def __call__(self, contexts: dict[Any, AutoscalingContext]) -> tuple[dict[Any, float], dict[Any, dict[str, Any]]]:
        wanted: dict[Any, float] = {}
        for deployment, context in contexts.items():
            loads = (context.aggregated_metrics or {}).get("load", {})
            if deployment.name == "Shards" and loads:
                wanted[deployment] = self.nodes(list(loads.values()), context.target_num_replicas)
        return wanted, {}

    def nodes(self, loads: list[float], target: int) -> int:
        """`loads` are the parts of their cores that running nodes are asked for; `target` counts those that start, too."""
        total = sum(loads)
        if total > self._high * target:
            return math.ceil(total / self._aim)
        if target > 1 and total < self._low * (target - 1):
            return target - 1
        return target
