"""`python -m chiplet_serve`: what people do with collections of a cluster that runs."""

import argparse
import json
import socket
import sys
from typing import Any

import ray
from ray import serve
from ray.serve.exceptions import RayServeException

from .alpha import map_of
from .build import build
from .errors import PublishError, StorageError
from .storage import Storage


def main(arguments: list[str] | None = None) -> int:
    parsed = _parser().parse_args(arguments)
    try:
        _knock(parsed.address)
        ray.init(address=parsed.address, log_to_driver=False, logging_level="error")
    except (OSError, OverflowError, RuntimeError, ValueError) as why:
        return _complain(f"no cluster answers at {parsed.address}: {why}")
    try:
        print(json.dumps(parsed.does(parsed), indent=1))
    except (StorageError, PublishError, ValueError, OSError) as why:
        return _complain(str(why))
    except RayServeException as why:
        return _complain(f"the application does not answer; ask again, and look at `serve status`: {why}")
    except ray.exceptions.RayActorError as why:
        return _complain(f"the map of shards died meanwhile; ask again, and look at its status: {why}")
    except KeyboardInterrupt:
        print("chiplet_serve: stopped", file=sys.stderr)
        return 130
    return 0


def _knock(address: str) -> None:
    """OSError if nobody listens at `host:port`. Ray itself tries for over a minute before it says so."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()


def _complain(what: str) -> int:
    print(f"chiplet_serve: {what}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "chiplet_serve", description="Collections of a cluster: build, publish, roll back, look."
    )
    parser.add_argument("--address", default="auto", help="of the Ray cluster; the one of this machine unless given")
    parser.add_argument("--application", default="chiplet", help="name in the Serve file (default: chiplet)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    made = commands.add_parser("build", help="build the next version of a collection, or of many, from .npy or Parquet")
    made.add_argument("root", help="the shared storage, as all nodes see it")
    made.add_argument("source", nargs="+", help="a .npy file of float32 rows, or Parquet files or folders")
    named = made.add_mutually_exclusive_group(required=True)
    named.add_argument("--collection", help="its name")
    named.add_argument("--collection-column", help="of Parquet files: builds all collections that it names")
    made.add_argument("--shards", type=int, default=1, help="table files (default: 1)")
    made.add_argument("--copies", type=int, default=2, help="nodes that hold each shard (default: 2)")
    made.add_argument("--metric", choices=["l2", "cosine", "ip"], default="l2")
    made.add_argument("--table", default="hnsw", help='"hnsw", "flat", or lists: "IVF256,SQ8" (default: hnsw)')
    made.add_argument("--vector-column", default="vector", help="of Parquet files (default: vector)")
    made.add_argument("--id-column", help="of Parquet files; int64 from 0 on")
    made.add_argument("--publish", action="store_true", help="let it serve once it is built")
    _timeout(made)
    made.set_defaults(does=_build)

    said = commands.add_parser("publish", help="load a version on all its nodes, then let it serve")
    said.add_argument("collection")
    said.add_argument("--version", type=int, help="the newest unless given")
    _timeout(said)
    said.set_defaults(does=lambda to: _ask_map(to, "publish", to.collection, to.version, to.timeout))

    back = commands.add_parser("rollback", help="let the version serve that served before")
    back.add_argument("collection")
    _timeout(back)
    back.set_defaults(does=lambda to: _ask_map(to, "rollback", to.collection, to.timeout))

    seen = commands.add_parser("status", help="nodes, collections, and which node holds which shard")
    seen.set_defaults(does=lambda to: _ask_map(to, "status"))

    kept = commands.add_parser("versions", help="what a collection has on the shared storage")
    kept.add_argument("root")
    kept.add_argument("collection")
    kept.set_defaults(does=lambda to: {"versions": Storage(to.root).versions(to.collection)})
    return parser


def _timeout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds that loading may take (default: 300)")


def _build(to: argparse.Namespace) -> list[dict[str, Any]]:
    manifests = build(
        to.root,
        to.source[0] if len(to.source) == 1 else to.source,
        collection=to.collection,
        collection_column=to.collection_column,
        shards=to.shards,
        copies=to.copies,
        metric=to.metric,
        table=to.table,
        vector_column=to.vector_column,
        id_column=to.id_column,
    )
    if not to.publish:
        return [each.model_dump() for each in manifests]
    published: list[dict[str, Any]] = []
    try:
        for each in manifests:
            published.append(_ask_map(to, "publish", each.collection, each.version, to.timeout))
    except Exception:
        # Whatever it was: the versions are on the storage, and need not be built again.
        for each in manifests[len(published) :]:
            print(f"chiplet_serve: built and not published: {each.collection} {each.version}", file=sys.stderr)
        for answer in published:
            print(f"chiplet_serve: published: {answer['collection']} {answer['version']}", file=sys.stderr)
        raise
    return published


def _ask_map(to: argparse.Namespace, method: str, *arguments: Any) -> dict[str, Any]:
    return ask_map(method, *arguments, application=to.application)


def ask_map(method: str, *arguments: Any, application: str = "chiplet") -> dict[str, Any]:
    """Calls the map's actor of a cluster that this process is connected to. Raises what the map raises."""
    try:
        handle = serve.get_deployment_handle("Shards", application)
    except (KeyError, RayServeException):
        raise ValueError(f"no application {application!r} runs there; `serve deploy serve.yaml` starts it") from None
    try:
        actor = map_of(handle).result(timeout_s=30)
        answer: dict[str, Any] = ray.get(getattr(actor, method).remote(*arguments))
        return answer
    except ray.exceptions.RayTaskError as why:
        # It is what the map raised, too, but says it with the remote stack.
        raise (why.cause if isinstance(why.cause, Exception) else why) from None


if __name__ == "__main__":
    sys.exit(main())
