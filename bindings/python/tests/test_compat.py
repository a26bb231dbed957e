"""Other libraries' interfaces over tables, beside the libraries themselves.

The cases follow what hnswlib's own Python tests look at - recall after saving, spaces, labels, filters - written anew for an
index that is only read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import Rows

import chiplet
from chiplet.compat import faiss as adopted
from chiplet.compat import hnswlib

theirs: Any = pytest.importorskip("hnswlib")
faiss: Any = pytest.importorskip("faiss")

Saved = tuple[Any, hnswlib.Index, npt.NDArray[np.int64]]


@pytest.fixture(params=["l2", "ip", "cosine"])
def saved(request: pytest.FixtureRequest, rows: Rows, tmp_path: Path) -> Saved:
    """An index of hnswlib with labels of its own, and what was read of its file."""
    labels = np.random.default_rng(5).permutation(2_000) * 3 + 11
    index = theirs.Index(space=request.param, dim=24)
    index.init_index(max_elements=3_000, ef_construction=100, M=16)
    index.add_items(rows, labels, num_threads=1)
    index.save_index(str(tmp_path / "index.bin"))
    read = hnswlib.Index(space=request.param, dim=24)
    read.load_index(str(tmp_path / "index.bin"), max_elements=2_000)
    return index, read, labels


def test_the_same_answers(saved: Saved, queries: Rows) -> None:
    index, read, _ = saved
    for ef, k in ((10, 1), (10, 10), (64, 5), (300, 50)):
        index.set_ef(ef)
        read.set_ef(ef)
        want_labels, want = index.knn_query(queries, k=k)
        labels, distances = read.knn_query(queries, k=k)
        assert labels.dtype == want_labels.dtype and distances.dtype == want.dtype
        assert labels.shape == want_labels.shape == (200, k)
        assert (labels == want_labels).mean() > 0.999
        np.testing.assert_allclose(distances, want, rtol=1e-3, atol=1e-4)


def test_recall_of_what_was_added(saved: Saved, rows: Rows) -> None:
    _, read, labels = saved
    if read.space == "ip":
        pytest.skip("under the inner product a row need not be its own nearest")
    read.set_ef(60)
    found, distances = read.knn_query(rows, k=1)
    assert (found[:, 0] == labels).mean() > 0.99
    assert np.abs(distances).max() < 1e-3


def test_one_vector_is_a_row(saved: Saved, rows: Rows) -> None:
    _, read, _ = saved
    labels, distances = read.knn_query(rows[0], k=3)
    assert labels.shape == distances.shape == (1, 3)


@pytest.mark.parametrize("threads", [-1, 1, 4])
def test_filters(threads: int, saved: Saved, queries: Rows) -> None:
    index, read, labels = saved
    index.set_ef(200)
    read.set_ef(200)
    want, _ = index.knn_query(queries, k=5, num_threads=1, filter=lambda label: label % 2 == 0)
    got, _ = read.knn_query(queries, k=5, num_threads=threads, filter=lambda label: label % 2 == 0)
    assert (got % 2 == 0).all()
    same = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(got, want)])
    assert same > 0.95
    ready, _ = read.knn_query(queries, k=5, filter=chiplet.Filter(labels[labels % 2 == 0]))
    assert (ready == got).all()


def test_fewer_than_asked_for(saved: Saved, queries: Rows) -> None:
    _, read, labels = saved
    with pytest.raises(RuntimeError, match="contiguous 2D array"):
        read.knn_query(queries[:1], k=3, filter=lambda label: label == int(labels[0]))


def test_what_it_says_of_itself(saved: Saved) -> None:
    index, read, _ = saved
    assert read.get_current_count() == index.get_current_count() == read.element_count == 2_000
    assert (read.space, read.dim) == (index.space, index.dim)
    read.ef = 33
    assert read.ef == 33
    read.set_num_threads(2)
    assert sorted(read.get_ids_list()) == sorted(index.get_ids_list())
    assert "dim=24" in repr(read)


def test_labels_that_int64_does_not_hold(tmp_path: Path, rows: Rows) -> None:
    for label in (2**63 - 1, 2**63, 2**64 - 1):
        index = theirs.Index(space="l2", dim=24)
        index.init_index(max_elements=2)
        index.add_items(rows[:2], np.array([5, label], np.uint64))
        index.save_index(str(tmp_path / "index.bin"))
        if label < 2**63:
            read = hnswlib.Index(space="l2", dim=24)
            read.load_index(tmp_path / "index.bin")
            assert sorted(read.get_ids_list()) == [5, label] and read.knn_query(rows[1])[0].tolist() == [[label]]
        else:
            with pytest.raises(chiplet.FileError, match=f"label {label} does not fit in int64"):
                chiplet.Hnsw.from_hnswlib(tmp_path / "index.bin", 24)


def test_rows_by_their_labels(saved: Saved) -> None:
    index, read, labels = saved
    want = np.array(index.get_items(labels[:50]))
    np.testing.assert_allclose(read.get_items(labels[:50]), want, atol=1e-6)
    assert read.get_items().shape == (2_000, 24)
    flat = chiplet.Flat.build(want)
    np.testing.assert_array_equal(adopted(flat).reconstruct(3), want[3])


def test_it_is_read_only(saved: Saved, queries: Rows, tmp_path: Path) -> None:
    _, read, _ = saved
    for change in (read.init_index, read.add_items, read.mark_deleted, read.unmark_deleted, read.resize_index, read.save_index):
        with pytest.raises(NotImplementedError):
            change(10)
    with pytest.raises(RuntimeError, match="dimensionality"):
        read.knn_query(queries[:, :3])
    with pytest.raises(RuntimeError, match="load_index first"):
        hnswlib.Index("l2", 4).knn_query([[0, 0, 0, 0]])
    with pytest.raises(RuntimeError, match="l2, ip, or cosine"):
        hnswlib.Index("l1", 4)  # type: ignore[arg-type]  # pyright: ignore
    with pytest.raises(chiplet.FileError):
        hnswlib.Index("l2", 4).load_index(tmp_path / "absent")


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_faiss_search(metric: Any, rows: Rows, queries: Rows) -> None:
    index = faiss.IndexFlat(24, faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT)
    index.add(rows)
    ours = adopted(chiplet.Flat.build(rows, metric=metric))
    want_distances, want = index.search(queries, 6)
    distances, ids = ours.search(queries, 6)
    assert (ours.d, ours.ntotal, ours.is_trained) == (index.d, index.ntotal, True)
    assert (ids == want).mean() > 0.999
    np.testing.assert_allclose(distances, want_distances, rtol=1e-4, atol=1e-4)


def test_faiss_pads_alike() -> None:
    rows = np.eye(3, dtype=np.float32)
    for kind, metric in ((faiss.METRIC_L2, "l2"), (faiss.METRIC_INNER_PRODUCT, "ip")):
        index = faiss.IndexFlat(3, kind)
        index.add(rows)
        want_distances, want = index.search(rows, 5)
        table = chiplet.Flat.build(rows, metric=metric)  # type: ignore[arg-type]  # pyright: ignore
        distances, ids = adopted(table).search(rows, 5)
        assert (ids[:, 3:] == want[:, 3:]).all()
        assert (distances[:, 3:] == want_distances[:, 3:]).all() and distances.dtype == want_distances.dtype


def test_faiss_cosine_is_a_product(rows: Rows, queries: Rows) -> None:
    distances, ids = adopted(chiplet.Flat.build(rows, metric="cosine")).search(queries, 4)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    asked = queries / np.linalg.norm(queries, axis=1, keepdims=True)
    np.testing.assert_allclose(distances, (asked[:, None, :] * unit[ids]).sum(axis=2), atol=1e-5)
