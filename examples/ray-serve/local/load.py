"""Load on a cluster: searches that come when they come, whatever became of those before them.

Each search has a time at which it is due. Its latency counts from then on, so that a cluster that stalls is charged for
all searches that would have come meanwhile.
"""

import asyncio
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import grpc
import numpy as np
import numpy.typing as npt

from chiplet_serve import search_pb2, search_pb2_grpc

#: A search of collection number `at` with vector number `row`: returns what became of it.
Ask = Callable[[int, int], Awaitable["Outcome"]]


@dataclasses.dataclass(frozen=True)
class Outcome:
    #: "answered", "partial", or the name of the gRPC status.
    what: str
    ids: tuple[int, ...] = ()
    version: int = 0
    #: By the cluster, of its shards, and by the client, of the whole.
    retries: int = 0
    client_retries: int = 0
    #: Microseconds, if asked for.
    hops: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Run:
    """What a load came to."""

    seconds: float = 0.0
    outcomes: Counter[str] = dataclasses.field(default_factory=Counter)
    retries: int = 0
    client_retries: int = 0
    #: Searches that were answered with other rows than `truth` names.
    wrong: int = 0
    #: Answered or not, later than their deadline by more than `grace_s`.
    beyond: int = 0
    #: Milliseconds, of those answered.
    latencies: list[float] = dataclasses.field(default_factory=list)
    versions: Counter[int] = dataclasses.field(default_factory=Counter)
    hops: list[dict[str, int]] = dataclasses.field(default_factory=list)

    @property
    def answered(self) -> int:
        return self.outcomes["answered"]

    @property
    def failed(self) -> int:
        return self.outcomes.total() - self.outcomes["answered"] - self.outcomes["partial"]

    def quantile(self, part: float) -> float:
        return float(np.quantile(self.latencies, part)) if self.latencies else float("nan")

    def __str__(self) -> str:
        said = ", ".join(f"{count} {what}" for what, count in sorted(self.outcomes.items()))
        return (
            f"{self.answered / self.seconds:.0f}/s: {said}; {self.retries} shards asked again, "
            f"{self.client_retries} searches sent again, {self.wrong} wrong, {self.beyond} beyond the deadline; "
            f"p50 {self.quantile(0.5):.1f} ms, p99 {self.quantile(0.99):.1f} ms"
        )


class GrpcClient:
    """One channel, as an asynchronous context.

    A search that finds no ingress (UNAVAILABLE) is sent again until its deadline: it changes nothing.
    """

    def __init__(
        self,
        port: int,
        collections: Sequence[str],
        vectors: npt.NDArray[np.float32],
        *,
        k: int = 10,
        timeout_s: float = 2.0,
        allow_partial: bool = False,
        hops: bool = False,
    ) -> None:
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", [("grpc.enable_retries", 0)])
        self._stub = search_pb2_grpc.SearchStub(self._channel)
        self._collections, self._rows = collections, [row.tobytes() for row in vectors]
        self._k, self.timeout_s, self._partial, self._hops = k, timeout_s, allow_partial, hops

    async def ask(self, at: int, row: int) -> Outcome:
        end = time.monotonic() + self.timeout_s
        again = 0
        while True:
            left = max(end - time.monotonic(), 0.001)
            request = search_pb2.FindRequest(
                collection=self._collections[at],
                vector=self._rows[row],
                k=self._k,
                timeout_ms=max(1, int(left * 1000)),
                allow_partial=self._partial,
                hops=self._hops,
            )
            try:
                said = await self._stub.Find(request, timeout=left + 0.25)
            except grpc.aio.AioRpcError as why:
                if why.code() is grpc.StatusCode.UNAVAILABLE and time.monotonic() < end:
                    again += 1
                    await asyncio.sleep(0.02)
                    continue
                return Outcome(why.code().name, client_retries=again)
            what = "partial" if said.missing_shards else "answered"
            hops = {field.name: value for field, value in said.hops.ListFields()}
            return Outcome(what, tuple(said.ids), said.version, said.retries, again, hops)

    async def __aenter__(self) -> "GrpcClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()


async def offer(
    ask: Ask,
    rate: float,
    seconds: float,
    *,
    weights: npt.NDArray[np.float64],
    rows: int,
    timeout_s: float,
    truth: Callable[[int, int, Outcome], bool] | None = None,
    seed: int = 0,
    stop: threading.Event | None = None,
    grace_s: float = 0.25,
) -> Run:
    """Poisson arrivals at `rate` a second for `seconds`, or until `stop`. Collections are drawn by `weights`."""
    draw = np.random.default_rng(seed)
    run, open_tasks = Run(), set[asyncio.Task[None]]()
    parts = weights / weights.sum()

    async def one(due: float) -> None:
        at, row = int(draw.choice(len(parts), p=parts)), int(draw.integers(rows))
        _count(run, due, await ask(at, row), timeout_s + grace_s, truth, at, row)

    began = due = time.monotonic()
    while due - began < seconds and not (stop and stop.is_set()):
        due += float(draw.exponential(1 / rate))
        if (wait := due - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(one(due))
        open_tasks.add(task)
        task.add_done_callback(open_tasks.discard)
    run.seconds = time.monotonic() - began
    if open_tasks:
        await asyncio.wait(open_tasks)
    return run


async def saturate(
    ask: Ask, clients: int, seconds: float, *, weights: npt.NDArray[np.float64], rows: int, seed: int = 0
) -> Run:
    """`clients` that ask again as soon as they are answered: how much goes through at most."""
    draw = np.random.default_rng(seed)
    run, parts = Run(), weights / weights.sum()
    began = time.monotonic()

    async def client() -> None:
        while (due := time.monotonic()) - began < seconds:
            at, row = int(draw.choice(len(parts), p=parts)), int(draw.integers(rows))
            _count(run, due, await ask(at, row), float("inf"), None, at, row)

    await asyncio.gather(*(client() for _ in range(clients)))
    run.seconds = time.monotonic() - began
    return run


def zipf(count: int, skew: float = 1.0) -> npt.NDArray[np.float64]:
    """Collection number n is asked for 1 / (n + 1)^skew as often as the first."""
    return np.arange(1, count + 1, dtype=np.float64) ** -skew


def _count(
    run: Run,
    due: float,
    outcome: Outcome,
    latest_s: float,
    truth: Callable[[int, int, Outcome], bool] | None,
    at: int,
    row: int,
) -> None:
    took = time.monotonic() - due
    run.outcomes[outcome.what] += 1
    run.retries += outcome.retries
    run.client_retries += outcome.client_retries
    run.beyond += took > latest_s
    if outcome.what == "answered":
        run.latencies.append(took * 1e3)
        run.versions[outcome.version] += 1
        if outcome.hops:
            run.hops.append({"client": round(took * 1e6), **outcome.hops})
        run.wrong += bool(truth) and not truth(at, row, outcome)  # type: ignore[misc]
