"""What a library is to the comparison, and what is the same for all."""

from importlib.metadata import PackageNotFoundError, version

# 32 links on the ground layer.
M = 16
EF_CONSTRUCTION = 200


def grid(family, k):
    """Values of ef, or of nprobe, in steps of about a factor 1.4: fine enough to interpolate between.

    >>> grid("hnsw", 10)[:6], grid("hnsw", 100)[:3], grid("ivf", 10)[:6]
    ([10, 14, 20, 28, 40, 56], [100, 140, 200], [1, 2, 3, 4, 6, 8])
    """
    if family == "hnsw":
        # A search needs as many candidates as it is to find.
        whole = [k << doubled for doubled in range(9)]
        steps = sorted(whole + [value * 14 // 10 for value in whole])
        return [step for step in steps if step <= max(1_800, 40 * k)]
    whole = [1 << doubled for doubled in range(9)]
    return sorted({*whole, *(round(value * 2**0.5) for value in whole[1:-1]), 3})


def padded(vectors, width):
    """With zeros behind each vector, to `width` components; they change no distance. As they are if that long."""
    import numpy

    missing = width - vectors.shape[1]
    return numpy.pad(vectors, ((0, 0), (0, missing))) if missing > 0 else vectors


class Peer:
    """A library at one setting. `param` below is ef, or nprobe for inverted lists.

    `metric` is `l2`, `cosine` or `ip`. For the cosine, rows and queries are of length 1: the inner product ranks as the
    cosine does, and so does the Euclidean distance. A library may take either.
    """

    package = None  # on PyPI
    family = "hnsw"  # or "ivf": measured beside ours of the same family
    metrics = ("l2", "cosine", "ip")
    # More threads are not asked for, where a library's own call has one only.
    most_threads = None

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

    def missing(self):
        """Why it cannot run here, or None."""
        try:
            version(self.package)
        except PackageNotFoundError:
            return f"pip could not install {self.package}; target/peers/pip.log says why"
        return None

    def grid(self, k):
        """Parameters worth trying, ascending."""
        return grid(self.family, k)

    def build(self, rows, metric, threads):
        """An index of `rows`."""
        raise NotImplementedError

    def save(self, index, path):
        """Writes what `build` gave. Most libraries call it so."""
        index.save(str(path))

    def load(self, path, rows, queries, metric):
        """What `search` searches. The caller drops `rows` afterwards."""
        raise NotImplementedError

    def search(self, index, queries, k, param, threads):
        """Row numbers [queries][k], by the library's own batch call on `threads` threads; -1 where it found none."""
        raise NotImplementedError
