#!/usr/bin/env python3
"""Writes the small HDF5 files beside this script, as h5py writes them: what tests/it/hdf5.rs reads.

    python3 -m venv .venv && .venv/bin/pip install h5py==3.16.0 numpy==2.4.6
    .venv/bin/python lab/workload/tests/data/make_hdf5.py

All hold the same 7 vectors of 3 dimensions, whole numbers, and 4 of them moved by a little as queries, in the
layout of ann-benchmarks (`write_output` in its datasets.py). They differ in how HDF5 stores that:

    contiguous.hdf5  h5py's defaults, as the published files: no chunks, superblock 0, f32, i32
    wide.hdf5        f64 vectors and i64 neighbours, as newer versions of ann-benchmarks write; angular
    gzip.hdf5        chunks that do not divide the shape; shuffle, gzip and checksums
    v114.hdf5        the newest file format of HDF5 1.14: superblock 3, version 2 headers; gzip
    lzf.hdf5         h5py's own compression
    bytes.hdf5       u8 vectors in one compact block
    bit.hdf5         booleans with the Hamming distance: no vectors, to be refused
    sparse.hdf5      a `train` of which one chunk was never written: to be refused
"""

from pathlib import Path

import h5py
import numpy as np

FOLDER = Path(__file__).resolve().parent
ROWS, DIM, QUERIES, K = 7, 3, 4, 2

TRAIN = np.array([[(5 * row + 3 * column) % 11 for column in range(DIM)] for row in range(ROWS)])
TEST = TRAIN[[6, 0, 3, 5]] + np.array([0.25, 0, 0])


def neighbors(distance):
    """Rows of `TRAIN` by distance, nearest first; the script ends if two of them tie."""
    test, train = TEST.astype(float), TRAIN.astype(float)
    if distance == "angular":
        test /= np.linalg.norm(test, axis=1)[:, None]
        train /= np.linalg.norm(train, axis=1)[:, None]
    distances = np.linalg.norm(test[:, None] - train[None], axis=2)
    order = np.argsort(distances, axis=1)
    near = np.take_along_axis(distances, order, axis=1)
    assert (np.diff(near[:, : K + 1], axis=1) > 1e-6).all()
    return order[:, :K], near[:, :K]


def write(name, dtype, ids, distance="euclidean", libver="earliest", create=None):
    create = create or {}
    near, distances = neighbors(distance)
    floats = dtype if np.issubdtype(dtype, np.floating) else np.float32
    # track_times is off so that the same bytes are written every time.
    with h5py.File(FOLDER / name, "w", libver=libver) as file:
        file.attrs["type"] = "dense"
        file.attrs["distance"] = distance
        file.attrs["dimension"] = DIM
        file.attrs["point_type"] = "float"
        for key, data in {
            "train": TRAIN.astype(dtype),
            "test": TEST.astype(floats),
            "neighbors": near.astype(ids),
            "distances": distances.astype(floats),
        }.items():
            file.create_dataset(key, data=data, track_times=False, **create)


def write_bit():
    with h5py.File(FOLDER / "bit.hdf5", "w") as file:
        file.attrs["distance"] = "hamming"
        file.attrs["point_type"] = "bit"
        for key in ["train", "test"]:
            file.create_dataset(key, data=TRAIN % 2 == 0, track_times=False)
        file.create_dataset("neighbors", data=np.zeros((ROWS, K), np.int32), track_times=False)


def write_sparse():
    with h5py.File(FOLDER / "sparse.hdf5", "w") as file:
        file.attrs["distance"] = "euclidean"
        train = file.create_dataset("train", (ROWS, DIM), np.float32, chunks=(2, DIM), track_times=False)
        train[:4] = TRAIN[:4]


def main():
    gzip = {"compression": "gzip", "shuffle": True}
    write("contiguous.hdf5", np.float32, np.int32)
    write("wide.hdf5", np.float64, np.int64, distance="angular")
    write("gzip.hdf5", np.float32, np.int32, create={**gzip, "chunks": (3, 2), "fletcher32": True})
    write("v114.hdf5", np.float32, np.int32, libver=("v114", "v114"), create={**gzip, "chunks": (2, 2)})
    write("lzf.hdf5", np.float32, np.int32, create={"compression": "lzf"})
    write_compact("bytes.hdf5")
    write_bit()
    write_sparse()


def write_compact(name):
    """`train` and `neighbors` inside their headers, which only the low-level interface can ask for."""
    near, _ = neighbors("euclidean")
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(h5py.h5d.COMPACT)
    properties.set_obj_track_times(False)
    with h5py.File(FOLDER / name, "w") as file:
        # A string of fixed length, as other writers than h5py store it.
        file.attrs["distance"] = np.bytes_("euclidean")
        for key, data in {
            "train": TRAIN.astype(np.uint8),
            "test": TEST.astype(np.float32),
            "neighbors": near.astype(np.int32),
        }.items():
            space = h5py.h5s.create_simple(data.shape)
            kind = h5py.h5t.py_create(data.dtype)
            dataset = h5py.h5d.create(file.id, key.encode(), kind, space, properties)
            dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(data))


if __name__ == "__main__":
    main()
