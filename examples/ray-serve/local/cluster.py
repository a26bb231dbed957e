"""Several Ray nodes on this machine: the processes of a real cluster, on loopback."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

HERE = Path(__file__).resolve().parent.parent

# Before Ray is imported: its processes inherit them.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])

import ray
from ray.cluster_utils import Cluster

T = TypeVar("T")

#: Times of the map, in seconds, for somebody who watches.
FAST = {"settle_s": 10, "lost_after_s": 4, "rebalance_s": 5, "drop_after_s": 3, "keep_previous_s": 30}

#: Seconds that Ray and Serve may take on a busy machine.
PATIENCE_S = float(os.environ.get("CHIPLET_RAY_PATIENCE_S", "180"))


class LocalCluster:
    """A head and workers, each a raylet with processes of its own. As a context it ends what it started."""

    def __init__(self, *, workers: int = 2, cpus: int = 2) -> None:
        self.http, self.grpc, self._dashboard = free_port(), free_port(), free_port()
        # What Ray counts, and no more: the nodes share the cores that there are.
        self._node = {"num_cpus": cpus, "object_store_memory": 150_000_000}
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                **self._node,
                "resources": {"ingress": 1, "shards": 1},
                "include_dashboard": True,
                "dashboard_port": self._dashboard,
            },
        )
        # While the head is alone: later this process might be connected by a worker, which a test kills.
        ray.init(self._cluster.address, log_to_driver=False, logging_level="error")
        self.workers: dict[str, Any] = {}
        for number in range(workers):
            self.add(f"worker-{number}")

    def add(self, name: str) -> None:
        self.workers[name] = self._cluster.add_node(**self._node, resources={"shards": 1}, node_name=name)

    def kill(self, name: str) -> None:
        """`kill -9` of all processes of a worker node, as if its machine lost power."""
        self._cluster.remove_node(self.workers.pop(name), allow_graceful=False)

    def close(self) -> None:
        # A thread of Serve's that still follows the application may connect this process anew right after the shutdown.
        # The cluster then disconnects it, and refuses to remove the head.
        for last in (False, False, True):
            with contextlib.suppress(Exception):
                ray.shutdown()
            try:
                self._cluster.shutdown()
                return
            except ValueError:
                if last:
                    raise

    def __enter__(self) -> "LocalCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def config(self, root: Path, *, nodes: int = 3, **arguments: Any) -> dict[str, Any]:
        """`serve.yaml` for this machine: its storage, its ports, and Ray's cpus in small parts."""
        config: dict[str, Any] = yaml.safe_load((HERE / "serve.yaml").read_text())
        config["proxy_location"] = "HeadOnly"
        config["http_options"].update(host="127.0.0.1", port=self.http)
        config["grpc_options"].update(port=self.grpc)
        application = config["applications"][0]
        # The nodes share this machine's cores: a thread each, which nothing pins.
        application["args"].update(root=str(root), workers=1, pin="none", **arguments)
        application["args"]["map"] = {**FAST, "expect_nodes": nodes, **arguments.get("map", {})}
        by_name = {each["name"]: each for each in application["deployments"]}
        by_name["Shards"]["ray_actor_options"] = {"num_cpus": 0.1, "resources": {"shards": 0.1}}
        by_name["Shards"]["autoscaling_config"].update(min_replicas=nodes, max_replicas=nodes)
        by_name["Ingress"].update(num_replicas=1, ray_actor_options={"num_cpus": 0.1, "resources": {"ingress": 0.1}})
        return config

    def deploy(self, config: dict[str, Any], path: Path) -> None:
        """Writes a Serve file, gives it to `serve deploy`, and waits until the application runs."""
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        self.command("serve", "deploy", str(path), "--address", self.dashboard)
        until(self._runs, "the application")

    def _runs(self) -> bool:
        application = self.applications()["chiplet"]
        if application["status"] in ("DEPLOY_FAILED", "UNHEALTHY"):
            said = [deployment["message"] for deployment in application["deployments"].values()]
            raise RuntimeError(f"the application is {application['status']}: {application['message']} {' '.join(said)}")
        return bool(application["status"] == "RUNNING")

    def applications(self) -> dict[str, Any]:
        """What Serve's REST API says of each application."""
        with urllib.request.urlopen(f"{self.dashboard}/api/serve/applications/", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)["applications"]
        return found

    def replicas(self, deployment: str) -> list[dict[str, Any]]:
        """Those that run, each with its `pid` and `node_id`."""
        found = self.applications()["chiplet"]["deployments"][deployment]["replicas"]
        return [each for each in found if each["state"] == "RUNNING"]

    def ingress_port(self) -> int:
        """Where gRPC reaches an ingress: the proxy, or in Serve's throughput mode the replica itself."""
        with urllib.request.urlopen(f"{self.dashboard}/api/serve/applications/", timeout=30) as answer:
            groups = json.load(answer).get("target_groups") or []
        direct = [group["targets"] for group in groups if group["protocol"] == "gRPC" and group.get("app_name")]
        return int(direct[0][0]["port"]) if direct and direct[0] else self.grpc

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    @property
    def dashboard(self) -> str:
        return f"http://127.0.0.1:{self._dashboard}"

    def command(self, *words: str, timeout: float = PATIENCE_S) -> str:
        """A command in this cluster's environment; RuntimeError with what it printed if it fails."""
        program = Path(sys.executable).with_name(words[0])
        env = {**os.environ, "RAY_ADDRESS": self._cluster.address, "RAY_DASHBOARD_ADDRESS": self.dashboard}
        done = subprocess.run([str(program), *words[1:]], env=env, capture_output=True, text=True, timeout=timeout)
        if done.returncode:
            raise RuntimeError(f"`{' '.join(words)}` failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done.stdout


def until(true: Callable[[], T], what: str, patience_s: float = PATIENCE_S, every_s: float = 0.2) -> T:
    """Waits for a value that is true, and returns it."""
    end = time.monotonic() + patience_s
    while not (value := true()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {patience_s:g} s")
        time.sleep(every_s)
    return value


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
