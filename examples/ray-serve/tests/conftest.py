"""One cluster for all tests that need one: three nodes, twelve collections, answers of one executor to compare with."""

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from chiplet_serve.storage import Manifest
from local.cluster import LocalCluster
from local.data import COLLECTIONS, build_all, words
from local.load import GrpcClient, Outcome, Run, offer, zipf
from local.truth import OneExecutor, Truth

#: A few searches a second count as hot: less load than a node of this machine can bear.
SENSITIVE = {"saturation": 0.001, "relax": 0.0005, "idle_share": 0.0001}

#: What loads came to, for the end of pytest's output.
REPORT: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What asks for the cluster has the mark `cluster`."""
    for item in items:
        if "world" in getattr(item, "fixturenames", ()):
            item.add_marker("cluster")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if REPORT:
        terminalreporter.section("under load")
        for line in REPORT:
            terminalreporter.write_line(line)


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
        cluster.deploy(cluster.config(root, map=SENSITIVE), folder / "serve.yaml")
        yield World(cluster, folder, root, manifests, vectors, truth)


def under_load(
    world: World,
    name: str,
    act: Callable[[], object] = lambda: None,
    *,
    rate: float = 40,
    before_s: float = 2,
    after_s: float = 3,
    timeout_s: float = 5,
    truth: Callable[[int, int, Outcome], bool] | None = None,
    weights: npt.NDArray[np.float64] | None = None,
    collections: list[str] = COLLECTIONS,
) -> Run:
    """Does something while searches come, from `before_s` seconds before it to `after_s` after it."""

    stop = threading.Event()

    async def load() -> Run:
        async with GrpcClient(world.cluster.grpc, collections, world.vectors, timeout_s=timeout_s) as client:
            return await offer(
                client.ask,
                rate,
                600,
                weights=zipf(len(collections)) if weights is None else weights,
                rows=len(world.vectors),
                timeout_s=timeout_s,
                truth=truth or world.truth,
                stop=stop,
            )

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(asyncio.run, load())
        try:
            time.sleep(before_s)
            act()
            time.sleep(after_s)
        finally:
            stop.set()
        run = running.result()
    REPORT.append(f"{name}: {run}")
    return run


def all_answered(run: Run) -> None:
    """Nothing failed, nothing came late, and all is what one executor answers."""
    assert run.answered > 0 and run.failed == 0 and run.outcomes["partial"] == 0, str(run)
    assert run.wrong == 0 and run.beyond == 0, str(run)
