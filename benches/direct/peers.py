"""What chiplet's tables are compared with: one class a library, one line of `PEERS` for each way to use it.

All graphs have M = 16 (32 links on the ground layer) and ef_construction = 200, by squared Euclidean distance. A peer
imports its library when it is used, so that each runs in a process of its own.
"""

import math
import os
from importlib.metadata import version

M = 16
EF_CONSTRUCTION = 200


class Peer:
    """A library at one setting. `param` below is ef, or nprobe for inverted lists."""

    package = None  # on PyPI
    family = "hnsw"

    def __init__(self, name, **setting):
        self.name = name
        self.setting = setting

    @property
    def build_name(self):
        """Peers with the same one are searched on one built index."""
        return self.name

    @property
    def version(self):
        return f"{self.package} {version(self.package)}"

    def build(self, rows, threads):
        """An index of `rows`."""
        raise NotImplementedError

    def save(self, index, path):
        """Writes what `build` gave."""
        raise NotImplementedError

    def load(self, path, rows, queries):
        """What `search` searches. The caller drops `rows` afterwards."""
        raise NotImplementedError

    def search(self, index, queries, k, param, threads):
        """Row numbers [queries][k], by the library's own batch call on `threads` threads."""
        raise NotImplementedError


class Hnswlib(Peer):
    package = "hnswlib"

    def build(self, rows, threads):
        import hnswlib

        index = hnswlib.Index(space="l2", dim=rows.shape[1])
        index.init_index(max_elements=len(rows), M=M, ef_construction=EF_CONSTRUCTION, random_seed=1)
        index.add_items(rows, num_threads=threads)
        return index

    def save(self, index, path):
        index.save_index(str(path))

    def load(self, path, rows, queries):
        import hnswlib

        index = hnswlib.Index(space="l2", dim=rows.shape[1])
        index.load_index(str(path))
        return index

    def search(self, index, queries, k, param, threads):
        index.set_ef(param)
        return index.knn_query(queries, k=k, num_threads=threads)[0]


class Faiss(Peer):
    """`factory` is a Faiss description; NLIST in it becomes 4 sqrt(rows)."""

    package = "faiss-cpu"

    @property
    def family(self):
        return "ivf" if self.setting["factory"].startswith("IVF") else "hnsw"

    def build(self, rows, threads):
        import faiss

        faiss.omp_set_num_threads(threads)
        lists = int(4 * math.sqrt(len(rows)))
        index = faiss.index_factory(rows.shape[1], self.setting["factory"].replace("NLIST", str(lists)))
        if self.family == "hnsw":
            index.hnsw.efConstruction = EF_CONSTRUCTION
        index.train(rows)
        index.add(rows)
        return index

    def save(self, index, path):
        import faiss

        faiss.write_index(index, str(path))

    def load(self, path, rows, queries):
        import faiss

        return faiss.read_index(str(path))

    def search(self, index, queries, k, param, threads):
        import faiss

        faiss.omp_set_num_threads(threads)
        if self.family == "hnsw":
            index.hnsw.efSearch = param
        else:
            faiss.extract_index_ivf(index).nprobe = param
        return index.search(queries, k)[1]


class Usearch(Peer):
    """Not with i8: usearch scales rows to length 1 for it, which suits the cosine only (recall 0.87 on GloVe by L2)."""

    package = "usearch"

    def new(self, dim):
        from usearch.index import Index

        return Index(
            ndim=dim,
            metric="l2sq",
            dtype=self.setting["dtype"],
            connectivity=M,
            expansion_add=EF_CONSTRUCTION,
            enable_key_lookups=False,
        )

    def build(self, rows, threads):
        import numpy

        index = self.new(rows.shape[1])
        index.add(numpy.arange(len(rows)), rows, threads=threads)
        return index

    def save(self, index, path):
        index.save(str(path))

    def load(self, path, rows, queries):
        index = self.new(rows.shape[1])
        index.load(str(path))
        return index

    def search(self, index, queries, k, param, threads):
        index.expansion_search = param
        return index.search(queries, k, threads=threads).keys


class Glass(Peer):
    """The graph is built on full rows; `quant` rows are searched, after `refine` the best are ranked again."""

    package = "pyglass-portable"

    @property
    def build_name(self):
        return "glass"

    def build(self, rows, threads):
        import glass

        glass.set_num_threads(threads)
        # Its R counts the links of the ground layer: 2 M.
        return glass.Index("HNSW", "L2", "FP32", R=2 * M, L=EF_CONSTRUCTION).build(rows)

    def save(self, index, path):
        index.save(str(path))

    def load(self, path, rows, queries):
        import glass

        # A searcher takes its graph away from whoever else has it: each needs its own.
        graph = glass.Graph(str(path))
        searcher = glass.Searcher(graph, rows, "L2", self.setting["quant"], self.setting["refine"])
        searcher.set_ef(32)
        # Measures the machine and chooses how far ahead to prefetch.
        searcher.optimize(1)
        return searcher

    def search(self, index, queries, k, param, threads):
        index.set_ef(param)
        return index.batch_search(queries, k, threads)[0]


class Voyager(Peer):
    package = "voyager"

    def build(self, rows, threads):
        import voyager

        index = voyager.Index(
            voyager.Space.Euclidean,
            num_dimensions=rows.shape[1],
            M=M,
            ef_construction=EF_CONSTRUCTION,
            random_seed=1,
            max_elements=len(rows),
        )
        index.add_items(rows, num_threads=threads)
        return index

    def save(self, index, path):
        index.save(str(path))

    def load(self, path, rows, queries):
        import voyager

        return voyager.Index.load(str(path))

    def search(self, index, queries, k, param, threads):
        return index.query(queries, k, num_threads=threads, query_ef=param)[0]


class Svs(Peer):
    """A Vamana graph with as many links: no HNSW, but the fastest published on Intel machines."""

    package = "scalable-vs"

    def build(self, rows, threads):
        import svs

        parameters = svs.VamanaBuildParameters(alpha=1.2, graph_max_degree=2 * M, window_size=EF_CONSTRUCTION)
        return svs.Vamana.build(parameters, rows, svs.DistanceType.L2, num_threads=threads)

    def save(self, index, path):
        path.mkdir(exist_ok=True)
        index.save(*self.folders(path))

    def load(self, path, rows, queries):
        import svs

        config, graph, data = self.folders(path)
        rows = svs.VectorDataLoader(data, svs.DataType.float32)
        return svs.Vamana(config, svs.GraphLoader(graph), rows, svs.DistanceType.L2)

    def search(self, index, queries, k, param, threads):
        index.num_threads = threads
        index.search_window_size = param
        return index.search(queries, k)[0]

    @staticmethod
    def folders(path):
        return [os.path.join(path, part) for part in ("config", "graph", "data")]


PEERS = [
    Hnswlib("hnswlib"),
    Faiss("Faiss HNSW Flat", factory=f"HNSW{M},Flat"),
    Faiss("Faiss HNSW SQ8", factory=f"HNSW{M},SQ8"),
    Usearch("usearch f32", dtype="f32"),
    Usearch("usearch f16", dtype="f16"),
    Glass("glass FP32", quant="FP32", refine=""),
    Glass("glass BF16", quant="BF16", refine=""),
    Glass("glass SQ8U", quant="SQ8U", refine=""),
    Glass("glass SQ8 refined", quant="SQ8", refine="FP32"),
    Glass("glass SQ8U refined", quant="SQ8U", refine="FP32"),
    Voyager("voyager"),
    Svs("svs Vamana"),
    Faiss("Faiss IVF Flat", factory="IVFNLIST,Flat"),
    Faiss("Faiss IVF SQ8", factory="IVFNLIST,SQ8"),
]
