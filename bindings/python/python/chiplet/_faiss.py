"""What needs the user's faiss-cpu: training, and an index in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from . import _inputs
from ._errors import BuildError


def train(
    x: Any, factory: str, *, metric: str, nprobe: int | None, ids: Any
) -> bytes:
    """An index of that description over ``x``, as ``faiss.serialize_index`` writes it."""
    faiss = _imported("Ivf.build trains with it")
    rows = _inputs.rows(x)
    if rows.ndim != 2:
        raise TypeError("rows have 2 dimensions, [n][dim]; this has 1")
    if not np.isfinite(rows).all():
        row, component = (int(at) for at in np.argwhere(~np.isfinite(rows))[0])
        value = rows[row, component]
        raise BuildError(f"row {row} has {value} at component {component}; every component must be finite")
    if metric == "cosine":
        rows = _unit(rows)
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    try:
        index = faiss.index_factory(rows.shape[1], factory, kind)
        lists = _lists(faiss, index, factory)
        index.train(rows)
        if ids is None:
            index.add(rows)
        else:
            index.add_with_ids(rows, _checked(ids, len(rows)))
    except (RuntimeError, AssertionError) as why:
        raise BuildError(f"Faiss: {why}") from why
    if nprobe is not None:
        lists.nprobe = nprobe
    return serialized(index)


def _lists(faiss: Any, index: Any, factory: str) -> Any:
    try:
        return faiss.extract_index_ivf(index)
    except RuntimeError as why:
        raise BuildError(f'{factory!r} describes no inverted lists; as "IVF1024,SQ8" does') from why


def serialized(index: Any) -> bytes:
    """A Faiss index as bytes."""
    faiss = _imported("an index in memory is read through it; a file that faiss.write_index wrote needs no faiss")
    if not isinstance(index, faiss.Index):
        kind = type(index).__name__
        raise TypeError(f"from_faiss takes a Faiss index, its bytes or its file, not {kind}")
    written: npt.NDArray[np.uint8] = faiss.serialize_index(index)
    return written.tobytes()


def _imported(why: str) -> Any:
    try:
        import faiss
    except ImportError as missing:
        raise ImportError(f"faiss is not installed: {why}; pip install faiss-cpu") from missing
    return faiss


def _checked(ids: Any, rows: int) -> npt.NDArray[np.int64]:
    checked = _inputs.ids(ids)
    if len(checked) != rows:
        raise BuildError(f"{len(checked)} ids for {rows} rows; pass one a row")
    if rows and int(checked.min()) < 0:
        raise BuildError(f"id {int(checked.min())} is below 0; ids are 0 and above")
    if len(np.unique(checked)) != rows:
        raise BuildError("an id is given twice; ids are unique")
    return checked


def _unit(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)
