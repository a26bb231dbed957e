//! From a Faiss index to lists of the table's own, for the kinds of code that it scans itself.

use super::config::IvfConfig;
use super::ffi::{CodeKind, Codes, Ivf};
use super::fill::Filler;
use super::full::Full;
use super::groups::Groups;
use super::linear::Linear;
use super::store::{Coding, Shape, Store};
use crate::error::BuildError;
use crate::hnsw::{Grid, RowFormat};
use crate::ids::{RowIds, is_wide};
use crate::kernel::Bits;
use crate::metric::Metric;
use crate::progress::Watch;

/// What a table does that its Faiss index does not.
#[derive(Clone, Copy, Default)]
pub(super) struct Extras<'a> {
    /// Maps rows and queries to what the index holds.
    pub(super) map: Option<Linear<'a>>,
    /// Groups that its lists are found through.
    pub(super) groups: Option<usize>,
    pub(super) full: Option<FullRows<'a>>,
    /// Ids of the rows, where the index has row numbers.
    pub(super) ids: Option<&'a RowIds<'a>>,
}

impl Extras<'_> {
    /// Whether it does more than a table whose lists Faiss scans can do.
    pub(super) fn any(&self) -> bool {
        self.map.is_some() || self.groups.is_some() || self.full.is_some()
    }
}

/// Rows that are kept once more, in this format: `[n][dim]`, prepared for the metric.
#[derive(Clone, Copy)]
pub(super) struct FullRows<'a> {
    pub(super) format: RowFormat,
    pub(super) rows: &'a [f32],
}

/// The centroids and lists of `ivf`, a table as `config` has it; `None` if its codes are left to Faiss.
///
/// # Errors
/// [`BuildError::Factory`] (groups that k-means cannot make), [`BuildError::Faiss`], [`BuildError::Memory`],
/// [`BuildError::Stopped`].
pub(super) fn store(
    ivf: &Ivf,
    config: &IvfConfig,
    extras: Extras<'_>,
    watch: &Watch<'_>,
) -> Result<Option<Store>, BuildError> {
    let Extras {
        map,
        groups,
        full,
        ids: row_ids,
    } = extras;
    let ranked_by = match config.metric {
        Metric::L2 => Metric::L2,
        Metric::Cosine | Metric::InnerProduct => Metric::InnerProduct,
    };
    let codes = ivf.codes();
    let Some((coding, values)) = coding(&codes, ivf.dim()) else {
        return Ok(None);
    };
    // Lists are numbered in four bytes, and a quantizer may rank by another metric than its index, which is Faiss' affair.
    if ivf.quantizer_metric() != Some(ranked_by) || u32::try_from(ivf.lists()).is_err() {
        return Ok(None);
    }
    let mut centroids = ivf.centroids().map_err(BuildError::Faiss)?;
    let groups = groups.map(|groups| Groups::of(&centroids, ivf.dim(), groups));
    let groups = groups.transpose()?;
    let order = match &groups {
        Some(groups) => {
            let ordered = groups.order.iter();
            let ordered = ordered.map(|list| &centroids[list * ivf.dim()..][..ivf.dim()]);
            centroids = ordered.collect::<Vec<_>>().concat();
            groups.order.clone()
        }
        None => (0..ivf.lists()).collect(),
    };
    let id = |id: i64| match row_ids {
        Some(ids) => ids.of(id as usize),
        None => id.cast_unsigned(),
    };
    let mut ids: Vec<Vec<u64>> = Vec::with_capacity(order.len());
    for &list in &order {
        ids.push(ivf.list_ids(list).into_iter().map(id).collect());
        watch.look()?;
    }
    let lens: Vec<usize> = ids.iter().map(Vec::len).collect();
    let (low, step) = match full {
        Some(full) if full.format == RowFormat::Sq8 => {
            let dim = map.map_or(ivf.dim(), |map| map.from);
            Grid::of(full.rows, dim, config.metric, watch)?
        }
        _ => (Vec::new(), 1.0),
    };
    let shape = Shape {
        metric: config.metric,
        dim: ivf.dim(),
        mapped_from: map.map(|map| map.from),
        rows: lens.iter().sum(),
        lists: ivf.lists(),
        groups: groups.as_ref().map(|groups| groups.lens.len()),
        coding,
        residual: codes.by_residual,
        large_ids: ids.iter().flatten().copied().any(is_wide),
        nprobe: config.nprobe,
        grain: config.grain.unwrap_or(1).min(ivf.lists()),
        full: full.map(|FullRows { format, .. }| Full {
            format,
            step,
            ids: row_ids.is_some_and(|ids| ids.given().is_some()),
        }),
    };
    if shape.row_bytes() != Some(codes.bytes) {
        return Ok(None);
    }
    let mut filler = Filler::new(
        shape,
        &lens,
        &centroids,
        groups.as_ref(),
        map,
        &values,
        config.place.clone(),
    )?;
    let mut done = 0;
    for (list, (ids, &number)) in ids.iter().zip(&order).enumerate() {
        let codes = ivf.list_codes(number, codes.bytes);
        filler.fill(list, ids, &codes.map_err(BuildError::Faiss)?, watch)?;
        done += ids.len();
        watch.done(done)?;
    }
    if let Some(full) = full {
        filler.fill_full(full.rows, row_ids.unwrap_or(&RowIds::NUMBERS), &low, watch)?;
    }
    Ok(Some(filler.finish()))
}

/// How codes are read, and the values that this takes; `None` if this crate does not read them.
fn coding(codes: &Codes, dim: usize) -> Option<(Coding, Vec<f32>)> {
    match &codes.kind {
        CodeKind::F32 => Some((Coding::F32, Vec::new())),
        CodeKind::F16 => Some((Coding::F16, Vec::new())),
        CodeKind::Bf16 => Some((Coding::Bf16, Vec::new())),
        CodeKind::Ranges { bits, values } if values.len() == 2 * dim => {
            let (least, span) = values.split_at(dim);
            // A code is the middle of its 255th or 15th part of the range (`Codec8bit`, `Codec4bit`, ScalarQuantizer.cpp).
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
            if m == 0 || !dim.is_multiple_of(m) || centroids.len() != dim * entries {
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
        CodeKind::Ranges { .. } | CodeKind::Other => None,
    }
}
