"""What a cluster is to answer: one executor without Ray, with the same table files."""

import asyncio
from pathlib import Path

import chiplet
import numpy as np
import numpy.typing as npt

from chiplet_serve.search import merge
from chiplet_serve.storage import Manifest, Storage

from .load import Outcome


class OneExecutor:
    """All shards of versions of collections in one process. As a context it closes."""

    def __init__(self, root: Path, manifests: list[Manifest], *, workers: int | None = None) -> None:
        storage = Storage(root)
        self.executor = chiplet.Executor(max_workers=workers, pin="none", name="one")
        self._shards: dict[tuple[str, int], list[str]] = {}
        for manifest in manifests:
            keys = [manifest.key(shard) for shard in range(len(manifest.shards))]
            for shard, name in enumerate(keys):
                self.executor.add(name, chiplet.open(storage.shard(manifest, shard), mmap=True))
            self._shards[manifest.collection, manifest.version] = keys

    async def find(
        self, collection: str, version: int, vector: npt.NDArray[np.float32], k: int = 10
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        hits = await asyncio.gather(
            *(self.executor.asearch(key, vector, k) for key in self._shards[collection, version])
        )
        return merge([each.ids for each in hits], [each.distances for each in hits], k)

    def answers(self, collections: list[str], vectors: npt.NDArray[np.float32], k: int = 10) -> "Truth":
        """The answer to each vector by each collection, in each version."""

        async def all_of_them() -> dict[tuple[str, int], list[tuple[int, ...]]]:
            found: dict[tuple[str, int], list[tuple[int, ...]]] = {}
            for collection, version in self._shards:
                each = [await self.find(collection, version, vector, k) for vector in vectors]
                found[collection, version] = [tuple(ids.tolist()) for ids, _ in each]
            return found

        return Truth(collections, asyncio.run(all_of_them()))

    def __enter__(self) -> "OneExecutor":
        return self

    def __exit__(self, *_: object) -> None:
        self.executor.close()


class Truth:
    """Whether a search was answered as one executor would have."""

    def __init__(self, collections: list[str], found: dict[tuple[str, int], list[tuple[int, ...]]]) -> None:
        self._collections, self._found = collections, found

    def __call__(self, at: int, row: int, outcome: Outcome) -> bool:
        return self._found[self._collections[at], outcome.version][row] == outcome.ids
