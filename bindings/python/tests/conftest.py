"""Rows, tables and executors that several tests use."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

import chiplet

Rows = npt.NDArray[np.float32]


@pytest.fixture(scope="session")
def rows() -> Rows:
    """2,000 rows of 24 components in 40 clusters."""
    random = np.random.default_rng(7)
    centres = random.standard_normal((40, 24))
    noise = 0.3 * random.standard_normal((2_000, 24))
    return (centres[random.integers(0, 40, 2_000)] + noise).astype(np.float32)


@pytest.fixture(scope="session")
def queries(rows: Rows) -> Rows:
    """200 rows, each moved a little."""
    random = np.random.default_rng(8)
    moved: Rows = (rows[::10] + 0.1 * random.standard_normal((200, 24))).astype(np.float32)
    return moved


@pytest.fixture(scope="session")
def hnsw(rows: Rows) -> chiplet.Hnsw:
    return chiplet.Hnsw.build(rows)


@pytest.fixture(scope="session")
def flat(rows: Rows) -> chiplet.Flat:
    return chiplet.Flat.build(rows)


@pytest.fixture
def executor() -> Iterator[chiplet.Executor]:
    with chiplet.Executor() as executor:
        yield executor


_numbers = itertools.count()


def added(executor: chiplet.Executor, table: chiplet.Table) -> str:
    """A name of its own for the table: the same test may run in several threads, with one executor."""
    name = f"rows-{next(_numbers)}"
    executor.add(name, table)
    return name


def nearest(rows: Rows, query: Rows, k: int) -> npt.NDArray[np.int64]:
    """Exact answers, by numpy."""
    distances = ((rows.astype(np.float64) - query.astype(np.float64)) ** 2).sum(axis=1)
    return np.argsort(distances, kind="stable")[:k]
