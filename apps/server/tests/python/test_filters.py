"""Filters, scrolling and changes of payloads, with the stock client."""

import numpy as np
import pytest
from qdrant_client import models
from server import running

DIM = 256
COLORS = ["red", "green", "blue"]


def payload(i):
    """Of each kind of value some: present, missing, null, empty, a list, nested."""
    found = {"i": i, "color": COLORS[i % 3], "even": i % 2 == 0, "price": i / 4, "owner": {"name": f"n{i % 5}"},
             "sizes": [i % 7, i % 11], "cities": [{"name": COLORS[i % 3], "people": i}, {"name": "all"}]}
    if i % 4 == 1:
        found["note"] = None
    if i % 4 == 2:
        found["note"] = []
    if i % 4 == 3:
        found["note"] = f"note {i}"
    return found


def fill(client, name, count=700, **settings):
    client.create_collection(name, models.VectorParams(size=DIM, distance=models.Distance.EUCLID), **settings)
    vectors = np.zeros((count, DIM), np.float32)
    vectors[:, 0] = np.arange(count)
    client.upload_collection(name, vectors, [payload(i) for i in range(count)], list(range(count)), batch_size=200, wait=True)


def field(key, **test):
    return models.FieldCondition(key=key, **test)


def note(kind):
    return kind(**{"is_empty" if kind is models.IsEmptyCondition else "is_null": models.PayloadField(key="note")})


Filter, Value, Any, Except = models.Filter, models.MatchValue, models.MatchAny, models.MatchExcept

# A filter, and the numbers that it selects.
FILTERS = {
    "nothing said": (Filter(), lambda i: True),
    "keyword": (Filter(must=[field("color", match=Value(value="red"))]), lambda i: i % 3 == 0),
    "keywords": (Filter(must=[field("color", match=Any(any=["red", "blue", "none"]))]), lambda i: i % 3 != 1),
    "other keywords": (Filter(must=[field("color", match=Except(**{"except": ["red"]}))]), lambda i: i % 3 != 0),
    "integer": (Filter(must=[field("i", match=Value(value=77))]), lambda i: i == 77),
    "integers": (Filter(must=[field("i", match=Any(any=[1, 5, 10_000]))]), lambda i: i in (1, 5)),
    "integer of a list": (Filter(must=[field("sizes", match=Value(value=6))]), lambda i: i % 7 == 6 or i % 11 == 6),
    "bool": (Filter(must=[field("even", match=Value(value=True))]), lambda i: i % 2 == 0),
    "another type": (Filter(must=[field("color", match=Value(value=1))]), lambda i: False),
    "range of integers": (Filter(must=[field("i", range=models.Range(gt=10, lte=20))]), lambda i: 10 < i <= 20),
    "range of floats": (Filter(must=[field("price", range=models.Range(gte=2.5, lt=3.25))]), lambda i: 10 <= i < 13),
    "nested key": (Filter(must=[field("owner.name", match=Value(value="n3"))]), lambda i: i % 5 == 3),
    "key below a list": (Filter(must=[field("cities[].people", range=models.Range(lt=3))]), lambda i: i < 3),
    "key in a list": (Filter(must=[field("cities[0].name", match=Value(value="blue"))]), lambda i: i % 3 == 2),
    "key below a list without brackets": (Filter(must=[field("cities.name", match=Value(value="blue"))]), lambda i: False),
    "ids": (Filter(must=[models.HasIdCondition(has_id=[3, 699, 5_000])]), lambda i: i in (3, 699)),
    "empty": (Filter(must=[note(models.IsEmptyCondition)]), lambda i: i % 4 != 3),
    "null": (Filter(must=[note(models.IsNullCondition)]), lambda i: i % 4 == 1),
    "empty where nothing is": (Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="none"))]), lambda i: True),
    "one of two": (Filter(should=[field("color", match=Value(value="red")), field("i", match=Value(value=4))]),
                   lambda i: i % 3 == 0 or i == 4),
    "neither": (Filter(must_not=[field("color", match=Value(value="red")), field("even", match=Value(value=True))]),
                lambda i: i % 3 != 0 and i % 2 == 1),
    "all of it": (Filter(must=[field("even", match=Value(value=True))], must_not=[field("color", match=Value(value="red"))],
                         should=[field("i", range=models.Range(lt=50)), field("i", range=models.Range(gte=650))]),
                  lambda i: i % 2 == 0 and i % 3 != 0 and (i < 50 or i >= 650)),
    "filters in filters": (Filter(must=[Filter(should=[Filter(must_not=[field("even", match=Value(value=True))]),
                                                       models.HasIdCondition(has_id=[2])])]), lambda i: i % 2 == 1 or i == 2),
}
INDEXES = {"i": models.PayloadSchemaType.INTEGER, "color": models.PayloadSchemaType.KEYWORD, "price": models.PayloadSchemaType.FLOAT,
           "even": models.PayloadSchemaType.BOOL, "note": models.PayloadSchemaType.KEYWORD, "sizes": models.PayloadSchemaType.INTEGER,
           "owner.name": models.PayloadSchemaType.KEYWORD, "cities[].people": models.PayloadSchemaType.FLOAT}


@pytest.fixture(scope="module")
def filled(client):
    """One collection whose points are scanned, one with payload indexes, and one with those and a graph."""
    fill(client, "scanned", metadata={"chiplet.index": "flat"})
    fill(client, "indexed", metadata={"chiplet.index": "flat"})
    fill(client, "graph", optimizers_config=models.OptimizersConfigDiff(indexing_threshold=64))
    for name in ["indexed", "graph"]:
        for key, kind in INDEXES.items():
            assert client.create_payload_index(name, key, kind, wait=True).status == models.UpdateStatus.COMPLETED
    return ["scanned", "indexed", "graph"]


def scrolled(client, name, page=97, **options):
    """All points, page by page."""
    found, offset = [], None
    while True:
        points, offset = client.scroll(name, limit=page, offset=offset, **options)
        found += points
        if offset is None:
            return found
        assert len(points) == page


@pytest.mark.parametrize("what", FILTERS)
def test_a_filter_selects_what_it_says(client, filled, what):
    query_filter, holds = FILTERS[what]
    right = [i for i in range(700) if holds(i)]
    for name in filled:
        assert client.count(name, query_filter).count == len(right), name
        assert [point.id for point in scrolled(client, name, scroll_filter=query_filter)] == right, name
        for exact in [True, False]:
            found = client.query_points(name, [300.25] + [0] * (DIM - 1), query_filter=query_filter, limit=10,
                                        search_params=models.SearchParams(exact=exact)).points
            assert [point.id for point in found] == sorted(right, key=lambda i: abs(i - 300.25))[:10], (name, exact)
        [first, second] = client.query_batch_points(name, [models.QueryRequest(query=[0.0] * DIM, filter=query_filter, limit=3),
                                                           models.QueryRequest(query=[0.0] * DIM, limit=1)])
        assert ([point.id for point in first.points], [point.id for point in second.points]) == (right[:3], [0])


def test_a_point_is_not_like_itself_with_a_filter_too(client, filled):
    for name in filled:
        found = client.query_points(name, 300, query_filter=FILTERS["keyword"][0], limit=2).points
        assert {point.id for point in found} == {297, 303}


def test_scrolling_goes_by_id_from_an_offset_and_returns_what_is_asked_for(client, filled):
    points, offset = client.scroll("scanned")
    assert ([point.id for point in points], offset) == (list(range(10)), 10)
    assert points[3].payload == payload(3) and points[3].vector is None
    points, offset = client.scroll("scanned", limit=3, offset=698, with_payload=["i"], with_vectors=True)
    assert ([point.payload for point in points], offset) == ([{"i": 698}, {"i": 699}], None)
    assert points[0].vector[:2] == [698, 0]
    assert client.scroll("scanned", offset=700) == ([], None)
    points, offset = client.scroll("scanned", scroll_filter=FILTERS["keyword"][0], limit=2, offset=5)
    assert ([point.id for point in points], offset) == ([6, 9], 12)


def test_numbers_come_before_uuids(client, name):
    client.create_collection(name, models.VectorParams(size=1, distance=models.Distance.DOT))
    ids = [7, "5c56c793-69f3-4fbf-87e6-c4bf54c28c26", 2**64 - 1, "00000000-0000-0000-0000-000000000001"]
    client.upsert(name, [models.PointStruct(id=id, vector=[1]) for id in ids])
    right = [7, 2**64 - 1, "00000000-0000-0000-0000-000000000001", "5c56c793-69f3-4fbf-87e6-c4bf54c28c26"]
    for chosen in [None, Filter()]:
        assert [point.id for point in scrolled(client, name, page=1, scroll_filter=chosen)] == right


def stored(client, name):
    return {point.id: point.payload for point in scrolled(client, name)}


def test_payloads_and_points_are_changed_by_filter_and_by_id_and_stay_so(tmp_path):
    with running(tmp_path) as server:
        client = server.client()
        fill(client, "some", 300)
        client.create_payload_index("some", "color", models.PayloadSchemaType.KEYWORD)
        right = {i: payload(i) for i in range(300)}
        red = FILTERS["keyword"][0]

        assert client.set_payload("some", {"color": "pink", "new": [1]}, points=red).status == models.UpdateStatus.COMPLETED
        right |= {i: right[i] | {"color": "pink", "new": [1]} for i in right if i % 3 == 0}
        assert client.count("some", red).count == 0
        assert client.count("some", Filter(must=[field("color", match=Value(value="pink"))])).count == 100

        client.overwrite_payload("some", {"only": True}, points=[5, 6])
        right |= {i: {"only": True} for i in (5, 6)}
        client.delete_payload("some", ["note", "none"], points=Filter(must=[field("even", match=Value(value=False))]))
        right |= {i: {key: value for key, value in right[i].items() if key != "note"} for i in right if right[i].get("even") is False}
        client.clear_payload("some", [9])
        right[9] = {}
        client.delete("some", Filter(must=[field("i", range=models.Range(gte=250))]), wait=False)
        right = {i: found for i, found in right.items() if found.get("i", 0) < 250}
        version = client.set_payload("some", {"last": 1}, points=[0]).operation_id
        right[0] = right[0] | {"last": 1}
        assert stored(client, "some") == right
        [hit] = client.query_points("some", [0.0] * DIM, limit=1, with_vectors=True).points
        assert (hit.id, hit.version, hit.vector) == (0, version, [0] * DIM)
    with running(tmp_path) as server:
        client = server.client()
        assert stored(client, "some") == right
        assert client.get_collection("some").payload_schema["color"].data_type == models.PayloadSchemaType.KEYWORD
        assert client.count("some", Filter(must=[field("color", match=Value(value="pink"))])).count == len(
            [i for i in right if right[i].get("color") == "pink"])
