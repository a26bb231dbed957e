"""One watched file a running event loop."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from ._chiplet import Loop

_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Loop] = WeakKeyDictionary()


def running() -> Loop:
    """What the running loop waits for. Only the loop's own thread asks."""
    loop = asyncio.get_running_loop()
    known = _loops.get(loop)
    if known is None:
        known = Loop()
        loop.add_reader(known.fileno(), known.deliver)
        _loops[loop] = known
    return known


def future(known: Loop, number: int) -> asyncio.Future[Any]:
    """A future that drops its search when it is cancelled."""
    made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def forget(ended: asyncio.Future[Any]) -> None:
        if ended.cancelled():
            known.forget(number)

    made.add_done_callback(forget)
    return made
