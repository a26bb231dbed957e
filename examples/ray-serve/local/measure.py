"""What Serve adds to a search, by hop: with and without its throughput mode, with batches on and off, beside one executor.

Each mode is a cluster of its own. Right before and after it a server without Ray, one process with one executor, takes the
same load: what is compared are the ratios, since other machines' noise passes over all of them.
"""

import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from chiplet_serve.storage import Storage

from .cluster import HERE, LocalCluster, free_port
from .data import COLLECTIONS, words
from .load import GrpcClient, Outcome, Run, offer, saturate, zipf
from .truth import OneExecutor

#: Clients that ask at once.
_MANY = 16
#: Part of what goes through at most, for the load that comes when it comes.
_PART = 0.5
_THROUGHPUT = "RAY_SERVE_THROUGHPUT_OPTIMIZED"

#: Parts of a search's time that follow each other, from what is measured.
STEPS: dict[str, Callable[[dict[str, float]], float]] = {
    "client, proxy": lambda hops: hops["client"] - hops["ingress"],
    "ingress": lambda hops: hops["ingress"] - hops["gather"] - (hops["call"] or hops["executor"]),
    "gather": lambda hops: hops["gather"],
    "transport": lambda hops: hops["call"] - hops["node"],
    "node": lambda hops: hops["node"] - hops["executor"] if hops["node"] else 0.0,
    "executor": lambda hops: hops["executor"],
}

HOPS = ["client", "ingress", "gather", "call", "node", "executor"]


def all_modes(root: Path, *, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """One row for each mode and round. All have the same table files."""
    found = []
    for turn in range(rounds):
        found.append({"round": turn, "mode": "one executor, in process", **in_process(root, seconds)})
        for throughput in False, True:
            with _environment(_THROUGHPUT, "1" if throughput else None), LocalCluster() as cluster:
                for batch in 64, 1:
                    mode = f"Serve{', throughput mode' if throughput else ''}, batches {'on' if batch > 1 else 'off'}"
                    print(f"{mode} ...", flush=True)
                    cluster.deploy(cluster.config(root, search={"batch": batch}), root.parent / "serve.yaml")
                    before = _plain(root, seconds)
                    here = _by_grpc(cluster.ingress_port(), seconds)
                    after = _plain(root, seconds)
                    reference = {name: (before[name] + after[name]) / 2 for name in ("most", "p50")}
                    found.append({"round": turn, "mode": "one executor behind gRPC, no Ray", **before})
                    found.append(
                        {
                            "round": turn,
                            "mode": mode,
                            **here,
                            "most_ratio": here["most"] / reference["most"],
                            "p50_ratio": here["p50"] / reference["p50"],
                        }
                    )
    return found


def in_process(root: Path, seconds: float) -> dict[str, Any]:
    """No server at all: tasks of one event loop ask one executor."""
    storage = Storage(root)
    vectors = words().vectors[:200]

    async def run() -> dict[str, Any]:
        with OneExecutor(root, [storage.manifest(name, 1) for name in COLLECTIONS]) as one:

            async def ask(at: int, row: int) -> Outcome:
                await one.find(COLLECTIONS[at], 1, vectors[row])
                return Outcome("answered")

            alone = await saturate(ask, 1, seconds, weights=zipf(12), rows=200, seed=1)
            many = await saturate(ask, _MANY, seconds, weights=zipf(12), rows=200, seed=2)
        return {
            "p50": alone.quantile(0.5),
            "p99": alone.quantile(0.99),
            "most": many.answered / many.seconds,
        }

    return asyncio.run(run())


def _by_grpc(port: int, seconds: float) -> dict[str, Any]:
    """One client, then many, then a load that comes when it comes."""
    vectors = words().vectors[:200]

    async def run() -> dict[str, Any]:
        async with GrpcClient(port, COLLECTIONS, vectors, hops=True, timeout_s=5) as client:
            await saturate(client.ask, 4, 1.0, weights=zipf(12), rows=200)
            alone = await saturate(client.ask, 1, seconds, weights=zipf(12), rows=200, seed=1)
            many = await saturate(client.ask, _MANY, seconds, weights=zipf(12), rows=200, seed=2)
            rate = _PART * many.answered / many.seconds
            due = await offer(client.ask, rate, seconds, weights=zipf(12), rows=200, timeout_s=5, seed=3)
        for each in alone, many, due:
            if each.failed:
                raise RuntimeError(f"searches failed while they were measured: {each}")
        return {
            "p50": alone.quantile(0.5),
            "p99": alone.quantile(0.99),
            "most": many.answered / many.seconds,
            "hops": _hops(alone),
            "rate": rate,
            "open_p50": due.quantile(0.5),
            "open_p99": due.quantile(0.99),
        }

    return asyncio.run(run())


def _hops(run: Run) -> dict[str, float]:
    """Medians, in milliseconds."""
    return {name: statistics.median(each.get(name, 0) for each in run.hops) / 1e3 for name in HOPS} if run.hops else {}


def _step(step: Callable[[dict[str, float]], float], row: dict[str, Any]) -> float | None:
    return step(row["hops"]) if row.get("hops") else None


def _plain(root: Path, seconds: float) -> dict[str, Any]:
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", "local.plain", str(root), str(port)], cwd=HERE)
    try:
        _wait_for(port)
        return _by_grpc(port, seconds)
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        grpc.channel_ready_future(channel).result(timeout=60)


@contextmanager
def _environment(name: str, value: str | None) -> Iterator[None]:
    before = os.environ.pop(name, None)
    if value is not None:
        os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before


def tables(found: list[dict[str, Any]]) -> str:
    """For people: medians over rounds, with least and most."""
    modes = list(dict.fromkeys(row["mode"] for row in found))

    def cell(mode: str, value: Callable[[dict[str, Any]], float | None], form: str) -> str:
        values = sorted(v for row in found if row["mode"] == mode and (v := value(row)) is not None)
        if not values:
            return "-"
        middle = form.format(statistics.median(values))
        return middle if len(values) == 1 else f"{middle} ({form.format(values[0])}-{form.format(values[-1])})"

    lines = [
        "",
        "| | one client, p50 | p99 | 16 clients, searches a second | of the server without Ray | half of that load, p50 | p99 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for mode in modes:
        cells = [
            cell(mode, lambda row: row["p50"], "{:.2f} ms"),
            cell(mode, lambda row: row["p99"], "{:.1f} ms"),
            cell(mode, lambda row: row["most"], "{:,.0f}"),
            cell(mode, lambda row: row.get("most_ratio"), "{:.2f}"),
            cell(mode, lambda row: row.get("open_p50"), "{:.1f} ms"),
            cell(mode, lambda row: row.get("open_p99"), "{:.1f} ms"),
        ]
        lines.append(f"| {mode} | {' | '.join(cells)} |")
    lines += [
        "",
        f"| by hop, one client, p50 in ms | {' | '.join(STEPS)} |",
        f"| --- |{' --- |' * len(STEPS)}",
    ]
    for mode in modes:
        if any(row.get("hops") for row in found if row["mode"] == mode):
            cells = [cell(mode, partial(_step, step), "{:.2f}") for step in STEPS.values()]
            lines.append(f"| {mode} | {' | '.join(cells)} |")
    return "\n".join(lines)
