"""What travels between an ingress and a node: a batch of searches, and what became of each.

Vectors and answers are bytes, float32 and int64 of this machine's order: nodes of one cluster are of one kind.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import SearchError


class Group(NamedTuple):
    """Searches of one shard with the same settings: one call of the executor."""

    #: The shard's name, see `storage.key`.
    key: str
    #: How many vectors, and how many components each has.
    n: int
    dim: int
    k: int
    ef: int | None
    #: Seconds until the last of them has no use for an answer.
    left: float


class Found(NamedTuple):
    """`n * k` ids and distances of a group. -1 and infinity fill a row that found fewer than k."""

    ids: bytes
    distances: bytes

    def hits(self, n: int, k: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """`[n][k]`. ValueError if there are not so many."""
        return (
            np.frombuffer(self.ids, np.int64).reshape(n, k),
            np.frombuffer(self.distances, np.float32).reshape(n, k),
        )


class Refused(NamedTuple):
    """A group that was not searched."""

    #: `not_here`, or the `code` of an error in `errors`.
    why: str
    message: str
    #: Seconds, if coming back helps.
    retry_after: float | None = None

    @classmethod
    def of(cls, error: SearchError) -> "Refused":
        return cls(error.code, str(error), error.retry_after)

    def error(self) -> SearchError:
        """A new one each time: who raises an error adds to it."""
        return SearchError.of_code(self.why)(self.message, self.retry_after)


NOT_HERE = "not_here"


class Reply(NamedTuple):
    """What a node says to a batch."""

    #: The replica that answered.
    replica: str
    #: One for each group, in their order.
    groups: list[Found | Refused]
    #: Seconds that the node had the batch, and of them those until the executor had answered all.
    node_s: float
    executor_s: float
