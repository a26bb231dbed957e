"""What callers may pass in, and what they may not."""

from __future__ import annotations

import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Rows, added
from test_processes import python

import chiplet


@pytest.mark.parametrize("convert", [
    lambda x: x,
    lambda x: x.tolist(),
    lambda x: x.astype(np.float64),
    lambda x: x.astype(np.float16),
    lambda x: np.asfortranarray(x),
    lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    lambda x: memoryview(x),
    lambda x: x[::-1][::-1],
], ids=["f32", "lists", "f64", "f16", "fortran", "strided", "buffer", "reversed"])
def test_what_numpy_views(convert: Any, rows: Rows, queries: Rows) -> None:
    x, q = ((np.round(x * 8) / 8).astype(np.float32) for x in (rows, queries))
    want = chiplet.Flat.build(x).search(q, k=5)
    got = chiplet.Flat.build(convert(x)).search(convert(q), k=5)
    assert (want.ids == got.ids).all()


def test_buffers_and_integers() -> None:
    table = chiplet.Flat.build(np.eye(4, dtype=np.int32))
    assert table.search(array.array("f", [0, 0, 1, 0]), k=1).ids.tolist() == [2]
    assert table.search([0, 0, 0, 1], k=1).ids.tolist() == [3]


class OnGpu:
    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("nobody reads a GPU's memory")


def test_dlpack(flat: chiplet.Flat, rows: Rows) -> None:
    class Tensor:
        def __dlpack_device__(self) -> Any:
            return rows[3].__dlpack_device__()

        def __dlpack__(self, **keywords: Any) -> Any:
            return rows[3].__dlpack__(**keywords)

    assert flat.search(Tensor(), k=1).ids.tolist() == [3]


@pytest.mark.parametrize("given, words", [
    (OnGpu(), "move it to the CPU"),
    (np.zeros(24, np.complex64), "complex64"),
    (np.array([object()] * 24), "object"),
    (["a"] * 24, "<U1"),
    (np.zeros((2, 3, 24), np.float32), "this has 3"),
    (np.float32(1), "this has 0"),
])
def test_what_is_no_vector(given: Any, words: str, executor: chiplet.Executor, flat: chiplet.Flat) -> None:
    name = added(executor, flat)
    with pytest.raises(TypeError, match=words):
        executor.search(name, given)
    with pytest.raises(TypeError, match=words):
        flat.search(given)


def test_filters_that_are_none(flat: chiplet.Flat, rows: Rows) -> None:
    with pytest.raises(TypeError, match="not a callable"):
        flat.search(rows[0], filter=lambda id: True)  # type: ignore[arg-type]  # pyright: ignore
    with pytest.raises(TypeError, match="float64"):
        flat.search(rows[0], filter=[0.5])
    with pytest.raises(ValueError, match="id -1 at 1 is below 0"):
        flat.search(rows[0], filter=[1, -1])
    with pytest.raises(TypeError, match="this has 2"):
        flat.search(rows[0], filter=np.ones((2, 2), bool))
    nobody = flat.search(rows[0], k=2, filter=[])
    assert nobody.ids.tolist() == [-1, -1]


def test_a_mask_has_an_entry_for_each_row(executor: chiplet.Executor, flat: chiplet.Flat, hnsw: chiplet.Hnsw, rows: Rows) -> None:
    for table in (flat, hnsw):
        name = added(executor, table)
        for entries in (0, 10, 1_999, 2_001, 99_999):
            mask = np.ones(entries, bool)
            for wrong in (mask, chiplet.Filter(mask)):
                with pytest.raises(chiplet.QueryError, match=f"a mask of {entries} entries for 2000 rows"):
                    table.search(rows[0], filter=wrong)
                with pytest.raises(chiplet.QueryError, match=f"a mask of {entries} entries for 2000 rows"):
                    executor.search(name, rows[:2], filter=[np.ones(2_000, bool), wrong])
    # By ids of the caller's own it may go on, as that of all shards does, but it must not end before the last.
    shard = chiplet.Flat.build(rows[:3], ids=[7, 2, 5])
    for entries in (8, 100):
        assert sorted(shard.search(rows[0], k=3, filter=np.ones(entries, bool)).ids) == [2, 5, 7]
    with pytest.raises(chiplet.QueryError, match="a mask of 7 entries, and ids go up to 7"):
        shard.search(rows[0], filter=np.ones(7, bool))
    nothing = chiplet.Flat.build(np.empty((0, 24), np.float32))
    assert nothing.search(rows[0], k=1, filter=np.ones(0, bool)).ids.tolist() == [-1]
    with pytest.raises(chiplet.QueryError, match="for 0 rows"):
        nothing.search(rows[0], filter=np.ones(1, bool))


def test_ids_that_are_allowed_differ(flat: chiplet.Flat, rows: Rows) -> None:
    zeros_and_ones = np.arange(2_000) % 2
    for repeated, words in ((zeros_and_ones, "id 0 is given twice, at 0 and 2: .* for a mask of rows pass booleans"),
                            ([1, 1, 2], "id 1 is given twice, at 0 and 1"), ([2**40, 5, 2**40], "at 0 and 2")):
        with pytest.raises(chiplet.QueryError, match=words):
            flat.search(rows[0], filter=repeated)
        with pytest.raises(chiplet.QueryError, match=words):
            chiplet.Filter(repeated)


def test_settings_that_mean_nothing(executor: chiplet.Executor, flat: chiplet.Flat, hnsw: chiplet.Hnsw, rows: Rows) -> None:
    name = added(executor, hnsw)
    for metric in ("l2", "cosine"):
        table = chiplet.Flat.build(rows, metric=metric)
        with pytest.raises(chiplet.QueryError, match="radius = -1; distances of this table are 0 and above"):
            table.search(rows[0], radius=-1)
        assert (table.search(rows[0], k=1, radius=-0.0).distances < np.inf).sum() <= 1
    products = chiplet.Flat.build(rows, metric="ip")
    assert products.search(rows[0], k=1, radius=-0.5).distances[0] <= -0.5
    with pytest.raises(chiplet.QueryError, match="nprobe = 4 is for inverted lists"):
        hnsw.search(rows[0], nprobe=4)
    with pytest.raises(chiplet.QueryError, match="nprobe = 4 is for inverted lists"):
        executor.search(name, rows[:3], nprobe=4)
    with pytest.raises(TypeError, match="size_bytes is of what callables search"):
        executor.add("more", flat, size_bytes=4)
    for close in (-1, float("nan")):
        with pytest.raises(ValueError, match="timeout = "):
            executor.close(timeout=close)
    for other, words in ((rows[:, :8], "8 components"), (np.empty((0, 23), np.float32), "23 components")):
        with pytest.raises(chiplet.QueryError, match=f'"{name}" is of 24 components \\(l2\\), the other of {words}'):
            executor.replace(name, chiplet.Flat.build(other))
    with pytest.raises(chiplet.QueryError, match="\\(cosine\\)"):
        executor.replace(name, chiplet.Flat.build(rows, metric="cosine"))
    assert executor.search(name, rows[3], k=1).ids.tolist() == [3]


def test_bad_queries(executor: chiplet.Executor, hnsw: chiplet.Hnsw, rows: Rows) -> None:
    name = added(executor, hnsw)
    broken = rows[:4].copy()
    broken[2, 5] = np.nan
    for search in (executor.search, lambda _, *rest, **more: hnsw.search(*rest, **more)):
        with pytest.raises(chiplet.QueryError, match=r"(?s)24.*8|8.*24"):
            search(name, rows[0, :8])
        with pytest.raises(chiplet.QueryError, match="component 5 of the query is NaN"):
            search(name, broken[2])
        with pytest.raises(chiplet.QueryError, match="query 2: component 5 of the query is NaN"):
            search(name, broken)
        with pytest.raises(chiplet.QueryError, match="k = 0"):
            search(name, rows[0], k=0)
        with pytest.raises(chiplet.QueryError, match="ef = -3"):
            search(name, rows[0], ef=-3)
        with pytest.raises(chiplet.QueryError, match="nprobe = 0"):
            search(name, rows[0], nprobe=0)
        with pytest.raises(TypeError, match="k is a whole number"):
            search(name, rows[0], k="ten")  # type: ignore[arg-type]  # pyright: ignore
        with pytest.raises(chiplet.QueryError, match="NaN"):
            search(name, rows[0], radius=float("nan"))
        with pytest.raises(chiplet.QueryError, match="too much room"):
            search(name, rows[0], k=1 << 40)
        with pytest.raises(chiplet.QueryError):
            search(name, np.empty((3, 0), np.float32))
    with pytest.raises(chiplet.QueryError, match="deadline is NaN"):
        executor.search(name, rows[0], deadline=float("nan"))
    with pytest.raises(ValueError, match="interactive"):
        executor.search(name, rows[0], class_="urgent")  # type: ignore[arg-type]  # pyright: ignore
    assert executor.snapshot()["total"]["panicked"] == 0
    assert executor.search(name, rows[7], k=1).ids.tolist() == [7]


def test_bad_rows(rows: Rows) -> None:
    broken = rows.copy()
    broken[40, 3] = np.inf
    for build in (chiplet.Flat.build, chiplet.Hnsw.build):
        with pytest.raises(chiplet.BuildError, match="row 40 has inf at component 3"):
            build(broken)
        with pytest.raises(TypeError, match="this has 1"):
            build(rows[0])
        with pytest.raises(chiplet.BuildError, match="dimension 0"):
            build(np.empty((3, 0), np.float32))
        with pytest.raises(ValueError, match="metric is \"l1\""):
            build(rows, metric="l1")  # type: ignore[arg-type]  # pyright: ignore
        with pytest.raises(chiplet.BuildError, match="id -7 at 1"):
            build(rows[:3], ids=[4, -7, 5])
        with pytest.raises(chiplet.BuildError, match="twice"):
            build(rows[:3], ids=[4, 7, 4])
        with pytest.raises(chiplet.BuildError, match=r"2\b.*\b3|3\b.*\b2"):
            build(rows[:3], ids=[4, 7])
        with pytest.raises(TypeError, match="float64"):
            build(rows[:3], ids=[0.5, 1, 2])
        assert len(build(np.empty((0, 24), np.float32))) == 0
    with pytest.raises(chiplet.BuildError):
        chiplet.Hnsw.build(rows, m=0)
    with pytest.raises(OverflowError):
        chiplet.Hnsw.build(rows, m=-1)


@pytest.mark.thread_unsafe(reason="it counts on names")
def test_names(executor: chiplet.Executor, flat: chiplet.Flat) -> None:
    executor.add("a", flat)
    with pytest.raises(chiplet.NameTaken, match='"a"'):
        executor.add("a", flat)
    with pytest.raises(chiplet.UnknownTable):
        executor.remove("b")
    with pytest.raises(KeyError):
        executor.replace("b", flat)
    with pytest.raises(ValueError, match="weight"):
        executor.add("c", flat, weight=0)
    assert executor.tables == ["a"]


@pytest.mark.thread_unsafe(reason="it counts on names")
def test_settings() -> None:
    with pytest.raises(ValueError, match="level"):
        chiplet.Executor(level="l4")  # type: ignore[arg-type]  # pyright: ignore
    with pytest.raises(ValueError, match="pin"):
        chiplet.Executor(pin="hard")  # type: ignore[arg-type]  # pyright: ignore
    with pytest.raises(chiplet.BuildError, match="queue_limit is 0"):
        chiplet.Executor(queue_limit=0)
    with pytest.raises(chiplet.BuildError, match="reserve fewer"):
        chiplet.Executor(reserve_cores=100_000)
    with pytest.raises(TypeError):
        chiplet.Executor(workers=3)  # type: ignore[call-arg]  # pyright: ignore


def test_files_that_are_none(tmp_path: Path, flat: chiplet.Flat) -> None:
    with pytest.raises(OSError) as missing:
        chiplet.open(tmp_path / "absent")
    assert isinstance(missing.value, chiplet.FileError)
    (tmp_path / "text").write_text("no table\n" * 1_000)
    with pytest.raises(chiplet.FileError):
        chiplet.open(tmp_path / "text")
    flat.save(tmp_path / "flat")
    whole = bytearray((tmp_path / "flat").read_bytes())
    whole[len(whole) // 2] ^= 1
    (tmp_path / "damaged").write_bytes(whole)
    with pytest.raises(chiplet.FileError, match="damaged"):
        chiplet.open(tmp_path / "damaged")
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 3])
    with pytest.raises(chiplet.FileError):
        chiplet.open(tmp_path / "cut", mmap=True)
    for broken in (b"", b"IwFl", b"\0" * 64):
        with pytest.raises((chiplet.BuildError, chiplet.FileError)):
            chiplet.from_faiss(broken)
    with pytest.raises(chiplet.FileError):
        chiplet.Hnsw.from_hnswlib(tmp_path / "text", 24)


def test_a_closed_executor(flat: chiplet.Flat, rows: Rows) -> None:
    executor = chiplet.Executor()
    executor.add("rows", flat)
    executor.close()
    executor.close()
    for use in (
        lambda: executor.search("rows", rows[0]),
        lambda: executor.search("rows", rows[:3]),
        lambda: executor.run("rows", int),
        lambda: executor.add("more", flat),
        lambda: executor.remove("rows"),
    ):
        with pytest.raises(chiplet.Closed):
            use()


def test_overload_and_deadline(flat: chiplet.Flat, rows: Rows) -> None:
    with chiplet.Executor() as executor:
        executor.add("none", flat, queue_limit=0)
        with pytest.raises(chiplet.Overloaded) as refused:
            executor.search("none", rows[0])
        assert refused.value.expected_wait is None
        executor.add("rows", flat)
        with pytest.raises(chiplet.Expired) as late:
            executor.search("rows", rows[0], deadline=-1.0)
        assert isinstance(late.value, TimeoutError)
        assert executor.search("rows", rows[0], k=1, deadline=1e300).ids.tolist() == [0]


def test_limits(flat: chiplet.Flat, rows: Rows) -> None:
    with chiplet.Executor(max_k=5) as executor:
        executor.add("rows", flat)
        with pytest.raises(chiplet.QueryError, match="over the limit of 5"):
            executor.search("rows", rows[0], k=6)


def test_what_may_mean_two_things(flat: chiplet.Flat, rows: Rows) -> None:
    with pytest.raises(TypeError, match="bool for a mask"):
        flat.search(rows[0], filter=np.ones(2_000, np.uint8))
    masked = np.ma.masked_equal(rows[0], rows[0, 3])
    with pytest.raises(TypeError, match="masked array"):
        flat.search(masked)
    with pytest.raises(TypeError, match="masked array"):
        chiplet.Flat.build(np.ma.masked_greater(rows, 0))
    pair = chiplet.Flat.build(rows[:2])
    assert pair.search(rows[0], k=1, filter=[np.False_, np.True_]).ids.tolist() == [1]
    with pytest.raises(ValueError, match="2\\*\\*63"):
        flat.search(rows[0], filter=[2**63])
    assert -1 not in chiplet.Filter([5])


def test_layouts_that_no_vector_has(flat: chiplet.Flat, rows: Rows) -> None:
    raw = b"x" + rows[3].tobytes()
    unaligned = np.frombuffer(raw, np.float32, offset=1)
    assert not unaligned.flags.aligned
    assert flat.search(unaligned, k=1).ids.tolist() == [3]
    assert flat.search(rows.astype(">f4")[3], k=1).ids.tolist() == [3]


def test_errors_of_the_system(tmp_path: Path, flat: chiplet.Flat) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        chiplet.open(tmp_path / "absent")
    assert isinstance(missing.value, chiplet.FileError)
    assert missing.value.errno == 2 and str(missing.value.filename).endswith("absent")
    with pytest.raises(chiplet.FileError, match="not a regular file"):
        flat.save("/dev/null")


def test_a_folder_that_does_not_exist(tmp_path: Path, flat: chiplet.Flat, hnsw: chiplet.Hnsw) -> None:
    path = tmp_path / "absent" / "t"
    for table in (flat, hnsw):
        with pytest.raises(FileNotFoundError) as missing:
            table.save(path)
        assert str(missing.value) == f"cannot write {path}: the folder does not exist"
        assert isinstance(missing.value, chiplet.MissingFile) and missing.value.errno == 2


def test_names_are_those_that_users_write() -> None:
    ended = python("""
assert not any(name.startswith("chiplet.compat") for name in sys.modules)
print(chiplet.compat.hnswlib.Index("l2", 4), chiplet.compat.faiss, chiplet.ann_benchmarks.Hnsw)
chiplet.Flat.build(rows).search(rows[0], 0)
""")
    assert ended.stdout.startswith("<chiplet.compat.hnswlib.Index("), ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("chiplet.QueryError: k = 0")
    assert not hasattr(chiplet, "absent")
    for name in chiplet.__all__:
        named = getattr(chiplet, name)
        assert not isinstance(named, type) or named.__module__ == "chiplet"


def test_what_cannot_be_pickled(executor: chiplet.Executor, flat: chiplet.Flat) -> None:
    import pickle

    with pytest.raises(TypeError, match="save"):
        pickle.dumps(flat)
    with pytest.raises(TypeError, match="in each process"):
        pickle.dumps(executor)


def test_a_callable_cannot_close_its_own_executor(executor: chiplet.Executor, flat: chiplet.Flat, rows: Rows) -> None:
    name = added(executor, flat)
    with pytest.raises(chiplet.Failed, match="its own executor"):
        executor.run(name, executor.close)
    assert executor.search(name, rows[3], k=1).ids.tolist() == [3]


def test_more_settings(flat: chiplet.Flat, rows: Rows) -> None:
    with pytest.raises(chiplet.BuildError, match="NUL"):
        chiplet.Executor(name="a\0b")
    with pytest.raises(chiplet.BuildError, match="1 to 4096"):
        chiplet.Hnsw.build(rows, threads=2**40)
    with pytest.raises(chiplet.QueryError, match="threads = 0"):
        flat.search(rows, threads=0)
    with pytest.raises(chiplet.QueryError, match="63 bits"):
        flat.search(rows[0], k=2**63)
    with pytest.raises(ValueError, match="bulk_weight = -1"):
        chiplet.Executor(bulk_weight=-1)
