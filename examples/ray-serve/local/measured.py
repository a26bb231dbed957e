"""Times and sizes of pieces, as `local.scale` prints them."""

import dataclasses
import os
import pickle
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

Rows = Iterator[tuple[str, str]]


@dataclasses.dataclass
class Times:
    """Seconds of several runs."""

    each: list[float]

    @property
    def s(self) -> float:
        return statistics.median(self.each)

    def __str__(self) -> str:
        return f"{seconds(self.s)} ({seconds(min(self.each))} to {seconds(max(self.each))})"


def seconds(s: float) -> str:
    return f"{s:.2f} s" if s >= 1 else f"{s * 1e3:.3g} ms" if s >= 1e-3 else f"{s * 1e6:.3g} us"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def timed(times: int, run: Callable[[], object], before: Callable[[], object] = lambda: None, calls: int = 1) -> Times:
    each = []
    for _ in range(times):
        before()
        began = time.perf_counter()
        for _ in range(calls):
            run()
        each.append((time.perf_counter() - began) / calls)
    return Times(each)


def pickled(what: object) -> int:
    return len(pickle.dumps(what, protocol=5))


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
