"""Queries by the stock client, against numpy: which points, in which order, with which scores."""

import grpc
import numpy as np
import pytest
from qdrant_client import grpc as api
from qdrant_client import models
from server import eventually, running

DISTANCES = [models.Distance.COSINE, models.Distance.DOT, models.Distance.EUCLID]
EXACT = models.SearchParams(exact=True)


def scores(vectors, query, distance):
    """Of every vector, in double precision, as the API defines it."""
    vectors, query = vectors.astype(np.float64), np.asarray(query, np.float64)
    if distance == models.Distance.COSINE:
        return vectors @ query / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(query))
    if distance == models.Distance.DOT:
        return vectors @ query
    return np.linalg.norm(vectors - query, axis=1)


def best_first(all_scores, distance):
    return np.argsort(all_scores if distance == models.Distance.EUCLID else -all_scores, kind="stable")


def clustered(count, dim, seed):
    """Vectors as embeddings are: not all over the space, but in clusters (the same for every seed); not of one length."""
    centres = np.random.default_rng(0).normal(size=(40, dim))
    random = np.random.default_rng(seed)
    vectors = centres[random.integers(40, size=count)] + random.normal(scale=0.5, size=(count, dim))
    return (vectors * random.uniform(0.5, 2.0, size=(count, 1))).astype(np.float32)


def fill(client, name, vectors, distance, **settings):
    client.create_collection(name, models.VectorParams(size=vectors.shape[1], distance=distance), **settings)
    client.upload_collection(name, vectors, [{"i": i} for i in range(len(vectors))], list(range(len(vectors))),
                             batch_size=500, wait=True)


def found(client, name, query, **options):
    return [(point.id, point.score) for point in client.query_points(name, query, **options).points]


def ids(found):
    return [id for id, _ in found]


@pytest.fixture
def small(client, name):
    """Sixty points on a line, without an index: point i is i away from the origin."""
    vectors = np.zeros((60, 3), np.float32)
    vectors[:, 0] = range(60)
    fill(client, name, vectors, models.Distance.EUCLID)
    return name


@pytest.mark.parametrize("distance", DISTANCES)
def test_exact_results_and_scores_are_numpys(client, name, distance):
    vectors = clustered(3_000, 24, seed=1)
    fill(client, name, vectors, distance)
    for query in clustered(20, 24, seed=2):
        expected = scores(vectors, query, distance)
        hits = found(client, name, query.tolist(), limit=50, search_params=EXACT)
        assert len(hits) == 50
        got = np.array([score for _, score in hits])
        assert got == pytest.approx(expected[ids(hits)], rel=1e-4, abs=1e-5), "each score is that of its point"
        assert got == pytest.approx(expected[best_first(expected, distance)[:50]], rel=1e-4, abs=1e-5), "the best ones"
        assert list(got) == sorted(got, reverse=distance != models.Distance.EUCLID), "the best first"


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("index", ["hnsw", "ivf"])
def test_an_index_finds_nearly_what_exact_search_finds(client, name, index, distance):
    vectors = clustered(4_000, 32, seed=3)
    metadata = {"ivf": {"chiplet.index": "ivf", "chiplet.nlist": 64, "chiplet.nprobe": 8}}.get(index)
    fill(client, name, vectors, distance, metadata=metadata, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=64))
    # It is built in the background; the API says when it covers how much.
    # What is measured below is an index, not a scan.
    eventually(lambda: (info := settled(client, name)) and info.indexed_vectors_count >= 2_000)
    hits = total = 0
    for query in clustered(100, 32, seed=4):
        exact = ids(found(client, name, query.tolist(), search_params=EXACT))
        expected = scores(vectors, query, distance)
        assert expected[exact] == pytest.approx(expected[best_first(expected, distance)[:10]], rel=1e-4, abs=1e-5)
        near = found(client, name, query.tolist())
        assert np.array([score for _, score in near]) == pytest.approx(expected[ids(near)], rel=1e-4, abs=1e-5)
        hits += len(set(ids(near)) & set(exact))
        total += 10
    assert hits / total >= 0.95


def settled(client, name):
    info = client.get_collection(name)
    return info if info.status == models.CollectionStatus.GREEN and info.update_queue.length == 0 else None


def recall(client, name, queries, vectors, distance, **options):
    hits = 0
    for query in queries:
        best = best_first(scores(vectors, query, distance), distance)[:10]
        hits += len(set(ids(found(client, name, query.tolist(), **options))) & set(best.tolist()))
    return hits / (10 * len(queries))


def test_the_effort_of_a_query_can_be_chosen(server, client, name):
    # Without clusters an index has a hard time, so that effort shows.
    random = np.random.default_rng(5)
    vectors = random.normal(size=(4_000, 32)).astype(np.float32)
    queries = random.normal(size=(40, 32)).astype(np.float32)
    at_once = models.OptimizersConfigDiff(indexing_threshold=64)
    ivf = {"chiplet.index": "ivf", "chiplet.nlist": 64, "chiplet.nprobe": 8}
    fill(client, name, vectors, models.Distance.EUCLID, metadata=ivf, optimizers_config=at_once)
    eventually(lambda: settled(client, name))
    by_lists = {}
    for lists in ["1", "8", "64"]:
        # Not `metadata=`: this client sends that by REST only.
        asking = server.client(headers={"chiplet-nprobe": lists})
        by_lists[lists] = recall(asking, name, queries, vectors, models.Distance.EUCLID)
    assert by_lists["8"] == recall(client, name, queries, vectors, models.Distance.EUCLID), "8 is the collection's own"
    assert by_lists["1"] + 0.2 < by_lists["8"] < by_lists["64"]
    assert by_lists["64"] >= 0.999, "all lists are all points"

    client.delete_collection(name)
    graph = models.HnswConfigDiff(m=4, ef_construct=16)
    fill(client, name, vectors, models.Distance.EUCLID, hnsw_config=graph, optimizers_config=at_once)
    eventually(lambda: settled(client, name))
    little, much = (recall(client, name, queries, vectors, models.Distance.EUCLID,
                           search_params=models.SearchParams(hnsw_ef=ef)) for ef in [10, 1_000])
    assert little + 0.05 < much


# The settings that VectorDBBench 2.0.0 sends for a Qdrant of one's own and for Qdrant Cloud.
BENCHMARKS = {
    "local": {"hnsw_config": models.HnswConfigDiff(m=16, ef_construct=100, on_disk=False)},
    "cloud": {"hnsw_config": models.HnswConfigDiff(m=16, payload_m=16),
              "optimizers_config": models.OptimizersConfigDiff(default_segment_number=0)},
}


@pytest.mark.parametrize("settings", BENCHMARKS)
def test_a_benchmark_loads_without_an_index_waits_for_one_and_searches(client, name, settings):
    vectors = clustered(3_000, 32, seed=6)
    distance = models.Distance.EUCLID
    params = models.VectorParams(size=32, distance=distance)
    client.create_collection(name, params, **BENCHMARKS[settings])
    client.create_payload_index(name, "pk", models.PayloadSchemaType.INTEGER)
    client.create_payload_index(name, "label", models.KeywordIndexParams(type="keyword", is_tenant=False, on_disk=False))

    def index_from(kib):
        assert client.update_collection(name, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=kib))

    index_from(0)
    for first in range(0, 3_000, 500):
        some = list(range(first, first + 500))
        batch = models.Batch(ids=some, payloads=[{"pk": i} for i in some], vectors=vectors[some].tolist())
        client.upsert(name, batch, wait=True)
    assert client.get_collection(name).indexed_vectors_count == 0
    index_from(100)
    eventually(lambda: (info := settled(client, name)) and info.indexed_vectors_count == 3_000)
    params = models.SearchParams(hnsw_ef=128, exact=False, indexed_only=True)
    queries = clustered(40, 32, seed=7)
    assert recall(client, name, queries, vectors, distance, search_params=params) >= 0.95
    for least in [1_500, 2_990]:
        after = models.Filter(must=[models.FieldCondition(key="pk", range=models.Range(gt=least))])
        for query in queries:
            hits = ids(found(client, name, query.tolist(), limit=5, query_filter=after, search_params=params))
            assert len(hits) == 5 and min(hits) > least


def test_of_indexed_points_only_the_few_besides_are_found_too(client, name):
    vectors = clustered(2_000, 16, seed=6)
    fill(client, name, vectors, models.Distance.EUCLID, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=64))
    eventually(lambda: (info := settled(client, name)) and info.indexed_vectors_count > 0)
    far = [100.0] * 16
    client.upsert(name, [models.PointStruct(id=90_000, vector=far)])
    only = models.SearchParams(indexed_only=True)
    assert ids(found(client, name, far, limit=1, search_params=only)) == [90_000]


def test_changes_are_found_whether_the_index_has_them_or_not(client, name):
    vectors = clustered(2_000, 16, seed=6)
    fill(client, name, vectors, models.Distance.EUCLID, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=64))
    info = eventually(lambda: settled(client, name))
    assert info.indexed_vectors_count > 0
    far = [100.0] * 16
    client.upsert(name, [models.PointStruct(id=5, vector=far), models.PointStruct(id=90_000, vector=far)])
    client.delete(name, [7])
    for params in [None, EXACT]:
        assert set(ids(found(client, name, far, limit=2, search_params=params))) == {5, 90_000}
        near_old = ids(found(client, name, vectors[5].tolist(), limit=3, search_params=params))
        assert 5 not in near_old
        assert 7 not in ids(found(client, name, vectors[7].tolist(), limit=3, search_params=params))


def test_limit_and_offset_cut_a_page_out_of_the_results(client, small):
    origin = [0.0, 0, 0]
    assert ids(found(client, small, origin)) == list(range(10)), "ten by default"
    assert ids(found(client, small, origin, limit=3)) == [0, 1, 2]
    assert ids(found(client, small, origin, limit=4, offset=20)) == [20, 21, 22, 23]
    assert ids(found(client, small, origin, limit=100)) == list(range(60))
    assert ids(found(client, small, origin, limit=5, offset=58)) == [58, 59]
    assert ids(found(client, small, origin, limit=5, offset=60)) == []


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_threshold_keeps_what_is_nearer(client, name, distance):
    vectors = clustered(500, 8, seed=7)
    fill(client, name, vectors, distance)
    query = vectors[3]
    expected = scores(vectors, query, distance)
    threshold = float(np.sort(expected)[250]) + 1e-3
    keeps = expected < threshold if distance == models.Distance.EUCLID else expected > threshold
    hits = found(client, name, query.tolist(), limit=500, score_threshold=threshold, search_params=EXACT)
    assert set(ids(hits)) == set(np.flatnonzero(keeps).tolist())


def test_a_query_by_id_finds_the_neighbours_of_that_point_without_it(client, small):
    assert set(ids(found(client, small, 30, limit=4))) == {28, 29, 31, 32}
    assert ids(found(client, small, 0, limit=3, offset=1)) == [2, 3, 4]
    with pytest.raises(grpc.RpcError) as refused:
        found(client, small, 61)
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_zero_vector_is_taken_by_every_distance(client, name):
    for number, distance in enumerate(DISTANCES):
        name_here = f"{name} {number}"
        fill(client, name_here, np.array([[0, 0], [3, 4]], np.float32), distance)
        hits = dict(found(client, name_here, [3.0, 4.0]))
        expected = {models.Distance.COSINE: {0: 0, 1: 1}, models.Distance.DOT: {0: 0, 1: 25}, models.Distance.EUCLID: {0: 5, 1: 0}}
        assert hits == pytest.approx(expected[distance], abs=1e-5)
        client.delete_collection(name_here)


def test_a_batch_answers_each_query_in_its_place(client, small):
    requests = [models.QueryRequest(query=[float(at), 0, 0], limit=1 + at % 3, with_payload=at % 2 == 0) for at in range(15)]
    requests.append(models.QueryRequest(query=30, limit=2, with_vector=True))
    answers = client.query_batch_points(small, requests)
    assert len(answers) == 16
    for at, answer in enumerate(answers[:15]):
        assert len(answer.points) == 1 + at % 3
        assert answer.points[0].id == at
        assert answer.points[0].payload == ({"i": at} if at % 2 == 0 else None)
    assert sorted((point.id, tuple(point.vector)) for point in answers[15].points) == [(29, (29, 0, 0)), (31, (31, 0, 0))]
    assert client.query_batch_points(small, []) == []


def test_an_idle_server_answers_the_largest_batch_that_its_limits_allow(tmp_path):
    with running(tmp_path, scheduler__workers=1) as server:
        client = server.client()
        fill(client, "one", np.eye(3, dtype=np.float32), models.Distance.DOT)
        answers = client.query_batch_points("one", [models.QueryRequest(query=[1, 0, 0], limit=1)] * 256)
        assert [answer.points[0].id for answer in answers] == [0] * 256


def test_the_older_search_calls_answer_too(client, small):
    with_payload = api.WithPayloadSelector(enable=True)

    def search(x, **options):
        return api.SearchPoints(collection_name=small, vector=[x, 0.0, 0.0], limit=2, with_payload=with_payload, **options)

    one = client.grpc_points.Search(search(5.0, params=api.SearchParams(exact=True)), timeout=30)
    assert (one.result[0].id.num, one.result[0].score, one.result[0].payload["i"].integer_value) == (5, 0, 5)
    assert one.time > 0
    paged = client.grpc_points.Search(search(0.0, offset=7, score_threshold=9), timeout=30)
    assert [hit.id.num for hit in paged.result] == [7, 8]
    paged = client.grpc_points.Search(search(0.0, offset=7, score_threshold=8), timeout=30)
    assert [hit.id.num for hit in paged.result] == [7]
    batch = api.SearchBatchPoints(collection_name=small, search_points=[search(float(x)) for x in [9, 3, 27]])
    answers = client.grpc_points.SearchBatch(batch, timeout=30).result
    assert [answer.result[0].id.num for answer in answers] == [9, 3, 27]


def test_a_query_whose_time_is_up_is_an_error_and_not_an_answer(client, small):
    query = api.QueryPoints(collection_name=small, timeout=0, query=api.Query(
        nearest=api.VectorInput(dense=api.DenseVector(data=[0, 0, 0]))))
    with pytest.raises(grpc.RpcError) as refused:
        client.grpc_points.Query(query, timeout=30)
    assert refused.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    query.timeout = 30
    assert len(client.grpc_points.Query(query, timeout=30).result) == 10
