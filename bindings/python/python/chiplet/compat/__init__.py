"""Other libraries' ways to search, so that code changes one import.

* ``chiplet.compat.hnswlib.Index`` reads and searches what hnswlib saved.
* ``chiplet.compat.faiss(table)`` has Faiss' ``search(x, k) -> (D, I)``.
"""

from __future__ import annotations

from . import hnswlib
from ._faiss import FaissTable as faiss

__all__ = ["faiss", "hnswlib"]
