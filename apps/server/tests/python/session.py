"""A session by whichever client runs this, of the calls that all of them have since 1.13. It needs nothing besides the
client: `python session.py PORT` ends with 0 if every answer is right."""

import sys
from importlib.metadata import version

from qdrant_client import QdrantClient, models

FIRST = models.FieldCondition(key="n", range=models.Range(lt=10))
INDEXED = {"n": models.PayloadSchemaType.INTEGER, "tag": models.KeywordIndexParams(type="keyword", is_tenant=False),
           "part.size": models.PayloadSchemaType.FLOAT, "odd": models.PayloadSchemaType.BOOL}


def points(ids):
    return [models.PointStruct(id=i, vector=[1.0, 0.0, float(i)], payload={
        "n": i, "tag": "ab"[i % 2], "part": {"size": i / 2}, "odd": i % 2 == 1, "two words": None}) for i in ids]


def ids(found):
    return [point.id for point in found]


def steps(client, name, distance):
    """What each step has answered, and what is right."""
    done = models.UpdateStatus.COMPLETED
    yield client.collection_exists(name), False
    yield client.create_collection(name, models.VectorParams(size=3, distance=distance),
                                   hnsw_config=models.HnswConfigDiff(m=8, ef_construct=32)), True
    yield client.collection_exists(name), True
    yield name in [listed.name for listed in client.get_collections().collections], True
    yield client.upsert(name, points(range(20))).status, done
    yield client.upsert(name, models.Batch(ids=[20, 21], vectors=[[1, 0, 20], [1, 0, 21]], payloads=[{"n": 20}, {}])).status, done
    client.upload_points(name, points(range(22, 60)), batch_size=16, wait=True)
    client.upload_collection(name, [[1, 0, i] for i in range(60, 80)], [{"n": i} for i in range(60, 80)], list(range(60, 80)),
                             wait=True)
    for field, kind in INDEXED.items():
        yield client.create_payload_index(name, field, kind).status, done

    info = client.get_collection(name)
    yield (info.status, info.points_count, set(info.payload_schema)), (models.CollectionStatus.GREEN, 80, set(INDEXED))
    config = info.config
    yield (config.params.vectors.size, config.params.vectors.distance, config.hnsw_config.m), (3, distance, 8)
    settings = config.optimizer_config
    yield (settings.deleted_threshold, settings.vacuum_min_vector_number, settings.default_segment_number), (0.2, 1_000, 1)
    # What one collection has can be asked for in making another.
    both = {"optimizers_config": models.OptimizersConfigDiff(**settings.model_dump()),
            "wal_config": models.WalConfigDiff(**config.wal_config.model_dump()),
            "hnsw_config": models.HnswConfigDiff(**config.hnsw_config.model_dump())}
    yield client.create_collection(f"{name} again", config.params.vectors, **both), True
    yield client.get_collection(f"{name} again").config.optimizer_config, settings
    yield client.update_collection(name, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=1_000)), True
    yield client.get_collection(name).config.optimizer_config.indexing_threshold, 1_000

    yield client.count(name).count, 80
    yield client.count(name, models.Filter(must=[FIRST])).count, 10
    yield client.count(name, models.Filter(must_not=[FIRST], must=[models.FieldCondition(
        key="tag", match=models.MatchValue(value="a"))])).count, 24
    stored = client.retrieve(name, [3, 99, 1, 3], with_vectors=True)
    yield ids(stored), [3, 1, 3]
    yield stored[0].payload, points([3])[0].payload
    yield len(stored[0].vector), 3
    yield client.retrieve(name, [4], with_payload=["part.size", '"two words"'])[0].payload, {"part": {"size": 2.0}, "two words": None}
    page, after = client.scroll(name, models.Filter(must=[FIRST]), limit=4)
    yield (ids(page), after), ([0, 1, 2, 3], 4)
    page, after = client.scroll(name, models.Filter(must=[FIRST]), limit=6, offset=after)
    yield (ids(page), after), ([4, 5, 6, 7, 8, 9], None)

    query = [1.0, 0.0, 0.0] if distance != models.Distance.DOT else [0.0, 0.0, -1.0]
    params = models.SearchParams(hnsw_ef=64, indexed_only=True)
    hits = client.query_points(name, query, limit=3, search_params=params, with_vectors=True).points
    yield (ids(hits), len(hits[0].vector), hits[0].payload["n"]), ([0, 1, 2], 3, 0)
    yield ids(client.query_points(name, query, limit=2, offset=3, search_params=models.SearchParams(exact=True)).points), [3, 4]
    yield ids(client.query_points(name, query, limit=2, query_filter=models.Filter(must_not=[FIRST])).points), [10, 11]
    threshold = hits[1].score
    yield ids(client.query_points(name, query, score_threshold=threshold).points), [0]
    yield 0 in ids(client.query_points(name, 0, limit=5).points), False
    batch = [models.QueryRequest(query=query, limit=1), models.QueryRequest(query=query, limit=1, filter=models.Filter(must_not=[FIRST]))]
    yield [ids(answer.points) for answer in client.query_batch_points(name, batch)], [[0], [10]]

    yield client.set_payload(name, {"new": 1, "n": 500}, [3]).status, done
    yield client.overwrite_payload(name, {"only": [1, None]}, [4]).status, done
    yield client.delete_payload(name, ["part.size", '"two words"'], [5]).status, done
    yield client.clear_payload(name, [6]).status, done
    yield [point.payload for point in client.retrieve(name, [3, 4, 5, 6])], [
        points([3])[0].payload | {"new": 1, "n": 500}, {"only": [1, None]}, {"n": 5, "tag": "b", "part": {}, "odd": True}, {}]
    yield client.count(name, models.Filter(must=[models.IsNullCondition(is_null=models.PayloadField(key="only"))])).count, 1
    yield client.delete_payload_index(name, "n").status, done
    yield set(client.get_collection(name).payload_schema), set(INDEXED) - {"n"}
    yield client.delete(name, [0, 1]).status, done
    yield client.delete(name, models.FilterSelector(filter=models.Filter(must=[FIRST]))).status, done
    yield client.count(name).count, 73
    for made in [name, f"{name} again"]:
        yield client.delete_collection(made), True


def main():
    options = {"prefer_grpc": True, "grpc_options": {"grpc.enable_http_proxy": 0}, "check_compatibility": False}
    client = QdrantClient(host="127.0.0.1", grpc_port=int(sys.argv[1]), **options)
    number = 0
    for distance in [models.Distance.COSINE, models.Distance.DOT, models.Distance.EUCLID]:
        for number, (answer, right) in enumerate(steps(client, f"session {distance.value}", distance), number + 1):
            assert answer == right, f"answer {number} by {distance.value} is {answer!r}, and {right!r} is right"
    print(f"qdrant-client {version('qdrant-client')}: {number} answers are right")


if __name__ == "__main__":
    main()
