"""A session of the stock Python client, by gRPC: every call that the server has, and what it answers."""

import json
import threading
import uuid

import numpy as np
import pytest
from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse
from server import running

DISTANCES = [models.Distance.COSINE, models.Distance.DOT, models.Distance.EUCLID]
INDEXES = {
    "hnsw": {"hnsw_config": models.HnswConfigDiff(m=12, ef_construct=90)},
    "flat": {"metadata": {"chiplet.index": "flat"}},
    "int8": {"quantization_config": models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(
        type=models.ScalarType.INT8, quantile=0.75))},
    "ivf": {"metadata": {"chiplet.index": "ivf", "chiplet.nlist": 64, "chiplet.nprobe": 8, "chiplet.code": "SQ8"}},
}
EVERY_JSON_TYPE = {
    "null": None,
    "yes": True,
    "no": False,
    "zero": 0,
    "largest": 2**63 - 1,
    "smallest": -(2**63),
    "odd beyond a double": 2**53 + 1,
    "float": 0.1,
    "whole float": 3.0,
    "tiny": 5e-324,
    "huge": -1.7976931348623157e308,
    "text": "Größe, 大きさ, 😀, \u0000, \"quoted\"\n",
    "": "an empty key",
    "empty": ["", [], {}],
    "list": [1, "two", None, True, [2.5, [[]]], {"three": 3}],
    "nested": {"a": {"b": {"c": {"d": [{"e": None}]}}}},
}


def points(count, dim=4, first=0, tag="first"):
    """Points of which each is different, and nearest to itself by every distance."""
    return [models.PointStruct(id=first + i, vector=[1.0, *[0.0] * (dim - 2), float(first + i)],
                               payload={"number": first + i, "tag": tag}) for i in range(count)]


def create(client, name, dim=4, distance=models.Distance.EUCLID, **settings):
    assert client.create_collection(name, models.VectorParams(size=dim, distance=distance), **settings)


def ids(found):
    return [point.id for point in found]


def same_json(one, other):
    """Equal, and of the same types: in python 1 == True == 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def test_health_names_the_server_and_the_version_of_the_api(client):
    info = client.info()
    assert info.title.startswith("chiplet-server ")
    assert info.version == "1.20.0"


def test_a_client_that_checks_the_version_by_rest_warns_and_works(server):
    before = set(threading.enumerate())
    with pytest.warns(UserWarning, match="Failed to obtain server version"):
        client = server.client(check_compatibility=True)
        # The client checks on a thread of its own.
        for thread in set(threading.enumerate()) - before:
            thread.join(30)
    assert client.info().version == "1.20.0"


# With `prefer_grpc` the client sends these by REST all the same; there is no REST here.
BY_REST = {
    "cluster_status": {},
    "cluster_telemetry": {},
    "get_optimizations": {"collection_name": "some"},
    "list_shard_snapshots": {"collection_name": "some", "shard_id": 0},
    "create_shard_snapshot": {"collection_name": "some", "shard_id": 0},
    "recover_snapshot": {"collection_name": "some", "location": "file:///none"},
    "recover_current_peer": {},
    "remove_peer": {"peer_id": 1},
}


@pytest.mark.parametrize("call", BY_REST)
def test_what_the_client_sends_by_rest_is_not_served(client, call):
    with pytest.raises(UnexpectedResponse) as refused:
        getattr(client, call)(**BY_REST[call])
    assert refused.value.status_code in (404, 405)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("distance", DISTANCES)
def test_a_collection_is_created_listed_described_and_deleted(client, distance, index):
    name = f"described {index} {distance.value}"
    assert not client.collection_exists(name)
    settings = dict(INDEXES[index])
    settings["metadata"] = settings.get("metadata", {}) | {"owner": {"team": "search", "since": 2024}}
    create(client, name, 6, distance, **settings)
    assert client.collection_exists(name)
    assert name in [listed.name for listed in client.get_collections().collections]

    info = client.get_collection(name)
    assert info.status == models.CollectionStatus.GREEN
    assert info.optimizer_status == models.OptimizersStatusOneOf.OK
    assert (info.points_count, info.indexed_vectors_count, info.payload_schema) == (0, 0, {})
    assert info.update_queue.length == 0
    assert (info.config.params.vectors.size, info.config.params.vectors.distance) == (6, distance)
    assert same_json(info.config.metadata, settings["metadata"])
    graph = (info.config.hnsw_config.m, info.config.hnsw_config.ef_construct)
    assert graph == {"hnsw": (12, 90), "int8": (16, 200)}.get(index, (0, 0))
    assert info.config.quantization_config == settings.get("quantization_config")

    assert client.delete_collection(name)
    assert not client.collection_exists(name)
    assert name not in [listed.name for listed in client.get_collections().collections]
    assert client.delete_collection(name) is False, "there is nothing to delete the second time"


def test_names_of_every_kind_that_is_allowed(client):
    names = ["a", "with spaces", "dots.and-dashes_", "..", "UPPER", "upper", "ünï😀", "percent%2f", "a" * 240]
    try:
        for name in names:
            create(client, name)
            client.upsert(name, points(1, tag=name))
        assert set(names) <= {listed.name for listed in client.get_collections().collections}
        for name in names:
            assert client.retrieve(name, [0])[0].payload["tag"] == name
    finally:
        for name in names:
            client.delete_collection(name)


def test_payloads_of_every_json_type_come_back_as_they_were(client, name):
    create(client, name)
    payloads = {1: EVERY_JSON_TYPE, 2: {}, 3: None, 4: {"deep": EVERY_JSON_TYPE}, 5: {"long": "x" * 1_000_000}}
    client.upsert(name, [models.PointStruct(id=id, vector=[0.5] * 4, payload=payload) for id, payload in payloads.items()])
    for point in client.retrieve(name, list(payloads)):
        assert same_json(point.payload, payloads[point.id] or {}), point.id
    for point in client.query_points(name, [0.5] * 4).points:
        assert same_json(point.payload or {}, payloads[point.id] or {}), point.id


def test_ids_are_numbers_and_uuids_in_every_spelling(client, name):
    create(client, name)
    canonical = "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"
    client.upsert(name, [models.PointStruct(id=id, vector=[0, 0, 0, 1], payload={"sent as": str(id)})
                         for id in [0, 2**64 - 1, canonical.replace("-", ""), str(uuid.UUID(int=7))]])
    assert client.count(name).count == 4
    spellings = [canonical.upper(), f"urn:uuid:{canonical}", uuid.UUID(canonical)]
    for spelling in spellings:
        [found] = client.retrieve(name, [spelling])
        assert found.id == canonical
    client.delete(name, [canonical.upper(), 2**64 - 1])
    assert ids(client.retrieve(name, [0, 2**64 - 1, canonical, str(uuid.UUID(int=7))])) == [0, str(uuid.UUID(int=7))]


def test_points_come_back_in_the_order_asked_for_without_the_missing(client, name):
    create(client, name)
    client.upsert(name, points(10))
    assert ids(client.retrieve(name, [7, 99, 3, 0, 3, 12345678901234567890, 9])) == [7, 3, 0, 3, 9]
    assert client.retrieve(name, [99]) == client.retrieve(name, []) == []


def test_what_of_a_point_comes_back_can_be_chosen(client, name):
    create(client, name)
    client.upsert(name, [models.PointStruct(id=1, vector=[1, 2, 3, 4], payload={"a": 1, "b": {"c": 2}, "d": 3})])

    def chosen(**selectors):
        [stored] = client.retrieve(name, [1], **selectors)
        [found] = client.query_points(name, [1, 2, 3, 4], **selectors).points
        assert (found.payload or None, found.vector) == (stored.payload or None, stored.vector)
        return stored.payload or {}, stored.vector

    everything = {"a": 1, "b": {"c": 2}, "d": 3}
    assert chosen() == (everything, None)
    assert chosen(with_payload=False) == ({}, None)
    assert chosen(with_payload=["a", "d", "none"], with_vectors=True) == ({"a": 1, "d": 3}, [1, 2, 3, 4])
    assert chosen(with_payload=models.PayloadSelectorInclude(include=["b.c"])) == ({"b": {"c": 2}}, None)
    assert chosen(with_payload=models.PayloadSelectorExclude(exclude=["b", "none"])) == ({"a": 1, "d": 3}, None)
    assert chosen(with_payload=False, with_vectors=[""]) == ({}, [1, 2, 3, 4])


def test_a_write_that_is_not_waited_for_is_acknowledged_and_happens_before_the_next(client, name):
    create(client, name)
    for first in range(0, 200, 10):
        assert client.upsert(name, points(10, first=first), wait=False).status == models.UpdateStatus.ACKNOWLEDGED
    done = client.delete(name, [0], wait=True)
    assert done.status == models.UpdateStatus.COMPLETED
    assert client.count(name).count == 199


def test_operations_are_numbered_and_points_carry_the_number(client, name):
    create(client, name)
    numbers = [client.upsert(name, points(1, first=first)).operation_id for first in [1, 2, 1]]
    assert numbers == sorted(set(numbers))
    versions = {point.id: point.version for point in client.query_points(name, [1, 0, 0, 0]).points}
    assert versions == {1: numbers[2], 2: numbers[1]}


def test_points_are_uploaded_in_batches(client, name):
    create(client, name, dim=8)
    vectors = np.random.default_rng(3).normal(size=(1_000, 8)).astype(np.float32)
    client.upload_points(name, (models.PointStruct(id=i, vector=vector.tolist(), payload={"i": i})
                                for i, vector in enumerate(vectors[:600])), batch_size=64, wait=True)
    client.upload_collection(name, vectors[600:], [{"i": i} for i in range(600, 1_000)], list(range(600, 1_000)),
                             batch_size=100, wait=True)
    batch = models.Batch(ids=[1_000], vectors=[[0.25] * 8], payloads=[{"i": 1_000}])
    client.upsert(name, batch)
    assert client.count(name, exact=True).count == client.count(name, exact=False).count == 1_001
    for point in client.retrieve(name, list(range(1_001)), with_vectors=True):
        assert point.payload == {"i": point.id}
        assert np.array_equal(np.float32(point.vector), np.float32(vectors[point.id] if point.id < 1_000 else [0.25] * 8))


def test_a_point_is_overwritten_and_deleted(client, name):
    create(client, name)
    client.upsert(name, points(5))
    client.upsert(name, [models.PointStruct(id=2, vector=[9, 9, 9, 9], payload={"tag": "second"})])
    [point] = client.retrieve(name, [2], with_vectors=True)
    assert (point.payload, point.vector) == ({"tag": "second"}, [9, 9, 9, 9])
    assert client.count(name).count == 5
    assert ids(client.query_points(name, [9, 9, 9, 9], limit=1).points) == [2]
    assert ids(client.query_points(name, [1, 0, 0, 2], limit=5).points)[0] != 2, "the old vector is gone"

    assert client.delete(name, [2, 3]).status == models.UpdateStatus.COMPLETED
    assert client.delete(name, models.PointIdsList(points=[3, 77])).status == models.UpdateStatus.COMPLETED
    assert client.count(name).count == 3
    assert client.retrieve(name, [2, 3]) == []
    assert set(ids(client.query_points(name, [9, 9, 9, 9]).points)) == {0, 1, 4}
    client.upsert(name, points(1, first=2, tag="third"))
    assert client.retrieve(name, [2])[0].payload["tag"] == "third"


def test_the_last_of_two_points_with_one_id_in_a_batch_holds(client, name):
    create(client, name)
    client.upsert(name, [*points(1, tag="early"), *points(1, tag="late")])
    assert client.count(name).count == 1
    assert client.retrieve(name, [0])[0].payload["tag"] == "late"
    assert ids(client.query_points(name, [1, 0, 0, 0]).points) == [0]


def test_payload_fields_are_declared_and_forgotten(client, name):
    create(client, name)
    kinds = {"color": models.PayloadSchemaType.KEYWORD, "size": models.PayloadSchemaType.INTEGER,
             "price": models.PayloadSchemaType.FLOAT, "owner.flags[]": models.PayloadSchemaType.BOOL}
    for field, kind in kinds.items():
        done = client.create_payload_index(name, field, kind, wait=True)
        assert done.status == models.UpdateStatus.COMPLETED
    schema = client.get_collection(name).payload_schema
    assert {field: info.data_type for field, info in schema.items()} == kinds
    client.delete_payload_index(name, "color", wait=True)
    assert set(client.get_collection(name).payload_schema) == set(kinds) - {"color"}


def described(client, name):
    info = client.get_collection(name)
    return info.config, info.payload_schema, info.points_count


def test_everything_is_still_there_after_a_restart_and_after_changes_and_another(tmp_path):
    vectors = np.random.default_rng(9).normal(size=(600, 4)).astype(np.float32)
    indexed = models.OptimizersConfigDiff(indexing_threshold=4)
    expected = {}

    def look(client, name):
        stored = client.retrieve(name, list(range(700)), with_vectors=True)
        hits = client.query_points(name, [0.3, 0.1, -0.2, 0.5], limit=50, search_params=models.SearchParams(exact=True)).points
        return described(client, name), stored, hits

    with running(tmp_path) as server:
        client = server.client()
        for index, settings in INDEXES.items():
            create(client, index, distance=models.Distance.COSINE, optimizers_config=indexed, **settings)
            client.upload_collection(index, vectors, [{"i": i, **EVERY_JSON_TYPE} for i in range(600)], list(range(600)), wait=True)
            client.create_payload_index(index, "i", models.PayloadSchemaType.INTEGER)
            client.delete(index, [3, 4])
            expected[index] = look(client, index)
    with running(tmp_path) as server:
        client = server.client()
        assert {index: look(client, index) for index in INDEXES} == expected
        for index in INDEXES:
            versions = [point.version for point in expected[index][2]]
            changed = client.upsert(index, points(20, first=590, tag="second"))
            assert changed.operation_id > max(versions), "numbers of operations go on"
            client.delete(index, [0, 1, 599])
            client.delete_payload_index(index, "i")
            expected[index] = look(client, index)
            assert expected[index][0][2] == 600 - 2 + 10 - 3
        client.delete_collection("ivf")
    del expected["ivf"]
    with running(tmp_path) as server:
        client = server.client()
        assert {index: look(client, index) for index in expected} == expected
        assert not client.collection_exists("ivf")


def test_what_was_only_acknowledged_is_stored_before_a_server_ends(tmp_path):
    with running(tmp_path) as server:
        client = server.client()
        create(client, "hasty")
        for first in range(0, 3_000, 100):
            assert client.upsert("hasty", points(100, first=first), wait=False).status == models.UpdateStatus.ACKNOWLEDGED
        server.stop()
    with running(tmp_path) as server:
        assert server.client().count("hasty").count == 3_000


def test_only_who_brings_the_key_gets_in(tmp_path):
    with running(tmp_path, auth__api_key="open sesame") as server:
        with pytest.warns(UserWarning, match="insecure"):
            friend = server.client(api_key="open sesame")
            stranger = server.client(api_key="open sesam")
        create(friend, "mine")
        for client in [server.client(), stranger]:
            for call in [client.info, client.get_collections, lambda: client.delete_collection("mine")]:
                with pytest.raises(Exception) as refused:
                    call()
                assert refused.value.code().name == "UNAUTHENTICATED"
        assert friend.collection_exists("mine")
        assert "open sesame" not in "\n".join(server.log)
