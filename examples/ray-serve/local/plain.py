"""`python -m local.plain ROOT PORT`: the same searches by gRPC from one process with one executor, and no Ray.

What a cluster is compared with: the difference is Serve's, not gRPC's or Python's.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from chiplet_serve import search_pb2, search_pb2_grpc
from chiplet_serve.storage import Storage

from .truth import OneExecutor


class Plain(search_pb2_grpc.SearchServicer):  # type: ignore[misc]
    def __init__(self, one: OneExecutor) -> None:
        self._one = one

    async def Find(self, request: Any, context: Any) -> Any:
        began = time.perf_counter()
        ids, distances = await self._one.find(
            request.collection, 1, np.frombuffer(request.vector, "<f4"), request.k or 10
        )
        took = round((time.perf_counter() - began) * 1e6)
        return search_pb2.FindResponse(
            ids=ids,
            distances=distances,
            version=1,
            hops=search_pb2.Hops(ingress=took, executor=took) if request.hops else None,
        )


async def serve(root: Path, port: int) -> None:
    storage = Storage(root)
    server = grpc.aio.server()
    with OneExecutor(root, [storage.manifest(name, 1) for name in storage.collections()]) as one:
        search_pb2_grpc.add_SearchServicer_to_server(Plain(one), server)
        server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
