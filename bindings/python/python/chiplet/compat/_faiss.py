"""Faiss' ``search`` over a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._chiplet import Table


class FaissTable:
    """A table with the shape of a Faiss index: read-only, distances as Faiss reports them.

    Products come positive and descending, as of ``METRIC_INNER_PRODUCT``; so does cosine, which Faiss knows as the product
    of unit vectors. Squared Euclidean distances are the same in both libraries.
    """

    is_trained = True

    def __init__(self, table: Table, *, nprobe: int | None = None, ef: int | None = None) -> None:
        self.table = table
        self.nprobe = nprobe
        self.ef = ef

    @property
    def d(self) -> int:
        """Components of each row."""
        return self.table.dim

    @property
    def ntotal(self) -> int:
        """Rows."""
        return len(self.table)

    def reconstruct(self, key: int) -> npt.NDArray[np.float32]:
        """The row of this id, as the table keeps it."""
        (row,) = self.table.vectors([key])
        kept: npt.NDArray[np.float32] = row
        return kept

    def search(
        self, x: Any, k: int, *, params: None = None
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """The ``k`` nearest of each row of ``x``: ``(D, I)``, each ``[n][k]``; -1 where there are fewer."""
        if params is not None:
            raise NotImplementedError("search parameters are set when the table is wrapped: faiss(table, nprobe=, ef=)")
        x = np.atleast_2d(np.asarray(x))
        ids, distances = self.table.search(x, k, nprobe=self.nprobe, ef=self.ef)
        if self.table.metric == "ip":
            distances = -distances
        elif self.table.metric == "cosine":
            distances = 1 - distances
        # Where there is no row Faiss has the farthest number.
        farthest = np.finfo(np.float32).max if self.table.metric == "l2" else np.finfo(np.float32).min
        return np.where(ids < 0, farthest, distances), ids
