"""Nodes come with load and go without it."""

import urllib.request

import ray
from conftest import SENSITIVE, World, all_answered, under_load

from local.cluster import until


def test_a_node_is_added_for_load_and_given_up_without(world: World) -> None:
    config = world.cluster.config(world.root, map=SENSITIVE)
    application = config["applications"][0]
    # A few searches a second are a load that asks for another node here.
    application["autoscaling_policy"]["policy_kwargs"] = {"high": 0.0005, "aim": 0.0004, "low": 0.0003}
    shards = next(each for each in application["deployments"] if each["name"] == "Shards")
    shards["autoscaling_config"] = {
        "min_replicas": 2,
        "max_replicas": 3,
        "upscale_delay_s": 2,
        "downscale_delay_s": 5,
        "metrics_interval_s": 1,
        "look_back_period_s": 5,
    }
    application["args"]["map"]["expect_nodes"] = 2
    world.cluster.deploy(config, world.folder / "scaling.yaml")

    def replicas(count: int) -> None:
        until(lambda: len(world.cluster.replicas("Shards")) == count, f"{count} replicas")

    try:
        replicas(2)
        all_answered(under_load(world, "two nodes become three", lambda: replicas(3)))
        all_answered(under_load(world, "three nodes become two", lambda: replicas(2), rate=1))
    finally:
        world.cluster.deploy(world.cluster.config(world.root, map=SENSITIVE), world.folder / "serve.yaml")


def test_ray_exports_what_is_counted(world: World) -> None:
    all_answered(under_load(world, "for the metrics", before_s=0))
    wanted = {
        "ray_chiplet_searches_total{",
        'outcome="answered"',
        "ray_chiplet_search_ms_bucket{",
        "ray_chiplet_batches_total{",
        "ray_chiplet_batched_searches_total{",
        "ray_chiplet_open_searches{",
        "ray_chiplet_node_load{",
        "ray_chiplet_node_shards{",
    }

    def all_there() -> bool:
        text = ""
        for node in ray.nodes():
            if node["Alive"]:
                with urllib.request.urlopen(
                    f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
                ) as answer:
                    text += answer.read().decode()
        missing = {each for each in wanted if each not in text}
        return not missing

    until(all_there, "all metrics")
