//! From the parts of a Faiss index to lists of the table's own, for the kinds of code that it scans itself. The parts
//! come from an index in memory (`in_memory`) or from a file ([`faiss_file`](crate::faiss_file)).

use std::borrow::Cow;

use super::IvfTable;
use super::codes::{Coded, Codes};
use super::config::Settings;
use super::fill::Filler;
use super::full::Full;
use super::groups::Groups;
use super::linear::Linear;
use super::store::{Shape, Store};
use crate::error::BuildError;
use crate::hnsw::{Grid, RowFormat};
use crate::ids::{RowIds, is_wide};
use crate::progress::Watch;

/// What a Faiss index holds beside its rows' codes.
pub(crate) struct Parts {
    /// Components of what is coded.
    pub(crate) dim: usize,
    /// `[lists][dim]`.
    pub(crate) centroids: Vec<f32>,
    /// Of each list, 0 or more.
    pub(crate) ids: Vec<Vec<i64>>,
}

/// What a table does that its inverted lists do not.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extras<'a> {
    /// Maps rows and queries to what the index holds.
    pub(crate) map: Option<Linear<'a>>,
    pub(crate) full: Option<FullRows<'a>>,
    /// Ids of the rows, where the lists have row numbers.
    pub(crate) ids: Option<&'a RowIds<'a>>,
}

/// Rows that are kept once more, in this format: `[n][dim]`, prepared for the metric.
#[derive(Clone, Copy)]
pub(crate) struct FullRows<'a> {
    pub(crate) format: RowFormat,
    pub(crate) rows: &'a [f32],
}

impl IvfTable {
    /// A table of `parts` and the `codes` of each list, one row after the other; `None` if this crate does not read
    /// them.
    ///
    /// # Errors
    /// [`BuildError::Memory`].
    ///
    /// # Panics
    /// If the arrays do not fit each other.
    pub(crate) fn of_parts(
        parts: Parts,
        codes: &Codes,
        lists: &[Vec<u8>],
        settings: &Settings,
        extras: Extras<'_>,
    ) -> Result<Option<Self>, BuildError> {
        let Some(coded) = codes.coded(parts.dim) else {
            return Ok(None);
        };
        let list = |list: usize| Ok(Cow::Borrowed(&lists[list][..]));
        let watch = &Watch::none();
        let store = store(parts, &coded, None, settings, extras, watch, list)?;
        Ok(Some(Self::of(store)))
    }
}

/// The centroids and lists of a table. `codes` gives those of a list, one row after the other.
///
/// # Errors
/// [`BuildError::Memory`], [`BuildError::Stopped`], and those of `codes`.
///
/// # Panics
/// If the arrays do not fit each other.
pub(super) fn store<'a>(
    parts: Parts,
    coded: &Coded,
    groups: Option<Groups>,
    settings: &Settings,
    Extras {
        map,
        full,
        ids: row_ids,
    }: Extras<'_>,
    watch: &Watch<'_>,
    mut codes: impl FnMut(usize) -> Result<Cow<'a, [u8]>, BuildError>,
) -> Result<Store, BuildError> {
    let Parts {
        dim,
        mut centroids,
        mut ids,
    } = parts;
    let lists = ids.len();
    let order = match &groups {
        Some(groups) => {
            let ordered = groups.order.iter();
            let ordered = ordered.map(|list| &centroids[list * dim..][..dim]);
            centroids = ordered.collect::<Vec<_>>().concat();
            let ordered = groups.order.iter();
            ids = ordered
                .map(|&list| std::mem::take(&mut ids[list]))
                .collect();
            groups.order.clone()
        }
        None => (0..lists).collect(),
    };
    let id = |id: i64| match row_ids {
        Some(ids) => ids.of(id as usize),
        None => id.cast_unsigned(),
    };
    let mut own: Vec<Vec<u64>> = Vec::with_capacity(lists);
    for ids in ids {
        own.push(ids.into_iter().map(id).collect());
        watch.look()?;
    }
    let ids = own;
    let lens: Vec<usize> = ids.iter().map(Vec::len).collect();
    let (low, step) = match full {
        Some(full) if full.format == RowFormat::Sq8 => {
            let dim = map.map_or(dim, |map| map.from);
            Grid::of(full.rows, dim, settings.metric, watch)?
        }
        _ => (Vec::new(), 1.0),
    };
    let shape = Shape {
        metric: settings.metric,
        dim,
        mapped_from: map.map(|map| map.from),
        rows: lens.iter().sum(),
        lists,
        groups: groups.as_ref().map(|groups| groups.lens.len()),
        coding: coded.coding,
        residual: coded.residual,
        large_ids: ids.iter().flatten().copied().any(is_wide),
        nprobe: settings.nprobe,
        grain: settings.grain.unwrap_or(1).min(lists),
        full: full.map(|FullRows { format, .. }| Full {
            format,
            step,
            ids: row_ids.is_some_and(|ids| ids.given().is_some()),
        }),
    };
    let mut filler = Filler::new(
        shape,
        &lens,
        &centroids,
        groups.as_ref(),
        map,
        &coded.values,
        settings.memory.clone(),
    )?;
    let mut done = 0;
    for (list, (ids, &number)) in ids.iter().zip(&order).enumerate() {
        filler.fill(list, ids, &codes(number)?, watch)?;
        done += ids.len();
        watch.done(done)?;
    }
    if let Some(full) = full {
        filler.fill_full(full.rows, row_ids.unwrap_or(&RowIds::NUMBERS), &low, watch)?;
    }
    Ok(filler.finish())
}
