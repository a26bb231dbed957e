"""From what users have to arrays that the library reads: whatever numpy can view is not copied."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

_CPU_DEVICES = (1, 3)
"""DLPack's kDLCPU and kDLCUDAHost: memory that a CPU reads."""


def rows(given: Any) -> npt.NDArray[np.float32]:
    """``given`` as float32 in C order, of one dimension (a vector) or two (rows)."""
    array = _viewed(given)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"vectors of {array.dtype} cannot be searched; pass real numbers, best float32")
    if array.ndim not in (1, 2):
        raise TypeError(f"vectors have 1 dimension, or 2 for rows of them; this has {array.ndim}")
    return np.require(array, np.float32, ["C", "A"])


def ids(given: Any) -> npt.NDArray[np.int64]:
    """``given`` as int64 in C order, of one dimension."""
    array = _viewed(given)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind == "O" and all(isinstance(id, int) for id in array.flat):
        raise ValueError("ids of 2**63 and more do not fit in int64")
    if array.dtype.kind not in "iu":
        raise TypeError(f"ids are integers, not {array.dtype}; for a mask of rows pass booleans")
    if array.ndim != 1:
        raise TypeError(f"ids have 1 dimension; these have {array.ndim}")
    if array.dtype.kind == "u" and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError("ids of 2**63 and more do not fit in int64")
    return np.ascontiguousarray(array, dtype=np.int64)


def mask_or_ids(given: Any) -> npt.NDArray[np.bool_] | npt.NDArray[np.int64]:
    """A filter: booleans by row id, or the ids that are allowed."""
    if callable(given):
        raise TypeError(
            "a filter is a mask or a list of ids, not a callable: a search asks it for thousands of rows, and each time "
            "it would have to wait for Python's lock; evaluate it once, np.fromiter(map(allows, ids), bool)"
        )
    if isinstance(given, (set, frozenset)):
        given = list(cast("set[Any]", given))
    array = _viewed(given)
    if array.dtype.kind == "b":
        if array.ndim != 1:
            raise TypeError(f"a mask has 1 dimension; this has {array.ndim}")
        return np.ascontiguousarray(array)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 1 and array.size:
        raise TypeError(f"{array.dtype} may be a mask or ids; pass it as bool for a mask, as int64 for ids")
    return ids(array)


def _viewed(given: Any) -> npt.NDArray[Any]:
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError("a masked array has no values where it is masked; fill it: x.filled(0)")
    if isinstance(given, np.ndarray):
        return cast("npt.NDArray[Any]", given)
    if hasattr(given, "__dlpack_device__"):
        device = int(given.__dlpack_device__()[0])
        if device not in _CPU_DEVICES:
            raise TypeError(f"this tensor is on a device (DLPack type {device}); move it to the CPU first: x.cpu()")
        try:
            return np.from_dlpack(given)
        except (BufferError, RuntimeError) as why:
            # What numpy does not know (bfloat16), and tensors that gradients go through.
            if hasattr(given, "detach"):
                return _viewed(given.detach().float().numpy())
            raise TypeError(f"numpy cannot view this {type(given).__name__}: {why}") from why
    return np.asarray(given)
