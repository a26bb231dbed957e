"""The map of shards to nodes, with a clock and nodes of the tests' own."""

import asyncio
import json
from pathlib import Path

import pytest
from cluster_of_fakes import Cluster, build

from chiplet_serve.errors import PublishError, StorageError
from chiplet_serve.map_actor import MapActor
from chiplet_serve.node import Wanted
from chiplet_serve.storage import Shard, Storage, key


def served(root: Path, nodes: int, sizes: list[int], copies: int = 1, **settings: float) -> Cluster:
    """A cluster where version 1 of songs serves."""
    cluster = Cluster(root, **settings)
    cluster.join(*(f"n{number}" for number in range(nodes)))
    build(cluster.storage, "songs", sizes, copies)
    cluster.publish("songs")
    cluster.round(20)
    assert cluster.held() == cluster.homes()
    return cluster


def test_copies_are_on_different_nodes(tmp_path: Path) -> None:
    cluster = served(tmp_path, 4, [10] * 8, copies=3)
    assert {len(nodes) for nodes in cluster.held().values()} == {3}


def test_no_more_copies_than_nodes_and_the_rest_when_nodes_join(tmp_path: Path) -> None:
    cluster = served(tmp_path, 1, [10] * 3, copies=2)
    assert cluster.held() == {f"songs@1/{shard}": {"n0"} for shard in range(3)}
    cluster.join("n1")
    cluster.round(20)
    assert cluster.held() == cluster.homes() == {f"songs@1/{shard}": {"n0", "n1"} for shard in range(3)}


@pytest.mark.parametrize(("nodes", "shards"), [(2, 8), (4, 4), (5, 20), (8, 16)])
def test_idle_shards_are_spread_evenly(tmp_path: Path, nodes: int, shards: int) -> None:
    cluster = served(tmp_path, nodes, [100] * shards)
    assert sorted(len(node.held) for node in cluster.nodes.values()) == [shards // nodes] * nodes


def test_copies_of_idle_shards_are_spread_evenly_over_nodes_that_come_together(tmp_path: Path) -> None:
    cluster = served(tmp_path, 4, [100] * 12, copies=2, expect_nodes=4)
    assert [len(node.held) for node in cluster.nodes.values()] == [6] * 4


def test_copies_of_idle_shards_are_spread_evenly_over_nodes_that_come_one_by_one(tmp_path: Path) -> None:
    cluster = served(tmp_path, 4, [100] * 12, copies=2)
    assert max(len(node.held) for node in cluster.nodes.values()) <= 8


@pytest.mark.parametrize("nodes", [20, 40])
def test_one_idle_shard_gets_no_more_copies_than_asked_for(tmp_path: Path, nodes: int) -> None:
    cluster = served(tmp_path, nodes, [10])
    assert len(cluster.holders("songs@1/0")) == 1


def test_nothing_is_placed_before_the_expected_nodes_are_there(tmp_path: Path) -> None:
    cluster = served(tmp_path, 2, [10, 10])
    cluster.start_map(expect_nodes=3, settle_s=30)
    assert cluster.map.report("n0", 8, set(), set(), {}, {}) is None
    cluster.now += 4
    assert cluster.map.report("n1", 8, set(), set(), {}, {}) is None
    assert cluster.homes() == {"songs@1/0": set(), "songs@1/1": set()}
    order = cluster.map.report("n2", 8, set(), set(), {}, {})
    assert order is not None and cluster.homes() != {"songs@1/0": set(), "songs@1/1": set()}


def test_after_settling_those_that_are_there_have_to_do(tmp_path: Path) -> None:
    cluster = served(tmp_path, 2, [10, 10])
    cluster.start_map(expect_nodes=3, settle_s=3)
    assert cluster.map.report("n0", 8, set(), set(), {}, {}) is None
    cluster.now += 3
    assert cluster.map.report("n0", 8, set(), set(), {}, {}) == [Wanted("songs", 1, 0), Wanted("songs", 1, 1)]


def test_of_a_lost_node_only_its_shards_move(tmp_path: Path) -> None:
    cluster = served(tmp_path, 5, [10] * 20, copies=2)
    before = cluster.homes()
    del cluster.nodes["n2"]
    cluster.round(4)
    assert cluster.homes() == before, "it is not lost yet"
    cluster.round(20)
    after = cluster.homes()
    assert cluster.held() == after
    for name, nodes in before.items():
        assert len(after[name]) == 2 and nodes - {"n2"} <= after[name]


@pytest.mark.parametrize("expect", [1, 4])
def test_a_new_map_moves_nothing(tmp_path: Path, expect: int) -> None:
    cluster = served(tmp_path, 4, [10] * 12, copies=2, expect_nodes=4)
    before = cluster.held()
    for _ in range(5):
        cluster.start_map(expect_nodes=expect)
        for _ in range(20):
            cluster.round()
            assert all(nodes <= cluster.holders(name) for name, nodes in before.items())
        if expect == 4:
            assert cluster.held() == before


def test_nodes_are_not_lost_while_the_map_is_away(tmp_path: Path) -> None:
    cluster = served(tmp_path, 3, [10] * 9)
    before = cluster.map.epoch, cluster.held()
    cluster.away_s = 60
    cluster.round(90)
    assert (cluster.map.epoch, cluster.held()) == before
    cluster.away_s = 60
    del cluster.nodes["n0"]
    cluster.round(90)
    assert cluster.held() == cluster.homes() and "n0" not in set().union(*cluster.homes().values())


def test_a_hot_shard_has_more_copies_until_it_asks_for_clearly_less(tmp_path: Path) -> None:
    cluster = served(tmp_path, 4, [10] * 4)

    def copies(load: float) -> int:
        cluster.loads["songs/0"] = load
        cluster.round(60)
        assert cluster.held() == cluster.homes()
        return len(cluster.holders("songs@1/0"))

    assert copies(1.0) == 1
    many = copies(14.0)
    assert many >= 2
    epoch = cluster.map.epoch
    assert [copies(load) for load in (11.0, 13.0, 11.0, 13.0)] == [many] * 4
    assert cluster.map.epoch == epoch, "shards moved in the band between saturation and relax"
    assert copies(0.5) == 1


def test_loads_that_differ_are_levelled_and_then_nothing_moves(tmp_path: Path) -> None:
    cluster = served(tmp_path, 3, [10] * 9)
    cluster.loads = {f"songs/{shard}": load for shard, load in enumerate([4, 3, 3, 2, 2, 1, 1, 0.5, 0])}
    cluster.round(60)
    busy = [
        sum(cluster.loads[f"songs/{name.rpartition('/')[2]}"] for name in node.held) for node in cluster.nodes.values()
    ]
    assert sum(busy) == 16.5 and max(busy) < 8
    epoch = cluster.map.epoch
    cluster.round(120)
    assert cluster.map.epoch == epoch


def test_a_version_serves_when_all_homes_hold_it(tmp_path: Path) -> None:
    cluster = served(tmp_path, 3, [10, 10], copies=2, keep_previous_s=20)
    manifest = build(cluster.storage, "songs", [10, 10, 10], copies=2)
    cluster.load_s = 10
    assert cluster.map.propose("songs", None) == manifest
    while not cluster.map.loaded(manifest):
        assert cluster.map.missing(manifest)
        assert cluster.map.catalogue()["songs"].version == 1
        cluster.round()
    assert cluster.map.missing(manifest) == []
    cluster.map.switch(manifest)
    assert cluster.storage.live("songs") == (2, 1)
    entry = cluster.map.catalogue()["songs"]
    assert entry.version == 2 and len(entry.holders) == 3
    assert all(set(nodes) <= cluster.holders(manifest.key(shard)) for shard, nodes in enumerate(entry.holders))
    cluster.round(18)
    assert len(cluster.holders("songs@1/0")) == 2, "searches of the version before may be under way"
    cluster.round(20)
    assert cluster.held() == cluster.homes()


def test_a_shard_that_one_node_cannot_open_refuses_the_version(tmp_path: Path) -> None:
    cluster = served(tmp_path, 3, [10, 10], copies=2)
    before = cluster.held()
    build(cluster.storage, "songs", [10, 10], copies=3)
    cluster.nodes["n1"].damaged = {"songs@2/1"}
    with pytest.raises(PublishError, match="n1 cannot load songs@2/1: damaged"):
        cluster.publish("songs")
    assert cluster.map.catalogue()["songs"].version == 1 and cluster.storage.live("songs") == (1, None)
    # It is mended, and published anew before the nodes have reported: what broke before does not count.
    cluster.nodes["n1"].damaged = set()
    cluster.nodes["n1"].broken |= {"songs@2/1": "damaged"}
    cluster.publish("songs")
    assert cluster.map.catalogue()["songs"].version == 2
    assert before.keys() <= cluster.held().keys()


def test_what_serves_and_is_mended_is_tried_at_once_if_it_is_published_anew(tmp_path: Path) -> None:
    cluster = served(tmp_path, 3, [10, 10], copies=3)
    node = cluster.nodes["n1"]
    node.rests, node.damaged, node.broken = True, {"songs@1/0"}, {"songs@1/0": "damaged"}
    node.held.discard("songs@1/0")
    cluster.round(30)
    assert node.broken and "songs@1/0" not in node.held
    with pytest.raises(PublishError, match="n1 cannot load songs@1/0: damaged"):
        cluster.publish("songs", 1)
    node.damaged = set()
    cluster.round(30)
    assert node.broken, "it rests"
    cluster.publish("songs", 1)
    assert "songs@1/0" in node.held and not node.broken
    assert cluster.holders("songs@1/1") == set(cluster.nodes), "what was whole stayed"


def test_a_version_that_is_not_loaded_in_time_is_withdrawn(tmp_path: Path) -> None:
    cluster = served(tmp_path, 2, [10, 10], copies=2)
    build(cluster.storage, "songs", [10, 10], copies=2)
    cluster.load_s = 100
    with pytest.raises(PublishError, match=r"not in time.*songs@2/0 on n0"):
        cluster.publish("songs", rounds=5)
    cluster.load_s = 1
    cluster.round(20)
    assert cluster.held() == cluster.homes() and cluster.map.catalogue()["songs"].version == 1


def test_a_first_version_that_fails_leaves_no_collection(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, load_s=100)
    cluster.join("n0")
    build(cluster.storage, "songs", [10])
    with pytest.raises(PublishError):
        cluster.publish("songs", rounds=3)
    cluster.round(20)
    assert cluster.map.catalogue() == {} and cluster.map.status()["collections"] == {} and cluster.held() == {}


def test_a_rollback_is_there_at_once_while_the_version_before_is_held(tmp_path: Path) -> None:
    cluster = served(tmp_path, 3, [10, 10], copies=2, keep_previous_s=30)
    build(cluster.storage, "songs", [10, 10], copies=2)
    cluster.publish("songs")
    before = cluster.now
    cluster.load_s = 1000
    assert cluster.publish("songs", cluster.map.previous("songs")).version == 1
    assert cluster.now == before
    assert cluster.map.previous("songs") == 2 and cluster.storage.live("songs") == (1, 2)


def test_a_rollback_waits_for_nodes_that_were_told_to_let_go(tmp_path: Path) -> None:
    cluster = served(tmp_path, 1, [10], keep_previous_s=30)
    build(cluster.storage, "songs", [10])
    cluster.publish("songs")
    cluster.now += 31
    # The report still names version 1; the order that answers it does not.
    order = cluster.map.report("n0", 8, {"songs@1/0", "songs@2/0"}, {"songs@1/0", "songs@2/0"}, {}, {})
    assert order == [Wanted("songs", 2, 0)]
    assert not cluster.map.loaded(cluster.map.propose("songs", 1))


def test_a_collection_loads_one_version_at_a_time_and_others_go_on(tmp_path: Path) -> None:
    cluster = served(tmp_path, 2, [10])
    build(cluster.storage, "songs", [10])
    build(cluster.storage, "films", [10])
    cluster.map.propose("songs", 2)
    with pytest.raises(PublishError, match="version 2 of songs is being loaded"):
        cluster.map.propose("songs", 1)
    assert cluster.publish("films").version == 1
    assert cluster.map.catalogue().keys() == {"songs", "films"}


@pytest.mark.parametrize("damage", ["gone", "short", "folder"])
def test_a_version_with_a_shard_damaged_on_storage_is_not_loaded(tmp_path: Path, damage: str) -> None:
    cluster = served(tmp_path, 2, [10])
    manifest = build(cluster.storage, "songs", [10, 10])
    path = cluster.storage.shard(manifest, 1)
    path.unlink()
    if damage == "short":
        path.write_bytes(b"9 bytes..")
    elif damage == "folder":
        path.mkdir()
    with pytest.raises(PublishError, match="is not there" if damage != "short" else "has 9 bytes"):
        cluster.map.propose("songs", None)
    assert cluster.map.status()["collections"]["songs"]["loading"] is None  # type: ignore[index]


def test_a_number_that_nodes_hold_does_not_come_to_mean_something_else(tmp_path: Path) -> None:
    cluster = served(tmp_path, 1, [10])
    build(cluster.storage, "songs", [10])
    cluster.publish("songs")
    cluster.publish("songs", 1)
    (tmp_path / "songs" / "v000002").rename(tmp_path / "songs" / "thrown-away")
    assert build(cluster.storage, "songs", [10]).version == 2
    with pytest.raises(PublishError, match="hold another version 2"):
        cluster.map.propose("songs", 2)


def test_what_is_not_there_cannot_be_published_or_rolled_back(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    with pytest.raises(PublishError, match="no version that is whole"):
        cluster.map.propose("songs", None)
    with pytest.raises(StorageError, match="no version 3"):
        cluster.map.propose("songs", 3)
    with pytest.raises(ValueError, match="no name of a collection"):
        cluster.map.propose("../songs", None)
    with pytest.raises(PublishError, match="no version before"):
        cluster.map.previous("songs")
    assert cluster.map.catalogue() == {}


def test_a_collection_that_cannot_be_read_takes_no_other_down_and_is_read_again(tmp_path: Path) -> None:
    cluster = served(tmp_path, 2, [10, 10])
    build(cluster.storage, "films", [10])
    cluster.publish("films")
    cluster.round(10)
    live = tmp_path / "films" / "LIVE"
    whole = live.read_text()
    live.write_text(json.dumps({"version": 7, "previous": None}))
    (tmp_path / "my films").mkdir()
    (tmp_path / "my films" / "LIVE").write_text("")
    cluster.start_map()
    cluster.round(25)
    assert cluster.map.unreadable.keys() == {"films"} and "version 7" in cluster.map.unreadable["films"]
    assert cluster.map.catalogue().keys() == {"songs"}
    assert cluster.holders("films@1/0"), "it may be what serves, once LIVE can be read"
    live.write_text(whole)
    cluster.round(25)
    assert cluster.map.unreadable == {} and cluster.held() == cluster.homes()
    assert cluster.map.catalogue().keys() == {"songs", "films"}


def test_a_collection_that_cannot_be_read_can_be_published(tmp_path: Path) -> None:
    cluster = served(tmp_path, 2, [10, 10])
    (tmp_path / "songs" / "LIVE").write_text("")
    cluster.start_map()
    cluster.round(3)
    assert cluster.publish("songs", 1).version == 1
    assert cluster.map.unreadable == {} and cluster.storage.live("songs") == (1, None)


def test_a_holder_is_let_go_after_each_home_has_reported_again(tmp_path: Path) -> None:
    cluster = served(tmp_path, 2, [10], drop_after_s=3, lost_after_s=60, rebalance_s=1000)
    (home,) = cluster.holders("songs@1/0")
    (other,) = cluster.nodes.keys() - {home}
    both = {"songs@1/0"}

    def told(node: str, held: set[str], later_s: float) -> bool:
        cluster.now += later_s
        return bool(cluster.map.report(node, 8, held, held, {}, {}))

    assert told(home, both, 0)
    assert told(other, both, 1), "the clock starts"
    assert told(home, both, 1) and told(other, both, 1)
    assert told(other, both, 2), "3 s are over, and nobody knows whether the home is still there"
    assert told(home, both, 1)
    cluster.now += 61
    assert told(other, both, 0), "the map was away, and the home may be gone since"
    assert told(home, both, 1)
    assert not told(other, both, 1)


def test_nothing_is_published_while_there_are_two_maps(tmp_path: Path) -> None:
    """An update of code has begun before the call, or meanwhile: the other map would never know of the version."""
    storage = Storage(tmp_path)
    for second_at in 1, 2:
        with storage.building() as folder:
            (folder / "0.chiplet").write_bytes(b"x" * 10)
            shard = Shard(file="0.chiplet", rows=1, bytes=10)
            version = storage.finish(folder, "songs", dim=4, metric="l2", copies=1, shards=[shard]).version

        class Updated(MapActor):
            asked = 0

            def others(self) -> list[str]:
                self.asked += 1
                return ["another"] if self.asked >= second_at else []  # noqa: B023  # Used in this turn only.

        async def publish() -> None:
            actor = Updated(str(tmp_path), {"settle_s": 0})
            loading = asyncio.create_task(actor.publish("songs", version, 5))  # noqa: B023
            for _ in range(3):
                await asyncio.sleep(0)
                await actor.report("n", 1, [key("songs", version, 0)], [key("songs", version, 0)], {}, {})  # noqa: B023
            with pytest.raises(PublishError, match="being changed"):
                await loading
            assert (await actor.status())["collections"] == {}

        asyncio.run(publish())
    with pytest.raises(StorageError, match="no version that serves"):
        storage.live("songs")
