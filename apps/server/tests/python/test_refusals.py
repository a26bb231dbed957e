"""What the server does not do, it says so, names it, and changes nothing."""

import grpc
import numpy as np
import pytest
from qdrant_client import grpc as api
from qdrant_client import models
from server import flood, running

Code = grpc.StatusCode
VECTOR = [1.0, 2.0, 3.0, 4.0]
FILTER = models.Filter(must=[models.FieldCondition(key="n", match=models.MatchValue(value=1))])
UNKNOWN = "no such collection"
PARAMS = models.VectorParams(size=4, distance=models.Distance.DOT)
SPARSE = models.SparseVector(indices=[1], values=[0.5])
IDS = models.PointIdsList(points=[1])


@pytest.fixture(scope="module")
def full(client):
    """A collection that no refused call may change."""
    client.create_collection("full", PARAMS, metadata={"owner": "tests"})
    client.upsert("full", [models.PointStruct(id=i, vector=[float(i)] * 4, payload={"n": i}) for i in range(20)])
    client.create_payload_index("full", "n", models.PayloadSchemaType.INTEGER)
    return "full"


def contents(client, name):
    stored = client.retrieve(name, list(range(100)), with_vectors=True)
    info = client.get_collection(name)
    # The last write's number shows in the next one only; a search shows the points' own.
    versions = sorted((hit.id, hit.version) for hit in client.query_points(name, VECTOR, limit=100).points)
    return stored, info, versions, sorted(listed.name for listed in client.get_collections().collections)


def refused(call):
    """The status with which a call is refused, and its message."""
    with pytest.raises(grpc.RpcError) as refusal:
        call()
    return refusal.value.code(), refusal.value.details()


@pytest.fixture
def unchanged(client, full):
    before = contents(client, full)
    yield full
    assert contents(client, full) == before


def query(**options):
    return lambda client, name: client.query_points(name, **{"query": VECTOR, **options})


def put(vector, id=1, **options):
    return lambda client, name: client.upsert(name, [models.PointStruct(id=id, vector=vector)], **options)


def make(vectors=PARAMS, **options):
    return lambda client, _: client.create_collection("never made", vectors, **options)


def vectors(**options):
    return make(models.VectorParams(**{"size": 4, "distance": models.Distance.DOT, **options}))



def field(**test):
    return models.Filter(must=[models.FieldCondition(key="n", **test)])


def geo(key):
    near = models.GeoRadius(center=models.GeoPoint(lon=0, lat=0), radius=1)
    return models.Filter(should=[models.FieldCondition(key=key, geo_radius=near)])


SCALAR = models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8))

# A call, and the word by which the refusal names what is not there.
UNSUPPORTED = {
    # Queries.
    "query with a geo filter": (query(query_filter=geo("n")), "geo"),
    "query with a nested filter": (query(query_filter=models.Filter(must=[models.NestedCondition(
        nested=models.Nested(key="n", filter=FILTER))])), "nested"),
    "query with a full-text filter": (query(query_filter=field(match=models.MatchText(text="x"))), "full-text"),
    "query with a count of values": (query(query_filter=field(values_count=models.ValuesCount(gt=1))), "values_count"),
    "query with a range of times": (query(query_filter=field(range=models.DatetimeRange(gt="2024-01-01T00:00:00Z"))), "datetime"),
    "query with a least number of conditions": (query(query_filter=models.Filter(
        min_should=models.MinShould(conditions=FILTER.must, min_count=1))), "min_should"),
    "query of points that have a vector": (query(query_filter=models.Filter(
        must_not=[models.HasVectorCondition(has_vector="a")])), "has_vector"),
    "query with prefetch": (query(prefetch=models.Prefetch(query=VECTOR, limit=5)), "prefetch"),
    "query of a named vector": (query(using="title"), "named vectors"),
    "query by a sparse vector": (query(query=SPARSE), "sparse vectors"),
    "query by a multi-vector": (query(query=[VECTOR, VECTOR]), "multi-vectors"),
    "query by recommendation": (query(query=models.RecommendQuery(recommend=models.RecommendInput(positive=[1]))), "recommendation"),
    "query by discovery": (query(query=models.DiscoverQuery(discover=models.DiscoverInput(target=1, context=[]))), "discovery"),
    "query by context": (query(query=models.ContextQuery(context=[models.ContextPair(positive=1, negative=2)])), "context"),
    "query ordered by payload": (query(query=models.OrderByQuery(order_by="n")), "ordering"),
    "query by fusion": (query(query=models.FusionQuery(fusion=models.Fusion.RRF)), "fusion"),
    "query by rank fusion": (query(query=models.RrfQuery(rrf=models.Rrf(k=3))), "fusion"),
    "query of a sample": (query(query=models.SampleQuery(sample=models.Sample.RANDOM)), "sampling"),
    "query by a formula": (query(query=models.FormulaQuery(formula="$score")), "formulas"),
    "query with MMR": (query(query=models.NearestQuery(nearest=VECTOR, mmr=models.Mmr(diversity=0.5))), "MMR"),
    "query without a vector": (query(query=None), "scroll"),
    "query by another collection's vectors": (query(query=1, lookup_from=models.LookupLocation(collection="b")), "lookup_from"),
    "query of a shard": (query(shard_key_selector="a"), "shard keys"),
    "query of two replicas": (query(consistency=2), "replicas"),
    "a named vector to return": (query(with_vectors=["title"]), "named vectors"),
    "batch with a geo filter": (lambda client, name: client.query_batch_points(
        name, [models.QueryRequest(query=VECTOR), models.QueryRequest(query=VECTOR, filter=geo("n"))]), "geo"),
    "older search of a named vector": (lambda client, name: client.grpc_points.Search(api.SearchPoints(
        collection_name=name, vector=VECTOR, limit=1, vector_name="title"), timeout=30), "named vectors"),
    # Other reads.
    "scroll by payload": (lambda client, name: client.scroll(name, order_by="n"), "ordering"),
    "scroll with a geo filter": (lambda client, name: client.scroll(name, geo("n")), "geo"),
    "groups": (lambda client, name: client.query_points_groups(name, "n", VECTOR), "grouping"),
    "facet": (lambda client, name: client.facet(name, "n"), "facets"),
    "matrix of pairs": (lambda client, name: client.search_matrix_pairs(name), "matrices"),
    "matrix of offsets": (lambda client, name: client.search_matrix_offsets(name), "matrices"),
    "count with a geo filter": (lambda client, name: client.count(name, count_filter=geo("n")), "geo"),
    "older recommendation": (lambda client, name: client.grpc_points.Recommend(api.RecommendPoints(
        collection_name=name, positive=[api.PointId(num=1)], limit=1), timeout=30), "recommendation"),
    "older discovery": (lambda client, name: client.grpc_points.Discover(api.DiscoverPoints(
        collection_name=name, limit=1), timeout=30), "discovery"),
    # Writes.
    "upsert of named vectors": (put({"title": VECTOR}), "named vectors"),
    "upsert of a sparse vector": (put({"title": SPARSE}), "named vectors"),
    "upsert of a multi-vector": (put([VECTOR, VECTOR]), "multi-vectors"),
    "upsert into a shard": (put(VECTOR, shard_key_selector="a"), "shard keys"),
    "upsert with a filter": (put(VECTOR, update_filter=FILTER), "filters"),
    "insert only": (put(VECTOR, update_mode=models.UpdateMode.INSERT_ONLY), "update modes"),
    "delete by a geo filter": (lambda client, name: client.delete(name, geo("n")), "geo"),
    "update of vectors": (lambda client, name: client.update_vectors(name, [models.PointVectors(id=1, vector=VECTOR)]), "vectors"),
    "deletion of vectors": (lambda client, name: client.delete_vectors(name, ["title"], IDS), "vectors"),
    "set payload below a key": (lambda client, name: client.set_payload(name, {"n": 5}, IDS, key="a.b"), "below a key"),
    "clear payload by a geo filter": (lambda client, name: client.clear_payload(name, geo("n")), "geo"),
    "index of places": (lambda client, name: client.create_payload_index(name, "m", models.PayloadSchemaType.GEO), "Geo"),
    "index of words": (lambda client, name: client.create_payload_index(name, "m", models.PayloadSchemaType.TEXT), "Text"),
    "index of times": (lambda client, name: client.create_payload_index(name, "m", models.PayloadSchemaType.DATETIME), "Datetime"),
    "index of UUIDs": (lambda client, name: client.create_payload_index(name, "m", models.PayloadSchemaType.UUID), "Uuid"),
    "batch of updates": (lambda client, name: client.batch_update_points(
        name, [models.DeleteOperation(delete=IDS)]), "batches"),
    "index with parameters": (lambda client, name: client.create_payload_index(
        name, "m", models.TextIndexParams(type=models.TextIndexType.TEXT)), "Text"),
    "index of tenants": (lambda client, name: client.create_payload_index(
        name, "m", models.KeywordIndexParams(type="keyword", is_tenant=True)), "is_tenant"),
    "index on disk": (lambda client, name: client.create_payload_index(
        name, "m", models.IntegerIndexParams(type="integer", on_disk=True)), "on_disk"),
    # Collections.
    "named vectors": (make({"title": PARAMS}), "named vectors"),
    "sparse vectors": (make(sparse_vectors_config={"words": models.SparseVectorParams()}), "sparse vectors"),
    "multi-vectors": (vectors(multivector_config=models.MultiVectorConfig(
        comparator=models.MultiVectorComparator.MAX_SIM)), "multi-vectors"),
    "product quantization": (make(quantization_config=models.ProductQuantization(product=models.ProductQuantizationConfig(
        compression=models.CompressionRatio.X16))), "product quantization"),
    "binary quantization of the vectors": (vectors(quantization_config=models.BinaryQuantization(
        binary=models.BinaryQuantizationConfig())), "binary quantization"),
    "update of quantization": (lambda client, name: client.update_collection(name, quantization_config=SCALAR), "settings"),
    "Manhattan distance": (vectors(distance=models.Distance.MANHATTAN), "Manhattan"),
    "vectors on disk": (vectors(on_disk=True), "on disk"),
    "half-precision vectors": (vectors(datatype=models.Datatype.FLOAT16), "32-bit"),
    "payloads on disk": (make(on_disk_payload=True), "on disk"),
    "graph on disk": (make(hnsw_config=models.HnswConfigDiff(on_disk=True)), "on disk"),
    "shards": (make(shard_number=2), "shards"),
    "custom shards": (make(sharding_method=models.ShardingMethod.CUSTOM), "shards"),
    "replicas": (make(replication_factor=2), "replicas"),
    "WAL settings": (make(wal_config=models.WalConfigDiff(wal_capacity_mb=1)), "WAL"),
    "strict mode": (make(strict_mode_config=models.StrictModeConfig(enabled=True)), "strict mode"),
    "optimizer settings": (make(optimizers_config=models.OptimizersConfigDiff(max_segment_size=1)), "optimizer"),
    "update of a collection": (lambda client, name: client.update_collection(
        name, hnsw_config=models.HnswConfigDiff(m=8)), "settings"),
    "aliases": (lambda client, name: client.update_collection_aliases([models.CreateAliasOperation(
        create_alias=models.CreateAlias(collection_name=name, alias_name="b"))]), "aliases"),
    "list of aliases": (lambda client, _: client.get_aliases(), "aliases"),
    "aliases of a collection": (lambda client, name: client.get_collection_aliases(name), "aliases"),
    "cluster of a collection": (lambda client, name: client.collection_cluster_info(name), "clusters"),
    "shard key": (lambda client, name: client.create_shard_key(name, "a"), "shard keys"),
    "name of a vector": (lambda client, name: client.create_vector_name(
        name, "title", models.DenseVectorNameConfig(dense=models.DenseVectorConfig(size=4, distance=models.Distance.DOT))), "named vectors"),
}


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_what_is_not_supported_is_named(client, unchanged, what):
    call, word = UNSUPPORTED[what]
    code, message = refused(lambda: call(client, unchanged))
    assert code == Code.UNIMPLEMENTED
    assert word in message


def test_snapshots_are_a_service_that_is_not_there(client, unchanged):
    for call in [lambda: client.create_snapshot(unchanged), lambda: client.list_snapshots(unchanged), client.create_full_snapshot]:
        assert refused(call)[0] == Code.UNIMPLEMENTED


HUGE = 2**63 - 1
INVALID = {
    "too few components": (query(query=[1.0]), "1 components; the collection's have 4"),
    "too many components": (query(query=[1.0] * 5), "5 components"),
    "no components": (query(query=[]), "0 components"),
    "query of NaN": (query(query=[1, float("nan"), 3, 4]), "component 1"),
    "query of infinity": (query(query=[1, 2, float("-inf"), 4]), "component 2"),
    "query too long to compare": (query(query=[3e38] * 4), "norm"),
    "limit 0": (query(limit=0), "limit is 0"),
    "limit too large": (query(limit=10_001), "limits.results"),
    "limit huge": (query(limit=HUGE), "limits.results"),
    "limit and offset too large": (query(limit=10_000, offset=1), "limits.results"),
    "limit and offset beyond 64 bits": (query(limit=HUGE, offset=HUGE), "limits.results"),
    "hnsw_ef 0": (query(search_params=models.SearchParams(hnsw_ef=0)), "hnsw_ef"),
    "hnsw_ef too large": (query(search_params=models.SearchParams(hnsw_ef=10_001)), "limits.hnsw_ef"),
    "query by an id that is none": (query(query="not a uuid"), "UUID"),
    "retrieve an id that is none": (lambda client, name: client.retrieve(name, [1, "x"]), "UUID"),
    "retrieve too many": (lambda client, name: client.retrieve(name, list(range(10_001))), "limits.results"),
    "batch too large": (lambda client, name: client.query_batch_points(
        name, [models.QueryRequest(query=VECTOR)] * 257), "limits.batch"),
    "batch of two collections": (lambda client, name: client.grpc_points.SearchBatch(api.SearchBatchPoints(
        collection_name=name, search_points=[api.SearchPoints(collection_name="other", vector=VECTOR, limit=1)]),
        timeout=30), "another collection"),
    "upsert of another dimension": (put([1.0] * 3), "point 1: a vector of 3 components"),
    "upsert of NaN": (put([1, 2, 3, float("nan")]), "point 1: component 3"),
    "upsert of an id that is none": (put(VECTOR, id="5c56c793-69f3"), "UUID"),
    "upsert without an id": (lambda client, name: client.grpc_points.Upsert(api.UpsertPoints(
        collection_name=name, points=[api.PointStruct(vectors=api.Vectors(vector=api.Vector(dense=api.DenseVector(data=VECTOR))))]),
        timeout=30), "no id"),
    "upsert without a vector": (lambda client, name: client.grpc_points.Upsert(api.UpsertPoints(
        collection_name=name, points=[api.PointStruct(id=api.PointId(num=1))]), timeout=30), "no vector"),
    "upsert of which one point is wrong": (lambda client, name: client.upsert(name, [
        models.PointStruct(id=1, vector=[9.0] * 4), models.PointStruct(id=50, vector=[9.0] * 5)]), "point 50"),
    "upsert of nothing": (lambda client, name: client.upsert(name, []), "no points"),
    "deletion of nothing": (lambda client, name: client.delete(name, []), "no points"),
    "payload of nothing": (lambda client, name: client.set_payload(name, {"n": 5}, []), "no points"),
    "threshold that is no number": (query(score_threshold=float("nan")), "score_threshold"),
    "index of another type than its parameters": (lambda client, name: client.grpc_points.CreateFieldIndex(
        api.CreateFieldIndexCollection(collection_name=name, field_name="m", field_type=api.FieldType.FieldTypeInteger,
                                       field_index_params=api.PayloadIndexParams(keyword_index_params=api.KeywordIndexParams())),
        timeout=30), "FieldTypeKeyword"),
    "deletion of an id that is none": (lambda client, name: client.delete(name, [1, "x"]), "UUID"),
    "filter by no path": (lambda client, name: client.count(name, models.Filter(must=[models.IsNullCondition(
        is_null=models.PayloadField(key="a..b"))])), "a..b"),
    "filter of too many conditions": (lambda client, name: client.count(name, models.Filter(
        should=FILTER.must * 1_001)), "1000 conditions"),
    "filter by an id that is none": (query(query_filter=models.Filter(must=[models.HasIdCondition(has_id=["x"])])), "UUID"),
    "scroll of nothing": (lambda client, name: client.scroll(name, limit=0), "limit is 0"),
    "scroll of too much": (lambda client, name: client.scroll(name, limit=10_001), "limits.results"),
    "payload of nobody": (lambda client, name: client.grpc_points.SetPayload(api.SetPayloadPoints(
        collection_name=name), timeout=30), "no points"),
    "no payload to delete": (lambda client, name: client.delete_payload(name, [], IDS), "no keys"),
    "deletion of nothing": (lambda client, name: client.grpc_points.Delete(api.DeletePoints(
        collection_name=name), timeout=30), "no points"),
    "field without a name": (lambda client, name: client.create_payload_index(
        name, "", models.PayloadSchemaType.KEYWORD), "name"),
    "vectors of no components": (vectors(size=0), "size is 0"),
    "vectors too long": (vectors(size=8_193), "limits.dimensions"),
    "vectors huge": (vectors(size=HUGE), "limits.dimensions"),
    "no vectors": (make(None), "vectors_config"),
    "another index": (make(metadata={"chiplet.index": "tree"}), "hnsw, ivf or flat"),
    "an index that is no text": (make(metadata={"chiplet.index": 5}), "chiplet.index"),
    "an unknown setting": (make(metadata={"chiplet.nlists": 5}), "chiplet.nlist"),
    "lists for a graph": (make(metadata={"chiplet.nlist": 5}), "chiplet.index = ivf"),
    "no lists": (make(metadata={"chiplet.index": "ivf", "chiplet.nlist": 0}), "chiplet.nlist"),
    "half a list": (make(metadata={"chiplet.index": "ivf", "chiplet.nlist": 1.5}), "chiplet.nlist"),
    "too many lists": (make(metadata={"chiplet.index": "ivf", "chiplet.nlist": 10**12}), "chiplet.nlist"),
    "lists in words": (make(metadata={"chiplet.index": "ivf", "chiplet.nprobe": "many"}), "chiplet.nprobe"),
    "an unknown code": (make(metadata={"chiplet.index": "ivf", "chiplet.code": "OPQ4"}), "chiplet.code"),
    "a code of uneven parts": (make(metadata={"chiplet.index": "ivf", "chiplet.code": "PQ7"}), "evenly"),
    "a code beside quantization": (make(quantization_config=SCALAR, metadata={
        "chiplet.index": "ivf", "chiplet.code": "PQ2"}), "leave one of them out"),
    "quantization without an index": (make(quantization_config=SCALAR, metadata={"chiplet.index": "flat"}), "no index"),
    "oversampling below 1": (query(search_params=models.SearchParams(
        quantization=models.QuantizationSearchParams(oversampling=0.5))), "oversampling"),
    "graph of one link": (make(hnsw_config=models.HnswConfigDiff(m=1)), "hnsw_config.m"),
}


@pytest.mark.parametrize("what", INVALID)
def test_what_makes_no_sense_is_explained(client, unchanged, what):
    call, words = INVALID[what]
    code, message = refused(lambda: call(client, unchanged))
    assert code == Code.INVALID_ARGUMENT
    assert words in message
    assert len(message) < 500, "what a client sent is not sent back at length"


@pytest.mark.parametrize("name", ["", "a/b", "../../etc/passwd", "a\\b", "a\u0000b", "line\nbreak", "a:b", "what?", "x" * 241, "x" * 10_240, "ü" * 200])
def test_names_that_would_be_odd_as_files_or_labels_are_refused(client, unchanged, name):
    code, message = refused(lambda: client.create_collection(name, PARAMS))
    assert code == Code.INVALID_ARGUMENT
    assert len(message) < 500


CALLS = {
    "query": query(),
    "batch": lambda client, name: client.query_batch_points(name, [models.QueryRequest(query=VECTOR)]),
    "retrieve": lambda client, name: client.retrieve(name, [1]),
    "count": lambda client, name: client.count(name),
    "scroll": lambda client, name: client.scroll(name),
    "set payload": lambda client, name: client.set_payload(name, {"n": 1}, IDS),
    "delete payload": lambda client, name: client.delete_payload(name, ["n"], IDS),
    "upsert": put(VECTOR),
    "delete": lambda client, name: client.delete(name, [1]),
    "declare": lambda client, name: client.create_payload_index(name, "n", models.PayloadSchemaType.KEYWORD),
    "describe": lambda client, name: client.get_collection(name),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_collection_that_is_not_there_is_not_found(client, unchanged, call):
    code, message = refused(lambda: CALLS[call](client, UNKNOWN))
    assert code == Code.NOT_FOUND
    assert UNKNOWN in message
    code, message = refused(lambda: CALLS[call](client, "a/b"))
    assert code == Code.INVALID_ARGUMENT


def test_a_collection_is_not_made_twice(client, unchanged):
    code, message = refused(lambda: client.create_collection(unchanged, models.VectorParams(size=9, distance=models.Distance.COSINE)))
    assert code == Code.ALREADY_EXISTS
    assert unchanged in message


@pytest.mark.parametrize("lists", ["0", "-1", "many", "1.5", ""])
def test_a_header_that_is_no_number_of_lists_is_refused(server, unchanged, lists):
    code, message = refused(lambda: server.client(headers={"chiplet-nprobe": lists}).query_points(unchanged, VECTOR))
    assert code == Code.INVALID_ARGUMENT
    assert "chiplet-nprobe" in message


def test_hnsw_ef_is_refused_where_there_is_no_graph(client, name):
    client.create_collection(name, PARAMS, metadata={"chiplet.index": "ivf"})
    code, message = refused(lambda: client.query_points(name, VECTOR, search_params=models.SearchParams(hnsw_ef=5)))
    assert code == Code.INVALID_ARGUMENT
    assert "chiplet-nprobe" in message


def test_limits_are_those_of_the_settings_and_nothing_over_them_is_kept(tmp_path):
    limits = {"collections": 2, "upsert_points": 10, "message_bytes": 100_000, "memory_bytes": 600_000, "dimensions": 1_000}
    with running(tmp_path, **{f"limits__{name}": value for name, value in limits.items()}) as server:
        client = server.client()
        for name in ["one", "two"]:
            client.create_collection(name, models.VectorParams(size=1_000, distance=models.Distance.DOT))
        code, message = refused(lambda: client.create_collection("three", PARAMS))
        assert (code, "limits.collections" in message) == (Code.RESOURCE_EXHAUSTED, True)

        def points(first, count):
            vectors = np.ones((count, 1_000), np.float32)
            return [models.PointStruct(id=first + i, vector=vector.tolist()) for i, vector in enumerate(vectors)]

        code, message = refused(lambda: client.upsert("one", points(0, 11)))
        assert (code, "limits.upsert_points" in message) == (Code.INVALID_ARGUMENT, True)
        wide = models.PointStruct(id=1, vector=[1.0] * 1_000, payload={"long": "x" * 100_000})
        code, message = refused(lambda: client.upsert("one", [wide]))
        assert (code, "limits.message_bytes" in message) == (Code.INVALID_ARGUMENT, True)
        assert client.count("one").count == 0

        # How many fit depends on what the two collections take by themselves.
        kept = 0
        with pytest.raises(grpc.RpcError) as full:
            while kept < 150:
                client.upsert("one", points(kept, 10))
                kept += 10
        assert (full.value.code(), "limits.memory_bytes" in full.value.details()) == (Code.RESOURCE_EXHAUSTED, True)
        assert kept >= 50
        code, message = refused(lambda: client.upsert("two", points(0, 10)))
        assert (code, "limits.memory_bytes" in message) == (Code.RESOURCE_EXHAUSTED, True)
        assert (client.count("one").count, client.count("two").count) == (kept, 0)
        # Memory of what is deleted can be used again.
        client.delete_collection("one")
        client.upsert("two", points(0, 10))
        assert client.count("two").count == 10


def test_an_overload_says_when_to_come_back(tmp_path):
    with running(tmp_path, scheduler__workers=1, scheduler__queue_per_worker=1) as server:
        client = server.client()
        client.create_collection("busy", PARAMS)
        vectors = np.ones((10_000, len(VECTOR)), np.float32)
        client.upload_collection("busy", vectors, ids=list(range(10_000)), batch_size=5_000, wait=True)
        refusals = flood(client, "busy", VECTOR)
        assert refusals, "64 at once do not fit in a queue of one"
        assert all(refusal.retry_after_s >= 1 and "overloaded" in refusal.message for refusal in refusals)
        assert client.query_points("busy", VECTOR).points, "and then it is answered"

