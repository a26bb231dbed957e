"""Shards on nodes: what `chiplet.place` promises."""

from __future__ import annotations

import doctest
import threading
from collections import ChainMap
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import chiplet

Homes = dict[str, dict[str, float]]

SHARDS = [f"shard-{number:02}" for number in range(12)]
NODES = {f"node-{number}": 8 for number in range(3)}


def even(load: float) -> dict[str, float]:
    return dict.fromkeys(SHARDS, load)


def counts(homes: Homes, nodes: Mapping[str, int]) -> list[int]:
    """How many tables have a home on each node."""
    return [sum(node in parts for parts in homes.values()) for node in nodes]


def levels(homes: Homes, loads: Mapping[str, float], nodes: Mapping[str, int]) -> list[float]:
    """The load per core of each node with cores."""
    on = {node: sum(loads[table] * parts.get(node, 0.0) for table, parts in homes.items()) for node in nodes}
    return [on[node] / cores for node, cores in nodes.items() if cores]


def gained(before: Homes, after: Homes) -> int:
    """Homes that tables have now and did not have."""
    return sum(len(parts.keys() - before[table].keys()) for table, parts in after.items() if table in before)


def test_the_example_of_its_documentation() -> None:
    example = doctest.DocTestParser().get_doctest(chiplet.place.__doc__ or "", {}, "place", None, None)
    result = doctest.DocTestRunner().run(example)
    assert result.attempted == 5
    assert result.failed == 0


@pytest.mark.parametrize("load", [0.0, 1.0])
@pytest.mark.parametrize(("copies", "each"), [(1, 4), (2, 8), (3, 12), (7, 12)])
def test_twelve_shards_on_three_nodes(load: float, copies: int, each: int) -> None:
    homes = chiplet.place(even(load), NODES, copies=copies)
    assert list(homes) == SHARDS
    assert all(len(parts) == min(copies, 3) for parts in homes.values())
    assert counts(homes, NODES) == [each] * 3
    assert all(abs(sum(parts.values()) - 1.0) < 1e-12 for parts in homes.values())
    assert chiplet.place(even(load), NODES, copies=copies, current=homes) == homes


def test_copies_by_name() -> None:
    homes = chiplet.place(even(0.5), NODES, copies={SHARDS[3]: 2, SHARDS[5]: 3})
    assert [len(homes[name]) for name in SHARDS] == [1, 1, 1, 2, 1, 3, 1, 1, 1, 1, 1, 1]


def test_the_order_of_names_does_not_count() -> None:
    random = np.random.default_rng(3)
    loads = {name: float(load) for name, load in zip(SHARDS, random.exponential(1.0, 12), strict=True)}
    homes = chiplet.place(loads, NODES, copies=2)
    for _ in range(5):
        mixed = {name: loads[name] for name in random.permutation(SHARDS)}
        nodes = {name: NODES[name] for name in random.permutation(list(NODES))}
        again = chiplet.place(mixed, nodes, copies=2)
        assert again == homes
        assert list(again) == SHARDS


def test_a_lost_node() -> None:
    for load in (0.0, 1.0):
        before = chiplet.place(even(load), NODES, copies=2)
        nodes = {name: cores for name, cores in NODES.items() if name != "node-1"}
        after = chiplet.place(even(load), nodes, copies=2, current=before)
        assert all(parts.keys() == nodes.keys() for parts in after.values())
        assert chiplet.place(even(load), nodes, copies=2, current=after) == after
    # With one home each, only those that were there go.
    before = chiplet.place(even(0.5), NODES)
    after = chiplet.place(even(0.5), nodes, current=before)
    assert gained(before, after) == 4
    assert counts(after, nodes) == [6, 6]


def test_a_node_that_joins_gets_its_part() -> None:
    before = chiplet.place(even(1.0), NODES, copies=2)
    nodes = {**NODES, "node-3": 8}
    after = chiplet.place(even(1.0), nodes, copies=2, current=before)
    joined = counts(after, nodes)[3]
    assert 3 <= joined <= 6
    assert gained(before, after) <= joined + 2
    assert max(levels(after, even(1.0), nodes)) <= 12 / 32 * 1.11


def test_a_hot_table_gets_more_homes_and_gives_them_back_late() -> None:
    nodes = {f"node-{number}": 8 for number in range(6)}
    homes: Homes | None = None

    def asked(load: float, **settings: Any) -> int:
        nonlocal homes
        loads = {**even(0.1), SHARDS[0]: load}
        homes = chiplet.place(loads, nodes, current=homes, **settings)
        assert chiplet.place(loads, nodes, current=homes, **settings) == homes
        return len(homes[SHARDS[0]])

    # One home up to 0.7 of 8 cores, two down to 0.4 of them.
    assert [asked(load) for load in (1.0, 5.5, 5.7, 5.5, 3.3, 3.1, 5.5)] == [1, 1, 2, 2, 2, 1, 1]
    assert [asked(load, saturation=0.5) for load in (3.9, 4.1)] == [1, 2]
    assert [asked(load, relax=0.2) for load in (3.1, 1.7, 1.5)] == [2, 2, 1]
    assert asked(7.9, saturation=1.0) == 1
    two = {"x": 8, "y": 8}
    assert len(chiplet.place({"a": 5.0}, two, saturation=0.5)["a"]) == 2
    assert len(chiplet.place({"a": 9.0, "b": 5.0}, two)["a"]) == 1


def test_stay_bounds_what_is_left_uneven() -> None:
    loads = {"a": 1.0, "b": 1.0, "c": 0.25}
    nodes = {"x": 4, "y": 4}
    current = {"a": {"x": 1.0}, "b": {"y": 1.0}, "c": {"y": 1.0}}
    assert chiplet.place(loads, nodes, current=current) == current
    uneven = {"a": {"x": 1.0}, "b": {"x": 1.0}, "c": {"y": 1.0}}
    assert chiplet.place(loads, nodes, current=uneven) != uneven
    assert chiplet.place(loads, nodes, current=uneven, stay=1.0) == uneven


def test_whatever_comes() -> None:
    random = np.random.default_rng(11)
    for _ in range(300):
        tables = [f"t{number}" for number in range(random.integers(0, 30))]
        nodes = {f"n{number}": int(random.integers(0, 17)) for number in range(random.integers(1, 9))}
        nodes["n0"] = max(nodes["n0"], 1)
        copies = {table: int(random.integers(1, 5)) for table in tables if random.random() < 0.7}
        loads = {table: float(random.exponential(2.0) * (random.random() < 0.8)) for table in tables}
        homes = chiplet.place(loads, nodes, copies=copies)
        assert homes == chiplet.place(loads, nodes, copies=copies)
        live = {name for name, cores in nodes.items() if cores}
        for _ in range(4):
            for table, parts in homes.items():
                assert live >= parts.keys()
                assert len(parts) >= min(copies.get(table, 1), len(live))
                assert sum(parts.values()) == 1.0
                assert min(parts.values()) > 0.0
            # A change of load, and sometimes of nodes; then nothing changes, at the second look at the latest.
            loads = {table: load * float(random.uniform(0.5, 1.5)) for table, load in loads.items()}
            if random.random() < 0.3 and len(live) > 1:
                live.discard(str(random.choice(sorted(live))))
            there = {name: nodes[name] for name in live}
            once = chiplet.place(loads, there, copies=copies, current=homes)
            homes = chiplet.place(loads, there, copies=copies, current=once)
            assert chiplet.place(loads, there, copies=copies, current=homes) == homes


def test_weights_come_back_as_they_were() -> None:
    """Uneven parts are the same after any number of calls: rounding does not make them creep."""
    loads = {"hot": 30.0, "a": 5.0, "b": 1.0, "c": 0.3}
    nodes = {"x": 8, "y": 16, "z": 4}
    first = homes = chiplet.place(loads, nodes, copies={"a": 2})
    assert len(set(first["hot"].values())) > 1
    for _ in range(20):
        homes = chiplet.place(loads, nodes, copies={"a": 2}, current=homes)
    assert homes == first


def test_what_current_may_name() -> None:
    current = {"gone": {"x": 1.0}, "a": {"vanished": 0.75, "y": 0.25}, "b": {}}
    homes = chiplet.place({"a": 0.1, "b": 0.0}, {"x": 8, "y": 8}, current=current)
    assert homes == {"a": {"y": 1.0}, "b": {"x": 1.0}}
    assert chiplet.place({}, {"x": 1}) == {}


def test_any_mapping_and_any_number() -> None:
    want = chiplet.place({"a": 2.0, "b": 1.0}, {"x": 2, "y": 2}, copies=2)
    loads = MappingProxyType({"a": np.float32(2), "b": 1})
    nodes = ChainMap({"x": 2}, {"y": 2})
    assert chiplet.place(loads, nodes, copies=2) == want  # type: ignore[arg-type]
    assert chiplet.place({"a": 2, "b": True}, {"x": np.int64(2), "y": 2}, copies=np.uint8(2)) == want  # type: ignore[dict-item, arg-type]


@pytest.mark.parametrize(("given", "says"), [
    ({"loads": {"a": -1.0}}, r'loads\["a"\] = -1; it must be from 0 on'),
    ({"loads": {"a": float("nan")}}, "NaN; it must be from 0 on and finite"),
    ({"loads": {"a": float("inf")}}, "inf; it must be from 0 on and finite"),
    ({"domains": {"x": -1}}, r'domains\["x"\] = -1; it must be cores from 0'),
    ({"domains": {"x": 2**32}}, "it must be cores from 0"),
    ({"domains": {"x": 2**80}}, "too large"),
    ({"domains": {"x": 0, "y": 0}}, "none has a core"),
    ({"domains": {}}, "none has a core"),
    ({"copies": 0}, "copies = 0; it must be at least 1"),
    ({"copies": -3}, "it must be at least 1"),
    ({"copies": {"a": 0}}, r'copies\["a"\] = 0; it must be at least 1'),
    ({"copies": {"b": 1}}, 'copies names "b"'),
    ({"current": {"a": {"x": 1.5}}}, "a part from 0 to 1"),
    ({"current": {"a": {"x": float("nan")}}}, "a part from 0 to 1"),
    ({"saturation": 0.0}, "saturation = 0; it must be finite and above 0"),
    ({"saturation": float("nan")}, "it must be finite"),
    ({"relax": 0.8}, "relax = 0.8; it must be at most saturation, which is 0.7"),
    ({"stay": -0.1}, "at least 0"),
    ({"stay": float("inf")}, "it must be finite"),
])
def test_values_out_of_range(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        chiplet.place(**{"loads": {"a": 1.0}, "domains": {"x": 8}, **given})


@pytest.mark.parametrize("given", [
    {"loads": [1.0]},
    {"loads": {1: 1.0}},
    {"loads": {"a": "1"}},
    {"loads": {"a": None}},
    {"loads": None},
    {"domains": ["x"]},
    {"domains": {"x": 1.5}},
    {"copies": 1.5},
    {"copies": None},
    {"copies": {"a": 1.5}},
    {"current": {"a": "x"}},
    {"current": ["a"]},
    {"current": {"a": {"x": "1"}}},
    {"saturation": "0.7"},
    {"more": 1},
])
def test_wrong_types(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        chiplet.place(**{"loads": {"a": 1.0}, "domains": {"x": 8}, **given})


def test_threads_agree() -> None:
    loads = {f"t{number}": float(number % 17) / 40 for number in range(2_000)}
    nodes = {f"n{number}": 8 for number in range(16)}
    want = chiplet.place(loads, nodes, copies=2)
    got: list[Homes] = []
    threads = [
        threading.Thread(target=lambda: got.append(chiplet.place(loads, nodes, copies=2))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [want] * 4
