"""Ctrl-C, forks, and the end of the interpreter: each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

PRELUDE = """
import os, sys, signal, threading, time
import numpy as np
import chiplet
# Who is started in the background may have been told to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
rows = np.random.default_rng(0).standard_normal((%d, %d)).astype(np.float32)
"""


def python(code: str, *, rows: int = 300, dim: int = 8) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRELUDE % (rows, dim) + code], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("threads", [1, 4])
def test_ctrl_c_ends_a_build(threads: int) -> None:
    code = f"""
def begun(stage, done, total):
    if done == 0: print("begun", flush=True)
try:
    chiplet.Hnsw.build(rows, threads={threads}, ef_construction=800, progress=begun)
except KeyboardInterrupt:
    print("stopped", threading.active_count(), len(os.listdir("/proc/self/task")), flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PRELUDE % (60_000, 256) + code], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    # numpy's threads may be there; the build's are not.
    assert said.splitlines()[-1].startswith("stopped 1 "), said
    assert process.returncode == 0


def test_ctrl_c_ends_a_wait() -> None:
    ended = python("""
executor = chiplet.Executor(max_workers=1)
executor.add("rows", chiplet.Flat.build(rows))
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
held = threading.Event()
try:
    executor.run("rows", held.wait, 60)
except KeyboardInterrupt:
    print("stopped")
held.set()
print(executor.search("rows", rows[5], k=1).ids.tolist())
""")
    assert ended.stdout == "stopped\n[5]\n", ended.stderr


def test_ctrl_c_ends_a_direct_search() -> None:
    ended = python("""
table = chiplet.Flat.build(rows)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True: table.search(np.tile(rows, (100, 1)), k=50, threads=2)
except KeyboardInterrupt:
    print("stopped")
print(table.search(rows[5], k=1).ids.tolist())
""", rows=4_000)
    assert ended.stdout == "stopped\n[5]\n", ended.stderr


def test_a_fork() -> None:
    ended = python("""
table = chiplet.Hnsw.build(rows)
executor = chiplet.Executor()
executor.add("rows", table)
executor.search("rows", rows[5], k=1)
child = os.fork()
if child == 0:
    ok = table.search(rows[6], k=1).ids.tolist() == [6]
    ok &= table.search(rows, k=1, threads=3).ids[:, 0].tolist() == list(range(300))
    for use in (
        lambda: executor.search("rows", rows[5]),
        lambda: executor.search("rows", rows),
        lambda: executor.run("rows", int),
        lambda: executor.add("more", table),
        lambda: executor.snapshot(),
    ):
        try:
            use()
            ok = False
        except chiplet.Forked as why:
            ok &= "spawn" in str(why)
    executor.close()
    with chiplet.Executor() as own:
        own.add("rows", table)
        ok &= own.search("rows", rows[7], k=1).ids.tolist() == [7]
    del executor
    sys.exit(0 if ok else 3)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), executor.search("rows", rows[5], k=1).ids.tolist())
""")
    assert ended.stdout == "0 [5]\n", ended.stderr


def test_spawned_processes() -> None:
    ended = python("""
import multiprocessing
executor = chiplet.Executor()
executor.add("rows", chiplet.Flat.build(rows))
search = "(lambda chiplet: (e := chiplet.Executor(), e.add('own', chiplet.Flat.build([[0.0], [1.0]])), e.search('own', [0.9], k=1).ids.tolist())[2])(__import__('chiplet'))"
with multiprocessing.get_context("spawn").Pool(2) as pool:
    print(pool.map(eval, [search] * 4))
print(executor.search("rows", rows[5], k=1).ids.tolist())
""")
    assert ended.stdout == "[[1], [1], [1], [1]]\n[5]\n", ended.stderr


def test_the_interpreter_ends_with_an_open_executor() -> None:
    ended = python("""
import asyncio
executor = chiplet.Executor()
executor.add("rows", chiplet.Flat.build(rows))
threading.Thread(target=lambda: executor.run("rows", time.sleep, 0.2), daemon=True).start()
time.sleep(0.05)
print(executor.search("rows", rows[5], k=1).ids.tolist())
""")
    assert (ended.returncode, ended.stdout) == (0, "[5]\n"), ended.stderr


def test_the_interpreter_ends_under_daemon_threads() -> None:
    """Threads that come back to an interpreter which has ended must not take the process with them."""
    for _ in range(5):
        ended = python("""
executor = chiplet.Executor()
table = chiplet.Flat.build(rows)
executor.add("rows", table)
def ever(code):
    def loop():
        while True:
            try: code()
            except chiplet.Closed: pass
    threading.Thread(target=loop, daemon=True).start()
ever(lambda: table.search(rows, k=5))
ever(lambda: table.search(rows[0], k=5))
ever(lambda: executor.search("rows", rows[0], k=5))
ever(lambda: executor.search("rows", rows, k=5))
ever(lambda: executor.run("rows", sum, [1, 2]))
ever(lambda: chiplet.Hnsw.build(rows, progress=lambda *_: None))
time.sleep(0.2)
print("end")
""")
        assert (ended.returncode, ended.stdout) == (0, "end\n"), ended.stderr


def test_dropping_an_executor_whose_worker_needs_the_lock() -> None:
    ended = python("""
executor = chiplet.Executor(max_workers=1)
executor.add("rows")
def spin():
    end = time.monotonic() + 0.3
    while time.monotonic() < end: pass
threading.Thread(target=executor.run, args=("rows", spin), daemon=True).start()
time.sleep(0.05)
executor.close()
print("closed")
""")
    assert (ended.returncode, ended.stdout) == (0, "closed\n"), ended.stderr


def test_what_an_import_brings() -> None:
    ended = python("""
import re
maps = open("/proc/self/maps").read()
print(sorted(set(re.findall(r"lib(?:gomp|omp|faiss|stdc\\\\+\\\\+|openblas_chiplet)[^/\\\\s]*", maps))))
print("faiss" in sys.modules, "asyncio" in sys.modules)
""")
    assert ended.stdout.splitlines()[1] == "False False", ended.stderr
    assert "omp" not in ended.stdout.splitlines()[0]
