"""How many nodes there are to be, by their load."""

import random

import pytest
from ray.serve._private.common import DeploymentID, ReplicaID
from ray.serve.config import AutoscalingContext

from chiplet_serve.alpha import NodesForLoad

nodes_for_load = NodesForLoad()
nodes_wanted = nodes_for_load.nodes


def settled(total: float, now: int, rounds: int = 200) -> list[int]:
    """How many nodes there are after each decision, if a load of `total` nodes is spread evenly over them."""
    numbers = []
    for _ in range(rounds):
        now = nodes_wanted([total / now] * now, now)
        numbers.append(now)
    return numbers


@pytest.mark.parametrize("now", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("total", [0.0, 0.3, 0.69, 0.71, 1.0, 2.5, 10.0, 99.9, 250.0])
def test_a_constant_load_comes_to_rest_within_bounds(total: float, now: int) -> None:
    numbers = settled(total, now)
    last = numbers[-1]
    assert numbers[-50:] == [last] * 50
    assert last >= 1 and total <= 0.7 * last
    assert last == 1 or total >= 0.4 * (last - 1)
    steps = [after - before for before, after in zip([now, *numbers], numbers, strict=False) if after != before]
    assert all(step > 0 for step in steps) or all(step < 0 for step in steps), "up and down at one load"


def test_no_decision_is_taken_back_at_the_same_load() -> None:
    choose = random.Random(0)
    for _ in range(20_000):
        now, total = choose.randint(1, 50), choose.random() * choose.choice([1, 10, 60])
        then = nodes_wanted([total / now] * now, now)
        later = nodes_wanted([total / then] * then, then)
        assert (then - now) * (later - then) >= 0, (now, total, then, later)


@pytest.mark.parametrize("now", [2, 5, 20])
def test_loads_within_the_band_move_nothing(now: int) -> None:
    choose = random.Random(now)
    for _ in range(2000):
        total = choose.uniform(0.4 * (now - 1), 0.7 * now)
        assert nodes_wanted([total / now] * now, now) == now


def test_nodes_that_go_go_one_at_a_time_and_the_last_stays() -> None:
    assert settled(0.0, 5, 7) == [4, 3, 2, 1, 1, 1, 1]
    assert nodes_wanted([0.0], 1) == 1


def test_a_load_far_above_asks_for_what_it_needs_at_once() -> None:
    assert nodes_wanted([5.5], 1) == 10
    assert nodes_wanted([1.1] * 10, 10) == 20
    assert settled(1000.0, 1)[0] >= 1000 / 0.7


def test_nodes_that_are_not_equally_busy_count_by_their_sum() -> None:
    assert nodes_wanted([1.0, 0.2, 0.0], 3) == 3
    assert nodes_wanted([2.2, 0.0, 0.0], 3) == 4


def context(name: str, loads: list[float] | None, target: int) -> tuple[DeploymentID, AutoscalingContext]:
    deployment = DeploymentID(name, "chiplet")
    replicas = [ReplicaID(f"r{at}", deployment) for at in range(len(loads or []))]
    metrics = {} if loads is None else {"load": dict(zip(replicas, loads, strict=True))}
    return deployment, AutoscalingContext(
        deployment_id=deployment,
        deployment_name=name,
        app_name="chiplet",
        current_num_replicas=len(replicas),
        target_num_replicas=target,
        running_replicas=replicas,
        total_num_requests=0,
        total_queued_requests=0,
        aggregated_metrics=lambda: metrics,
        raw_metrics=None,
        capacity_adjusted_min_replicas=1,
        capacity_adjusted_max_replicas=10,
        policy_state={},
        last_scale_up_time=None,
        last_scale_down_time=None,
        current_time=0.0,
        config=None,
    )


def decided(*contexts: tuple[DeploymentID, AutoscalingContext]) -> dict[str, float]:
    wanted, state = nodes_for_load(dict(contexts))
    assert state == {}
    return {deployment.name: number for deployment, number in wanted.items()}


def test_only_shards_are_scaled_and_only_by_loads_that_are_known() -> None:
    ingress = context("Ingress", [9.0], 1)
    assert decided(context("Shards", [1.1, 1.1], 2), ingress) == {"Shards": 4}
    assert decided(context("Shards", [0.0, 0.0, 0.0], 3), ingress) == {"Shards": 2}
    assert decided(context("Shards", [0.5, 0.5], 2), ingress) == {"Shards": 2}
    assert (
        decided(context("Shards", None, 2), ingress)
        == decided(context("Shards", [], 2), ingress)
        == decided(ingress)
        == {}
    )
    no_metrics = context("Shards", None, 2)
    no_metrics[1]._aggregated_metrics = None
    assert decided(no_metrics) == {}


def test_nodes_that_start_do_not_ask_for_more_nodes() -> None:
    first = decided(context("Shards", [0.75, 0.75], 2))["Shards"]
    assert first == 3
    # The third loads its shards; its load is not known.
    assert decided(context("Shards", [0.75, 0.75], 3))["Shards"] == 3


@pytest.mark.parametrize(("high", "aim", "low"), [(0.4, 0.5, 0.6), (0.7, 0.7, 0.4), (0.7, 0.55, 0.0), (0.7, 0.3, 0.4)])
def test_thresholds_that_would_swing_are_refused(high: float, aim: float, low: float) -> None:
    with pytest.raises(ValueError, match="must rise"):
        NodesForLoad(high, aim, low)
