"""What was acknowledged is there after `kill -9`, and a damaged file harms nobody but its own collection.

`CHIPLET_KILLS` is how often the server is killed (default 100)."""

import os
import random
import subprocess
import time

import grpc
import numpy as np
import pytest
from kill_writers import ABSENT, DIM, Acknowledgements, Churn, Ledger, Writer, content, point
from qdrant_client import models
from server import Server, binary, environment, eventually, running

KILLS = int(os.environ.get("CHIPLET_KILLS", "100"))
SEED = 20_240
WRITERS = 4
# Some thousand points, so that indexes are built again and again, and killed while they are.
SOON = models.OptimizersConfigDiff(indexing_threshold=4)
# How often a server is stopped while it trains an index.
STOPS = 20
KEPT = {"graph": {"optimizers_config": SOON}, "flat": {"metadata": {"chiplet.index": "flat"}}}
# Acknowledged calls before a kill.
MOST_CALLS = 60
# All points are compared after every so many kills, and at the end; after each kill those written since the last.
COMPARE_ALL_EVERY = 10


def create(client, name, **settings):
    client.create_collection(name, models.VectorParams(size=DIM, distance=models.Distance.EUCLID), **settings)


def generations(client, collection, ids):
    """{id: generation} of those of `ids` that are there; each of them must be whole."""
    found = {}
    for first in range(0, len(ids), 5_000):
        for stored in client.retrieve(collection, ids[first:first + 5_000], with_vectors=True):
            generation = stored.payload["generation"]
            assert (stored.vector, stored.payload) == content(stored.id, generation), f"{stored} is not whole"
            found[stored.id] = generation
    return found


def write_until_ended(server, end, ledgers, draw):
    """Writers at work; after a random number of acknowledgements `end` ends the server, in the middle of what follows."""
    acknowledgements = Acknowledgements()
    writers = [Writer(server.client(), collection, ledger, acknowledgements, draw.random())
               for collection, ledger in ledgers]
    for writer in writers:
        writer.start()
    try:
        acknowledgements.wait_for(draw.randint(1, MOST_CALLS), within=60)
        end()
    finally:
        server.kill()
        for writer in writers:
            writer.join(60)
    assert not any(writer.is_alive() for writer in writers)
    assert [writer.problem for writer in writers if writer.problem] == []


def settle(client, ledgers):
    """Decides what became of the calls that nobody answered; how many of them happened."""
    happened = 0
    for collection, ledger in ledgers:
        if ledger.open:
            happened += ledger.settle(generations(client, collection, list(ledger.open)))
    return happened


def compare(client, ledgers, before):
    """What the ledgers say and what is there, for points that changed since `before`; and that there are no others."""
    for collection in KEPT:
        expected = {}
        for (at, ledger), then in zip(ledgers, before, strict=True):
            if at == collection:
                expected |= {id: now for id, now in ledger.known.items() if id not in then or then[id] != now}
        found = generations(client, collection, list(expected))
        assert found == {id: generation for id, generation in expected.items() if generation is not ABSENT}
        alive = sum(len(ledger.live()) for at, ledger in ledgers if at == collection)
        assert client.count(collection).count == alive, "nothing is there that was never sent, or was deleted"


def test_acknowledged_writes_survive_kills(tmp_path):
    draw = random.Random(SEED)
    ledgers = [(list(KEPT)[number % len(KEPT)], Ledger(number, WRITERS)) for number in range(WRITERS)]
    nothing = [{} for _ in ledgers]
    before = nothing
    happened = 0
    with running(tmp_path) as server:
        client = server.client()
        for name, settings in KEPT.items():
            create(client, name, **settings)
    for kill in range(KILLS):
        with running(tmp_path) as server:
            client = server.client()
            happened += settle(client, ledgers)
            compare(client, ledgers, nothing if kill % COMPARE_ALL_EVERY == 0 else before)
            before = [dict(ledger.known) for _, ledger in ledgers]
            write_until_ended(server, server.kill, ledgers, draw)
    with running(tmp_path) as server:
        client = server.client()
        happened += settle(client, ledgers)
        compare(client, ledgers, nothing)
        # What is there is found by searches too, not only by id.
        for collection, ledger in ledgers:
            id = ledger.live()[-1]
            vector, payload = content(id, ledger.known[id])
            [nearest] = client.query_points(collection, vector, limit=1).points
            assert (nearest.id, nearest.score, nearest.payload) == (id, 0, payload)
    print(f"{KILLS} kills; of the calls that were never answered {happened} had happened;"
          f" {sum(len(ledger.known) for _, ledger in ledgers)} points written")


def test_a_server_that_is_asked_to_stop_in_the_middle_of_writes_loses_none(tmp_path):
    draw = random.Random(SEED)
    ledgers = [("flat", Ledger(number, WRITERS)) for number in range(WRITERS)]
    nothing = [{} for _ in ledgers]
    for round in range(5):
        with running(tmp_path) as server:
            client = server.client()
            if round == 0:
                for name, settings in KEPT.items():
                    create(client, name, **settings)
            settle(client, ledgers)
            compare(client, ledgers, nothing)
            write_until_ended(server, server.stop, ledgers, draw)
    with running(tmp_path) as server:
        settle(server.client(), ledgers)
        compare(server.client(), ledgers, nothing)


def test_the_comparison_notices_what_it_looks_for(tmp_path):
    with running(tmp_path) as server:
        client = server.client()
        for name in KEPT:
            create(client, name)
        ledgers = [("flat", Ledger(0, 1))]
        ledger = ledgers[0][1]
        ledger.known = {1: 0, 2: 3, 3: ABSENT}
        client.upsert("flat", [point(1, 0), point(2, 3)])
        compare(client, ledgers, [{}])
        wrongs = [
            lambda: client.delete("flat", [1]),
            lambda: client.upsert("flat", [point(2, 2)]),
            lambda: client.upsert("flat", [point(3, 0)]),
            lambda: client.upsert("flat", [point(4, 0)]),
            lambda: client.upsert("flat", [models.PointStruct(id=1, vector=content(1, 0)[0], payload=content(1, 1)[1])]),
        ]
        for wrong in wrongs:
            wrong()
            with pytest.raises(AssertionError):
                compare(client, ledgers, [{}])
            client.delete("flat", [3, 4])
            client.upsert("flat", [point(1, 0), point(2, 3)])
            compare(client, ledgers, [{}])
    ledger.open = {1: 1, 2: 4}
    with pytest.raises(AssertionError):
        ledger.settle({1: 1, 2: 3})


def test_collections_that_come_and_go_survive_kills(tmp_path):
    """A creation or deletion that was acknowledged holds; one that was not has happened, or not, and nothing between."""
    draw = random.Random(SEED)
    exist, open_call = set(), None
    for kill in range(max(1, KILLS // 10)):
        with running(tmp_path) as server:
            client = server.client()
            listed = {listed.name for listed in client.get_collections().collections}
            if open_call is not None and open_call in listed ^ exist:
                exist ^= {open_call}
            assert listed == exist
            for name in exist:
                # An answered creation can be written to and described, whatever came after it.
                client.upsert(name, [point(1, kill)])
                assert client.get_collection(name).points_count == 1
            finished = Acknowledgements()
            churn = Churn(server.client(), exist, finished, draw.random())
            churn.start()
            try:
                finished.wait_for(draw.randint(1, 20), within=60)
            finally:
                server.kill()
                churn.join(60)
            assert not churn.is_alive() and churn.problem is None
            open_call = churn.under_way
    with running(tmp_path):
        assert not list(tmp_path.glob("chiplet-draft-*")), "what a creation that was cut short left behind is removed"


DAMAGES = {
    "emptied": lambda file: b"",
    "cut to half": lambda file: file[:len(file) // 2],
    "cut by a page": lambda file: file[:-4096],
    "zeroed": lambda file: bytes(len(file)),
    "another kind of file": lambda file: b"not a database\n" * 1_000,
    "bytes flipped all over": lambda file: bytes(byte ^ 0xff if at % 509 == 0 else byte for at, byte in enumerate(file)),
    "header flipped": lambda file: bytes(byte ^ 0xff for byte in file[:512]) + file[512:],
    "one bit of each payload": lambda file: file.replace(b"find me", b"fine me"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_harms_only_its_own_collection(tmp_path, damage):
    with running(tmp_path) as server:
        client = server.client()
        for name in ["damaged", "before", "zealous"]:
            create(client, name)
            client.upsert(name, [models.PointStruct(id=id, vector=content(id, 0)[0], payload={"text": "find me"})
                                 for id in range(500)])
    file = tmp_path / "damaged.redb"
    whole = file.read_bytes()
    file.write_bytes(DAMAGES[damage](whole))
    assert file.read_bytes() != whole

    with running(tmp_path) as server:
        client = server.client()
        vector = content(3, 0)[0]
        for call in [
            lambda: client.query_points("damaged", vector),
            lambda: client.retrieve("damaged", [3]),
            lambda: client.count("damaged"),
            lambda: client.get_collection("damaged"),
            lambda: client.upsert("damaged", [point(3, 0)]),
            lambda: client.delete("damaged", [3]),
        ]:
            with pytest.raises(grpc.RpcError) as refused:
                call()
            assert refused.value.code() == grpc.StatusCode.DATA_LOSS
            assert "damaged.redb" in refused.value.details()
        assert client.collection_exists("damaged"), "its name is taken"
        with pytest.raises(grpc.RpcError) as refused:
            create(client, "damaged")
        assert refused.value.code() == grpc.StatusCode.ALREADY_EXISTS
        for name in ["before", "zealous"]:
            [nearest] = client.query_points(name, vector, limit=1).points
            assert (nearest.id, nearest.payload) == (3, {"text": "find me"})
            client.upsert(name, [point(1_000, 0)])
            assert client.count(name).count == 501

        assert client.delete_collection("damaged")
        assert not client.collection_exists("damaged") and not file.exists()
        create(client, "damaged")
        client.upsert("damaged", [point(7, 0)])
    with running(tmp_path) as server:
        client = server.client()
        assert generations(client, "damaged", [3, 7]) == {7: 0}
        assert client.count("before").count == client.count("zealous").count == 501


def test_a_server_that_is_asked_to_stop_while_it_trains_lists_stops(tmp_path):
    draw = random.Random(SEED)
    rows = np.random.default_rng(SEED).random((20_000, 64), np.float32)
    with running(tmp_path) as server:
        client = server.client()
        client.create_collection("lists", models.VectorParams(size=64, distance=models.Distance.EUCLID),
                                 metadata={"chiplet.index": "ivf", "chiplet.nlist": 256})
        client.upload_collection("lists", rows, batch_size=5_000, wait=True)
    for _ in range(STOPS):
        # Its index is trained at each start.
        server = Server(tmp_path, ready=False)
        time.sleep(draw.random() / 2)
        server.stop()


def test_a_full_disk_fails_writes_loses_none_and_is_recovered_from(tmp_path):
    def large(id):
        return models.PointStruct(id=id, vector=content(id, 0)[0], payload={"text": "x" * 50_000})

    def failed_writes(server):
        return server.metrics()["chiplet_server_writes_failed"]["chiplet_server_writes_failed_total"][frozenset()]

    with running(tmp_path) as server:
        client = server.client()
        create(client, "kept")
        client.upsert("kept", [point(0, 0)])
        server.limit_files((tmp_path / "kept.redb").stat().st_size)
        with pytest.raises(grpc.RpcError) as refused:
            for stored in range(1, 1_000):
                client.upsert("kept", [large(stored)])
        assert refused.value.code() == grpc.StatusCode.INTERNAL
        assert "kept.redb" in refused.value.details() and "File too large" in refused.value.details()
        assert failed_writes(server) == 1

        client.upsert("kept", [large(2_000)], wait=False)
        eventually(lambda: failed_writes(server) == 2)
        assert server.get("/livez")[0] == server.get("/readyz")[0] == 200
        assert client.count("kept").count == stored and client.retrieve("kept", [stored, 2_000]) == []
        [nearest] = client.query_points("kept", content(0, 0)[0], limit=1).points
        assert nearest.id == 0

        server.limit_files(None)
        client.upsert("kept", [large(3_000)])
        assert client.count("kept").count == stored + 1 and failed_writes(server) == 2
        server.kill()
    with running(tmp_path) as server:
        client = server.client()
        assert client.count("kept").count == stored + 1
        found = {kept.id for kept in client.retrieve("kept", [*range(stored + 1), 2_000, 3_000])}
        assert found == {*range(stored), 3_000}


def test_a_folder_is_served_by_one_server_at_a_time(tmp_path):
    with running(tmp_path) as server:
        create(server.client(), "mine")
        refused = subprocess.run([binary()], env=environment(tmp_path, {}), capture_output=True, text=True, timeout=60)
        assert refused.returncode == 1
        assert "in use by another server" in refused.stderr and str(tmp_path) in refused.stderr
        assert server.client().collection_exists("mine")
