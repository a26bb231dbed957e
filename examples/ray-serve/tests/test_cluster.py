"""A cluster of three nodes answers as one executor does, and says what is wrong as HTTP and gRPC say such things."""

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import grpc
import numpy as np
import pytest
from conftest import SENSITIVE, World, all_answered, under_load

from chiplet_serve import search_pb2, search_pb2_grpc
from local.data import COLLECTIONS
from local.load import GrpcClient


def http(world: World, path: str, body: Any = None, raw: bytes | None = None) -> tuple[int, Any, dict[str, str]]:
    data = raw if raw is not None else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{world.cluster.http}{path}", data=data, headers={"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer), dict(answer.headers)
    except urllib.error.HTTPError as why:
        return why.code, json.loads(why.read()), {name.lower(): value for name, value in why.headers.items()}


@pytest.fixture
def stub(world: World) -> Any:
    with grpc.insecure_channel(f"127.0.0.1:{world.cluster.grpc}") as channel:
        yield search_pb2_grpc.SearchStub(channel)


def refused(call: Any) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as why:
        call()
    return why.value


def test_it_answers_as_one_executor(world: World) -> None:

    async def ask_all() -> None:
        async with GrpcClient(world.cluster.grpc, COLLECTIONS, world.vectors) as client:
            for at in range(len(COLLECTIONS)):
                for row in range(0, 200, 10):
                    outcome = await client.ask(at, row)
                    assert outcome.what == "answered"
                    assert world.truth(at, row, outcome), (at, row, outcome)

    asyncio.run(ask_all())


def test_http_and_grpc_answer_alike(world: World, stub: Any) -> None:
    for row in range(5):
        vector = world.vectors[row]
        code, by_http, _ = http(
            world, "/collections/words-03/search", {"vector": vector.tolist(), "k": 7, "hops": True}
        )
        assert code == 200
        by_grpc = stub.Find(search_pb2.FindRequest(collection="words-03", vector=vector.tobytes(), k=7))
        assert by_http["ids"] == list(by_grpc.ids)
        np.testing.assert_array_equal(np.float32(by_http["distances"]), np.float32(by_grpc.distances))
        assert len(by_http["ids"]) == 7 and by_http["distances"] == sorted(by_http["distances"])
        hops = by_http["hops_us"]
        assert hops["call"] >= hops["node"] >= hops["executor"] > 0


def test_what_serves_is_listed(world: World, stub: Any) -> None:
    code, said, _ = http(world, "/collections")
    assert code == 200 and sorted(said) == COLLECTIONS
    assert said["words-00"] == {"version": 1, "dim": 50, "metric": "cosine", "rows": 2500, "shards": 2}
    assert http(world, "/collections/words-00")[1] == said["words-00"]
    assert sorted(each.name for each in stub.List(search_pb2.ListRequest()).collections) == COLLECTIONS


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("nothing", {"vector": [0.0] * 50}, 404, "unknown_collection"),
        ("..%2F..%2Fetc", {"vector": [0.0] * 50}, 404, "not_found"),
        ("words-00", {"vector": [0.0] * 49}, 400, "bad_query"),
        ("words-00", {"vector": []}, 400, "bad_query"),
        ("words-00", {"vector": [1e300] * 50}, 400, "bad_query"),
        ("words-00", {"vector": "fifty"}, 400, "bad_query"),
        ("words-00", {"vector": [0.0] * 50, "k": 0}, 400, "bad_query"),
        ("words-00", {"vector": [0.0] * 50, "k": 10**9}, 400, "bad_query"),
        ("words-00", {"vector": [0.0] * 50, "k": 1.5}, 400, "bad_query"),
        ("words-00", {"vector": [0.0] * 50, "ef": -1}, 400, "bad_query"),
        ("words-00", {"vector": [0.0] * 50, "kk": 3}, 400, "bad_query"),
        ("words-00", {}, 400, "bad_query"),
        ("words-00", {"vector": [0.0] * 50, "timeout_ms": 0}, 504, "deadline_passed"),
        ("words-00", {"vector": [0.0] * 50, "timeout_ms": -5}, 504, "deadline_passed"),
        ("words-00", {"vector": [0.0] * 50, "timeout_ms": 0.01}, 504, "deadline_passed"),
    ],
)
def test_bad_searches_by_http(world: World, path: str, body: Any, status: int, code: str) -> None:
    got, said, _ = http(world, f"/collections/{path}/search", body)
    assert (got, said["error"]["code"]) == (status, code), said
    assert said["error"]["message"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff\xfe", b'{"vector": [NaN]}'])
def test_what_is_no_search_by_http(world: World, raw: bytes) -> None:
    got, said, _ = http(world, "/collections/words-00/search", raw=raw)
    assert (got, said["error"]["code"]) == (400, "bad_query"), said


def test_bad_searches_by_grpc(world: World, stub: Any) -> None:
    whole = world.vectors[0].tobytes()
    status = grpc.StatusCode
    for request, code in [
        (search_pb2.FindRequest(collection="nothing", vector=whole), status.NOT_FOUND),
        (search_pb2.FindRequest(vector=whole), status.NOT_FOUND),
        (search_pb2.FindRequest(collection="words-00", vector=whole[:-4]), status.INVALID_ARGUMENT),
        (search_pb2.FindRequest(collection="words-00", vector=whole[:-1]), status.INVALID_ARGUMENT),
        (search_pb2.FindRequest(collection="words-00"), status.INVALID_ARGUMENT),
        (
            search_pb2.FindRequest(collection="words-00", vector=np.full(50, np.nan, np.float32).tobytes()),
            status.INVALID_ARGUMENT,
        ),
        (search_pb2.FindRequest(collection="words-00", vector=whole, k=2**32 - 1), status.INVALID_ARGUMENT),
        (search_pb2.FindRequest(collection="words-00", vector=whole, ef=2**31), status.INVALID_ARGUMENT),
    ]:
        why = refused(lambda request=request: stub.Find(request))
        assert why.code() is code, (request, why)
        assert why.details()


def test_more_than_it_takes_is_refused_early(world: World, stub: Any) -> None:
    """A limit of few open searches, and many at once: some are answered, and the rest are told when to come back."""
    config = world.cluster.config(world.root, map=SENSITIVE, search={"max_open": 4})
    world.cluster.deploy(config, world.folder / "small.yaml")
    try:
        run = under_load(world, "400 a second, where four may be open", rate=400, before_s=0, after_s=1.5, timeout_s=10)
        assert run.outcomes["RESOURCE_EXHAUSTED"] > 0 and run.answered > 0, run
        assert run.outcomes.total() == run.outcomes["RESOURCE_EXHAUSTED"] + run.answered, run
        assert run.wrong == 0

        async def many() -> list[tuple[int, Any, dict[str, str]]]:
            body = {"vector": world.vectors[0].tolist()}
            return await asyncio.gather(
                *(asyncio.to_thread(http, world, "/collections/words-00/search", body) for _ in range(40))
            )

        answers = asyncio.run(many())
        turned_away = [headers for code, _, headers in answers if code == 429]
        assert turned_away and all(int(headers["retry-after"]) >= 1 for headers in turned_away)
        assert {code for code, _, _ in answers} == {200, 429}
    finally:
        world.cluster.deploy(world.cluster.config(world.root, map=SENSITIVE), world.folder / "serve.yaml")


def test_open_load_is_answered(world: World) -> None:
    all_answered(under_load(world, "open load", after_s=4))
