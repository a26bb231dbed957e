"""Builds versions of collections with Ray Data: rows from Parquet or .npy, one task a shard, a table file each.

A row's shard is drawn from its id, so that each shard is a fair sample of the whole whatever order ids have. Rows are read
once, and a shard's are together in the memory of the task that builds it: choose shards that fit a core's memory.
"""

import os
import warnings
from collections import defaultdict
from collections.abc import Iterable
from numbers import Integral
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import chiplet
import numpy as np
import pyarrow as pa
import ray
from pyarrow.fs import FileSelector, FileSystem, FileType

from .errors import StorageError
from .storage import MOST_COPIES, MOST_SHARDS, Manifest, Shard, Storage, checked

#: Rows of a .npy file that a reading task takes.
_NPY_ROWS = 65_536
_MOST_ID = 2**63 - 1
#: Beginnings of addresses that cannot be listed.
_WEB = ("http://", "https://")


def build(
    root: str | os.PathLike[str],
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
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
    vectors and one of ids, int64 from 0 on. Names of Parquet files end in .parquet; what stands in a folder and begins
    with "." or "_" is not read. `table` is "hnsw", "flat", or a Faiss factory of lists such as "IVF256,SQ8", which needs
    the package `faiss-cpu`; `options` go to `chiplet.Hnsw.build` and its like.

    Raises `StorageError` where rows cannot make a table, and OSError where the storage cannot be written. Then there is
    no new version of any collection.
    """
    _check_counts(shards=(shards, MOST_SHARDS), copies=(copies, MOST_COPIES), cpus_a_shard=(cpus_a_shard, None))
    if (collection is None) == (collection_column is None):
        raise StorageError("name a collection, or the column that names them")
    try:
        given = None if collection is None else checked(collection)
    except ValueError as why:
        raise StorageError(str(why)) from None
    # Tasks run in folders of their own.
    storage = Storage(Path(root).absolute())
    rows = _rows(source, vector_column, id_column, collection_column)
    rows = rows.map_batches(
        _draw_shards,
        fn_kwargs={"shards": shards, "collection": given},
        batch_format="numpy",
    )
    how = {"metric": metric, "table": table, "threads": cpus_a_shard, "options": options}
    _check_room(cpus_a_shard)
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
        return storage.finish_all(
            folder,
            {
                name: {"metric": metric, "copies": copies, **_fields(name, parts, shards)}
                for name, parts in built.items()
            },
        )


def _check_counts(**counts: tuple[Any, int | None]) -> None:
    """Each with the most that it may be."""
    for name, (count, most) in counts.items():
        if not isinstance(count, Integral) or int(count) < 1 or (most and int(count) > most):
            bounds = f"1 or more, at most {most}" if most else "1 or more"
            raise StorageError(f"{name} is {count!r}; it must be a whole number, {bounds}")


def _check_room(cpus: int) -> None:
    """Ray waits for a node that is large enough, and says nothing. It may be one that an autoscaler will add."""
    if not ray.is_initialized():
        ray.init()
    most = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
    if cpus > most:
        warnings.warn(
            f"cpus_a_shard is {cpus}, and the largest node has {most:g} cpus: the build waits for a larger one",
            stacklevel=3,
        )


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
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    vector_column: str,
    id_column: str | None,
    collection_column: str | None,
) -> ray.data.Dataset:
    """A dataset with the columns `id` and `vector`, and `collection` if a column is named for it."""
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not given or not all(map(str, given)):
        raise StorageError("no file or folder is named to build of")
    paths = [_absolute(os.fspath(path)) for path in given]
    npy = [path for path in paths if path.endswith(".npy") and not Path(path).is_dir()]
    if npy:
        if len(paths) > 1:
            raise StorageError(f"{npy[0]} is one of {len(paths)} files; a .npy file must be all that is built of")
        if collection_column or id_column:
            raise StorageError(f"a .npy file has no columns, but {collection_column or id_column!r} is named as one")
        return _npy_rows(npy[0])
    if id_column is None:
        raise StorageError("name the column of ids: Parquet files have no order that all readers agree on")
    names = {id_column: "id", vector_column: "vector"}
    if collection_column is not None:
        names[collection_column] = "collection"
    if len(names) < (2 if collection_column is None else 3):
        raise StorageError(
            f"ids, vectors and collections must be columns of their own; named are {id_column!r}, {vector_column!r}"
            + (f" and {collection_column!r}" if collection_column is not None else "")
        )
    for path in paths:
        _look_through(path)
    try:
        found = ray.data.read_parquet(paths)
        have = found.schema().names
    except Exception as why:
        raise StorageError(f"{', '.join(paths[:3])} cannot be read as Parquet: {why}") from why
    if missing := [name for name in names if name not in have]:
        raise StorageError(f"there is no column {missing[0]!r}; there are {', '.join(map(repr, have[:20]))}")
    others = {given: ours for given, ours in names.items() if given != ours}
    found = found.select_columns(list(names))
    return found.rename_columns(others) if others else found


def _absolute(path: str) -> str:
    """Tasks run in folders of their own. An address such as `s3://...` stays as it is."""
    return path if "://" in path else os.path.abspath(path)


class _File(NamedTuple):
    path: str
    #: Names of its folders and itself, inside of the folder that was given; empty for a file that was given.
    inside: tuple[str, ...]
    size: int


def _look_through(path: str) -> None:
    """Ray Data passes over files without rows or without the ending in silence, and their rows would be missing."""
    read = [file for file in _files(path) if not _hidden(file.inside[:1])]
    if not read and not path.startswith(_WEB):
        raise StorageError(f"{path} holds no .parquet file")
    for file in read:
        if _hidden(file.inside):
            raise StorageError(
                f"{file.path} would be read, though its name is that of something unfinished: move it away"
            )
        # Ray Data takes a "?" for the end of a name.
        if not file.path.lower().endswith(".parquet") or "?" in file.path:
            raise StorageError(
                f"{file.path} would not be read: move it away, or have its name end in .parquet if it is such a file"
            )
        if not file.size:
            raise StorageError(
                f"{file.path} is empty, as what is left of a copy that broke off: copy it again, or remove it"
            )


def _files(path: str) -> list[_File]:
    """The file, or all that are in the folder."""
    if path.startswith(_WEB):
        # Ray Data reads these by other means. It passes over all else that it cannot resolve.
        return []
    try:
        files, top = FileSystem.from_uri(path)
        given = files.get_file_info(top)
        if given.type == FileType.NotFound:
            raise StorageError(f"{path} is no file or folder")
        if given.is_file:
            return [_File(given.path, (), given.size)]
        found = files.get_file_info(FileSelector(top, recursive=True))
        return [
            _File(file.path, PurePosixPath(file.path).relative_to(top).parts, file.size)
            for file in found
            if file.is_file
        ]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, UnicodeError) as why:
        raise StorageError(f"{path!a} cannot be read: {why!a}") from None


def _hidden(names: tuple[str, ...]) -> bool:
    return any(name.startswith((".", "_")) for name in names)


def _npy_rows(path: str) -> ray.data.Dataset:
    if not Path(path).is_file():
        raise StorageError(f"{path} is no file")
    try:
        rows = np.load(path, mmap_mode="r")
    except (ValueError, OSError, EOFError) as why:
        raise StorageError(f"{path} cannot be read: {why}") from None
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype.kind not in "fiu":
        what = f"{rows.dtype} of shape {list(rows.shape)}" if isinstance(rows, np.ndarray) else "several arrays"
        raise StorageError(f"{path} holds {what}: rows of numbers are needed, [n][dim]")
    blocks = max(1, -(-len(rows) // _NPY_ROWS))
    return ray.data.range(len(rows), override_num_blocks=blocks).map_batches(
        _slice, fn_kwargs={"path": path}, batch_format="numpy", batch_size=_NPY_ROWS
    )


def _slice(batch: dict[str, np.ndarray[Any, Any]], path: str) -> dict[str, np.ndarray[Any, Any]]:
    # Arrow takes the bytes of another order as they are. What is too large becomes infinite, and is refused as such.
    with np.errstate(over="ignore"):
        return {"id": batch["id"], "vector": np.load(path, mmap_mode="r")[batch["id"]].astype(np.float32)}


def _draw_shards(
    batch: dict[str, np.ndarray[Any, Any]], shards: int, collection: str | None
) -> dict[str, np.ndarray[Any, Any]]:
    ids = np.asarray(batch["id"])
    # By the kind: numpy counts durations as integers, too.
    if ids.dtype.kind not in "iu" or (len(ids) and not 0 <= ids.min() <= ids.max() <= _MOST_ID):
        raise ValueError("ids must be integers from 0 to 2^63 - 1, and none may be missing")
    # The golden ratio's part of 2^64 spreads neighbouring ids evenly (Knuth, TAOCP 3, 6.4), also those with a common step.
    # Of ids that differ in their upper bits alone the product would be equal below them: the lower half takes them in.
    drawn = ids.astype(np.uint64)
    drawn = ((drawn ^ (drawn >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
    names = _names(batch["collection"]) if collection is None else np.full(len(ids), collection)
    return {**batch, "collection": names, "shard": (drawn % np.uint64(shards)).astype(np.int64)}


def _names(collections: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # What is missing would become a collection called None or nan, and what are integers in one batch floats in another.
    if odd := [name for name in collections if not isinstance(name, str)]:
        raise ValueError(f"a row's collection is {odd[0]!r}: it must be a string, and none may be missing")
    for name in set(collections.tolist()):
        checked(name)
    return collections


def _vectors(ids: np.ndarray[Any, Any], given: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """[n][dim]. ValueError names the first that is none."""
    rows = [np.asarray(row) for row in given]
    for number, row in zip(ids, rows, strict=True):
        # numpy would make numbers of strings, dates and booleans, and NaN of what is missing.
        if row.dtype.kind not in "fiu" or row.ndim != 1:
            raise ValueError(f"the vector of id {number} is missing, or is no list of floats or integers")
        if len(row) != len(rows[0]) or not len(row):
            raise ValueError(
                f"the vector of id {number} has {len(row)} components and that of id {ids[0]} {len(rows[0])}: all must have "
                "as many, one at least"
            )
    with np.errstate(over="ignore"):
        vectors = np.stack([np.asarray(row, np.float32) for row in rows])
    if not (finite := np.isfinite(vectors.min(axis=1)) & np.isfinite(vectors.max(axis=1))).all():
        raise ValueError(
            f"the vector of id {ids[~finite][0]} has a component that is missing, NaN, or no finite float32"
        )
    return vectors


def _build_shard(
    rows: dict[str, np.ndarray[Any, Any]], folder: str, metric: str, table: str, threads: int, options: dict[str, Any]
) -> dict[str, list[Any]]:
    number, collection = int(rows["shard"][0]), str(rows["collection"][0])
    order = np.argsort(rows["id"], kind="stable")
    ids = np.asarray(rows["id"], np.int64)[order]
    if (ids[1:] == ids[:-1]).any():
        raise ValueError(f"id {ids[1:][ids[1:] == ids[:-1]][0]} stands twice in {collection}")
    vectors = _vectors(ids, rows["vector"][order])
    try:
        if table == "hnsw":
            made: chiplet.Table = chiplet.Hnsw.build(vectors, metric=metric, ids=ids, threads=threads, **options)  # type: ignore[arg-type]
        elif table == "flat":
            made = chiplet.Flat.build(vectors, metric=metric, ids=ids, **options)  # type: ignore[arg-type]
        else:
            made = chiplet.Ivf.build(vectors, table, metric=metric, ids=ids, **options)  # type: ignore[arg-type]
    except chiplet.BuildError as why:
        # It counts rows from 0, by id, and knows no ids.
        raise ValueError(f"shard {number} of {collection}, rows from id {ids[0]} on: {why}") from None
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
    # Ray Data adds a line of its own to what was raised, which may name a file, and then advice, perhaps twice.
    raised, advice, _ = str(why).strip().partition("\nTo change retry attempts")
    lines = [line for line in raised.splitlines() if not line.startswith("Failed to apply UDF transform")] or [""]
    return f"{type(why).__name__}: {' '.join(lines[-2:]) if advice else lines[-1]}"
