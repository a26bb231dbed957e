"""The libraries that keep full rows, or have a scalar quantiser beside them: hnswlib, Faiss, usearch, voyager, SVS."""

import math
import os

from .base import EF_CONSTRUCTION, M, Peer


class Hnswlib(Peer):
    package = "hnswlib"

    def build(self, rows, metric, threads):
        index = self.new(rows, metric)
        index.init_index(max_elements=len(rows), M=M, ef_construction=EF_CONSTRUCTION, random_seed=1)
        index.add_items(rows, num_threads=threads)
        return index

    def new(self, rows, metric):
        import hnswlib

        return hnswlib.Index(space="l2" if metric == "l2" else "ip", dim=rows.shape[1])

    def save(self, index, path):
        index.save_index(str(path))

    def load(self, path, rows, queries, metric):
        index = self.new(rows, metric)
        index.load_index(str(path))
        return index

    def search(self, index, queries, k, param, threads):
        index.set_ef(param)
        return index.knn_query(queries, k=k, num_threads=threads)[0]


class Faiss(Peer):
    """`factory` is a Faiss description; NLIST in it becomes 4 sqrt(rows), HALF half the dimensions."""

    package = "faiss-cpu"

    @property
    def family(self):
        return "ivf" if self.setting["factory"].startswith("IVF") else "hnsw"

    def build(self, rows, metric, threads):
        import faiss

        faiss.omp_set_num_threads(threads)
        lists = int(4 * math.sqrt(len(rows)))
        kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
        factory = self.setting["factory"].replace("NLIST", str(lists)).replace("HALF", str(rows.shape[1] // 2))
        index = faiss.index_factory(rows.shape[1], factory, kind)
        if self.family == "hnsw":
            index.hnsw.efConstruction = EF_CONSTRUCTION
        index.train(rows)
        index.add(rows)
        return index

    def save(self, index, path):
        import faiss

        faiss.write_index(index, str(path))

    def load(self, path, rows, queries, metric):
        import faiss

        return faiss.read_index(str(path))

    def search(self, index, queries, k, param, threads):
        import faiss

        faiss.omp_set_num_threads(threads)
        if self.family == "hnsw":
            index.hnsw.efSearch = param
        else:
            faiss.extract_index_ivf(index).nprobe = param
        if self.setting.get("refine"):
            faiss.downcast_index(index).k_factor = (1.5 * k + 16) / k
        return index.search(queries, k)[1]


class Usearch(Peer):
    """Not with i8: usearch scales rows to length 1 for it, which suits the cosine only (recall 0.87 on GloVe by L2)."""

    package = "usearch"

    def new(self, dim, metric):
        from usearch.index import Index

        return Index(
            ndim=dim,
            metric="l2sq" if metric == "l2" else "ip",
            dtype=self.setting["dtype"],
            connectivity=M,
            expansion_add=EF_CONSTRUCTION,
            enable_key_lookups=False,
        )

    def build(self, rows, metric, threads):
        import numpy

        index = self.new(rows.shape[1], metric)
        index.add(numpy.arange(len(rows)), rows, threads=threads)
        return index

    def load(self, path, rows, queries, metric):
        index = self.new(rows.shape[1], metric)
        index.load(str(path))
        return index

    def search(self, index, queries, k, param, threads):
        index.expansion_search = param
        return index.search(queries, k, threads=threads).keys


class Voyager(Peer):
    package = "voyager"

    def build(self, rows, metric, threads):
        import voyager

        index = voyager.Index(
            voyager.Space.InnerProduct if metric == "ip" else voyager.Space.Euclidean,
            num_dimensions=rows.shape[1],
            M=M,
            ef_construction=EF_CONSTRUCTION,
            random_seed=1,
            max_elements=len(rows),
        )
        index.add_items(rows, num_threads=threads)
        return index

    def load(self, path, rows, queries, metric):
        import voyager

        return voyager.Index.load(str(path))

    def search(self, index, queries, k, param, threads):
        return index.query(queries, k, num_threads=threads, query_ef=param)[0]


class Svs(Peer):
    """A Vamana graph with as many links: no HNSW, but the fastest published on Intel machines."""

    package = "scalable-vs"

    def build(self, rows, metric, threads):
        import svs

        # Below 1 for the inner product, where larger is nearer: the library refuses anything else.
        alpha = 0.95 if metric == "ip" else 1.2
        parameters = svs.VamanaBuildParameters(alpha=alpha, graph_max_degree=2 * M, window_size=EF_CONSTRUCTION)
        return svs.Vamana.build(parameters, rows, self.distance(metric), num_threads=threads)

    def save(self, index, path):
        path.mkdir(exist_ok=True)
        index.save(*self.folders(path))

    def load(self, path, rows, queries, metric):
        import svs

        config, graph, data = self.folders(path)
        rows = svs.VectorDataLoader(data, svs.DataType.float32)
        return svs.Vamana(config, svs.GraphLoader(graph), rows, self.distance(metric))

    def search(self, index, queries, k, param, threads):
        index.num_threads = threads
        index.search_window_size = param
        return index.search(queries, k)[0]

    @staticmethod
    def distance(metric):
        import svs

        return svs.DistanceType.MIP if metric == "ip" else svs.DistanceType.L2

    @staticmethod
    def folders(path):
        return [os.path.join(path, part) for part in ("config", "graph", "data")]
