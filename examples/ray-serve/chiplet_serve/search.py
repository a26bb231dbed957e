"""A search of a collection: each shard is asked, what fails is asked again elsewhere, and the nearest of all are merged.

A shard is asked again, while the deadline allows it,

* at another replica, if the one that had it is lost, does not hold it any more, or is overloaded;
* at another replica *too*, if the first takes longer than nearly all answers do, or half of the time that is left
  (`hedge.py`); the first answer counts;
* at the same ones a little later, if no replica holds it and the caller wants all shards.

If no replica holds it because another version serves by now, the whole search begins anew with that one.
"""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from . import errors
from .batch import Answer, Ask, Batcher, Hops, Lost, NoHolder, Refusal, Route
from .hedge import Hedges
from .shard_map import Catalogue, Entry
from .storage import key
from .wire import NOT_HERE, Refused

#: Seconds between two tries of a shard that no replica holds, and at most between two where replicas are lost.
_PAUSE_S = 0.02


class SearchSettings(BaseModel):
    """Bounds of what callers may ask for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: Searches that an ingress has open at once; more are refused with `Overloaded`.
    max_open: int = Field(512, ge=1)
    max_k: int = Field(1000, ge=1)
    max_ef: int = Field(10_000, ge=1)
    default_timeout_s: float = Field(1.0, gt=0)
    max_timeout_s: float = Field(60.0, gt=0)
    #: Searches that travel together at most; 1 sends each by itself.
    batch: int = Field(64, ge=1, le=4096)
    gather_s: float = Field(0.002, ge=0, le=1)
    #: Part of a collection's work at the nodes that hedges may add: see `hedge.py`. 0 is for none.
    hedge: float = Field(0.05, ge=0, le=1)


class _Query(NamedTuple):
    collection: str
    row: npt.NDArray[np.float32]
    k: int
    ef: int | None
    #: By `time.monotonic`.
    deadline: float
    allow_partial: bool


class Result(NamedTuple):
    ids: npt.NDArray[np.int64]
    distances: npt.NDArray[np.float32]
    version: int
    #: Shards that did not answer; empty unless a partial answer is allowed.
    missing: list[int]
    #: How often a shard was asked again.
    retries: int
    #: Of the shard that was back last.
    hops: Hops | None


class Searcher:
    """For one event loop. `catalogue` gives what serves now."""

    def __init__(self, batcher: Batcher, catalogue: Callable[[], Catalogue], settings: SearchSettings) -> None:
        self.settings = settings
        self.open = 0
        #: How often shards were asked again since the start, also for searches that failed.
        self.retries = 0
        self._batcher = batcher
        self._catalogue = catalogue
        self._hedges = Hedges(settings.hedge, catalogue)
        #: Mean time of a search, in seconds: after so long there is room again.
        self._mean_s = 0.01

    async def search(
        self,
        collection: str,
        vector: npt.ArrayLike | bytes,
        *,
        k: int = 10,
        ef: int | None = None,
        timeout_s: float | None = None,
        allow_partial: bool = False,
    ) -> Result:
        """The `k` nearest rows. Bytes are float32, little-endian. Raises one of `errors.SearchError`."""
        began = time.monotonic()
        entry = self._entry(collection)
        row = self._checked(entry, vector, k, ef)
        allowed = self.settings.default_timeout_s if timeout_s is None else timeout_s
        if not allowed > 0:
            raise errors.DeadlinePassed("the deadline had passed when the search came")
        if self.open >= self.settings.max_open:
            raise errors.Overloaded(
                f"{self.open} searches are open at this ingress, which is all that it takes", max(self._mean_s, 0.001)
            )
        deadline = began + min(allowed, self.settings.max_timeout_s)
        self.open += 1
        try:
            while True:
                try:
                    query = _Query(collection, row, k, ef, deadline, allow_partial)
                    result = await self._all_shards(query, entry)
                    break
                except _Replaced:
                    entry = self._entry(collection)
                    row = self._checked(entry, vector, k, ef)
        finally:
            self.open -= 1
        self._mean_s += (time.monotonic() - began - self._mean_s) / 16
        return result

    def _entry(self, collection: str) -> Entry:
        catalogue = self._catalogue()
        try:
            return catalogue[collection]
        except KeyError:
            raise errors.UnknownCollection(f"there is no collection {collection!r} among {len(catalogue)}") from None

    def _checked(self, entry: Entry, vector: npt.ArrayLike | bytes, k: int, ef: int | None) -> npt.NDArray[np.float32]:
        if isinstance(vector, bytes):
            if len(vector) % 4:
                raise errors.BadQuery(f"the vector has {len(vector)} bytes: float32 have 4 each")
            vector = np.frombuffer(vector, "<f4")
        try:
            given = np.asarray(vector)
        except (ValueError, TypeError, OverflowError):
            given = np.asarray(None)
        # numpy would make numbers of strings.
        if given.dtype.kind not in "fiub":
            raise errors.BadQuery("the vector is no list of numbers")
        with np.errstate(over="ignore"):
            row = np.ascontiguousarray(given, dtype=np.float32)
        if given.shape != (entry.dim,):
            raise errors.BadQuery(
                f"the vector's shape is {list(given.shape)}; the collection's rows have {entry.dim} components"
            )
        if not np.isfinite(row).all():
            raise errors.BadQuery("a component of the vector is NaN, or no finite float32")
        if not 1 <= k <= self.settings.max_k:
            raise errors.BadQuery(f"k is {k}; it may be 1 to {self.settings.max_k}")
        if ef is not None and not 1 <= ef <= self.settings.max_ef:
            raise errors.BadQuery(f"ef is {ef}; it may be 1 to {self.settings.max_ef}")
        return row

    async def _all_shards(self, query: _Query, entry: Entry) -> Result:
        shards = [_Shard(self, query, entry, number) for number in range(len(entry.holders))]
        if len(shards) == 1:
            answers = [await shards[0].answer()]
        else:
            tasks = [asyncio.ensure_future(shard.answer()) for shard in shards]
            try:
                answers = await asyncio.gather(*tasks)
            except BaseException:
                # One failed for good: the others work for nobody.
                for task in tasks:
                    task.cancel()
                raise
        missing = [number for number, answer in enumerate(answers) if answer is None]
        got = [answer for answer in answers if answer is not None]
        if missing and not got:
            # What became of one says more than that all are missing.
            raise next(shard.why for shard in shards if shard.why)
        ids, distances = merge([answer.ids for answer in got], [answer.distances for answer in got], query.k)
        last = max((answer.hops for answer in got), key=lambda hops: hops.gather + hops.call)
        return Result(ids, distances, entry.version, missing, sum(shard.retries for shard in shards), last)


def merge(
    ids: list[npt.NDArray[np.int64]], distances: list[npt.NDArray[np.float32]], k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The `k` nearest of several answers, the lower id first where distances are equal. Fillers are left out."""
    all_ids, all_distances = np.concatenate(ids), np.concatenate(distances)
    real = all_ids >= 0
    all_ids, all_distances = all_ids[real], all_distances[real]
    order = np.lexsort((all_ids, all_distances))[:k]
    return all_ids[order], all_distances[order]


class _Replaced(Exception):
    """The version that is searched serves no more."""


class _Shard:
    """One shard of one search."""

    def __init__(self, searcher: Searcher, query: _Query, entry: Entry, number: int) -> None:
        self.retries = 0
        #: Why it is missing.
        self.why: errors.SearchError | None = None
        self._searcher = searcher
        self._collection = query.collection
        self._allow_partial = query.allow_partial
        self._version = entry.version
        self._holders = entry.holders[number]
        self._number = number
        shard = key(query.collection, entry.version, number)
        self._ask = Ask(shard, query.row, query.k, query.ef, query.deadline)
        self._avoid: frozenset[str] = frozenset()
        self._last: Refused | None = None
        self._unheld = False
        self._lost = 0

    async def answer(self) -> Answer | None:
        """None says that the shard is missing, and that the caller allows it."""
        try:
            return await self._until_deadline()
        except (errors.BadQuery, errors.UnknownCollection):
            raise
        except errors.SearchError as why:
            if self._allow_partial:
                self.why = why
                return None
            raise

    async def _until_deadline(self) -> Answer:
        while True:
            if time.monotonic() >= self._ask.deadline:
                raise self._late()
            try:
                said = await self._one_try()
            except NoHolder:
                self._unheld = not self._avoid
                if self._avoid:
                    # All that hold it were asked. Those that were overloaded may have room again.
                    if self._last and self._last.why == errors.Overloaded.code:
                        raise self._last.error() from None
                    self._avoid = frozenset()
                else:
                    self._follow(unheld=True)
                    if self._allow_partial:
                        raise self._missing() from None
                await self._pause()
                continue
            except Lost as why:
                # Serve looks whether the replica lives before it sends anything else there.
                self._last, self._unheld = Refused.of(errors.Failed(str(why))), False
                self._count_retry()
                self._lost += 1
                await self._pause(min(0.0005 * 2 ** min(self._lost, 10), _PAUSE_S))
                continue
            if isinstance(said, Answer):
                return said
            self._refused(said)
            if said.refused.why == errors.DeadlinePassed.code:
                raise self._late()
            if said.refused.why not in (errors.Overloaded.code, NOT_HERE):
                raise said.refused.error()
            if said.refused.why == NOT_HERE:
                self._follow(unheld=True)
            self._count_retry()

    async def _one_try(self) -> Answer | Refusal:
        """What a replica says; where it is late, the first answer of several."""
        hedges, began, asked = self._searcher._hedges, time.monotonic(), 0
        tries: set[asyncio.Future[Answer | Refusal]] = set()
        try:
            for ask, until in hedges.turns(self._collection, self._ask.deadline, self._has_others):
                if ask:
                    tries.add(self._searcher._batcher.ask(Route(self._holders, self._avoid), self._ask))
                    asked += 1
                    if asked > 1:
                        self._count_retry()
                said = await self._first(tries, until)
                if isinstance(said, Answer):
                    if asked == 1:
                        hedges.answered(self._collection, time.monotonic() - began, said.hops.node)
                    else:
                        hedges.hedged(self._collection, said.hops.node)
                if said is not None:
                    return said
            raise self._late()
        finally:
            for each in tries:
                if not each.cancel():
                    # It is back, too late to matter; asyncio complains of an error that nobody looks at.
                    each.exception()

    async def _first(self, tries: "set[asyncio.Future[Answer | Refusal]]", until: float) -> Answer | Refusal | None:
        """The first answer, or what the last one says that has none. None if nobody has answered by then."""
        while True:
            left = max(until - time.monotonic(), 0)
            done, _ = await asyncio.wait(tries, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                tries.discard(each)
                if not tries:
                    return each.result()
                if each.exception() is None:
                    said = each.result()
                    if isinstance(said, Answer):
                        return said
                    # The others may still answer. The next one is not to ask there.
                    self._refused(said)
            if not done:
                return None

    def _has_others(self) -> bool:
        """Whether there is more than one replica that may answer. There is one a node."""
        return len(self._holders) - len(self._avoid) > 1

    def _refused(self, said: Refusal) -> None:
        self._last, self._unheld = said.refused, False
        self._avoid |= {said.replica}

    def _count_retry(self) -> None:
        self.retries += 1
        self._searcher.retries += 1

    async def _pause(self, seconds: float = _PAUSE_S) -> None:
        await asyncio.sleep(min(seconds, max(self._ask.deadline - time.monotonic(), 0)))
        self._follow()

    def _follow(self, *, unheld: bool = False) -> None:
        """The map may have changed: a shard that moved is asked for where it is. `_Replaced` if that is no use."""
        entry = self._searcher._catalogue().get(self._collection)
        if entry is None:
            return
        if entry.version == self._version:
            self._holders = entry.holders[self._number]
        elif unheld:
            raise _Replaced

    def _late(self) -> errors.SearchError:
        if self._unheld or not self._holders:
            return self._missing()
        if self._last and self._last.why not in (errors.DeadlinePassed.code, errors.Overloaded.code):
            return errors.DeadlinePassed(f"shard {self._number} was not answered in time; last: {self._last.message}")
        return errors.DeadlinePassed(f"shard {self._number} was not answered in time")

    def _missing(self) -> errors.ShardsMissing:
        return errors.ShardsMissing(f"no node holds shard {self._number} of {self._collection!r}", 1.0)
