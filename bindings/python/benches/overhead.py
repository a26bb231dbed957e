"""What Python costs: calls beside their searches, batches and threads beside Rust's, an event loop beside a thread pool.

    python overhead.py CLIENTS [ROUNDS] [SECONDS]

CLIENTS is the program of benches/clients.rs. All figures are ratios of rounds in turn: the median, and in brackets the
lowest and highest.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hnswlib
import numpy as np
import usearch.index

import chiplet

K, EF, DIM, ROWS = 10, 64, 64, 20_000


def main() -> None:
    clients = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
    random = np.random.default_rng(1)
    centres = random.standard_normal((200, DIM))
    rows = (centres[random.integers(0, 200, ROWS)] + 0.5 * random.standard_normal((ROWS, DIM))).astype(np.float32)
    queries = (rows[:2_000] + 0.2 * random.standard_normal((2_000, DIM))).astype(np.float32)
    table = chiplet.Hnsw.build(rows)

    with tempfile.TemporaryDirectory() as folder, chiplet.Executor(queue_limit=4_000, table_queue_limit=2_000) as executor:
        executor.add("rows", table)
        table.save(Path(folder) / "table")
        queries.tofile(Path(folder) / "queries")

        def rust(threads: int) -> Callable[[], float]:
            command = [clients, f"{folder}/table", f"{folder}/queries", str(seconds), str(threads)]
            return lambda: float(subprocess.check_output(command))

        print(f"{ROWS} x {DIM}, k = {K}, ef = {EF}; {rounds} rounds of {seconds:g} s")
        calls(rounds, seconds)
        searches(rounds, seconds, table, rows, queries)
        ratios(rounds, "one block: Python over Rust", lambda: block(executor, queries, seconds), rust(0))
        ratios(rounds, "16 threads: Python over Rust", lambda: threads(executor, queries, seconds, 16), rust(16))
        ratios(
            rounds,
            "1,000 outstanding on one loop: asearch over run_in_executor",
            lambda: asyncio.run(outstanding(queries, seconds, lambda loop, q: executor.asearch("rows", q, K, ef=EF))),
            lambda: pooled(executor, queries, seconds),
        )


def calls(rounds: int, seconds: float) -> None:
    """A table of one row: what is left is the call."""
    row = np.ones((1, 8), np.float32)
    ours = chiplet.Hnsw.build(row)
    theirs, other = hnswlib.Index("l2", 8), usearch.index.Index(ndim=8, metric="l2sq")
    theirs.init_index(1)
    theirs.add_items(row)
    other.add(np.arange(1), row)
    one = row[0]
    single = lambda: per_second(lambda: ours.search(one, 1), seconds)
    ratios(rounds, "calls, one row: ours over hnswlib's", single, lambda: per_second(lambda: theirs.knn_query(row, 1, 1), seconds))
    ratios(rounds, "calls, one row: ours over usearch's", single, lambda: per_second(lambda: other.search(one, 1), seconds))


def searches(rounds: int, seconds: float, table: chiplet.Table, rows: Any, queries: Any) -> None:
    """One query a call, at an ef each that finds as much."""
    theirs = hnswlib.Index("l2", DIM)
    theirs.init_index(ROWS, M=16, ef_construction=200)
    theirs.add_items(rows)
    theirs.set_num_threads(1)
    other = usearch.index.Index(ndim=DIM, metric="l2sq", connectivity=16, expansion_add=200)
    other.add(np.arange(ROWS), rows)
    truth = chiplet.Flat.build(rows).search(queries, K).ids

    def ef_of(search: Callable[[int], Any]) -> int:
        for ef in range(10, 400, 2):
            found = search(ef)
            if np.mean([len(set(a) & set(b)) / K for a, b in zip(found, truth)]) >= 0.99:
                return ef
        raise RuntimeError("no ef finds 0.99")

    def hnswlibs(ef: int) -> Any:
        theirs.set_ef(ef)
        return theirs.knn_query(queries, K)[0]

    def usearchs(ef: int) -> Any:
        other.expansion_search = ef
        return other.search(queries, K).keys

    ours_ef = ef_of(lambda ef: table.search(queries, K, ef=ef).ids)
    ef_of(hnswlibs), ef_of(usearchs)
    each = iter_of(queries)
    ours = lambda: per_second(lambda: table.search(next(each), K, ef=ours_ef), seconds)
    ratios(rounds, "single searches at recall 0.99: ours over hnswlib's", ours,
           lambda: per_second(lambda: theirs.knn_query(next(each), K, 1), seconds))
    ratios(rounds, "single searches at recall 0.99: ours over usearch's", ours,
           lambda: per_second(lambda: other.search(next(each), K), seconds))


def iter_of(queries: Any) -> Any:
    while True:
        yield from queries


def per_second(call: Callable[[], Any], seconds: float) -> float:
    done, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        for _ in range(100):
            call()
        done += 100
    return done / passed


def block(executor: chiplet.Executor, queries: Any, seconds: float) -> float:
    done, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        executor.search_batch("rows", queries, K, ef=EF)
        done += len(queries)
    return done / passed


def threads(executor: chiplet.Executor, queries: Any, seconds: float, count: int) -> float:
    done = [0] * count
    began = time.perf_counter()

    def client(number: int) -> None:
        at = number * 61
        while time.perf_counter() - began < seconds:
            executor.search("rows", queries[at % len(queries)], K, ef=EF)
            at += 1
            done[number] += 1

    running = [threading.Thread(target=client, args=(number,)) for number in range(count)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


async def outstanding(queries: Any, seconds: float, search: Callable[[Any, Any], Any], count: int = 1_000) -> float:
    loop = asyncio.get_running_loop()
    began, done = time.perf_counter(), 0

    async def client(number: int) -> None:
        nonlocal done
        at = number * 61
        while time.perf_counter() - began < seconds:
            await search(loop, queries[at % len(queries)])
            at += 1
            done += 1

    await asyncio.gather(*(client(number) for number in range(count)))
    return done / (time.perf_counter() - began)


def pooled(executor: chiplet.Executor, queries: Any, seconds: float) -> float:
    with ThreadPoolExecutor(32) as pool:
        search = lambda loop, query: loop.run_in_executor(pool, lambda: executor.search("rows", query, K, ef=EF))
        return asyncio.run(outstanding(queries, seconds, search))


def ratios(rounds: int, what: str, ours: Callable[[], float], theirs: Callable[[], float]) -> None:
    found = sorted(ours() / theirs() for _ in range(rounds))
    print(f"{what}: {statistics.median(found):.2f} ({found[0]:.2f}-{found[-1]:.2f})", flush=True)


if __name__ == "__main__":
    main()
