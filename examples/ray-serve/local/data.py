"""Twelve collections of words: the sample of GloVe that comes with the project (PDDL, see datasets/README.md)."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from chiplet_serve.build import build
from chiplet_serve.storage import Manifest, Storage

GLOVE = Path(__file__).resolve().parents[3] / "datasets" / "glove-50d"
COLLECTIONS = [f"words-{number:02d}" for number in range(12)]


class Words(NamedTuple):
    words: list[str]
    vectors: npt.NDArray[np.float32]


def words() -> Words:
    """All of the sample: 30,000 words with 50 components each."""
    flat = np.fromfile(GLOVE / "vectors.fvecs", np.float32).reshape(-1, 51)
    return Words((GLOVE / "words.txt").read_text().splitlines(), np.ascontiguousarray(flat[:, 1:]))


def write_parquet(path: Path) -> None:
    """One file with all collections, which a column names."""
    found = words()
    ids = np.arange(len(found.words))
    table = pa.table(
        {
            "topic": [COLLECTIONS[number] for number in ids % len(COLLECTIONS)],
            "word_id": ids,
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(found.vectors.ravel()), found.vectors.shape[1]),
        }
    )
    pq.write_table(table, path)


def build_all(root: Path, parquet: Path, *, shards: int = 2, copies: int = 2, **options: Any) -> list[Manifest]:
    """Version 1 of each collection, which serves from the start."""
    write_parquet(parquet)
    built = build(
        str(root),
        str(parquet),
        collection_column="topic",
        shards=shards,
        copies=copies,
        metric="cosine",
        vector_column="embedding",
        id_column="word_id",
        **options,
    )
    for manifest in built:
        Storage(root).set_live(manifest.collection, manifest.version, None)
    return built
