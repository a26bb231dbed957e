"""`python -m local`: a cluster of three nodes on this machine, with twelve collections. It is asked, and measured."""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from chiplet_serve import search_pb2, search_pb2_grpc

from . import measure
from .cluster import HERE, LocalCluster
from .data import COLLECTIONS, build_all, words


def main() -> int:
    parser = argparse.ArgumentParser("python -m local", description=__doc__)
    parser.add_argument("--stay", action="store_true", help="do not measure; leave the cluster to you until Ctrl-C")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement (default: 4)")
    parser.add_argument("--rounds", type=int, default=1, help="of all measurements, in turn (default: 1)")
    parser.add_argument("--json", type=Path, help="write what was measured there, too")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chiplet-serve-") as temporary:
        folder = Path(temporary)
        try:
            look(folder, stay=arguments.stay)
            if not arguments.stay:
                found = measure.all_modes(folder / "shared", seconds=arguments.seconds, rounds=arguments.rounds)
                print(measure.tables(found))
                if arguments.json:
                    arguments.json.write_text(json.dumps(found, indent=1))
        except KeyboardInterrupt:
            print("stopped; all processes are ended")
            return 130
    return 0


def look(folder: Path, *, stay: bool) -> None:
    """Builds, deploys, and asks each collection for words near one."""
    root = folder / "shared"
    say("three nodes ...")
    with LocalCluster() as cluster:
        say("twelve collections from Parquet, by Ray Data ...")
        build_all(root, folder / "words.parquet")
        say("`serve deploy` ...")
        cluster.deploy(cluster.config(root), folder / "serve.yaml")
        import grpc

        found = words()
        with grpc.insecure_channel(f"127.0.0.1:{cluster.grpc}") as channel:
            stub = search_pb2_grpc.SearchStub(channel)
            for word in "king", "river", "monday":
                vector = found.vectors[found.words.index(word)].astype("<f4").tobytes()
                near: list[tuple[float, int]] = []
                for collection in COLLECTIONS:
                    said = stub.Find(search_pb2.FindRequest(collection=collection, vector=vector, k=3))
                    near += zip(said.distances, said.ids, strict=True)
                say(f"{word}: {', '.join(found.words[row] for _, row in sorted(near)[1:7])}")
        if stay:
            say(f"files {root}")
            say(f"HTTP  http://127.0.0.1:{cluster.http}/docs")
            say(f"gRPC  127.0.0.1:{cluster.grpc}")
            say(f"Ray   {cluster.dashboard}")
            say(f"look  {sys.executable} -m chiplet_serve --address {cluster.address} status   # in {HERE}")
            say("Ctrl-C ends it.")
            while True:
                time.sleep(1)


def say(what: str) -> None:
    print(what, flush=True)


if __name__ == "__main__":
    sys.exit(main())
