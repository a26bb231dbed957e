"""Tables of Faiss indexes: trained by the user's faiss-cpu, in memory, and in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Rows
from test_processes import python

import chiplet

faiss: Any = pytest.importorskip("faiss")

FACTORIES = ["IVF16,Flat", "IVF16,SQ8", "IVF16,SQfp16", "IVF16,PQ12x4fs", "IVF16,PQ8"]


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_ivf_is_faiss_trained(factory: str, metric: Any, rows: Rows, queries: Rows) -> None:
    ids = np.arange(2_000) + 5_000
    table = chiplet.Ivf.build(rows, factory, metric=metric, ids=ids, nprobe=16)
    found = table.search(queries, k=10, nprobe=16).ids - 5_000
    truth = chiplet.Flat.build(rows, metric=metric).search(queries, k=10).ids
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, truth)])
    assert shared > (0.3 if "PQ" in factory else 0.95)
    assert table.metric == metric


@pytest.mark.parametrize(
    "factory", ["Flat", "IVF16,Flat", "IVF16,SQ8", "IVF16,SQfp16", "IVF16,SQbf16", "IVF16,PQ8", "IVF16,PQ12x4fs", "HNSW16,Flat"]
)
def test_from_faiss(factory: str, rows: Rows, queries: Rows, tmp_path: Path) -> None:
    index = faiss.index_factory(24, factory)
    index.train(rows)
    index.add(rows)
    if "IVF" in factory:
        faiss.extract_index_ivf(index).nprobe = 16
    want_distances, want = index.search(queries, 10)
    faiss.write_index(index, str(tmp_path / "a.faiss"))
    for given in (index, faiss.serialize_index(index).tobytes(), tmp_path / "a.faiss"):
        table = chiplet.from_faiss(given)
        settings: dict[str, Any] = {"nprobe": 16} if isinstance(table, chiplet.Ivf) else {"ef": 64}
        ids, distances = table.search(queries, k=10, **settings)
        same = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(ids, want)])
        assert same > (0.9 if "PQ" in factory else 0.98)
        if "PQ" not in factory and "HNSW" not in factory:
            np.testing.assert_allclose(distances, want_distances, rtol=2e-3, atol=1e-3)


def test_what_faiss_has_and_chiplet_has_not() -> None:
    with pytest.raises(chiplet.BuildError, match="IndexLSH"):
        chiplet.from_faiss(faiss.IndexLSH(8, 16))
    with pytest.raises(TypeError, match="dict"):
        chiplet.from_faiss({})
    with pytest.raises(chiplet.BuildError, match="IVF"):
        chiplet.Ivf.build(np.eye(8, dtype=np.float32), "HNSW32")


def test_lists_are_visited_as_in_rust_unless_said(rows: Rows, queries: Rows) -> None:
    table = chiplet.Ivf.build(rows, "IVF64,Flat")
    assert (table.search(queries, k=10).ids == table.search(queries, k=10, nprobe=16).ids).all()
    with pytest.raises(chiplet.BuildError, match="nprobe is 0"):
        chiplet.Ivf.build(rows, "IVF64,Flat", nprobe=0)


@pytest.mark.parametrize("factory", ["IVF16,Flat", "IVF16,SQ8", "IVF16,SQfp16", "IVF16,PQ12x4fs", "IVF16_HNSW8,Flat"])
def test_no_row_ends_the_process(factory: str) -> None:
    # What Faiss throws in a thread of OpenMP's cannot be caught.
    ended = python(f"""
for metric in "l2", "ip", "cosine":
    for size in 0, 1e-30, 3.9e18, 4.1e18, 1e19, float("nan"):
        for count in 1, 15, 16, 300:
            few = rows[:count].copy()
            few[count // 2] = 0
            few[count // 2, 3] = size
            try:
                table = chiplet.Ivf.build(few, {factory!r}, metric=metric)
                table.search(few, k=300, nprobe=1_000)
                assert metric == "cosine" or size < 4e18
            except chiplet.BuildError as why:
                said = str(why)
                assert size < 4e18 or count < 256 or f"row {{count // 2}} has" in said, said
print("over")
""", dim=12)
    assert ended.stdout.endswith("over\n"), ended.stderr


def test_a_description_of_no_lists_says_what_is_accepted(rows: Rows) -> None:
    for factory in ("LSH", "HNSW32", "", "IVF", "IVF16", "IVF16,PQ7", "IVF16,Nothing", "IVF99999999999,Flat"):
        for metric in ("l2", "cosine"):
            with pytest.raises(chiplet.BuildError, match="(accepted is IVF<lists>,<code>|cannot train)") as refused:
                chiplet.Ivf.build(rows, factory, metric=metric)
            assert "faiss::" not in str(refused.value)


def test_rows_of_lists_by_their_ids(rows: Rows) -> None:
    ids = np.random.default_rng(4).permutation(2_000) + 9
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for factory, wrong in (("IVF16,Flat", 1e-6), ("IVF16,SQfp16", 1e-2), ("IVF16,SQbf16", 1e-1), ("IVF16,SQ8", 1e-1)):
        for metric, kept in (("l2", rows), ("cosine", unit)):
            table = chiplet.Ivf.build(rows, factory, metric=metric, ids=ids)  # type: ignore[arg-type]  # pyright: ignore
            assert sorted(table.ids()) == sorted(ids) and ids[3] in table and 1 not in table
            if metric == "l2" or "Flat" in factory:
                np.testing.assert_allclose(table.vectors(ids[::5]), kept[::5], atol=wrong)
    coded = chiplet.Ivf.build(rows, "IVF16,PQ8")
    with pytest.raises(chiplet.QueryError, match="keeps codes and not its rows"):
        coded.vectors([0])


def test_the_metric_of_an_index_is_its_own(rows: Rows) -> None:
    index = faiss.IndexFlatIP(24)
    index.add(rows)
    assert chiplet.from_faiss(index, metric="ip").metric == "ip"
    with pytest.raises(chiplet.BuildError, match='one of metric "ip", not "l2"'):
        chiplet.from_faiss(index, metric="l2")


def test_ef_is_for_graphs(rows: Rows) -> None:
    table = chiplet.Ivf.build(rows, "IVF16,Flat")
    with pytest.raises(chiplet.QueryError, match="ef = 64 is for graphs"):
        table.search(rows[0], ef=64)


def test_without_faiss(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match="pip install faiss-cpu"):
        chiplet.Ivf.build(rows, "IVF16,SQ8")


@pytest.mark.parametrize("mmap", [False, True])
def test_files(mmap: bool, rows: Rows, queries: Rows, tmp_path: Path) -> None:
    table = chiplet.Ivf.build(rows, "IVF8,SQ8")
    table.save(tmp_path / "a.chiplet")
    again = chiplet.open(tmp_path / "a.chiplet", mmap=mmap)
    assert isinstance(again, chiplet.Ivf)
    want, got = table.search(queries, k=4), again.search(queries, k=4)
    assert (want.ids == got.ids).all() and (want.distances == got.distances).all()
