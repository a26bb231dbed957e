"""When a second replica is asked for a shard, though the first may still answer: hedged requests.

Dean and Barroso, The Tail at Scale (CACM 56, 2, 2013): ask again once an answer takes longer than nearly all do, for a
few percent of the requests. How long answers take is estimated as RFC 6298 does it for TCP: their mean, and their mean
deviation from it. Answers that were hedged are left out, as there: nobody knows which replica was slow.

Each collection has its own estimate, as some are slow by nature, and its own budget. A budget is in seconds of work at
the nodes, as they report it: a late search is often one that costs much. One more budget, for all collections together,
bounds what happens when all get slow at once.
"""

import dataclasses
import time
from collections.abc import Callable, Collection, Iterator

#: RFC 6298, 2: weights of an answer in the mean and in the deviation.
_ALPHA, _BETA = 1 / 8, 1 / 4
#: Deviations above the mean after which an answer is late. TCP takes four, but waits for a second at least.
_DEVIATIONS = 8
#: Seconds after which an answer may be late at all. A busy core or Python's collector takes up to that.
_LEAST_S = 0.05
#: An answer counts as this many times late at most. Otherwise one of a minute would stop hedging for many searches.
_MOST_LATE = 4
#: Searches whose work a collection, and all of them together, may save up. They start with that: a replica may hang
#: before a collection has had many searches.
_SAVED, _SAVED_BY_ALL = 10, 100
#: Collections that are remembered beyond as many as serve, before those that serve no more are looked for.
_MORE = 1024


@dataclasses.dataclass
class _Estimate:
    mean_s: float
    deviation_s: float
    #: Mean work of a search at the node, and what hedges may still take of it.
    work_s: float
    left_s: float

    def late_s(self) -> float:
        return max(self.mean_s + _DEVIATIONS * self.deviation_s, _LEAST_S)


class Hedges:
    """For one event loop. Hedges may be `part` of a collection's work; 0 is for none."""

    def __init__(
        self, part: float, serving: Callable[[], Collection[str]], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._part = part
        self._serving = serving
        self._now = now
        self._estimates: dict[str, _Estimate] = {}
        #: Of all collections: mean work of a search, and what hedges may still take.
        self._work_s, self._left_s = 0.0, 0.0

    def turns(self, collection: str, deadline: float, others: Callable[[], bool]) -> Iterator[tuple[bool, float]]:
        """What to do next while nobody answers: whether to ask a replica, and until when to wait then.

        The first turn asks. Then follow hedges, each after twice as long: Serve's router does not say which replica it
        took, so a hedge may go to the one that hangs. After half of the time one more is asked, whatever the budget
        says. Without `others` there is none that a hedge could go to.
        """
        ask = True
        if others():
            half = (self._now() + deadline) / 2
            wait_s = self.late_s(collection)
            # Each wait begins now: if this loop was held up, no replica is late for that.
            while (until := self._now() + wait_s) < half:
                yield ask, until
                ask = others() and self._spend(collection)
                if not ask:
                    break
                wait_s *= 2
            yield ask, min(max(half, self._now() + _LEAST_S), deadline)
            ask = others()
        yield ask, deadline

    def late_s(self, collection: str) -> float:
        """Seconds that nearly all answers take less than. Infinity if there was no answer yet."""
        known = self._estimates.get(collection)
        return known.late_s() if known and self._part else float("inf")

    def answered(self, collection: str, seconds: float, work_s: float) -> None:
        """The only replica that was asked answered after `seconds`. Its node worked for `work_s`."""
        known = self._estimates.get(collection)
        # Of a clock that did not move: hedges that cost nothing would have no bound.
        work_s = max(work_s, 1e-6)
        if known is None:
            if len(self._estimates) >= len(self._serving()) + _MORE:
                self._forget()
            known = self._estimates[collection] = _Estimate(seconds, seconds / 2, work_s, _SAVED * work_s)
        else:
            seconds = min(seconds, _MOST_LATE * known.late_s())
            known.deviation_s += _BETA * (abs(seconds - known.mean_s) - known.deviation_s)
            known.mean_s += _ALPHA * (seconds - known.mean_s)
            known.work_s += _ALPHA * (work_s - known.work_s)
        if not self._work_s:
            self._work_s, self._left_s = work_s, _SAVED_BY_ALL * work_s
        self._work_s += _ALPHA * (work_s - self._work_s)
        known.left_s = min(known.left_s + self._part * work_s, _SAVED * known.work_s)
        self._left_s = min(self._left_s + self._part * work_s, _SAVED_BY_ALL * self._work_s)

    def hedged(self, collection: str, work_s: float) -> None:
        """A search that was hedged has its answer. Its node worked for `work_s`; more than usual is paid now."""
        known = self._estimates.get(collection)
        if known and work_s > known.work_s:
            self._pay(known, work_s - known.work_s)

    def _spend(self, collection: str) -> bool:
        known = self._estimates.get(collection)
        if known is None or min(known.left_s, self._left_s) < known.work_s:
            return False
        self._pay(known, known.work_s)
        return True

    def _pay(self, known: _Estimate, work_s: float) -> None:
        known.left_s -= work_s
        self._left_s -= work_s

    def _forget(self) -> None:
        serving = self._serving()
        self._estimates = {name: known for name, known in self._estimates.items() if name in serving}
