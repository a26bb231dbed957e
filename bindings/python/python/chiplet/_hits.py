"""What a search returns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Hits(NamedTuple):
    """The nearest rows of each query, the nearest first.

    Shape ``[k]`` for one vector, ``[n][k]`` for ``n`` of them. Where a query found fewer than ``k`` rows the rest is -1
    and infinity.
    """

    ids: npt.NDArray[np.int64]
    """Ids of the rows."""

    distances: npt.NDArray[np.float32]
    """Squared distances for ``l2``, 1 - cos for ``cosine``, the negated product for ``ip``: smaller is nearer."""


class HitsOver(NamedTuple):
    """The nearest rows of several tables to one vector, the nearest first. Where fewer than ``k`` were found the rest is -1 and
    infinity."""

    ids: npt.NDArray[np.int64]
    """Ids of the rows in their tables."""

    distances: npt.NDArray[np.float32]
    """As in ``Hits``."""

    tables: npt.NDArray[np.int64]
    """Of each row the table, by its place among the names that were passed."""
