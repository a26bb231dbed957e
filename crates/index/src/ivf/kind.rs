//! Which kinds of Faiss index can be a table, and how finely each is split.

use std::fmt;

use faiss::index::IndexImpl;

use super::ffi;

/// What a Faiss index is: the four letters that Faiss begins its file with (`index_write.cpp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind([u8; 4]);

/// How a kind of index is cut into scan units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Lists that are never separated, unless configured otherwise.
    pub(super) grain: usize,
    /// Whether every call must scan exactly one grain, as a list's distances depend on the rest of the call.
    pub(super) by_grain: bool,
}

impl Kind {
    pub(super) fn of(index: &IndexImpl) -> Self {
        Self(ffi::kind(index))
    }

    /// How queries of such an index are cut, or why it cannot be a table.
    pub(super) fn cut(self) -> Result<Cut, &'static str> {
        match &self.0 {
            // Flat, deduplicated flat, scalar quantizer, PQ, additive quantizers, RaBitQ.
            b"IwFl" | b"IwFd" | b"IwSq" | b"IwPQ" | b"IwRQ" | b"IwLS" | b"IwPR" | b"IwPL"
            | b"Iwrq" => Ok(Cut {
                grain: 1,
                by_grain: false,
            }),
            // PQ fast-scan, residual or not: there is no telling from outside. Every call computes its tables
            // anew: calls of one list take 1.7 times as long as calls of eight, 3 to 4 times in a Faiss built
            // with AVX2 (IVF256,PQ25x4fs, 50,000 rows of 50, 32 probes, k = 10; November 2026).
            b"IwPf" => Ok(Cut {
                grain: 8,
                by_grain: true,
            }),
            b"IwQR" => {
                Err("it re-ranks a shortlist over all lists; use PQ<m> instead of PQ<m>+<n>")
            }
            b"IVLf" | b"IVRf" | b"NPLf" | b"NPRf" => {
                Err("additive fast-scan codes open an OpenMP team for every query; use PQ<m>x4fs")
            }
            b"IwSh" => {
                Err("spectral hashing counts differing bits, which is no distance of any metric")
            }
            b"IxPT" => Err(
                "it transforms the rows of another index; build a table of the whole description, or apply the transform yourself",
            ),
            b"IxMp" | b"IxM2" => {
                Err("inverted lists keep ids themselves; add rows with ids to the IVF index")
            }
            b"IxRF" => Err(
                "it re-ranks the answers of another index; make a table of that index, or build one of the whole description",
            ),
            _ => Err("it is no IVF index that this crate knows"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().fmt(f)
    }
}
