//! From a Faiss index to lists of the table's own, for the kinds of code that it scans itself.

use super::ffi::{CodeKind, Codes, Ivf};
use super::lists::Filler;
use super::own::{Centroids, Coding, Own};
use crate::kernel::{Bits, Cell};
use crate::metric::Metric;

/// The centroids and lists of `ivf`, a table of `metric`; `None` if its codes are left to Faiss.
pub(super) fn own(ivf: &Ivf, metric: Metric) -> Result<Option<Own>, String> {
    let ranked_by = match metric {
        Metric::L2 => Metric::L2,
        Metric::Cosine | Metric::InnerProduct => Metric::InnerProduct,
    };
    let dim = ivf.dim();
    let codes = ivf.codes();
    let Some((coding, cells, cell)) = coding(&codes, dim) else {
        return Ok(None);
    };
    // Lists are numbered in four bytes, and a quantizer may rank by another metric than its index, which is Faiss' affair.
    if ivf.quantizer_metric() != Some(ranked_by) || ivf.lists() > u32::MAX as usize {
        return Ok(None);
    }
    let residual = codes.by_residual;
    let centroids = Centroids::new(ivf.centroids()?, dim, residual && metric == Metric::L2);
    let ids: Vec<Vec<i64>> = (0..ivf.lists()).map(|list| ivf.list_ids(list)).collect();
    let lens: Vec<usize> = ids.iter().map(Vec::len).collect();
    let large = ids.iter().flatten().any(|&id| u32::try_from(id).is_err());
    let mut lists = Filler::new(&lens, cells, cell, large);
    for (list, ids) in ids.iter().enumerate() {
        lists.push(list, ids, &ivf.list_codes(list, codes.bytes)?);
    }
    Ok(Some(Own {
        metric,
        dim,
        centroids,
        lists: lists.finish(),
        coding,
        residual,
    }))
}

/// How codes are read, the components of a row and the bytes of each; `None` if this crate does not read them.
fn coding(codes: &Codes, dim: usize) -> Option<(Coding, usize, usize)> {
    let coding = match &codes.kind {
        CodeKind::F32 => Coding::Plain(Cell::F32),
        CodeKind::F16 => Coding::Plain(Cell::F16),
        CodeKind::Bf16 => Coding::Plain(Cell::Bf16),
        CodeKind::Ranges(ranges) if ranges.len() == 2 * dim => {
            let (least, span) = ranges.split_at(dim);
            // A code is the middle of its 255th part of the range (`Codec8bit`, ScalarQuantizer.cpp).
            let step: Vec<f32> = span.iter().map(|span| span / 255.0).collect();
            let base = least
                .iter()
                .zip(&step)
                .map(|(least, step)| least + 0.5 * step);
            Coding::Scaled {
                base: base.collect(),
                step,
            }
        }
        CodeKind::Product { m, bits, centroids } => {
            let bits = match bits {
                4 => Bits::Four,
                8 => Bits::Eight,
                _ => return None,
            };
            let entries = bits.entries();
            if *m == 0 || dim % m != 0 || centroids.len() != dim * entries {
                return None;
            }
            // [m][entries][part] becomes [m][part][entries].
            let part = dim / m;
            let codebook = (0..centroids.len()).map(|at| {
                let (table, rest) = (at / (part * entries), at % (part * entries));
                let (component, entry) = (rest / entries, rest % entries);
                centroids[(table * entries + entry) * part + component]
            });
            Coding::Product {
                bits,
                m: *m,
                codebook: codebook.collect(),
            }
        }
        CodeKind::Ranges(_) | CodeKind::Other => return None,
    };
    let cell = match &coding {
        Coding::Plain(cell) => cell.bytes(),
        Coding::Scaled { .. } | Coding::Product { .. } => 1,
    };
    let cells = match &coding {
        Coding::Plain(_) | Coding::Scaled { .. } => dim,
        Coding::Product { bits, m, .. } => bits.row_bytes(*m),
    };
    (cells * cell == codes.bytes).then_some((coding, cells, cell))
}
