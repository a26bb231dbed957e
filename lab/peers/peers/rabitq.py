"""rabitqlib, from the authors of RaBitQ: SymphonyQG, and HNSW over RaBitQ's codes."""

from .base import EF_CONSTRUCTION, M, Peer, padded

# Of the rows, which the codes of HNSW-RaBitQ are relative to. 64 of them gain nothing over 16 on 20,000 rows.
CENTRES = 16

# The library refuses less.
FEWEST_COMPONENTS = 64


class SymphonyQg(Peer):
    """A flat graph; each node has the codes of its 32 neighbours beside it. `bits` are of its own row, 0 means f32."""

    package = "rabitqlib"

    def build(self, rows, metric, threads):
        import rabitqlib

        rows = padded(rows, FEWEST_COMPONENTS)
        index = rabitqlib.SymqgIndex(rows.shape[1], 2 * M, own(metric), self.setting["bits"])
        index.build(rows, EF_CONSTRUCTION, num_threads=threads)
        return index

    def load(self, path, rows, queries, metric):
        import rabitqlib

        return rabitqlib.SymqgIndex.load(str(path))

    def search(self, index, queries, k, param, threads):
        return index.search_batch(padded(queries, FEWEST_COMPONENTS), k, param, num_threads=threads)[0]


class HnswRabitq(Peer):
    """Rows are codes of `bits` bits a component and nothing else, so recall ends below 1."""

    package = "rabitqlib"

    def build(self, rows, metric, threads):
        import rabitqlib

        rows = padded(rows, FEWEST_COMPONENTS)
        centres = rabitqlib.RaBitQKMeans(rows.shape[1], CENTRES, num_threads=threads)
        centres.train(rows)
        index = rabitqlib.HnswIndex(rows.shape[1], len(rows), M, EF_CONSTRUCTION, self.setting["bits"], own(metric))
        index.build(rows, centres.centroids, centres.assignments, num_threads=threads)
        return index

    def load(self, path, rows, queries, metric):
        import rabitqlib

        return rabitqlib.HnswIndex.load(str(path))

    def search(self, index, queries, k, param, threads):
        return index.search(padded(queries, FEWEST_COMPONENTS), k, param, num_threads=threads)[0]


def own(metric):
    """The library's word; it asks for rows of length 1 for the cosine."""
    return "l2" if metric == "l2" else "ip"
