"""VSAG's hgraph: 4-bit rows in the graph, and precise rows by which the best are ranked again."""

import json

from .base import EF_CONSTRUCTION, M, Peer


class Vsag(Peer):
    """Its Python call takes one query, parses its setting each time (10 us or so in all) and keeps others from running
    meanwhile, so it has figures for one thread only."""

    package = "pyvsag"
    most_threads = 1

    def new(self, dim, metric, threads=1):
        import pyvsag

        pyvsag.set_logger_off()
        setting = {
            "dtype": "float32",
            # Between rows of length 1, its 4 bits are better by the Euclidean distance: 0.99 instead of 0.97.
            "metric_type": "ip" if metric == "ip" else "l2",
            "dim": dim,
            "index_param": {
                "base_quantization_type": self.setting["base"],
                "use_reorder": True,
                "precise_quantization_type": self.setting["precise"],
                "max_degree": 2 * M,
                "ef_construction": EF_CONSTRUCTION,
                "build_thread_count": threads,
            },
        }
        return pyvsag.Index("hgraph", json.dumps(setting))

    def build(self, rows, metric, threads):
        import numpy

        index = self.new(rows.shape[1], metric, threads)
        index.build(rows.ravel(), numpy.arange(len(rows)), *rows.shape)
        return index

    def load(self, path, rows, queries, metric):
        index = self.new(rows.shape[1], metric)
        index.load(str(path))
        return index

    def search(self, index, queries, k, param, threads):
        import numpy

        setting = json.dumps({"hgraph": {"ef_search": param}})
        found = numpy.full((len(queries), k), -1)
        for line, query in zip(found, queries):
            ids = index.knn_search(query, k, setting)[0]
            line[: len(ids)] = ids
        return found
