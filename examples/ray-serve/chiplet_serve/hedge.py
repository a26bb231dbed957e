"""When a second replica is asked for a shard, too, though the first may still answer: hedged requests.

Dean and Barroso, The Tail at Scale (CACM 56, 2, 2013): ask again once an answer takes longer than nearly all do, for a few
percent of the requests. What an answer takes is estimated as RFC 6298 does it for TCP: the mean, and the mean deviation
from it. What had to be asked twice is left out of it, as there, for nobody knows which of the two was slow.

Collections have an estimate and a budget each: those that are slow by nature are not late, and a hedge for one of them
costs as much as its searches do. A budget of all bounds what happens when all get slow at once.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator

#: RFC 6298, 2: weights of an answer in the mean and in the deviation, ...
_ALPHA, _BETA = 1 / 8, 1 / 4
#: ... and deviations above the mean. TCP takes four, and waits for a second at least.
_DEVIATIONS = 8
#: Seconds before which nobody is asked twice: what a pause of Python's collector or a busy core takes.
_LEAST_S = 0.05
#: Hedges that a collection and all of them may save up. A collection begins with one, all of them with none.
_SAVED, _SAVED_BY_ALL = 10.0, 100.0
#: Collections that are remembered beyond as many as serve, before those that serve no more are looked for.
_MORE = 1024


@dataclasses.dataclass
class _Budget:
    left: float
    most: float

    def earn(self, part: float) -> None:
        self.left = min(self.left + part, self.most)


@dataclasses.dataclass
class _Collection:
    mean_s: float
    deviation_s: float
    budget: _Budget = dataclasses.field(default_factory=lambda: _Budget(1.0, _SAVED))


class Hedges:
    """For one event loop. `part` of the asks may be hedges; 0 for none."""

    def __init__(self, part: float, serving: Callable[[], Collection[str]]) -> None:
        self._part = part
        self._serving = serving
        self._all = _Budget(0.0, _SAVED_BY_ALL)
        self._collections: dict[str, _Collection] = {}

    def turns(self, collection: str, now: float, deadline: float, holders: int) -> Iterator[tuple[bool, float]]:
        """Whether a replica is to be asked now, and until when to wait: for one after the other while nobody answers.

        A replica that hangs may be asked twice: Serve's router says to nobody which one it took. So a third follows after
        twice as long, and so on. Half of the time is left for one more, budget or not.
        """
        another = True
        if holders > 1:
            until, late_s, half = now, self.late_s(collection), (now + deadline) / 2
            while another and (until := until + late_s) < half:
                yield another, until
                another = self._spend(collection)
                late_s *= 2
            yield another, half
        yield True, deadline

    def late_s(self, collection: str) -> float:
        """Seconds that nearly all answers take less than. Infinity if nobody can say."""
        known = self._collections.get(collection)
        if not self._part or known is None:
            return float("inf")
        return max(known.mean_s + _DEVIATIONS * known.deviation_s, _LEAST_S)

    def _spend(self, collection: str) -> bool:
        known = self._collections.get(collection)
        if known is None or known.budget.left < 1 or self._all.left < 1:
            return False
        known.budget.left -= 1
        self._all.left -= 1
        return True

    def answered(self, collection: str, seconds: float) -> None:
        """The only replica that was asked took so long."""
        known = self._collections.get(collection)
        if known is None:
            if len(self._collections) >= len(self._serving()) + _MORE:
                self._forget()
            known = self._collections[collection] = _Collection(seconds, seconds / 2)
        else:
            known.deviation_s += _BETA * (abs(seconds - known.mean_s) - known.deviation_s)
            known.mean_s += _ALPHA * (seconds - known.mean_s)
        known.budget.earn(self._part)
        self._all.earn(self._part)

    def _forget(self) -> None:
        serving = self._serving()
        self._collections = {name: known for name, known in self._collections.items() if name in serving}
