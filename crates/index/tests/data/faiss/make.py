#!/usr/bin/env python3
"""Writes small indexes of Faiss and what Faiss itself answers, for ../../faiss_file.rs, to a folder named after the version.

pip install faiss-cpu==VERSION 'numpy<2', then run it here. Deterministic for each version: one thread and fixed seeds.
Needed only for another version, or another index. `make.py few` writes those whose bytes differ most between versions.
"""

import json
import sys
from pathlib import Path

import faiss
import numpy as np

ROWS, DIM, LISTS, K = 60, 6, 4, 3
OUT = Path(__file__).parent / faiss.__version__
LARGE = 2**40
FEW = {
    "flat-l2", "idmap2-hnsw", "ivf-flat-l2", "ivf-sq8-l2", "ivf-fp16", "ivf-bf16", "ivf-pq4-ip", "ivf-fs-l2", "ivf-fsr-l2",
    "ivf-fs-64", "opq-ivf-sq8", "pca-ivf-pq4-rflat",
}

faiss.omp_set_num_threads(1)
random = np.random.default_rng(11)
rows = random.normal(size=(ROWS, DIM)).astype(np.float32)
training = np.concatenate([rows, random.normal(size=(340, DIM)).astype(np.float32)])
queries = random.normal(size=(4, DIM)).round(3).astype(np.float32)
unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
ids = 1000 + 7 * np.arange(ROWS, dtype=np.int64)
ids[5] = LARGE
expected = {"queries": queries.tolist(), "files": {}}


def answers(index, at=None, asked=queries):
    """What `index` answers, at each of the settings `at` of `name`."""
    name, values = at or (None, [None])
    found = []
    for value in values:
        if name:
            faiss.ParameterSpace().set_index_parameter(index, name, value)
        distances, rows_found = index.search(asked, K)
        queries_found = []
        for one, other in zip(rows_found, distances):
            queries_found.append([[int(i), float(f"{d:.8g}")] for i, d in zip(one, other) if i >= 0])
        found.append({"at": value, "found": queries_found})
    return found


def write(name, index, kind, at=None, twin=None, asked=queries):
    """Writes `index`, and what it answers or, where Faiss rounds its answers, what `twin` does."""
    if "few" in sys.argv and name not in FEW:
        return
    expected["files"][name] = {
        "kind": kind,
        "metric": {faiss.METRIC_L2: "l2", faiss.METRIC_INNER_PRODUCT: "ip"}[index.metric_type],
        "len": index.ntotal,
        "answers": answers(twin or index, at, asked),
    }
    if at:
        # What the file says is what a search does that asks for nothing.
        faiss.ParameterSpace().set_index_parameter(index, *[at[0], at[1][-1]])
    (OUT / f"{name}.index").write_bytes(faiss.serialize_index(index).tobytes())


def factory(text, metric=faiss.METRIC_L2, own_ids=None, add=rows):
    index = faiss.index_factory(DIM, text, metric)
    index.train(training)
    if len(add):
        index.add(add) if own_ids is None else index.add_with_ids(add, own_ids)
    return index


def fast_scan(residual, metric, block):
    """Codes of 4 bits as fast-scan has them, and the same in an index that does not round."""
    twin = faiss.IndexIVFPQ(faiss.IndexFlat(DIM, metric), DIM, LISTS, 3, 4, metric)
    twin.by_residual = residual
    twin.train(training)
    twin.add_with_ids(rows, ids)
    return faiss.IndexIVFPQFastScan(twin, block), twin


OUT.mkdir(exist_ok=True)
IP = faiss.METRIC_INNER_PRODUCT
probes = ("nprobe", [1, LISTS, 2])
efs = ("efSearch", [K, ROWS, 8])

write("flat-l2", factory("Flat"), "flat")
write("flat-ip", factory("Flat", IP), "flat")
write("flat-empty", factory("Flat", add=rows[:0]), "flat")
write("flat-unit", factory("Flat", IP, add=unit), "flat")
write("idmap-flat", factory("IDMap,Flat", own_ids=ids), "flat")
write("hnsw-l2", factory("HNSW4,Flat"), "hnsw", efs)
write("hnsw-ip", factory("HNSW4,Flat", IP), "hnsw", efs)
write("hnsw-empty", factory("HNSW4,Flat", add=rows[:0]), "hnsw")
write("idmap2-hnsw", factory("IDMap2,HNSW4,Flat", own_ids=ids), "hnsw")

write("ivf-flat-l2", factory("IVF4,Flat", own_ids=ids), "ivf", probes)
write("ivf-flat-ip", factory("IVF4,Flat", IP), "ivf", probes)
write("ivf-empty", factory("IVF4,Flat", add=rows[:0]), "ivf")
write("ivf-sparse", factory("IVF16,Flat", add=rows[:5]), "ivf", ("nprobe", [1, 16, 4]))
mapped = factory("IVF4,Flat")
mapped.set_direct_map_type(faiss.DirectMap.Hashtable)
write("ivf-direct-map", mapped, "ivf", probes)
arrayed = factory("IVF4,SQ8")
arrayed.make_direct_map()
write("ivf-sq8-l2", arrayed, "ivf", probes)
write("ivf-sq8-ip", factory("IVF4,SQ8", IP), "ivf", probes)
write("ivf-sq4", factory("IVF4,SQ4"), "ivf", probes)
write("ivf-fp16", factory("IVF4,SQfp16", IP), "ivf", probes)
if hasattr(faiss.ScalarQuantizer, "QT_bf16"):
    write("ivf-bf16", factory("IVF4,SQbf16"), "ivf", probes)
write("ivf-pq", factory("IVF4,PQ2"), "ivf", probes)
write("ivf-pq4-ip", factory("IVF4,PQ3x4", IP), "ivf", probes)
for name, residual, metric, block in [
    ("ivf-fs-l2", False, faiss.METRIC_L2, 32),
    ("ivf-fs-ip", False, IP, 32),
    ("ivf-fsr-l2", True, faiss.METRIC_L2, 32),
    ("ivf-fs-64", False, faiss.METRIC_L2, 64),
]:
    index, twin = fast_scan(residual, metric, block)
    write(name, index, "ivf", probes, twin)
write("ivf-hnsw", factory("IVF4_HNSW4,Flat"), "ivf", ("nprobe", [LISTS]))
write("opq-ivf-sq8", factory("OPQ2_4,IVF4,SQ8"), "ivf", probes)
write("pca-opq-ivf-flat", factory("PCA5,OPQ2_4,IVF4,Flat"), "ivf", probes)
# Visits all lists, and asks them for all rows, so that the exact rows decide.
refined = factory("PCA4,IVF4,PQ2x4,RFlat")
refined.k_factor = ROWS / K
faiss.ParameterSpace().set_index_parameter(refined, "nprobe", LISTS)
write("pca-ivf-pq4-rflat", refined, "ivf")
normalised = factory("L2norm,IVF4,Flat", IP)
write("l2norm-ivf-flat", normalised, "ivf", probes)

(OUT / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
