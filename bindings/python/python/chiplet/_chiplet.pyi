# What each does, its units and errors, is said here once; help() shows the short form.
from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, ParamSpec, Protocol, Self, TypeAlias, TypeVar, final

import numpy as np
import numpy.typing as npt

from typing_extensions import disjoint_base

from ._hits import Hits, HitsOver

__all__ = [
    "Executor",
    "Filter",
    "Flat",
    "Hnsw",
    "Ivf",
    "Loop",
    "Table",
    "__version__",
    "close_all",
    "from_faiss",
    "open",
    "place",
]

__version__: str

_Metric: TypeAlias = Literal["l2", "cosine", "ip"]
_Format: TypeAlias = Literal["f32", "f16", "bf16", "sq8", "sq4", "sq2", "sq1"]
_Class: TypeAlias = Literal["interactive", "bulk"]
_Path: TypeAlias = str | PathLike[str]

class _Tensor(Protocol):
    def __dlpack_device__(self) -> tuple[Any, Any]: ...

_Vectors: TypeAlias = npt.ArrayLike | _Tensor
_Allowed: TypeAlias = Filter | npt.ArrayLike | set[int] | frozenset[int]
_Progress: TypeAlias = Callable[[str, int, int], object]
_P = ParamSpec("_P")
_R = TypeVar("_R")

@final
class Filter:
    def __new__(cls, allowed: _Allowed, /) -> Self: ...
    @property
    def count(self) -> int: ...
    def __contains__(self, key: int, /) -> bool: ...

@disjoint_base
class Table:
    @property
    def dim(self) -> int: ...
    @property
    def metric(self) -> _Metric: ...
    @property
    def nbytes(self) -> int: ...
    def __len__(self) -> int: ...
    def search(
        self,
        q: _Vectors,
        k: int | None = None,
        *,
        ef: int | None = None,
        nprobe: int | None = None,
        radius: float | None = None,
        filter: _Allowed | Sequence[_Allowed] | None = None,
        threads: int | None = None,
    ) -> Hits: ...
    def ids(self) -> npt.NDArray[np.int64]: ...
    def vectors(self, ids: npt.ArrayLike) -> npt.NDArray[np.float32]: ...
    def __contains__(self, id: object, /) -> bool: ...
    def save(self, path: _Path) -> None: ...
    def verify(self) -> None: ...

@final
class Hnsw(Table):
    @staticmethod
    def build(
        x: _Vectors,
        *,
        metric: _Metric = "l2",
        m: int = 16,
        ef_construction: int = 200,
        ef: int | None = None,
        rows: _Format | None = None,
        rerank: _Format | None = None,
        fit: float | None = None,
        ids: npt.ArrayLike | None = None,
        threads: int | None = None,
        progress: _Progress | None = None,
    ) -> Hnsw: ...
    @property
    def formats(self) -> tuple[_Format, _Format | None]: ...
    @staticmethod
    def from_hnswlib(path: _Path, dim: int, *, metric: _Metric = "l2", ef: int | None = None) -> Hnsw: ...

@final
class Ivf(Table):
    @staticmethod
    def build(
        x: _Vectors,
        factory: str,
        *,
        metric: _Metric = "l2",
        nprobe: int = 16,
        ids: npt.ArrayLike | None = None,
    ) -> Ivf: ...

@final
class Flat(Table):
    @staticmethod
    def build(
        x: _Vectors,
        *,
        metric: _Metric = "l2",
        ids: npt.ArrayLike | None = None,
        progress: _Progress | None = None,
    ) -> Flat: ...

@disjoint_base
class Executor:
    def __new__(
        cls,
        *,
        max_workers: int | None = None,
        reserve_cores: int = 0,
        pin: Literal["domain", "core", "none"] | None = None,
        level: Literal["auto", "l3", "l2"] = "auto",
        queue_limit: int | None = None,
        queue_per_worker: int | None = None,
        table_queue_limit: int | None = None,
        max_k: int | None = None,
        max_ef: int | None = None,
        max_nprobe: int | None = None,
        bulk_weight: float | None = None,
        memory_budget: int | None = None,
        name: str | None = None,
    ) -> Self: ...
    def add(
        self,
        name: str,
        table: Table | None = None,
        *,
        weight: float = 1.0,
        queue_limit: int | None = None,
        class_: _Class = "interactive",
        size_bytes: int | None = None,
    ) -> None: ...
    def replace(self, name: str, table: Table) -> None: ...
    def remove(self, name: str) -> None: ...
    @property
    def tables(self) -> list[str]: ...
    def search(
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
        class_: _Class | None = None,
    ) -> Hits: ...
    def search_over(
        self,
        names: Sequence[str],
        q: _Vectors,
        k: int | None = None,
        *,
        ef: int | None = None,
        nprobe: int | None = None,
        radius: float | None = None,
        filter: _Allowed | None = None,
        deadline: float | None = None,
        class_: _Class | None = None,
    ) -> HitsOver: ...
    def _asearch(
        self,
        name: str,
        q: _Vectors,
        k: int | None,
        ef: int | None,
        nprobe: int | None,
        radius: float | None,
        filter: _Allowed | Sequence[_Allowed] | None,
        deadline: float | None,
        class_: _Class | None,
        batch_and_refuse: tuple[bool, bool],
        /,
    ) -> Future[Hits]: ...
    def search_batch(
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
        class_: _Class | None = None,
    ) -> Hits: ...
    def run(self, name: str, code: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def _arun(self, name: str, code: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_R]: ...
    def snapshot(self) -> dict[str, Any]: ...
    def placement(self) -> dict[str, Any]: ...
    def topology(self) -> dict[str, Any]: ...
    @property
    def free_cpus(self) -> list[int]: ...
    def close(self, *, drain: bool = True, timeout: float | None = None) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class Loop:
    def __new__(cls) -> Self: ...
    def fileno(self) -> int: ...
    def deliver(self) -> None: ...
    def retry(self, timer: int) -> None: ...
    def forget(self, number: int) -> None: ...

def open(path: _Path, *, mmap: bool = False) -> Table: ...
def from_faiss(index: object, *, metric: _Metric | None = None) -> Table: ...
def place(
    loads: Mapping[str, float],
    domains: Mapping[str, int],
    *,
    current: Mapping[str, Mapping[str, float]] | None = None,
    copies: Mapping[str, int] | int = 1,
    saturation: float | None = None,
    relax: float | None = None,
    stay: float | None = None,
) -> dict[str, dict[str, float]]: ...
def close_all() -> None: ...
