"""One cluster for all tests that need one: three nodes, twelve collections, answers of one executor to compare with."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from local.cluster import LocalCluster
from local.data import COLLECTIONS, build_all, words
from local.truth import OneExecutor, Truth

from chiplet_serve.storage import Manifest


class World(NamedTuple):
    cluster: LocalCluster
    folder: Path
    root: Path
    manifests: list[Manifest]
    vectors: npt.NDArray[np.float32]
    truth: Truth


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="chiplet-serve-") as temporary, LocalCluster() as cluster:
        folder = Path(temporary)
        root = folder / "shared"
        manifests = build_all(root, folder / "words.parquet")
        vectors = words().vectors[:200]
        with OneExecutor(root, manifests) as one:
            truth = one.answers(COLLECTIONS, vectors)
        cluster.deploy(cluster.config(root), folder / "serve.yaml")
        yield World(cluster, folder, root, manifests, vectors, truth)
