"""Builds a version of a collection with Ray Data: rows from Parquet or .npy, one task a shard, a table file each.

A row goes to shard `id % shards`, so that each shard is a fair sample of the whole and all are equally large. Rows are
read once, and a shard's are together in the memory of the task that builds it: choose shards that fit a core's memory.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import ray

import chiplet

from .errors import StorageError
from .storage import Manifest, Shard, Storage, checked

log = logging.getLogger("chiplet_serve")

#: Rows of a .npy file that a reading task takes.
_NPY_ROWS = 65_536


def build(
    root: str,
    collection: str,
    source: str | Iterable[str],
    *,
    shards: int = 1,
    copies: int = 2,
    metric: str = "l2",
    table: str = "hnsw",
    vector_column: str = "vector",
    id_column: str | None = None,
    cpus_a_shard: int = 1,
    **options: Any,
) -> Manifest:
    """Builds the next version, and returns what it consists of. It does not serve yet: see `publish`.

    `source` is a .npy file of float32 rows, whose ids are their numbers, or Parquet files or folders with a column of
    vectors, and one of ids (int64 from 0 on) if `id_column` names it. `table` is "hnsw", "flat", or a Faiss factory of
    lists such as "IVF256,SQ8"; `options` go to `chiplet.Hnsw.build` and its like.

    Raises `StorageError` where rows cannot make a table; nothing is left of the build then.
    """
    if shards < 1 or copies < 1:
        raise StorageError(f"shards is {shards} and copies {copies}; both must be 1 or more")
    storage = Storage(root)
    rows = _rows(source, vector_column, id_column)
    rows = rows.map_batches(_number_shards, fn_kwargs={"shards": shards}, batch_format="numpy")
    with storage.building(checked(collection)) as folder:
        done = rows.groupby("shard", num_partitions=shards).map_groups(
            _build_shard,
            fn_kwargs={"folder": str(folder), "metric": metric, "table": table, "threads": cpus_a_shard, "options": options},
            batch_format="numpy",
            num_cpus=cpus_a_shard,
        )
        try:
            built = sorted(done.take_all(), key=lambda row: row["shard"])
        except ray.exceptions.RayError as why:
            raise StorageError(f"{collection} could not be built: {_cause(why)}") from why
        if [row["shard"] for row in built] != list(range(shards)):
            raise StorageError(f"{collection} has rows for {len(built)} of {shards} shards: ask for fewer, or give more rows")
        dims = {row["dim"] for row in built}
        if len(dims) != 1:
            raise StorageError(f"vectors of {collection} have {', '.join(map(str, sorted(dims)))} components: they must have one number")
        parts = [Shard(file=row["file"], rows=row["rows"], bytes=row["bytes"]) for row in built]
        return storage.finish(folder, collection, dim=dims.pop(), metric=metric, copies=copies, shards=parts)


def _rows(source: str | Iterable[str], vector_column: str, id_column: str | None) -> ray.data.Dataset:
    """A dataset with the columns `id` and `vector`."""
    if isinstance(source, str) and source.endswith(".npy"):
        if not Path(source).is_file():
            raise StorageError(f"{source} is no file")
        try:
            count = len(np.load(source, mmap_mode="r"))
        except (ValueError, OSError) as why:
            raise StorageError(f"{source} cannot be read: {why}") from None
        blocks = max(1, -(-count // _NPY_ROWS))
        return ray.data.range(count, override_num_blocks=blocks).map_batches(
            _slice, fn_kwargs={"path": source}, batch_format="numpy", batch_size=_NPY_ROWS
        )
    paths = [source] if isinstance(source, str) else list(source)
    for path in paths:
        if "://" not in path and not Path(path).exists():
            raise StorageError(f"{path} is no file or folder")
    if id_column is None:
        raise StorageError("name the column of ids: Parquet files have no order that all readers agree on")
    try:
        found = ray.data.read_parquet(paths, columns=[id_column, vector_column])
        return found.rename_columns({id_column: "id", vector_column: "vector"}) if (id_column, vector_column) != ("id", "vector") else found
    except Exception as why:
        raise StorageError(f"{', '.join(paths[:3])} cannot be read: {why}") from why


def _slice(batch: dict[str, np.ndarray[Any, Any]], path: str) -> dict[str, np.ndarray[Any, Any]]:
    return {"id": batch["id"], "vector": np.load(path, mmap_mode="r")[batch["id"]]}


def _number_shards(batch: dict[str, np.ndarray[Any, Any]], shards: int) -> dict[str, np.ndarray[Any, Any]]:
    ids = np.asarray(batch["id"])
    if not np.issubdtype(ids.dtype, np.integer) or (len(ids) and ids.min() < 0):
        raise ValueError("ids must be integers from 0 on")
    return {**batch, "shard": ids % shards}


def _build_shard(
    rows: dict[str, np.ndarray[Any, Any]], folder: str, metric: str, table: str, threads: int, options: dict[str, Any]
) -> dict[str, list[Any]]:
    number = int(rows["shard"][0])
    order = np.argsort(rows["id"], kind="stable")
    ids = np.asarray(rows["id"], np.int64)[order]
    if (ids[1:] == ids[:-1]).any():
        raise ValueError(f"id {ids[1:][ids[1:] == ids[:-1]][0]} stands twice")
    try:
        vectors = np.stack([np.asarray(row, np.float32) for row in rows["vector"]])[order]
    except ValueError:
        raise ValueError("vectors have different numbers of components") from None
    if table == "hnsw":
        made: chiplet.Table = chiplet.Hnsw.build(vectors, metric=metric, ids=ids, threads=threads, **options)  # type: ignore[arg-type]
    elif table == "flat":
        made = chiplet.Flat.build(vectors, metric=metric, ids=ids, **options)  # type: ignore[arg-type]
    else:
        made = chiplet.Ivf.build(vectors, table, metric=metric, ids=ids, **options)  # type: ignore[arg-type]
    path = Path(folder) / f"shard-{number:05d}.chiplet"
    made.save(path)
    return {
        "shard": [number],
        "file": [path.name],
        "rows": [len(ids)],
        "dim": [vectors.shape[1]],
        "bytes": [path.stat().st_size],
    }


def _cause(why: BaseException) -> str:
    """The innermost error's text, without a remote stack."""
    while why.__cause__ or getattr(why, "cause", None):
        inner = why.__cause__ or getattr(why, "cause", None)
        if not isinstance(inner, BaseException):
            break
        why = inner
    return f"{type(why).__name__}: {str(why).strip().splitlines()[-1] if str(why).strip() else ''}"
