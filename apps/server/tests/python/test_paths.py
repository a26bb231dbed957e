"""Paths into payloads: what each call makes of them is what the client's own local mode makes of them."""

import random

import pytest
from qdrant_client import QdrantClient, models

NAMES = ["a", "b", "first name", "", "größe-1", "x.y", "n[0]"]
# Some of them no paths.
STEPS = ["a", "b", '"a"', '"first name"', '""', "größe-1", '"x.y"', '"n[0]"', "first name", '"a', 'a"', "a]", " a", "$"]
BRACKETS = ["", "", "", "[]", "[0]", "[1]", "[007]", "[18446744073709551615]", "[18446744073709551616]", "[x]", "[+1]", "["]
POINTS = 40


def value(some, depth):
    kind = some.randrange(8 if depth else 5)
    if kind == 5:
        return {name: value(some, depth - 1) for name in some.sample(NAMES, 3)}
    if kind > 5:
        return [value(some, depth - 1) for _ in range(some.randrange(4))]
    return [None, 1, "a", True, 2.5][kind]


def path(some):
    names = [some.choice(STEPS[:8] if some.random() < 0.9 else STEPS) + some.choice(BRACKETS[:7] if some.random() < 0.9 else BRACKETS)
             for _ in range(some.choice([1, 2, 2, 3]))]
    return ".".join(names) if some.random() < 0.97 else ".".join(["", *names])


@pytest.fixture
def both(client, name):
    """The server and local mode, with the same points."""
    some = random.Random(1)
    clients = [client, QdrantClient(":memory:")]
    payloads = [{name: value(some, 3) for name in some.sample(NAMES, 4)} for _ in range(POINTS)]
    for one in clients:
        one.create_collection(name, models.VectorParams(size=1, distance=models.Distance.DOT))
        one.upsert(name, [models.PointStruct(id=i, vector=[i], payload=payload) for i, payload in enumerate(payloads)])
    return clients


def asked(clients, call):
    """The answer that both give, or None if both refuse. They are not equal otherwise."""
    answers = []
    for client in clients:
        try:
            answers.append(call(client))
        except Exception as refusal:
            assert isinstance(refusal, ValueError) or refusal.code().name == "INVALID_ARGUMENT", refusal
            answers.append(None)
    assert answers[0] == answers[1]
    return answers[0]


def payloads(client, name, selector=True):
    return {point.id: point.payload or {} for point in client.retrieve(name, list(range(POINTS)), with_payload=selector)}


def test_paths_select_delete_and_filter_as_in_local_mode(both, name):
    some = random.Random(2)
    refused = changed = 0
    for _ in range(600):
        paths = [path(some) for _ in range(some.choice([1, 1, 2, 4]))]
        for selector in [paths, models.PayloadSelectorExclude(exclude=paths)]:
            refused += asked(both, lambda client: payloads(client, name, selector)) is None
        for condition in [models.IsNullCondition(is_null=models.PayloadField(key=paths[0])),
                          models.IsEmptyCondition(is_empty=models.PayloadField(key=paths[0])),
                          models.FieldCondition(key=paths[0], match=models.MatchValue(value=1))]:
            refused += asked(both, lambda client: client.count(name, models.Filter(must=[condition])).count) is None
        before = payloads(both[0], name)
        points = some.sample(range(POINTS), 3)
        asked(both, lambda client: client.delete_payload(name, paths, points).status)
        after = asked(both, lambda client: payloads(client, name))
        changed += before != after
    assert refused > 100 and changed > 50, (refused, changed)


def test_a_path_is_the_same_with_quotes_and_without(client, name):
    client.create_collection(name, models.VectorParams(size=1, distance=models.Distance.DOT))
    for written in ['"a"."b c"[]', 'a."b c"[]']:
        client.create_payload_index(name, written, models.PayloadSchemaType.INTEGER)
    assert set(client.get_collection(name).payload_schema) == {'a."b c"[]'}
    client.delete_payload_index(name, '"a"."b c"[]')
    assert client.get_collection(name).payload_schema == {}
    for bad in ["b c", '"a', "a..b", ""]:
        for call in [client.create_payload_index, client.delete_payload_index]:
            with pytest.raises(Exception) as refused:
                call(name, bad, *[models.PayloadSchemaType.INTEGER][: call == client.create_payload_index])
            assert refused.value.code().name == "INVALID_ARGUMENT"
            assert "quotes" in refused.value.details()
