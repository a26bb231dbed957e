"""What routers are told of the catalogue: all of it once, and then what changed."""

from collections.abc import Callable
from typing import NamedTuple

from .shard_map import Catalogue, Entry


class Change(NamedTuple):
    """From the catalogue of an epoch that a router knows to that of `epoch`."""

    epoch: int
    #: `entries` are all that there are; what the router knew counts no more.
    whole: bool
    #: None is one that serves no more.
    entries: dict[str, Entry | None]

    def applied(self, known: Catalogue) -> Catalogue:
        entries = self.entries if self.whole else {**known, **self.entries}
        return {name: entry for name, entry in entries.items() if entry is not None}


class Changes:
    """Of one map, whose epochs are `first` and higher."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._epoch = first - 1
        self._catalogue: Catalogue = {}
        #: When each entry changed last, also those that are gone.
        self._changed: dict[str, int] = {}
        #: By what routers know: most know the same.
        self._since: dict[int | None, Change] = {}

    def since(self, known: int, epoch: int, catalogue: Callable[[], Catalogue]) -> Change:
        """`catalogue` makes that of `epoch`. It is asked once an epoch, and not once a router."""
        if epoch != self._epoch:
            before, self._catalogue = self._catalogue, catalogue()
            for name in before.keys() | self._catalogue.keys():
                if before.get(name) != self._catalogue.get(name):
                    self._changed[name] = epoch
            self._epoch = epoch
            self._since = {}
        # Another map's epochs say nothing here.
        ours = known if self._first <= known <= epoch else None
        if ours not in self._since:
            self._since[ours] = Change(
                epoch,
                ours is None,
                dict(self._catalogue)
                if ours is None
                else {name: self._catalogue.get(name) for name, at in self._changed.items() if at > ours},
            )
        return self._since[ours]
