"""Searches that wait for the same nodes travel together.

The first search for a set of nodes leaves at once, with all that come in the same turn of the event loop. While it is
under way others gather, until it is back, `batch` of them wait, or the first has waited `gather_s`. So an idle cluster
adds no wait, a busy one sends few messages, and a node that does not answer holds up nobody for longer than `gather_s`.
"""

import asyncio
import contextvars
import dataclasses
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import Failed, ShardsMissing
from .wire import Found, Group, Refused, Reply

log = logging.getLogger("ray.serve")

#: Sends groups and their vectors to one replica that holds all their shards and is none of those named last.
#: Raises `NoHolder` if there is none, and `Lost` if the replica is.
Send = Callable[[list[Group], bytes, frozenset[str]], Awaitable[Reply]]


class NoHolder(ShardsMissing):
    """No replica holds all the shards of a batch."""


class Lost(Exception):
    """The replica, or the way to it, broke off. Whether it searched is not known; to search again does no harm."""


class Route(NamedTuple):
    """What searches that travel together have in common."""

    #: The nodes that are to hold the shard.
    holders: tuple[str, ...]
    #: Replicas that were asked already and could not answer.
    avoid: frozenset[str]


@dataclasses.dataclass(frozen=True)
class Ask:
    """One search of one shard."""

    key: str
    vector: npt.NDArray[np.float32]
    k: int
    ef: int | None
    #: By `time.monotonic`.
    deadline: float


class Hops(NamedTuple):
    """Where the time of an answer went, in seconds."""

    gather: float
    call: float
    node: float
    executor: float


class Answer(NamedTuple):
    ids: npt.NDArray[np.int64]
    distances: npt.NDArray[np.float32]
    replica: str
    hops: Hops


class Refusal(NamedTuple):
    refused: Refused
    replica: str


#: Seconds after a deadline in which its answer may still be on its way.
_GRACE_S = 0.05

_Waiting = tuple[Ask, "asyncio.Future[Answer | Refusal]", float]


class Batcher:
    """For one event loop. `batch=1` sends each search by itself."""

    def __init__(self, send: Send, *, batch: int = 64, gather_s: float = 0.002) -> None:
        self._send = send
        self._batch = batch
        self._gather_s = gather_s
        self._waiting: defaultdict[Route, list[_Waiting]] = defaultdict(list)
        self._under_way: defaultdict[Route, int] = defaultdict(int)
        self._timers: dict[Route, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        #: Batches and searches sent since the start.
        self.batches = 0
        self.asks = 0

    def ask(self, route: Route, ask: Ask) -> "asyncio.Future[Answer | Refusal]":
        """The answer, `NoHolder`, `Lost`, or `Failed` for what else went wrong. Who gives up cancels it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer | Refusal] = loop.create_future()
        waiting = self._waiting[route]
        waiting.append((ask, future, time.perf_counter()))
        if len(waiting) >= self._batch:
            self._leave(route)
        elif route not in self._timers:
            # Not now: the other shards of this search may go the same way.
            wait_s = self._gather_s if self._under_way.get(route) else 0
            self._timers[route] = loop.call_later(wait_s, self._leave, route)
        return future

    def _leave(self, route: Route) -> None:
        if timer := self._timers.pop(route, None):
            timer.cancel()
        waiting = [each for each in self._waiting.pop(route, ()) if not each[1].done()]
        if not waiting:
            if not self._under_way.get(route):
                self._under_way.pop(route, None)
            return
        self._under_way[route] += 1
        # A batch belongs to none of its searches. In the context of one of them Serve would give all its batches the same
        # id, and of two that are routed at once it answers one.
        task = asyncio.get_running_loop().create_task(self._travel(route, waiting), context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _travel(self, route: Route, waiting: list[_Waiting]) -> None:
        try:
            await self._deliver(waiting, route.avoid)
        finally:
            self._under_way[route] -= 1
            self._leave(route)

    async def _deliver(self, waiting: list[_Waiting], avoid: frozenset[str]) -> None:
        grouped: defaultdict[tuple[str, int, int, int | None], list[_Waiting]] = defaultdict(list)
        for each in waiting:
            ask = each[0]
            grouped[ask.key, len(ask.vector), ask.k, ask.ef].append(each)
        now, left = time.monotonic(), time.perf_counter()
        groups = [
            Group(key, len(members), dim, k, ef, max(ask.deadline for ask, _, _ in members) - now)
            for (key, dim, k, ef), members in grouped.items()
        ]
        vectors = b"".join(ask.vector.tobytes() for members in grouped.values() for ask, _, _ in members)
        sent = True
        try:
            # A node that hangs is waited for no longer than anybody wants its answer.
            reply = await asyncio.wait_for(
                self._send(groups, vectors, avoid), max(group.left for group in groups) + _GRACE_S
            )
            _hand_out(reply, groups, list(grouped.values()), left)
        except TimeoutError:
            _fail(waiting, Lost("a node did not answer before the deadline"))
        except NoHolder as why:
            sent = False
            if len({group.key for group in groups}) == 1:
                _fail(waiting, why)
            else:
                # What the map said of their nodes is old. Each shard by itself has a holder, or truly none.
                await asyncio.gather(*(self._deliver(members, avoid) for members in grouped.values()))
        except Lost as why:
            _fail(waiting, why)
        except Exception as why:
            # Once for all of them: with a stack each, a node that fails would keep the ingress busy.
            log.exception("%d searches failed", len(waiting))
            _fail(waiting, Failed(f"{type(why).__name__}: {why}"))
        except BaseException:
            _fail(waiting, Lost("the ingress is closing"))
            raise
        finally:
            if sent:
                self.batches += 1
                self.asks += len(waiting)


def _hand_out(reply: Reply, groups: list[Group], grouped: list[list[_Waiting]], left: float) -> None:
    """Each search gets its own. ValueError if the reply is none to these groups."""
    if len(reply.groups) != len(groups):
        raise ValueError(f"{reply.replica} answered {len(reply.groups)} groups of {len(groups)}")
    back = time.perf_counter()
    for members, group, said in zip(grouped, groups, reply.groups, strict=True):
        if isinstance(said, Found):
            ids, distances = said.hits(group.n, group.k)
            for at, (_, future, came) in enumerate(members):
                if not future.done():
                    hops = Hops(left - came, back - left, reply.node_s, reply.executor_s)
                    future.set_result(Answer(ids[at], distances[at], reply.replica, hops))
        else:
            for _, future, _ in members:
                if not future.done():
                    future.set_result(Refusal(said, reply.replica))


def _fail(waiting: list[_Waiting], why: Lost | NoHolder | Failed) -> None:
    for _, future, _ in waiting:
        if not future.done():
            # Each its own: one that many raise grows with each of them.
            future.set_exception(type(why)(str(why)))
