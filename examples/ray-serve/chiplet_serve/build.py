"""Builds versions of collections with Ray Data: rows from Parquet or .npy, one task a shard, a table file each.

A row's shard is drawn from its id, so that each shard is a fair sample of the whole whatever order ids have. Rows are read
once, and a shard's are together in the memory of the task that builds it: choose shards that fit a core's memory.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import chiplet
import numpy as np
import ray

from .errors import StorageError
from .storage import Manifest, Shard, Storage, checked

#: Rows of a .npy file that a reading task takes.
_NPY_ROWS = 65_536
_MOST_ID = 2**63 - 1


def build(
    root: str,
    source: str | Iterable[str],
    *,
    collection: str | None = None,
    collection_column: str | None = None,
    shards: int = 1,
    copies: int = 2,
    metric: str = "l2",
    table: str = "hnsw",
    vector_column: str = "vector",
    id_column: str | None = None,
    cpus_a_shard: int = 1,
    **options: Any,
) -> list[Manifest]:
    """Builds the next version of a collection, or of all that a column names. It does not serve yet: see `publish`.

    `source` is a .npy file of float32 rows, whose ids are their numbers, or Parquet files or folders with a column of
    vectors and one of ids, int64 from 0 on. `table` is "hnsw", "flat", or a Faiss factory of lists such as "IVF256,SQ8";
    `options` go to `chiplet.Hnsw.build` and its like.

    Raises `StorageError` where rows cannot make a table. Then there is no new version of any collection.
    """
    if shards < 1 or copies < 1:
        raise StorageError(f"shards is {shards} and copies {copies}; both must be 1 or more")
    if (collection is None) == (collection_column is None):
        raise StorageError("name a collection, or the column that names them")
    storage = Storage(root)
    rows = _rows(source, vector_column, id_column, collection_column)
    rows = rows.map_batches(
        _draw_shards,
        fn_kwargs={"shards": shards, "collection": collection and checked(collection)},
        batch_format="numpy",
    )
    how = {"metric": metric, "table": table, "threads": cpus_a_shard, "options": options}
    with storage.building() as folder:
        done = rows.groupby(["collection", "shard"], num_partitions=shards).map_groups(
            _build_shard, fn_kwargs={"folder": str(folder), **how}, batch_format="numpy", num_cpus=cpus_a_shard
        )
        built: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        try:
            for row in done.take_all():
                built[row["collection"]].append(row)
        except ray.exceptions.RayError as why:
            raise StorageError(f"the build failed: {_cause(why)}") from why
        if not built:
            raise StorageError("there are no rows")
        # All are looked at before the first gets its name.
        fields = {name: _fields(name, parts, shards) for name, parts in built.items()}
        return [
            storage.finish(folder / name, name, metric=metric, copies=copies, **fields[name]) for name in sorted(fields)
        ]


def _fields(collection: str, built: list[dict[str, Any]], shards: int) -> dict[str, Any]:
    """What a manifest says of shards."""
    built = sorted(built, key=lambda row: row["shard"])
    if [row["shard"] for row in built] != list(range(shards)):
        raise StorageError(
            f"{collection} has rows for {len(built)} of {shards} shards: ask for fewer, or give more rows"
        )
    dims = {row["dim"] for row in built}
    if len(dims) != 1:
        raise StorageError(
            f"vectors of {collection} have {' and '.join(map(str, sorted(dims)))} components: it must be one number"
        )
    return {
        "dim": dims.pop(),
        "shards": [Shard(file=row["file"], rows=row["rows"], bytes=row["bytes"]) for row in built],
    }


def _rows(
    source: str | Iterable[str], vector_column: str, id_column: str | None, collection_column: str | None
) -> ray.data.Dataset:
    """A dataset with the columns `id` and `vector`, and `collection` if a column is named for it."""
    if isinstance(source, str) and source.endswith(".npy"):
        if collection_column:
            raise StorageError("a .npy file has no column that names collections")
        if not Path(source).is_file():
            raise StorageError(f"{source} is no file")
        try:
            rows = np.load(source, mmap_mode="r")
        except (ValueError, OSError, EOFError) as why:
            raise StorageError(f"{source} cannot be read: {why}") from None
        if rows.ndim != 2 or rows.dtype.kind not in "fiu":
            raise StorageError(
                f"{source} holds {rows.dtype} of shape {list(rows.shape)}: rows of numbers are needed, [n][dim]"
            )
        count = len(rows)
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
        names = {id_column: "id", vector_column: "vector"} | (
            {collection_column: "collection"} if collection_column else {}
        )
        found = ray.data.read_parquet(paths).select_columns(list(names))
        others = {given: ours for given, ours in names.items() if given != ours}
        return found.rename_columns(others) if others else found
    except Exception as why:
        raise StorageError(f"{', '.join(paths[:3])} cannot be read: {why}") from why


def _slice(batch: dict[str, np.ndarray[Any, Any]], path: str) -> dict[str, np.ndarray[Any, Any]]:
    return {"id": batch["id"], "vector": np.load(path, mmap_mode="r")[batch["id"]]}


def _draw_shards(
    batch: dict[str, np.ndarray[Any, Any]], shards: int, collection: str | None
) -> dict[str, np.ndarray[Any, Any]]:
    ids = np.asarray(batch["id"])
    if not np.issubdtype(ids.dtype, np.integer) or (len(ids) and not 0 <= ids.min() <= ids.max() <= _MOST_ID):
        raise ValueError("ids must be integers from 0 to 2^63 - 1, and none may be missing")
    # The golden ratio's part of 2^64 spreads neighbouring ids evenly (Knuth, TAOCP 3, 6.4), also those with a common step.
    drawn = (ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    names = batch["collection"] if collection is None else np.full(len(ids), collection)
    return {**batch, "collection": names, "shard": (drawn % np.uint64(shards)).astype(np.int64)}


def _build_shard(
    rows: dict[str, np.ndarray[Any, Any]], folder: str, metric: str, table: str, threads: int, options: dict[str, Any]
) -> dict[str, list[Any]]:
    number, collection = int(rows["shard"][0]), checked(str(rows["collection"][0]))
    order = np.argsort(rows["id"], kind="stable")
    ids = np.asarray(rows["id"], np.int64)[order]
    if (ids[1:] == ids[:-1]).any():
        raise ValueError(f"id {ids[1:][ids[1:] == ids[:-1]][0]} stands twice")
    try:
        vectors = np.stack([np.asarray(row, np.float32) for row in rows["vector"]])[order]
    except ValueError:
        raise ValueError("vectors are missing, are no numbers, or have different numbers of components") from None
    if table == "hnsw":
        made: chiplet.Table = chiplet.Hnsw.build(vectors, metric=metric, ids=ids, threads=threads, **options)  # type: ignore[arg-type]
    elif table == "flat":
        made = chiplet.Flat.build(vectors, metric=metric, ids=ids, **options)  # type: ignore[arg-type]
    else:
        made = chiplet.Ivf.build(vectors, table, metric=metric, ids=ids, **options)  # type: ignore[arg-type]
    path = Path(folder) / collection / f"shard-{number:05d}.chiplet"
    path.parent.mkdir(exist_ok=True)
    made.save(path)
    return {
        "collection": [collection],
        "shard": [number],
        "file": [path.name],
        "rows": [len(ids)],
        "dim": [vectors.shape[1]],
        "bytes": [path.stat().st_size],
    }


def _cause(why: BaseException) -> str:
    """What the task raised, without the remote stack."""
    # Some of Ray Data's operators keep no more of it than its place in the remote stack's text, before their own error.
    first, wrapped, _ = str(why).partition("\n\nThe above exception was the direct cause")
    if wrapped:
        name, _, said = first.strip().splitlines()[-1].partition(": ")
        return f"{name.rpartition('.')[2]}: {said}"
    # Ray's errors have it as `cause`; what they are chained to besides is Ray Data's own.
    while isinstance(inner := getattr(why, "cause", None) or why.__cause__, BaseException):
        why = inner
    last = (str(why).strip().splitlines() or [""])[-1]
    return f"{type(why).__name__}: {last}"
