"""ScaNN: a tree of sqrt(rows) leaves, anisotropic 4-bit codes in them, and full rows for ranking the best again."""

import math

from .base import Peer, grid


class Scann(Peer):
    """`param` are the leaves that are visited; `again` times k rows are ranked again."""

    package = "scann"

    @property
    def build_name(self):
        return "ScaNN"

    def missing(self):
        with open("/proc/cpuinfo") as info:
            if "avx2" not in info.read().split():
                return "it needs a processor with AVX2"
        return super().missing()

    def grid(self, k):
        # Not like inverted lists otherwise: it is as fast as a graph, and measured beside graphs.
        return grid("ivf", k)

    def build(self, rows, metric, threads):
        from scann import scann_ops_pybind

        leaves = int(math.sqrt(len(rows)))
        builder = scann_ops_pybind.builder(rows, 10, "squared_l2" if metric == "l2" else "dot_product")
        builder.set_n_training_threads(threads)
        # Leaves of directions suit rows of length 1 only.
        builder.tree(leaves, leaves // 10, len(rows), spherical=metric == "cosine", quantize_centroids=True)
        # Two components a code of 4 bits; the threshold is its authors' for GloVe.
        builder.score_ah(2, anisotropic_quantization_threshold=0.2, training_sample_size=len(rows))
        return builder.reorder(100).build()

    def save(self, index, path):
        path.mkdir(exist_ok=True)
        index.serialize(str(path), relative_path=True)

    def load(self, path, rows, queries, metric):
        from scann import scann_ops_pybind

        return [scann_ops_pybind.load_searcher(str(path)), None]

    def search(self, index, queries, k, param, threads):
        searcher, set_to = index
        again = self.setting["again"] * k
        if threads == 1:
            return searcher.search_batched(queries, k, again, param)[0]
        if set_to != threads:
            # The threads stay; the one that calls only waits.
            searcher.set_num_threads(threads)
            index[1] = threads
        return searcher.search_batched_parallel(queries, k, again, param)[0]
