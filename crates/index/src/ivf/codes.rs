//! What the codes of a Faiss index mean, and which of them this crate reads.

use super::store::Coding;
use crate::kernel::Bits;

/// What the codes of an index mean, so far as this crate reads them.
pub(crate) struct Codes {
    pub(crate) kind: CodeKind,
    /// Whether they are of rows less their list's centroid.
    pub(crate) by_residual: bool,
    /// Bytes of a row.
    pub(crate) bytes: usize,
}

/// What a row's code is.
pub(crate) enum CodeKind {
    F32,
    F16,
    Bf16,
    /// 8 or 4 bits a component, within a range for each: least values, then spans.
    Ranges {
        bits: usize,
        values: Vec<f32>,
    },
    /// Numbers of centroids, `[m][2^bits][dim / m]`.
    Product {
        m: usize,
        bits: usize,
        centroids: Vec<f32>,
    },
}

/// Codes as a table has them.
pub(super) struct Coded {
    pub(super) coding: Coding,
    /// What the section `values` holds.
    pub(super) values: Vec<f32>,
    pub(super) residual: bool,
}

impl Codes {
    /// How codes of rows of `dim` are read; `None` if this crate does not read them.
    pub(super) fn coded(&self, dim: usize) -> Option<Coded> {
        let (coding, values) = self.coding(dim)?;
        let (cells, cell) = coding.cells(dim);
        (cells.checked_mul(cell) == Some(self.bytes)).then_some(Coded {
            coding,
            values,
            residual: self.by_residual,
        })
    }

    fn coding(&self, dim: usize) -> Option<(Coding, Vec<f32>)> {
        match &self.kind {
            CodeKind::F32 => Some((Coding::F32, Vec::new())),
            CodeKind::F16 => Some((Coding::F16, Vec::new())),
            CodeKind::Bf16 => Some((Coding::Bf16, Vec::new())),
            CodeKind::Ranges { bits, values } if dim.checked_mul(2) == Some(values.len()) => {
                let (least, span) = values.split_at(dim);
                // A code is the middle of its 255th or 15th part of the range (`Codec8bit`, `Codec4bit`,
                // ScalarQuantizer.cpp).
                let parts = if *bits == 8 { 255.0 } else { 15.0 };
                let step = span.iter().map(|span| span / parts);
                let base = least.iter().zip(step.clone());
                let base = base.map(|(least, step)| least + 0.5 * step);
                if *bits == 8 {
                    return Some((Coding::Scaled, base.chain(step).collect()));
                }
                // As of a product quantizer with a part for each component.
                let centroids = base.zip(step);
                let centroids = centroids.flat_map(|(base, step)| {
                    (0..Bits::Four.entries()).map(move |code| base + step * code as f32)
                });
                Some((Coding::Product4 { m: dim }, centroids.collect()))
            }
            &CodeKind::Product {
                m,
                bits,
                ref centroids,
            } => {
                let (coding, entries) = match bits {
                    4 => (Coding::Product4 { m }, Bits::Four.entries()),
                    8 => (Coding::Product8 { m }, Bits::Eight.entries()),
                    _ => return None,
                };
                let values = dim.checked_mul(entries);
                if m == 0 || !dim.is_multiple_of(m) || values != Some(centroids.len()) {
                    return None;
                }
                // [m][entries][part] becomes [m][part][entries].
                let part = dim / m;
                let values = (0..centroids.len()).map(|at| {
                    let (table, rest) = (at / (part * entries), at % (part * entries));
                    let (component, entry) = (rest / entries, rest % entries);
                    centroids[(table * entries + entry) * part + component]
                });
                Some((coding, values.collect()))
            }
            CodeKind::Ranges { .. } => None,
        }
    }
}
