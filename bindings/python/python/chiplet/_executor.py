"""The executor's searches for event loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

from ._chiplet import Executor as Base
from ._hits import Hits

if TYPE_CHECKING:
    from ._chiplet import _Allowed, _Vectors  # pyright: ignore[reportPrivateUsage]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Executor(Base):
    __doc__ = Base.__doc__

    async def asearch(
        self,
        name: str,
        q: _Vectors,
        k: int | None = None,
        *,
        ef: int | None = None,
        nprobe: int | None = None,
        radius: float | None = None,
        filter: _Allowed | Sequence[_Allowed] | None = None,
        deadline: float | None = None,
        class_: Literal["interactive", "bulk"] | None = None,
        refuse: bool = False,
    ) -> Hits:
        """``search`` for an event loop. No thread waits for the answer; to cancel the task drops the search.

        Where a queue is full it waits for room, in its turn among those of this loop, or with ``refuse`` raises ``Overloaded``
        as ``search`` does: for a server that sheds what it cannot answer in time. A ``deadline`` counts from the first
        ``await`` on.
        """
        return await self._asearch(name, q, k, ef, nprobe, radius, filter, deadline, class_, (False, refuse))

    async def asearch_batch(
        self,
        name: str,
        q: _Vectors,
        k: int | None = None,
        *,
        ef: int | None = None,
        nprobe: int | None = None,
        radius: float | None = None,
        filter: _Allowed | Sequence[_Allowed] | None = None,
        deadline: float | None = None,
        class_: Literal["interactive", "bulk"] | None = None,
        refuse: bool = False,
    ) -> Hits:
        """``search_batch`` for an event loop: any number of vectors, ``[n][dim]``. It waits for room as ``asearch`` does."""
        return await self._asearch(name, q, k, ef, nprobe, radius, filter, deadline, class_, (True, refuse))

    async def arun(self, name: str, code: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """``run`` for an event loop. It waits for room as ``asearch`` does."""
        return await self._arun(name, code, *args, **kwargs)
