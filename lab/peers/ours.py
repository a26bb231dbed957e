"""chiplet's own tables in the comparison: one line for each variant. Add variants here."""

from dataclasses import dataclass, field


@dataclass
class Variant:
    """A way to run `chiplet bench --direct`."""

    name: str
    # Besides --data, --ef or --nprobe, and what is the same for all. NLIST becomes 4 sqrt(rows) and HALF half the
    # dimensions, as in peers/plain.py.
    options: list
    environment: dict = field(default_factory=dict)
    family: str = "hnsw"  # or "ivf": measured beside the peers of the same family


# Measured after each peer, in each round. The best of them at a recall stands against the peer.
OURS = [
    Variant("chiplet HNSW f32", ["--index", "hnsw"]),
    Variant("chiplet HNSW f16", ["--index", "hnsw", "--rows-as", "f16"]),
    Variant("chiplet HNSW SQ8, re-ranked f32", ["--index", "hnsw", "--rows-as", "sq8", "--rerank", "f32"]),
    Variant("chiplet HNSW SQ8", ["--index", "hnsw", "--rows-as", "sq8"]),
    Variant("chiplet HNSW SQ4, re-ranked f16", ["--index", "hnsw", "--rows-as", "sq4", "--rerank", "f16"]),
    Variant("chiplet HNSW SQ2, re-ranked f16", ["--index", "hnsw", "--rows-as", "sq2", "--rerank", "f16"]),
    Variant("chiplet HNSW SQ1, re-ranked f16", ["--index", "hnsw", "--rows-as", "sq1", "--rerank", "f16"]),
    Variant("chiplet IVF Flat", ["--index", "ivf"], family="ivf"),
    Variant("chiplet IVF Flat, 64 a call", ["--index", "ivf", "--together", "64"], family="ivf"),
    Variant("chiplet IVF SQ8", ["--index", "ivf", "--factory", "IVFNLIST,SQ8"], family="ivf"),
    Variant(
        "chiplet IVF SQ8, 64 a call",
        ["--index", "ivf", "--factory", "IVFNLIST,SQ8", "--together", "64"],
        family="ivf",
    ),
    Variant("chiplet IVF SQ4, refined", ["--index", "ivf", "--factory", "IVFNLIST,SQ4,RFlat"], family="ivf"),
    Variant("chiplet IVF PQ, refined", ["--index", "ivf", "--factory", "IVFNLIST,PQHALFx4fs,RFlat"], family="ivf"),
    Variant(
        "chiplet IVF PQ, refined, 64 a call",
        ["--index", "ivf", "--factory", "IVFNLIST,PQHALFx4fs,RFlat", "--together", "64"],
        family="ivf",
    ),
]

# What each part brings: measured in turn with the first of OURS of the same family, against that one only.
PARTS = [
    Variant("SSE2 only", ["--index", "hnsw"], {"CHIPLET_SIMD": "portable"}),
    Variant("AVX2", ["--index", "hnsw"], {"CHIPLET_SIMD": "avx2"}),
    Variant("no prefetch", ["--index", "hnsw"], {"CHIPLET_PREFETCH": "off"}),
    Variant("small pages", ["--index", "hnsw", "--pages", "small"]),
    Variant("order of rows", ["--index", "hnsw", "--no-reorder"]),
    Variant("f16", ["--index", "hnsw", "--rows-as", "f16"]),
    Variant("SQ8", ["--index", "hnsw", "--rows-as", "sq8"]),
    Variant("SQ8, re-ranked f32", ["--index", "hnsw", "--rows-as", "sq8", "--rerank", "f32"]),
    Variant("SQ4, re-ranked f32", ["--index", "hnsw", "--rows-as", "sq4", "--rerank", "f32"]),
]
