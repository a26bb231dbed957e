"""glass: the graph is built on full rows or quantised ones, quantised rows are searched, the best are ranked again."""

from .base import EF_CONSTRUCTION, M, Peer, padded


class Glass(Peer):
    """`quant` rows are searched, after `refine` the best are ranked again; `graph` rows made the graph."""

    package = "pyglass-portable"

    @property
    def build_name(self):
        graph = self.graph()
        return "glass" if graph == "FP32" else f"glass {graph}"

    def graph(self):
        return self.setting.get("graph", "FP32")

    def build(self, rows, metric, threads):
        import glass

        glass.set_num_threads(threads)
        # Its R counts the links of the ground layer: 2 M.
        return glass.Index("HNSW", self.metric(metric), self.graph(), R=2 * M, L=EF_CONSTRUCTION).build(rows)

    def load(self, path, rows, queries, metric):
        import glass

        # A searcher takes its graph away from whoever else has it: each needs its own.
        graph = glass.Graph(str(path))
        rows = self.whole(rows)
        searcher = glass.Searcher(graph, rows, self.metric(metric), self.setting["quant"], self.setting["refine"])
        searcher.set_ef(32)
        # Measures the machine and chooses how far ahead to prefetch.
        searcher.optimize(1)
        return searcher

    def search(self, index, queries, k, param, threads):
        index.set_ef(param)
        return index.batch_search(self.whole(queries), k, threads)[0]

    def whole(self, vectors):
        """FP16 rows are compared 16 components at a time, and wrongly unless that is all: recall 0.77 on GloVe's 50."""
        return padded(vectors, -(-vectors.shape[1] // 16) * 16) if self.setting["refine"] == "FP16" else vectors

    @staticmethod
    def metric(metric):
        return "L2" if metric == "l2" else "IP"
