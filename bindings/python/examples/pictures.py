# %% [markdown]
# # Two pictures of chiplet
#
# 1. What rows in fewer bytes cost and give: recall against searches a second.
# 2. Many open searches: an event loop beside a pool of threads.
#
# Run it as a program, or cell by cell in an editor that knows `# %%`. It needs matplotlib, and the vectors of
# `datasets/glove-50d`.

# %%
from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import chiplet

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()

# %% [markdown]
# ## Words near words
# 30,000 words of GloVe as rows of 50 components (`datasets/glove-50d`, PDDL). The last 1,000 are asked for.

# %%
raw = np.fromfile(REPOSITORY / "datasets/glove-50d/vectors.fvecs", dtype=np.int32).reshape(-1, 51)
vectors: npt.NDArray[np.float32] = np.ascontiguousarray(raw[:, 1:]).view(np.float32)
words = (REPOSITORY / "datasets/glove-50d/words.txt").read_text().split()
rows, queries = vectors[:-1_000], vectors[-1_000:]

truth = chiplet.Flat.build(rows, metric="cosine").search(queries, 10).ids
print(words[len(rows)], "is near", *(words[row] for row in truth[0]))

# %% [markdown]
# ## Recall against searches a second
# One thread, the best of five passes. Each line is a table of other rows; along it `ef` grows.


# %%
def recall(found: npt.NDArray[np.int64]) -> float:
    return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), truth.tolist())]))


figure, axes = plt.subplots(figsize=(7, 4.5))
for label, table in {
    "f32": chiplet.Hnsw.build(rows, metric="cosine"),
    "f16": chiplet.Hnsw.build(rows, metric="cosine", rows="f16"),
    "sq8, re-ranked f16": chiplet.Hnsw.build(rows, metric="cosine", rows="sq8", rerank="f16"),
    "sq4, re-ranked f16": chiplet.Hnsw.build(rows, metric="cosine", rows="sq4", rerank="f16"),
}.items():
    found, speed = [], []
    for ef in (10, 14, 20, 28, 40, 56, 80, 112, 160, 224):
        hits = table.search(queries, 10, ef=ef, threads=1)
        found.append(recall(hits.ids))
        seconds: list[float] = []
        for _ in range(5):
            began = time.perf_counter()
            table.search(queries, 10, ef=ef, threads=1)
            seconds.append(time.perf_counter() - began)
        speed.append(len(queries) / min(seconds))
    axes.plot(found, speed, marker="o", markersize=3, label=f"{label}, {table.nbytes / 2**20:.1f} MiB")
axes.set(xlabel="recall at 10", ylabel="searches a second, one thread", yscale="log", title="GloVe, 29,000 x 50, cosine")
axes.grid(alpha=0.3)
axes.legend()
figure.tight_layout()
figure.savefig(FOLDER / "python-recall.svg")

# %% [markdown]
# ## Many open searches
# As many coroutines as the number below, each asks again when it is answered: once with `asearch`, once with
# `run_in_executor` and 32 threads.

# %%
Search = Callable[[npt.NDArray[np.float32]], Awaitable[chiplet.Hits]]


async def load(search: Search, clients: int, seconds: float = 0.5) -> float:
    """Searches a second."""
    began, done = time.perf_counter(), 0

    async def client(at: int) -> None:
        nonlocal done
        while time.perf_counter() - began < seconds:
            await search(queries[at % len(queries)])
            at, done = at + 1, done + 1

    await asyncio.gather(*(client(61 * number) for number in range(clients)))
    return done / (time.perf_counter() - began)


async def both(executor: chiplet.Executor, pool: ThreadPoolExecutor, clients: int) -> tuple[float, float]:
    loop = asyncio.get_running_loop()

    def pooled(query: npt.NDArray[np.float32]) -> Awaitable[chiplet.Hits]:
        return loop.run_in_executor(pool, lambda: executor.search("words", query, 10, ef=40))

    return await load(lambda query: executor.asearch("words", query, 10, ef=40), clients), await load(pooled, clients)


counts = (1, 4, 16, 64, 256, 1_000)
with chiplet.Executor() as executor, ThreadPoolExecutor(32) as pool:
    executor.add("words", chiplet.Hnsw.build(rows, metric="cosine"))
    rates = [asyncio.run(both(executor, pool, clients)) for clients in counts]

figure, axes = plt.subplots(figsize=(7, 4.5))
for label, line in zip(("asearch", "run_in_executor, 32 threads"), zip(*rates)):
    axes.plot(counts, line, marker="o", label=label)
axes.set(xlabel="open searches", ylabel="searches a second", xscale="log", title="One event loop")
axes.set_ylim(bottom=0)
axes.grid(alpha=0.3)
axes.legend()
figure.tight_layout()
figure.savefig(FOLDER / "python-loop.svg")
print(f"python-recall.svg and python-loop.svg are in {FOLDER.resolve()}")
