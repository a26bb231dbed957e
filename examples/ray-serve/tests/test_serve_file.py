"""serve.yaml, and what the KubeRay manifest has of it, have only keys and values that Ray Serve and the application take.

Serve ignores keys that it does not know, so a misspelt one would be found by nobody.
"""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.schema import ServeDeploySchema
from serve_keys import unknown_keys

from chiplet_serve.alpha import NodesForLoad
from chiplet_serve.app import Arguments

EXAMPLE = Path(__file__).parent.parent

#: Where a value lies in a document: keys and places in lists.
Steps = tuple[str | int, ...]


def of_file() -> dict[str, Any]:
    return yaml.safe_load((EXAMPLE / "serve.yaml").read_text())


def of_manifest() -> dict[str, Any]:
    documents = yaml.safe_load_all((EXAMPLE / "kuberay" / "rayservice.yaml").read_text())
    (service,) = (each for each in documents if each["kind"] == "RayService")
    return yaml.safe_load(service["spec"]["serveConfigV2"])


@pytest.fixture
def serve() -> dict[str, Any]:
    return of_file()


def at(document: Any, path: Steps) -> Any:
    for step in path:
        document = document[step]
    return document


@pytest.mark.parametrize("config", [of_file(), of_manifest()])
def test_all_keys_and_values_are_taken(config: dict[str, Any]) -> None:
    assert unknown_keys(ServeDeploySchema, config) == []
    ServeDeploySchema.model_validate(config)
    (application,) = config["applications"]
    Arguments.model_validate(application["args"])
    policy = AutoscalingPolicy.model_validate(application["autoscaling_policy"])
    assert set(application["autoscaling_policy"]) <= set(AutoscalingPolicy.model_fields)
    NodesForLoad(**policy.policy_kwargs)
    for deployment in application["deployments"]:
        AutoscalingConfig.model_validate(deployment.get("autoscaling_config", {}))


def test_the_manifest_differs_in_cpus_alone() -> None:
    ours, theirs = of_file(), of_manifest()
    for config in ours, theirs:
        for deployment in config["applications"][0]["deployments"]:
            del deployment["ray_actor_options"]["num_cpus"]
    assert ours == theirs


def test_an_argument_that_the_application_does_not_know_is_refused(serve: dict[str, Any]) -> None:
    for path, key in ((), "rot"), (("map",), "expect_node"), (("search",), "max_opn"):
        arguments = copy.deepcopy(serve["applications"][0]["args"])
        arguments.setdefault("search", {})
        at(arguments, path)[key] = 1
        with pytest.raises(ValidationError, match=key):
            Arguments.model_validate(arguments)


def test_a_map_that_waits_for_less_than_two_reports_is_refused() -> None:
    with pytest.raises(ValidationError, match="at least twice stats_period_s"):
        Arguments.model_validate({"root": "/shared", "stats_period_s": 4})


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ((), "proxy_locations"),
        (("http_options",), "prot"),
        (("grpc_options",), "servicer_functions"),
        (("applications", 0), "deploymets"),
        (("applications", 0, "deployments", 1), "max_replica_per_node"),
        (("applications", 0, "deployments", 1, "ray_actor_options"), "num_cpu"),
        (("applications", 0, "deployments", 1, "autoscaling_config"), "max_ongoing_requests"),
        (("applications", 0, "deployments", 1, "autoscaling_config", "policy"), "policy_functon"),
        (("applications", 0, "deployments", 1, "request_router_config"), "request_router"),
        (("applications", 0, "deployments", 1, "deployment_actors", 0), "nam"),
        (("applications", 0, "deployments", 1, "logging_config"), "level"),
    ],
)
def test_a_key_that_serve_would_ignore_is_found(serve: dict[str, Any], path: Steps, key: str) -> None:
    deployment = serve["applications"][0]["deployments"][1]
    deployment["autoscaling_config"] = {"min_replicas": 1, "max_replicas": 3, "policy": {"policy_kwargs": {"any": 1}}}
    deployment["request_router_config"] = {"request_router_kwargs": {"any": 1}, "max_backoff_s": 1.0}
    deployment["deployment_actors"] = [{"name": "a", "actor_class": "m:A", "actor_options": {"num_cpus": 1}}]
    deployment["logging_config"] = {"log_level": "INFO"}
    deployment["user_config"] = {"any": {"key": 1}}
    assert unknown_keys(ServeDeploySchema, serve) == []
    at(serve, path)[key] = 1
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in (*path, key)).lstrip(".")
    assert unknown_keys(ServeDeploySchema, serve) == [place]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("http_options", "port"), "web"),
        (("proxy_location",), "Everywhere"),
        (("applications", 0, "deployments", 1, "num_replicas"), 0),
        (("applications", 0, "deployments", 1, "ray_actor_options", "num_cpus"), -1),
    ],
)
def test_a_value_that_serve_refuses_is_found(serve: dict[str, Any], path: Steps, value: Any) -> None:
    at(serve, path[:-1])[path[-1]] = value
    with pytest.raises(ValidationError):
        ServeDeploySchema.model_validate(serve)
