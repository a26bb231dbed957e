"""What chiplet's tables are compared with: a class a library, a line of `PEERS` for each way to use it.

All graphs have M = 16 (32 links on the ground layer) and ef_construction = 200. A peer imports its library when it is
used, so that each runs in a process of its own. One that does not run here is left out, and the reason said.
"""

from .base import M
from .glass import Glass
from .ngt import NgtQg
from .plain import Faiss, Hnswlib, Svs, Usearch, Voyager
from .rabitq import HnswRabitq, SymphonyQg
from .scann import Scann
from .vsag import Vsag
from .wheel import Wheel

PEERS = [
    Wheel("chiplet's wheel, f32"),
    Wheel("chiplet's wheel, SQ8 re-ranked f32", rows="sq8", rerank="f32"),
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
    # Its authors' advice: the graph made of SQ8U rows, and FP16 rows for ranking again.
    Glass("glass SQ4U refined", quant="SQ4U", refine="FP16", graph="SQ8U"),
    Voyager("voyager"),
    Svs("svs Vamana"),
    SymphonyQg("SymphonyQG f32", bits=0),
    SymphonyQg("SymphonyQG 8-bit", bits=8),
    HnswRabitq("HNSW-RaBitQ 4-bit", bits=4),
    HnswRabitq("HNSW-RaBitQ 7-bit", bits=7),
    Vsag("VSAG SQ4 refined", base="sq4_uniform", precise="fp16"),
    # How many are ranked again decides between speed and recall as much as the leaves do.
    Scann("ScaNN 3 k re-ranked", again=3),
    Scann("ScaNN 10 k re-ranked", again=10),
    Scann("ScaNN 30 k re-ranked", again=30),
    NgtQg("NGT-QG"),
    Faiss("Faiss IVF Flat", factory="IVFNLIST,Flat"),
    Faiss("Faiss IVF SQ8", factory="IVFNLIST,SQ8"),
    # As many are compared again as by ours: 1.5 k + 16.
    Faiss("Faiss IVF PQ, refined", factory="IVFNLIST,PQHALFx4fs,RFlat", refine=True),
    Faiss("Faiss IVF SQ4, refined", factory="IVFNLIST,SQ4,RFlat", refine=True),
]
