"""The clients from PyPI, as they come: qdrant-client on this server, psycopg with pgvector's adapter on PostgreSQL.

Each client is a process that asks its next query when the last one is answered. Says as JSON that all are connected,
begins when it is told to, and says what came of it."""

import json
import multiprocessing
import sys
import time
from pathlib import Path

import numpy

RESULTS = 10
CONNECT_SECONDS = 60
WARM_UP = 20


def queries(datasets):
    folder = Path(datasets) / "glove-50d"
    raw = numpy.fromfile(folder / "vectors.fvecs", dtype="<f4")
    rows = numpy.loadtxt(folder / "queries.txt", dtype=int)
    dim = int(raw[:1].view("<i4")[0])
    return numpy.ascontiguousarray(raw.reshape(-1, dim + 1)[rows, 1:])


def server(address, ef):
    from qdrant_client import QdrantClient, models

    host, port = address.split(":")
    client = QdrantClient(host=host, grpc_port=int(port), prefer_grpc=True, check_compatibility=False)
    params = models.SearchParams(hnsw_ef=ef)

    def ask(vector):
        return client.query_points("words", query=vector, limit=RESULTS, search_params=params).points

    return ask, list


def postgres(address, ef):
    import psycopg
    from pgvector.psycopg import register_vector

    host, port = address.split(":")
    session = psycopg.connect(host=host, port=port, user="postgres", dbname="postgres", autocommit=True)
    register_vector(session)
    session.execute(f"SET hnsw.ef_search = {ef}")
    statement = f"SELECT id FROM words ORDER BY embedding <=> %b LIMIT {RESULTS}"

    def ask(vector):
        return session.execute(statement, (vector,), prepare=True, binary=True).fetchall()

    return ask, numpy.asarray


def client(kind, address, datasets, ef, seconds, number, clients, connected, begin, results):
    ask, form = {"server": server, "postgres": postgres}[kind](address, ef)
    vectors = [form(vector.tolist() if form is list else vector) for vector in queries(datasets)]
    for vector in vectors[:WARM_UP]:
        assert len(ask(vector)) == RESULTS
    connected.release()
    begin.wait()
    latencies, query = [], number * len(vectors) // clients
    began = before = time.perf_counter()
    while before - began < seconds:
        ask(vectors[query % len(vectors)])
        after = time.perf_counter()
        latencies.append(after - before)
        before, query = after, query + 1
    results.put((latencies, before - began))


def main(kind, address, datasets, ef, clients, seconds):
    clients, seconds = int(clients), int(seconds)
    context = multiprocessing.get_context("spawn")
    connected, begin, results = context.Semaphore(0), context.Event(), context.Queue()
    common = (kind, address, datasets, int(ef), seconds)
    processes = [
        context.Process(target=client, args=(*common, number, clients, connected, begin, results), daemon=True)
        for number in range(clients)
    ]
    for process in processes:
        process.start()
    for _ in processes:
        if not connected.acquire(timeout=CONNECT_SECONDS):
            raise SystemExit("a client could not connect")
    print(json.dumps({"clients": clients}), flush=True)
    if not sys.stdin.readline():
        return
    begin.set()
    runs = [results.get(timeout=seconds + CONNECT_SECONDS) for _ in processes]
    latencies = numpy.concatenate([latencies for latencies, _ in runs]) * 1e6
    p50, p99 = numpy.percentile(latencies, [50, 99])
    longest = max(lasted for _, lasted in runs)
    said = {"queries": len(latencies), "seconds": longest, "p50": p50, "p99": p99}
    print(json.dumps(said), flush=True)
    for process in processes:
        process.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
