"""A node with a real executor and real table files: what it holds, what is damaged, and batches of several groups."""

import asyncio
import shutil
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chiplet
import numpy as np
import pytest
import ray

from chiplet_serve import node as node_module
from chiplet_serve.node import Node, Wanted
from chiplet_serve.shards import Shards
from chiplet_serve.storage import Manifest, Shard, Storage
from chiplet_serve.wire import NOT_HERE, Found, Group, Refused

ROWS, DIM = 200, 16


def build(storage: Storage, name: str, *, shards: int = 1, dim: int = DIM, rows: int = ROWS) -> Manifest:
    made = []
    with storage.building() as folder:
        for number in range(shards):
            path = folder / f"{number}.chiplet"
            chiplet.Flat.build(vectors(rows, dim, number), ids=np.arange(rows) * shards + number).save(path)
            made.append(Shard(file=path.name, rows=rows, bytes=path.stat().st_size))
        return storage.finish(folder, name, dim=dim, metric="l2", copies=1, shards=made)


def vectors(rows: int, dim: int = DIM, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal((rows, dim), dtype=np.float32)


class Made:
    def __init__(self, root: Path, **options: Any) -> None:
        self.storage = Storage(root)
        self.executor = chiplet.Executor(max_workers=1, pin="none", **options)
        self.node = Node("r1", self.storage, self.executor)

    async def hold(self, *wanted: tuple[str, int, int]) -> None:
        self.node.order([Wanted(*each) for each in wanted])
        await self.node.settled()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    made = Made(tmp_path)
    yield made
    made.node.close()


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test

    asyncio.run(bounded())


def group(key: str, n: int = 1, dim: int = DIM, k: int = 3, left: float = 30.0, ef: int | None = None) -> Group:
    return Group(key, n, dim, k, ef, left)


async def ask(node: Node, *asked: tuple[Group, np.ndarray[Any, Any]]) -> list[Found | Refused]:
    reply = await node.search([each for each, _ in asked], b"".join(rows.tobytes() for _, rows in asked))
    assert reply.replica == "r1" and 0 <= reply.executor_s <= reply.node_s
    assert len(reply.groups) == len(asked)
    return reply.groups


def found_itself(said: Found | Refused, ids: list[int]) -> None:
    assert isinstance(said, Found), said
    got, distances = said.hits(len(ids), len(said.ids) // 8 // len(ids))
    assert got[:, 0].tolist() == ids and np.allclose(distances[:, 0], 0, atol=1e-4)


def test_it_holds_what_it_is_told_to_and_no_more(made: Made) -> None:
    build(made.storage, "songs", shards=3)

    async def test() -> None:
        node = made.node
        assert node.cores == 1 and node.held == set()
        await made.hold(("songs", 1, 0), ("songs", 1, 2))
        assert node.held == {"songs@1/0", "songs@1/2"} == set(node.loads()) == set(made.executor.tables)
        await made.hold(("songs", 1, 1), ("songs", 1, 2))
        assert node.offered == {"songs@1/1", "songs@1/2"}, "routers may not ask for what is about to go"
        found_itself(  # Routers that were told before may.
            (await ask(node, (group("songs@1/0"), vectors(1))))[0], [0]
        )
        await made.hold(("songs", 1, 1), ("songs", 1, 2))
        assert node.held == node.offered == set(node.loads())
        found_itself((await ask(node, (group("songs@1/1"), vectors(1, seed=1))))[0], [1])
        (said,) = await ask(node, (group("songs@1/0"), vectors(1)))
        assert isinstance(said, Refused) and said.why == NOT_HERE and "songs@1/0" in said.message
        await made.hold()
        await made.hold()
        assert node.held == set() == set(made.executor.tables)

    run(test())


def test_the_last_of_many_orders_counts(made: Made) -> None:
    build(made.storage, "songs", shards=6)

    async def test() -> None:
        rng = np.random.default_rng(1)
        for _ in range(40):
            last = [("songs", 1, int(shard)) for shard in range(6) if rng.random() < 0.5]
            made.node.order([Wanted(*each) for each in last])
            for _ in range(int(rng.integers(4))):
                await asyncio.sleep(0)
        made.node.order([Wanted(*each) for each in last])
        await made.node.settled()
        assert made.node.held == {Wanted(*each).key for each in last} == set(made.executor.tables)
        assert made.node.broken == {}

    run(test())


def test_searches_that_run_while_a_shard_goes_are_answered_or_refused(made: Made) -> None:
    build(made.storage, "songs")
    rows = vectors(ROWS)

    async def test() -> None:
        for _ in range(20):
            await made.hold(("songs", 1, 0))
            asked = [asyncio.ensure_future(ask(made.node, (group("songs@1/0", n=8), rows[:8]))) for _ in range(10)]
            await asyncio.sleep(0)
            made.node.order([])
            for (said,) in await asyncio.gather(*asked):
                if isinstance(said, Refused):
                    assert said.why == NOT_HERE
                else:
                    found_itself(said, list(range(8)))

    run(test())


def cut(path: Path, to: int) -> None:
    with path.open("r+b") as file:
        file.truncate(to)


def flip(path: Path, at: float) -> None:
    with path.open("r+b") as file:
        offset = min(int(path.stat().st_size * at), path.stat().st_size - 1)
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x55]))


def other(path: Path, rows: int = ROWS, dim: int = DIM, metric: str = "l2") -> None:
    path.unlink()
    chiplet.Flat.build(vectors(rows, dim), metric=metric).save(path)  # type: ignore[arg-type]


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = {
    **{f"flip{at}": (lambda path, at=at: flip(path, at)) for at in (0, 0.3, 0.5, 0.7, 0.9)},
    "cut-half": lambda path: cut(path, path.stat().st_size // 2),
    "cut-one": lambda path: cut(path, path.stat().st_size - 1),
    "empty": lambda path: cut(path, 0),
    "folder": folder,
    "gone": Path.unlink,
    "dim": lambda path: other(path, dim=8),
    "rows": lambda path: other(path, rows=ROWS - 1),
    "metric": lambda path: other(path, metric="ip"),
    "manifest": lambda path: cut(path.parent / "manifest.json", 10),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_shard_is_named_and_tried_again(made: Made, tmp_path: Path, damage: str) -> None:
    manifest = build(made.storage, "songs", shards=2)
    path = made.storage.shard(manifest, 1)
    shutil.copytree(path.parent, tmp_path / "whole")
    DAMAGES[damage](path)

    async def test() -> None:
        wanted = ("songs", 1, 0), ("songs", 1, 1)
        await made.hold(*wanted)
        broken = {"songs@1/1"} if damage != "manifest" else {"songs@1/0", "songs@1/1"}
        assert made.node.broken.keys() == broken and all(made.node.broken.values())
        assert made.node.held == {"songs@1/0", "songs@1/1"} - broken
        await made.hold(*wanted)
        assert made.node.broken.keys() == broken
        shutil.rmtree(path.parent)
        (tmp_path / "whole").rename(path.parent)
        await made.hold(*wanted)
        assert made.node.broken == {} and made.node.held == {"songs@1/0", "songs@1/1"}
        found_itself((await ask(made.node, (group("songs@1/1"), vectors(1, seed=1))))[0], [1])

    run(test())


def test_what_is_broken_and_no_longer_wanted_is_forgotten(made: Made) -> None:
    async def test() -> None:
        await made.hold(("nothing", 1, 0))
        assert made.node.broken.keys() == {"nothing@1/0"}
        await made.hold()
        assert made.node.broken == {}
        made.node.order([Wanted("nothing", 1, 0)])
        await asyncio.sleep(0)
        made.node.order([])
        await made.node.settled()
        assert made.node.broken == {}

    run(test())


def test_what_takes_long_to_fail_is_not_tried_with_each_order(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file with a fault at its end would be read again and again."""
    build(made.storage, "songs", shards=2)
    opened: list[Wanted] = []

    def slowly(wanted: Wanted) -> chiplet.Table:
        opened.append(wanted)
        time.sleep(0.2)
        raise OSError("damaged at its end")

    async def test() -> None:
        monkeypatch.setattr(node_module, "_REST_TIMES", 1000)
        monkeypatch.setattr(made.node, "_open", slowly)
        await made.hold(("songs", 1, 0))
        for _ in range(3):
            await made.hold(("songs", 1, 0))
            assert made.node.broken == {"songs@1/0": "damaged at its end"}
        assert len(opened) == 1
        assert made.node._again["songs@1/0"] <= time.monotonic() + 300, "the storage may have hung"
        # Another one is opened meanwhile, and one that is ordered anew is tried at once.
        await made.hold(("songs", 1, 0), ("songs", 1, 1))
        assert [each.shard for each in opened] == [0, 1]
        await made.hold()
        monkeypatch.setattr(node_module, "_REST_TIMES", 0)
        await made.hold(("songs", 1, 0))
        assert [each.shard for each in opened] == [0, 1, 0]
        monkeypatch.undo()
        await made.hold(("songs", 1, 0))
        assert made.node.held == {"songs@1/0"} and made.node.broken == {}

    run(test())


def test_a_table_that_the_executor_does_not_take_is_broken(made: Made) -> None:
    build(made.storage, "songs", shards=2)
    made.executor.add("songs@1/0", chiplet.Flat.build(vectors(5)))

    async def test() -> None:
        await made.hold(("songs", 1, 0), ("songs", 1, 1))
        assert made.node.held == {"songs@1/1"} and "songs@1/0" in made.node.broken

    run(test())


def test_groups_of_several_shards_and_dims_are_answered_in_their_order(made: Made) -> None:
    build(made.storage, "songs", shards=2)
    build(made.storage, "films", dim=5)

    async def test() -> None:
        await made.hold(("songs", 1, 0), ("songs", 1, 1), ("films", 1, 0))
        said = await ask(
            made.node,
            (group("songs@1/1", n=3), vectors(3, seed=1)),
            (group("films@1/0", n=2, dim=5, k=1), vectors(2, 5)),
            (group("songs@1/0", n=1, k=7, ef=50), vectors(1)),
        )
        found_itself(said[0], [1, 3, 5])
        found_itself(said[1], [0, 1])
        found_itself(said[2], [0])
        assert [len(each.ids) // 8 for each in said if isinstance(each, Found)] == [3 * 3, 2 * 1, 1 * 7]

    run(test())


def test_a_group_that_fails_fails_alone(made: Made) -> None:
    build(made.storage, "songs")
    bad = np.full((1, DIM), np.nan, np.float32)

    async def test() -> None:
        await made.hold(("songs", 1, 0))
        good = group("songs@1/0", n=2), vectors(2)
        said = await ask(
            made.node,
            good,
            (group("songs@1/0"), bad),
            (group("songs@1/0", dim=5), vectors(1, 5)),
            (group("songs@1/0", k=0), vectors(1)),
            (group("songs@1/0", k=2**70), vectors(1)),
            (group("songs@1/0", left=0), vectors(1)),
            (group("songs@1/0", left=float("nan")), vectors(1)),
            (group("other@1/0"), vectors(1)),
            good,
        )
        found_itself(said[0], [0, 1])
        found_itself(said[-1], [0, 1])
        whys = [each.why if isinstance(each, Refused) else None for each in said[1:-1]]
        assert whys == ["bad_query"] * 4 + ["deadline_passed", "bad_query", NOT_HERE]
        assert all(isinstance(each, Refused) and each.message for each in said[1:-1])

    run(test())


def test_an_error_that_nobody_thought_of_fails_its_group_alone(made: Made) -> None:
    build(made.storage, "songs")

    class Odd:
        async def asearch(self, key: str, rows: Any, k: int, **settings: Any) -> Any:
            if k == 5:
                raise MemoryError("no room")
            return await made.executor.asearch(key, rows, k, **settings)

    async def test() -> None:
        await made.hold(("songs", 1, 0))
        made.node._executor = Odd()  # type: ignore[assignment]
        said = await ask(made.node, (group("songs@1/0", k=5), vectors(1)), (group("songs@1/0"), vectors(1)))
        made.node._executor = made.executor
        assert isinstance(said[0], Refused) and said[0].why == "failed" and "no room" in said[0].message
        found_itself(said[1], [0])

    run(test())


def test_vectors_that_are_missing_are_the_groups_that_lack_them(made: Made) -> None:
    build(made.storage, "songs")

    async def test() -> None:
        await made.hold(("songs", 1, 0))
        reply = await made.node.search([group("songs@1/0"), group("songs@1/0", n=2)], vectors(2).tobytes())
        found_itself(reply.groups[0], [0])
        assert isinstance(reply.groups[1], Refused) and reply.groups[1].why == "bad_query"

    run(test())


def test_k_beyond_the_rows_is_filled(made: Made) -> None:
    build(made.storage, "songs", rows=4)

    async def test() -> None:
        await made.hold(("songs", 1, 0))
        (said,) = await ask(made.node, (group("songs@1/0", n=2, k=9), vectors(2)))
        assert isinstance(said, Found)
        ids, distances = said.hits(2, 9)
        assert sorted(ids[0, :4]) == [0, 1, 2, 3] and (ids[:, 4:] == -1).all() and np.isinf(distances[:, 4:]).all()

    run(test())


def test_a_full_queue_says_when_to_come_back(tmp_path: Path) -> None:
    made = Made(tmp_path, queue_limit=2, table_queue_limit=2)
    build(made.storage, "songs", rows=20_000)

    async def test() -> None:
        await made.hold(("songs", 1, 0))
        rows = vectors(64)
        said = [each for one in await asyncio.gather(*(
            ask(made.node, (group("songs@1/0", n=64), rows)) for _ in range(40)
        )) for each in one]  # fmt: skip
        refused = [each for each in said if isinstance(each, Refused)]
        assert refused and {each.why for each in refused} == {"overloaded"}
        assert all(each.retry_after is not None and each.retry_after >= 0 for each in refused)
        assert made.node.loads()["songs@1/0"] >= 0

    run(test())
    made.node.close()


def test_a_node_that_is_closed_refuses_and_opens_nothing(tmp_path: Path) -> None:
    made = Made(tmp_path)
    build(made.storage, "songs", shards=2)

    async def test() -> None:
        await made.hold(("songs", 1, 0))
        made.node.close()
        (said,) = await ask(made.node, (group("songs@1/0"), vectors(1)))
        assert isinstance(said, Refused) and said.why == NOT_HERE
        await made.hold(("songs", 1, 0), ("songs", 1, 1))
        assert made.node.held == {"songs@1/0"} and made.node.broken.keys() == {"songs@1/1"}

    run(test())


@pytest.mark.parametrize("why", [KeyError("a fault of the map's"), None])
def test_a_beat_that_the_map_fails_is_tried_again(why: Exception | None) -> None:
    """Whether the map raises or dies: the node goes on, and looks for the map anew."""
    error = (
        ray.exceptions.RayActorError()
        if why is None
        else ray.exceptions.RayTaskError("report", "", why).as_instanceof_cause()
    )

    class Map:
        @property
        def report(self) -> Any:
            return self

        async def remote(self, *_: Any) -> Any:
            raise error

    class Told(Shards):
        def __init__(self) -> None:
            self._map, self._node_id, self._cores, self._told = None, "n", 1, []
            self._node = SimpleNamespace(offered=set(), broken={}, loads=dict, close=lambda: None)

        def find_map(self) -> Any:
            return Map()

    node = Told()
    assert asyncio.run(node.beat()) is False
    assert node._map is None
