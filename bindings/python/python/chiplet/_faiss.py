"""What needs the user's faiss-cpu: training, and an index in memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _inputs
from ._errors import BuildError

_ACCEPTED = 'accepted is IVF<lists>,<code>, as "IVF256,Flat", "IVF256,SQ8" or "IVF256,PQ16x4fs"'


def train(rows: npt.NDArray[np.float32], factory: str, metric: str, nprobe: int, ids: Any) -> bytes:
    """An index of that description over ``rows``, which are checked and as the metric compares them, as
    ``faiss.serialize_index`` writes it."""
    faiss = _imported("Ivf.build trains with it")
    if nprobe < 1:
        raise BuildError(f"nprobe is {nprobe}, it must be at least 1")
    # Faiss allocates the lists before it looks at the rows.
    asked = re.search(r"IVF(\d+)", factory)
    if asked is None:
        raise BuildError(f"{factory!r} describes no inverted lists; {_ACCEPTED}")
    if int(asked[1]) > len(rows):
        raise BuildError(f"{len(rows)} rows cannot train {asked[1]} inverted lists; pass more rows, or ask for fewer lists")
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    try:
        index = faiss.index_factory(rows.shape[1], factory, kind)
        lists = faiss.extract_index_ivf(index)
    except RuntimeError as why:
        raise BuildError(f"{factory!r} describes no inverted lists for rows of {rows.shape[1]}: {_said(why)}; {_ACCEPTED}") from why
    try:
        index.train(rows)
        if ids is None:
            index.add(rows)
        else:
            index.add_with_ids(rows, _checked(ids, len(rows)))
    except (RuntimeError, AssertionError) as why:
        raise BuildError(f"Faiss: {_said(why)}") from why
    lists.nprobe = nprobe
    return serialized(index)


def _said(why: BaseException) -> str:
    """What Faiss says, without where in its sources."""
    return re.sub(r"^Error in .*? at \S+:\d+: (Error: )?", "", str(why), flags=re.DOTALL)


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
