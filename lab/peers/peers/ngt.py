"""NGT-QG: a graph with 4-bit product codes beside each node's links."""

import os
import shutil
import subprocess

from .base import EF_CONSTRUCTION, M, Peer


class NgtQg(Peer):
    """Only NGT's own command `qbg` makes its codes. Its Python call takes one query on one thread.

    `param` is epsilon, how much farther than the k-th the search looks, in hundredths.
    """

    package = "ngt"
    metrics = ("l2", "cosine")
    most_threads = 1

    def missing(self):
        if not shutil.which("qbg"):
            return "the package ngt has no command qbg, which makes its codes: build NGT from its sources to compare it"
        return super().missing()

    def grid(self, k):
        return [1, 2, 3, 4, 6, 8, 10, 12, 14, 17, 20, 24, 28, 34]

    def build(self, rows, metric, threads):
        import tempfile

        import ngtpy

        path = os.path.join(tempfile.mkdtemp(), "graph")
        ngtpy.create(path, rows.shape[1], EF_CONSTRUCTION // 2, 2 * M, distance_type="L2")
        graph = ngtpy.Index(path)
        graph.batch_insert(rows, num_threads=threads)
        graph.save()
        graph.close()
        for command in ("create-qg", "build-qg"):
            subprocess.run(["qbg", command, path], check=True)
        return path

    def save(self, index, path):
        shutil.move(index, path)

    def load(self, path, rows, queries, metric):
        import ngtpy

        index = ngtpy.QuantizedIndex(str(path), 2 * M)
        index.set_with_distance(False)
        return index

    def search(self, index, queries, k, param, threads):
        import numpy

        found = numpy.full((len(queries), k), -1)
        for line, query in zip(found, queries):
            ids = index.search(query, k, epsilon=param / 100)
            line[: len(ids)] = ids
        return found
