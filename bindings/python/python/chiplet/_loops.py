"""One watched file a running event loop."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary, ref

from ._chiplet import Loop

# A loop keeps its file as long as it watches it. Kept from here it would keep the loop, by the futures of open searches.
_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, ref[Loop]] = WeakKeyDictionary()


def running() -> Loop:
    """What the running loop waits for. Only the loop's own thread asks."""
    loop = asyncio.get_running_loop()
    kept = _loops.get(loop)
    known = kept() if kept is not None else None
    if known is None:
        known = Loop()
        loop.add_reader(known.fileno(), known.deliver)
        _loops[loop] = ref(known)
    return known


def future(known: Loop, number: int) -> asyncio.Future[Any]:
    """A future that drops its search when it is cancelled."""
    made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def forget(ended: asyncio.Future[Any]) -> None:
        if ended.cancelled():
            known.forget(number)

    made.add_done_callback(forget)
    return made


def later(known: Loop, seconds: float, timer: int) -> None:
    """Has the running loop look after those that wait for room."""
    asyncio.get_running_loop().call_later(seconds, known.retry, timer)
