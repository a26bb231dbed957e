"""The application: what `serve.yaml` builds, with its arguments."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from ray import serve

from .alpha import shards
from .ingress import Ingress
from .search import SearchSettings
from .shard_map import MapSettings


class Arguments(BaseModel):
    """`args` of the application in a Serve file. An unknown key is an error, where Serve itself would ignore it."""

    model_config = ConfigDict(extra="forbid")

    #: The shared storage, mounted at the same path on each node.
    root: str
    #: Cpus of a node's executor by number; those that its process may use, unless given.
    cpus: list[int] | None = None
    #: Threads of a node's executor; one a core, unless given.
    workers: int | None = None
    #: "domain", "core" or "none": see chiplet.Executor.
    pin: str | None = None
    #: Seconds between two reports of a node.
    stats_period_s: float = Field(1.0, gt=0)
    search: SearchSettings = SearchSettings()
    map: MapSettings = MapSettings()

    @model_validator(mode="after")
    def _times_fit(self) -> Self:
        """The map learns by reports: what it waits for takes two of them."""
        for name in ("lost_after_s", "drop_after_s"):
            if getattr(self.map, name) < 2 * self.stats_period_s:
                raise ValueError(f"map.{name} must be at least twice stats_period_s, which is {self.stats_period_s:g}")
        return self


def build(args: Arguments) -> serve.Application:
    """Two deployments: `Ingress` and `Shards`. How many replicas each has is said in the Serve file."""
    nodes = shards(
        args.root,
        args.map.model_dump(),
        stats_period_s=args.stats_period_s,
        options={"max_ongoing_requests": 1000, "num_replicas": 1, "graceful_shutdown_timeout_s": 20},
    ).bind(args.root, cpus=args.cpus, workers=args.workers, pin=args.pin)
    # Its own bound is lower and says when to come back; this one is for what never gets there.
    entry = serve.deployment(
        name="Ingress",
        max_ongoing_requests=2 * args.search.max_open,
        max_queued_requests=2 * args.search.max_open,
        backpressure_config={"status_code": 429, "retry_after_s": 1},
    )(Ingress)
    return entry.bind(nodes, args.search.model_dump())
