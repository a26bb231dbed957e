"""chiplet's own wheel, as one more library: what its tables lose by being asked from Python."""

from .base import EF_CONSTRUCTION, M, Peer


class Wheel(Peer):
    package = "chiplet"

    def missing(self):
        return super().missing() and "it is not installed; make python builds it, and the next make peers installs it"

    def build(self, rows, metric, threads):
        import chiplet

        return chiplet.Hnsw.build(
            rows, metric=metric, m=M, ef_construction=EF_CONSTRUCTION, threads=threads, **self.setting
        )

    def load(self, path, rows, queries, metric):
        import chiplet

        return chiplet.open(str(path))

    def search(self, index, queries, k, param, threads):
        return index.search(queries, k, ef=param, threads=threads).ids
