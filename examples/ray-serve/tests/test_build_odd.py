"""Odd input of builds: a message that says which row, column or file, or a true table; never rows that go missing."""

import datetime
import os
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import chiplet
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

from chiplet_serve.build import _build_shard, _check_room, _draw_shards, _look_through, _names, _slice, _vectors, build
from chiplet_serve.errors import StorageError
from chiplet_serve.storage import Storage

IDS = np.array([3, 5, 8])


def lists(*rows: Any) -> Any:
    given = np.empty(len(rows), object)
    given[:] = [np.asarray(row) for row in rows]
    return given


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (lists([1.0, 2.0], ["3", "4"], [5.0, 6.0]), "id 5 is missing, or is no list of floats or integers"),
        (lists([True, False], [True, True], [False, True]), "id 3 is missing, or is no list"),
        (lists([b"1"], [b"2"], [b"3"]), "id 3 is missing, or is no list"),
        (lists([Decimal(1)], [Decimal(2)], [Decimal(3)]), "id 3 is missing, or is no list"),
        (np.zeros((3, 2), "M8[us]"), "id 3 is missing, or is no list"),
        (np.zeros((3, 2), "m8[us]"), "id 3 is missing, or is no list"),
        (np.array([None, None, None]), "id 3 is missing, or is no list"),
        (lists([1.0], None, [2.0]), "id 5 is missing, or is no list"),
        (lists([1.0], [None], [2.0]), "id 5 is missing, or is no list"),
        (np.zeros(3), "id 3 is missing, or is no list"),
        (np.zeros((3, 2, 2)), "id 3 is missing, or is no list"),
        (lists([1.0, 2.0], [1.0, 2.0], [1.0]), "id 8 has 1 components and that of id 3 2"),
        (lists([1.0], [], [1.0]), "id 5 has 0 components and that of id 3 1"),
        (np.zeros((3, 0)), "id 3 has 0 components"),
        (np.array([[0.0], [np.nan], [0.0]]), "id 5 has a component that is missing, NaN, or no finite float32"),
        (np.array([[0.0, 1.0], [0.0, 1.0], [-np.inf, 1.0]]), "id 8 has a component"),
        (np.array([[0.0, 1e300], [0.0, 1.0], [0.0, 1.0]]), "id 3 has a component"),
    ],
)
def test_what_is_no_vector_is_named_by_its_id(given: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"the vector of {says}"):
        _vectors(IDS, given)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", ">f4", ">f8", "i1", ">i4", "u8"])
def test_numbers_of_all_kinds_are_vectors(kind: str) -> None:
    given = np.array([[1, 2], [3, 4], [5, 6]], kind)
    for rows in (given, lists(*given)):
        assert _vectors(IDS, rows).dtype == np.float32 and _vectors(IDS, rows).tolist() == given.tolist()


@pytest.mark.parametrize("kind", [">f4", ">i4", ">f8", "<f8"])
def test_a_npy_file_of_another_byte_order_travels_as_this_one(tmp_path: Path, kind: str) -> None:
    """Arrow knows only the machine's own, and takes the bytes as they are."""
    rows = np.arange(6).reshape(3, 2).astype(kind)
    np.save(tmp_path / "rows.npy", rows)
    sliced = _slice({"id": np.array([2, 0])}, str(tmp_path / "rows.npy"))["vector"]
    assert sliced.dtype.isnative and sliced.tolist() == rows[[2, 0]].tolist()


@pytest.mark.parametrize("name", [None, np.nan, 1, 1.5, True, b"a", datetime.date(2020, 1, 1), ["a"]], ids=repr)
def test_what_is_no_string_names_no_collection(name: Any) -> None:
    """It would be one called None, nan or 1.0."""
    names = np.empty(2, object)
    names[:] = ["a", name]
    with pytest.raises(ValueError, match="a row's collection is .*: it must be a string, and none may be missing"):
        _names(names)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".", "a" * 101, "ü", "a\n", "building-x"])
def test_a_row_whose_collection_has_no_possible_name(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a collection"):
        _names(np.array(["a", name], object))


def test_durations_are_no_ids() -> None:
    with pytest.raises(ValueError, match="ids must be integers"):
        _draw_shards({"id": np.array([1, 2], "m8[us]"), "vector": np.zeros((2, 4))}, shards=2, collection="c")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"shards": 0}, "shards is 0; it must be a whole number, 1 or more"),
        ({"shards": 2.5}, "shards is 2.5"),
        ({"shards": "2"}, "shards is '2'"),
        ({"shards": 10_001}, "at most 10000"),
        ({"copies": 1.5}, "copies is 1.5"),
        ({"copies": 101}, "at most 100"),
        ({"cpus_a_shard": 0}, "cpus_a_shard is 0"),
        ({"cpus_a_shard": 0.5}, "cpus_a_shard is 0.5"),
        ({"collection": ""}, "'' is no name of a collection"),
        ({"collection": "../x"}, "is no name of a collection"),
        ({"collection": 5}, "5 is no name of a collection"),
        ({"id_column": "id"}, "a .npy file has no columns, but 'id' is named"),
        ({"source": []}, "no file or folder is named"),
        ({"source": ""}, "no file or folder is named"),
        ({"source": ["a.npy", "b.npy"]}, "is one of 2 files; a .npy file must be all"),
        ({"source": "x.parquet", "id_column": "vector"}, "columns of their own; named are 'vector', 'vector'"),
        (
            {"source": "x.parquet", "id_column": "id", "collection": None, "collection_column": "id"},
            "columns of their own; named are 'id', 'vector' and 'id'",
        ),
        ({"source": "x.parquet", "id_column": "id"}, "is no file or folder"),
    ],
    ids=str,
)
def test_what_is_refused_before_anything_is_read(tmp_path: Path, asked: dict[str, Any], says: str) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((4, 2), np.float32))
    given = {"collection": "c", "source": tmp_path / "rows.npy"} | asked
    with pytest.raises(StorageError, match=says):
        build(tmp_path / "root", given.pop("source"), **given)
    assert not any((tmp_path / "root").glob("*"))


def test_several_arrays_are_no_rows(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", a=np.zeros((2, 2)))
    (tmp_path / "rows.npz").rename(tmp_path / "rows.npy")
    with pytest.raises(StorageError, match="holds several arrays: rows of numbers are needed"):
        build(tmp_path / "root", tmp_path / "rows.npy", collection="c")


def parquet(path: Path, first: int = 0, count: int = 10, **more: Any) -> np.ndarray[Any, Any]:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = np.random.default_rng(first).standard_normal((count, 4), dtype=np.float32)
    pq.write_table(pa.table({"id": np.arange(first, first + count), "vector": rows.tolist(), **more}), path)
    return rows


@pytest.mark.parametrize("name", ["part-0", "b.parq", "notes.txt"])
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("address", ["", "file://"])
def test_a_file_that_would_be_passed_over_is_named(tmp_path: Path, name: str, listed: bool, address: str) -> None:
    for first, file in enumerate(["a.parquet", name]):
        parquet(tmp_path / "in" / file, 10 * first)
    given = ["in/a.parquet", f"in/{name}"] if listed else ["in"]
    source = [f"{address}{tmp_path}/{part}" for part in given]
    with pytest.raises(StorageError, match=f"{name} would not be read"):
        build(tmp_path / "root", source, collection="c", id_column="id")


def test_an_empty_file_is_no_part_of_a_collection(tmp_path: Path) -> None:
    parquet(tmp_path / "in" / "a.parquet")
    (tmp_path / "in" / "b.parquet").touch()
    with pytest.raises(StorageError, match=r"b\.parquet is empty"):
        build(tmp_path / "root", tmp_path / "in", collection="c", id_column="id")


def test_a_folder_without_parquet_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "_SUCCESS").touch()
    with pytest.raises(StorageError, match=r"in holds no \.parquet file"):
        build(tmp_path / "root", tmp_path / "in", collection="c", id_column="id")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("a?b.parquet", "would not be read"),
        ("x?/a.parquet", "would not be read"),
        ("deep/er/b.csv", "would not be read"),
        # Ray Data looks at the first name in the folder alone.
        ("d/_temporary/0.parquet", "would be read, though its name is that of something unfinished"),
        ("d/._x.parquet", "would be read, though"),
        ("d/.x/y/0.parquet", "would be read, though"),
    ],
)
def test_a_file_in_a_folder_that_ray_would_wrongly_read_or_miss_is_named(tmp_path: Path, name: str, says: str) -> None:
    parquet(tmp_path / "in" / "a.parquet")
    parquet(tmp_path / "in" / name)
    with pytest.raises(StorageError, match=says):
        _look_through(str(tmp_path / "in"))


@pytest.mark.parametrize("name", ["_x/0.parquet", ".x.parquet", "_d/e/0.csv", "_SUCCESS"])
def test_what_is_hidden_in_a_folder_is_passed_over(tmp_path: Path, name: str) -> None:
    parquet(tmp_path / "in" / "A.PARQUET")
    parquet(tmp_path / "in" / name)
    _look_through(str(tmp_path / "in"))


def test_a_hidden_file_that_is_named_is_read(tmp_path: Path) -> None:
    parquet(tmp_path / "_a.parquet")
    _look_through(str(tmp_path / "_a.parquet"))


@pytest.mark.parametrize("address", ["bogus://h/x.parquet", "FILE:///x.parquet", "file://localhost/x.parquet"])
def test_an_address_that_nothing_resolves(address: str) -> None:
    """Beside others Ray Data passes over it."""
    with pytest.raises(StorageError, match="cannot be read"):
        _look_through(address)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all")
def test_a_folder_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir(0o000)
    with pytest.raises(StorageError, match="cannot be read"):
        _look_through(str(tmp_path / "in"))


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (Path(os.fsdecode(os.fsencode(tmp_path / "in") + b"/\xff.parquet"))).write_bytes(b"PAR1")
    with pytest.raises(StorageError, match="cannot be read"):
        _look_through(str(tmp_path / "in"))


def test_a_page_of_the_web_is_left_to_the_reader() -> None:
    _look_through("https://localhost/rows.parquet")


def test_what_a_table_refuses_is_said_with_its_shard(tmp_path: Path) -> None:
    vectors = np.array([[3e38, 3e38], [1, 2]], np.float32)
    rows = {"shard": np.array([4, 4]), "collection": np.array(["c", "c"]), "id": np.array([9, 7]), "vector": vectors}
    with pytest.raises(ValueError, match="shard 4 of c, rows from id 7 on: row 1 has norm"):
        _build_shard(rows, str(tmp_path), "l2", "flat", 1, {})
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def ray_data() -> Iterator[None]:
    mine = not ray.is_initialized()
    if mine:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    if mine:
        ray.shutdown()


@pytest.mark.cluster
@pytest.mark.usefixtures("ray_data")
def test_paths_are_relative_to_who_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not to the folders that Ray's workers happen to run in. Names with "_" in front are passed over, as is usual."""
    rows = parquet(tmp_path / "in" / "a.parquet")
    (tmp_path / "in" / "_SUCCESS").touch()
    np.save(tmp_path / "rows.npy", rows)
    monkeypatch.chdir(tmp_path)
    for source, more in (("in", {"id_column": "id"}), (Path("rows.npy"), {}), (["rows.npy"], {})):
        (manifest,) = build("root", source, collection="c", table="flat", **more)  # type: ignore[arg-type]
        table = chiplet.open(Storage("root").shard(manifest, 0))
        assert len(table) == 10
    assert [entry.name for entry in Path("root").iterdir()] == ["c"]


@pytest.mark.cluster
@pytest.mark.usefixtures("ray_data")
def test_that_no_node_is_large_enough_is_said() -> None:
    """An autoscaler may add one; without it Ray waits for ever."""
    with pytest.warns(UserWarning, match=r"cpus_a_shard is 1000, and the largest node has \d+ cpus: the build waits"):
        _check_room(1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _check_room(1)


@pytest.mark.cluster
@pytest.mark.usefixtures("ray_data")
def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    parquet(tmp_path / "in" / "a.parquet")
    for asked in ({"id_column": "key"}, {"id_column": "id", "vector_column": "key"}):
        with pytest.raises(StorageError, match="there is no column 'key'; there are 'id', 'vector'"):
            build(tmp_path / "root", tmp_path / "in", collection="c", **asked)  # type: ignore[arg-type]


@pytest.mark.cluster
@pytest.mark.usefixtures("ray_data")
def test_a_row_without_collection_fails_the_build_of_all(tmp_path: Path) -> None:
    parquet(tmp_path / "in" / "a.parquet", kind=["a"] * 9 + [None])
    with pytest.raises(StorageError, match="the build failed: ValueError: a row's collection is None"):
        build(tmp_path / "root", tmp_path / "in", collection_column="kind", id_column="id")
    assert list((tmp_path / "root").iterdir()) == []
