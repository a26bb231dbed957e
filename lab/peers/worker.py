"""One peer in a process of its own: builds its index, or searches it on cue.

    worker.py build  DATA SET METRIC K PEER INDEX THREADS     builds, writes INDEX, prints one line of JSON
    worker.py search DATA SET METRIC K PEER INDEX SECONDS THREADS,..

`search` speaks as `chiplet bench --direct --cue` does: each line of standard input is a list of parameters, as
`20,40`, and is answered by one line, a JSON list with an entry for each parameter and number of threads. It ends with
its input. After the word `single`, one query a call is measured too; after `recall`, nothing but the recall. As there,
`recall_at_10` is the recall at K, whatever K is.

Libraries print on standard output as they like, so that becomes standard error before any is loaded.
"""

import ctypes
import json
import math
import os
import sys
import time
from pathlib import Path

ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import numpy as np  # noqa: E402

import vectors  # noqa: E402
from files import remove  # noqa: E402
from peers import PEERS  # noqa: E402

# A batch call takes at least this many seconds, so that starting its threads costs next to nothing.
CALL_SECONDS = 0.05


def main():
    mode, folder, name, metric, k, peer_name, index, *rest = sys.argv[1:]
    peer = next(peer for peer in PEERS if peer.name == peer_name)
    data = vectors.load(Path(folder), name, metric, int(k))
    if mode == "build":
        build(peer, data, Path(index), int(rest[0]))
    else:
        seconds, threads = float(rest[0]), [int(count) for count in rest[1].split(",")]
        search(peer, data, Path(index), seconds, threads)


def answer(value):
    print(json.dumps(value), file=ANSWERS, flush=True)


def build(peer, data, path, threads):
    began = time.perf_counter(), time.process_time()
    index = peer.build(data.rows, data.metric, threads)
    seconds, cpu_seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    partial = path.with_name(path.name + ".partial")
    # Some write a folder, and neither those nor a rename replace one.
    for old in (partial, path):
        remove(old)
    peer.save(index, partial)
    partial.rename(path)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    stored = sum(file.stat().st_size for file in files)
    answer({"build_s": seconds, "build_cpu_s": cpu_seconds, "stored_bytes_per_vector": stored / len(data.rows)})


def search(peer, data, path, seconds, threads):
    if peer.most_threads:
        threads = [count for count in threads if count <= peer.most_threads] or [peer.most_threads]
    # Twice: what a library allocates once, whatever it holds, is there after the first time.
    for _ in range(2):
        index = None
        before = resident()
        index = peer.load(path, data.rows, data.queries, data.metric)
        grown = resident() - before
    recalls = {}
    batches = {}
    for line in sys.stdin:
        params, *words = line.split()
        entries = []
        for param in map(int, params.split(",")):
            if param not in recalls:
                began = time.perf_counter()
                found = peer.search(index, data.queries, data.k, param, 1)
                passes = math.ceil(CALL_SECONDS / (time.perf_counter() - began))
                batches[param] = np.tile(data.queries, (min(passes, 16), 1))
                recalls[param] = data.recall(found)
            if "recall" in words:
                entries.append({"index": peer.name, "param": param, "recall_at_10": recalls[param]})
                continue
            batch = batches[param]
            for count in threads:
                entry = {
                    "index": peer.name,
                    "param": param,
                    "threads": count,
                    "recall_at_10": recalls[param],
                    "resident_bytes_per_vector": grown / len(data.rows),
                }
                used = time.process_time(), time.perf_counter()
                entry["qps"] = rate(seconds, len(batch), lambda: peer.search(index, batch, data.k, param, count))
                used = time.process_time() - used[0], time.perf_counter() - used[1]
                # Below 1, something else had the cores meanwhile.
                entry["cpu_share"] = used[0] / used[1] / count
                if count == 1 and "single" in words:
                    entry["single_qps"] = singles(peer, index, data, param, seconds)
                entries.append(entry)
        answer(entries)


def rate(seconds, queries, call):
    """Queries a second: whole calls for at least `seconds`, after one that warms up."""
    call()
    calls, began = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        passed = time.perf_counter() - began
        if passed >= seconds:
            return calls * queries / passed


def singles(peer, index, data, param, seconds):
    queries = [np.ascontiguousarray(data.queries[row : row + 1]) for row in range(len(data.queries))]

    def one_by_one():
        for query in queries:
            peer.search(index, query, data.k, param, 1)

    return rate(seconds, len(queries), one_by_one)


def resident():
    """Bytes of this process' own memory that are in RAM; the C library's free memory is given back first."""
    ctypes.CDLL(None).malloc_trim(0)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no RssAnon: Linux 4.5 or newer is needed")


if __name__ == "__main__":
    main()
