"""``hnswlib.Index`` for searching: what hnswlib built and saved, found by chiplet's kernels.

    from chiplet.compat import hnswlib

    index = hnswlib.Index(space="cosine", dim=128)
    index.load_index("songs.bin")
    index.set_ef(64)
    labels, distances = index.knn_query(queries, k=10)

Tables never change, so what adds, removes or marks rows raises ``NotImplementedError`` and says what to do instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from .._chiplet import Filter, Hnsw
from .._inputs import rows

_SPACES = ("l2", "ip", "cosine")
_NEEDS = "a chiplet table never changes; build and save with hnswlib, or build with chiplet.Hnsw.build"


class Index:
    """An index that hnswlib saved. Labels come as ``uint64`` and distances as hnswlib reports them: ``1 - product`` for
    ``ip``.
    """

    def __init__(self, space: Literal["l2", "ip", "cosine"], dim: int) -> None:
        if space not in _SPACES:
            raise RuntimeError("Space name must be one of l2, ip, or cosine.")
        self.space: Literal["l2", "ip", "cosine"] = space
        self.dim = dim
        self.num_threads = os.cpu_count() or 1
        self._ef = 10
        self._table: Hnsw | None = None

    def load_index(
        self, path_to_index: str | os.PathLike[str], max_elements: int = 0, allow_replace_deleted: bool = False
    ) -> None:
        """Reads what hnswlib saved. ``max_elements`` is ignored: a table does not grow."""
        del max_elements, allow_replace_deleted
        self._table = Hnsw.from_hnswlib(path_to_index, self.dim, metric=self.space)

    def set_ef(self, ef: int) -> None:
        """Candidates that a search keeps; hnswlib's own default is 10."""
        self._ef = ef

    def set_num_threads(self, num_threads: int) -> None:
        """Threads that ``knn_query`` takes by default."""
        self.num_threads = num_threads

    def knn_query(
        self,
        data: Any,
        k: int = 1,
        num_threads: int = -1,
        filter: Callable[[int], bool] | Filter | None = None,
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32]]:
        """The ``k`` nearest of each row of ``data``.

        A callable ``filter`` is asked once for each label, before the search.

        Raises ``RuntimeError`` where fewer than ``k`` are found, as hnswlib does.
        """
        table = self._loaded()
        queries = np.atleast_2d(rows(data))
        if queries.shape[1] != self.dim:
            raise RuntimeError("Wrong dimensionality of the vectors")
        threads = num_threads if num_threads > 0 else self.num_threads
        allowed = self._allowed(filter)
        ids, distances = table.search(queries, k, ef=max(self._ef, k), filter=allowed, threads=max(threads, 1))
        if (ids < 0).any():
            raise RuntimeError("Cannot return the results in a contiguous 2D array. Probably ef or M is too small")
        if self.space == "ip":
            distances = distances + 1
        return ids.astype(np.uint64), distances

    def get_current_count(self) -> int:
        """Rows."""
        return len(self._table) if self._table is not None else 0

    def get_ids_list(self) -> list[int]:
        """The labels of all rows, in no order."""
        return [int(label) for label in self._loaded().ids()]

    def get_items(self, ids: Any = None) -> npt.NDArray[np.float32]:
        """The rows of these labels, of all without them; of length 1 for ``cosine``, as hnswlib's."""
        table = self._loaded()
        return table.vectors(table.ids() if ids is None else ids)

    def get_max_elements(self) -> int:
        """Rows, as a table does not grow."""
        return self.get_current_count()

    @property
    def element_count(self) -> int:
        """Rows."""
        return self.get_current_count()

    @property
    def max_elements(self) -> int:
        """Rows, as a table does not grow."""
        return self.get_current_count()

    @property
    def ef(self) -> int:
        """Candidates that a search keeps."""
        return self._ef

    @ef.setter
    def ef(self, ef: int) -> None:
        self._ef = ef

    def __repr__(self) -> str:
        return f"<chiplet.compat.hnswlib.Index(space={self.space!r}, dim={self.dim})>"

    def init_index(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: tables are read."""
        raise NotImplementedError(f"init_index: {_NEEDS}")

    def add_items(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: tables never change."""
        raise NotImplementedError(f"add_items: {_NEEDS}")

    def mark_deleted(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: pass a filter to ``knn_query``."""
        raise NotImplementedError(f"mark_deleted: pass a filter to knn_query; {_NEEDS}")

    def unmark_deleted(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: pass a filter to ``knn_query``."""
        raise NotImplementedError(f"unmark_deleted: pass a filter to knn_query; {_NEEDS}")

    def resize_index(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: tables never change."""
        raise NotImplementedError(f"resize_index: {_NEEDS}")

    def save_index(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: hnswlib's files are read, not written."""
        raise NotImplementedError("save_index: the file that was loaded is still there; Hnsw.save writes chiplet's own")

    def _loaded(self) -> Hnsw:
        if self._table is None:
            raise RuntimeError("Index is not initialized: call load_index first")
        return self._table

    def _allowed(self, filter: Callable[[int], bool] | Filter | None) -> Any:
        if filter is None or isinstance(filter, Filter):
            return filter
        labels = self._loaded().ids()
        return labels[np.fromiter((bool(filter(int(label))) for label in labels), dtype=np.bool_, count=len(labels))]
