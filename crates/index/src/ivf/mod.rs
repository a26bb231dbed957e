//! `IvfTable`: inverted lists; the table whose queries split best.
//!
//! A query has three steps. None changes the index, so any number of threads may be in any of them:
//!
//! 1. `coarse`: the quantizer finds the `nprobe` lists whose centroids are nearest, of those that hold rows.
//! 2. `scan`: the lists of a scan unit are searched for the nearest rows.
//! 3. `merge`: the nearest of all units, ties broken by id; compared once more if the table refines.
//!
//! **Invariant: an answer is the `k` first rows of all lists visited, ordered by distance, then id.** So a split search
//! equals an unsplit one exactly, however its units were cut.
//!
//! Faiss trains and encodes. The code decides who scans:
//!
//! | code | scanned by | as |
//! |---|---|---|
//! | `Flat`, `SQ8`, `SQfp16`, `SQbf16` | this crate, in memory of the table's own (`own`) | `kernel::blocks` |
//! | `SQ4`, `PQ<m>`, `PQ<m>x4`, `PQ<m>x4fs`, `PQ<m>x4fsr` | the same | `kernel::lookup` |
//! | others: `RQ`, `LSQ`, `RaBitQ`, `FlatDedup`, `SQ6`, .. | Faiss (`faiss_scan`) | plain code without AVX |
//!
//! A table that refines (`..,RFlat`) keeps the rows a second time, and `merge` compares more rows than are wanted with
//! them (`refine`). Rows and queries may be mapped first (`OPQ..`, `PCA..`: `linear`), and lists found through groups
//! of them (`IVF4096(IVF64,Flat)`: `groups`).
//!
//! Once built, tables of the first two rows do not need Faiss, unless a graph finds their lists (`IVF<n>_HNSW<m>`):
//! then Faiss keeps that and does the coarse search.

mod adopt;
mod batch;
mod best;
mod blocks;
#[cfg(feature = "faiss")]
mod build;
mod codes;
mod config;
#[cfg(feature = "faiss")]
mod description;
#[cfg(feature = "faiss")]
mod factory;
#[cfg(feature = "faiss")]
mod faiss_scan;
#[cfg(feature = "faiss")]
mod ffi;
mod file;
mod fill;
mod full;
mod groups;
#[cfg(feature = "faiss")]
mod in_memory;
#[cfg(feature = "faiss")]
mod kind;
mod linear;
mod own;
mod refine;
mod scratch;
mod store;

use std::ops::Range;
#[cfg(feature = "faiss")]
use std::sync::Arc;

use chiplet_table::ivf_list_bytes;
use chiplet_table::{
    Context, Filter, Neighbor, Probe, Query, SearchError, SplitTable, Table, TakeAnswer,
    merge_nearest,
};

use crate::metric::Metric;

pub(crate) use adopt::{Extras, FullRows, Parts};
pub(crate) use blocks::Blocks;
pub(crate) use codes::{CodeKind, Codes};
#[cfg(feature = "faiss")]
pub use config::IvfConfig;
pub(crate) use config::Settings;
#[cfg(feature = "faiss")]
use faiss_scan::{FaissLists, centroid_distance};
#[cfg(feature = "faiss")]
use ffi::Ivf;
pub(crate) use linear::Linear;
use scratch::Scratch;
pub(crate) use store::KIND;
use store::Store;

/// Inverted lists as a table.
///
/// ```
/// # #[cfg(feature = "faiss")] {
/// use chiplet_table::{Query, Table, Context};
/// use chiplet_index::{IvfConfig, IvfTable, Metric};
///
/// let rows: Vec<f32> = (0..2000).map(|x| (x % 97) as f32).collect(); // 1,000 rows of 2
/// let config = IvfConfig::new(Metric::L2).nprobe(4);
/// let table = IvfTable::build(&rows, 2, "IVF8,Flat", &config)?;
/// let hits = table.search(&Query::new([10.0, 11.0]).top(3).nprobe(8), &mut Context::default())?;
/// assert_eq!(hits[0].distance, 0.0);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IvfTable {
    scans: Scans,
    metric: Metric,
    dim: usize,
    rows: usize,
    lists: usize,
    /// Lists visited by a query that does not say how many.
    nprobe: usize,
    grain: usize,
}

/// Who scans the lists, and finds those to visit.
#[cfg_attr(
    feature = "faiss",
    expect(clippy::large_enum_variant, reason = "one a table")
)]
enum Scans {
    Own {
        store: Store,
        /// Finds the lists to visit, where that is not done by looking at all centroids.
        #[cfg(feature = "faiss")]
        quantizer: Option<Arc<Ivf>>,
    },
    #[cfg(feature = "faiss")]
    Faiss(FaissLists),
}

impl IvfTable {
    /// The metric distances are reported in.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Inverted lists (`nlist`).
    pub fn lists(&self) -> usize {
        self.lists
    }

    /// [`AnyTable::ids`](crate::AnyTable::ids).
    pub(crate) fn ids(&self) -> Option<Vec<u64>> {
        match &self.scans {
            Scans::Own { store, .. } => Some(store.ids().all(self.rows)),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => None,
        }
    }

    /// [`AnyTable::row`](crate::AnyTable::row).
    pub(crate) fn row(&self, place: usize) -> Option<Vec<f32>> {
        match &self.scans {
            Scans::Own { store, .. } => store.row(place),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => None,
        }
    }

    /// Lists that `query` visits.
    fn nprobe_of(&self, query: &Query) -> usize {
        let nprobe = query.requested_nprobe().unwrap_or(self.nprobe);
        nprobe.min(self.lists)
    }

    /// Checks `query`, puts it into `search` as the metric compares it, and finds the lists that it visits.
    fn visits(
        &self,
        query: &Query,
        search: &mut Scratch,
        context: &mut Context,
    ) -> Result<(), SearchError> {
        self.prepare(query, search)?;
        self.coarse_all(|_| query, std::slice::from_mut(search), context)
    }

    /// Finds the lists that each of the prepared `searches` visits, which are for `query(its number)`.
    fn coarse_all<'q>(
        &self,
        query: impl Fn(usize) -> &'q Query,
        searches: &mut [Scratch],
        context: &mut Context,
    ) -> Result<(), SearchError> {
        self.rank(searches, context)?;
        for (at, search) in searches.iter_mut().enumerate() {
            while !self.settle(query(at), search) {
                search.ranked = search.ranked.saturating_mul(2).min(self.lists);
                self.rank(std::slice::from_mut(search), context)?;
            }
        }
        Ok(())
    }

    /// Leaves out of the ranked lists those that `query` does not visit: it visits `nprobe` lists that hold rows, and
    /// with a filter so many that these hold `k` which it allows. `false` if more lists must be ranked for that.
    fn settle(&self, query: &Query, search: &mut Scratch) -> bool {
        let (filter, few) = (query.requested_filter(), search.few);
        let mut lists = match few {
            true => usize::MAX,
            false => self.nprobe_of(query),
        };
        let mut rows = filter.map_or(0, |_| query.k());
        // Faiss does not tell all ids of lists that leave out equal rows.
        let drops = few && matches!(self.scans, Scans::Own { .. });
        search.visits.retain(|&(list, _)| {
            let list = list as usize;
            if (lists == 0 && rows == 0) || self.list_bytes(list) == 0 {
                return false;
            }
            let most = rows.max(usize::from(few));
            let held = filter.map_or(0, |filter| self.allowed(list, filter, most));
            lists = lists.saturating_sub(1);
            rows = rows.saturating_sub(held);
            !drops || held > 0
        });
        (lists == 0 && rows == 0) || search.ranked >= self.lists
    }

    /// How many rows of `list` `filter` allows, if they are not more than `most`.
    fn allowed(&self, list: usize, filter: &Filter, most: usize) -> usize {
        match &self.scans {
            Scans::Own { store, .. } => {
                let (rows, ids) = store.list(list);
                let rows = (0..rows.rows).map(|at| ids.at(at));
                rows.filter(|&id| filter.allows(id)).take(most).count()
            }
            #[cfg(feature = "faiss")]
            Scans::Faiss(lists) => {
                let rows = lists.ivf.list_ids(list).into_iter();
                let rows = rows.map(|row| lists.id(row));
                rows.filter(|&id| filter.allows(id)).take(most).count()
            }
        }
    }

    /// Ranks as many lists as each of the prepared `searches` says, nearest first.
    fn rank(&self, searches: &mut [Scratch], context: &mut Context) -> Result<(), SearchError> {
        #[cfg(feature = "faiss")]
        let quantizer = match &self.scans {
            Scans::Own { quantizer, .. } => quantizer.as_deref(),
            Scans::Faiss(lists) => Some(&lists.ivf),
        };
        #[cfg(feature = "faiss")]
        if let Some(quantizer) = quantizer {
            for search in searches {
                if let Scans::Own { store, .. } = &self.scans
                    && search.ranked == self.lists
                {
                    // A graph leaves some out.
                    context.add_bytes(own::coarse(store, std::slice::from_mut(search)));
                    continue;
                }
                let found = quantizer.coarse(&search.query, search.ranked);
                search.visits.clear();
                let found = found.map_err(SearchError::Backend)?.into_iter();
                let visits = found.map(|(list, distance)| {
                    (list as u32, centroid_distance(self.metric, distance))
                });
                search.visits.extend(visits);
                if quantizer.quantizer_is_flat() {
                    let centroid_bytes = (self.dim * size_of::<f32>()) as u64;
                    context.add_bytes(ivf_list_bytes(self.lists as u64, centroid_bytes));
                }
            }
            return Ok(());
        }
        match &self.scans {
            Scans::Own { store, .. } => context.add_bytes(own::coarse(store, searches)),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => {}
        }
        Ok(())
    }

    /// About which share of the rows `filter` allows.
    fn share(&self, filter: &Filter) -> f64 {
        match &self.scans {
            Scans::Own { store, .. } => store.ids().allowed(filter, self.rows),
            // Which ids there are is known by list only.
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => {
                let allowed = filter.count();
                allowed.map_or(1.0, |allowed| allowed as f64 / self.rows as f64)
            }
        }
    }

    /// Takes what `query` says. Where its filter allows no more rows than `nprobe` lists hold, on average, all of them
    /// are compared: that costs no more than a search without a filter.
    fn prepare(&self, query: &Query, scratch: &mut Scratch) -> Result<(), SearchError> {
        query.check(self.dim)?;
        scratch.ranked = self.nprobe_of(query);
        scratch.few = query
            .requested_filter()
            .is_some_and(|filter| self.share(filter) * self.lists as f64 <= scratch.ranked as f64);
        if scratch.few {
            scratch.ranked = self.lists;
        }
        let map = match &self.scans {
            Scans::Own { store, .. } => store.map(),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => None,
        };
        let Scratch {
            query: mapped,
            given,
            ..
        } = scratch;
        let Some(map) = map else {
            return self.metric.prepare_query_into(query.vector(), mapped);
        };
        self.metric.prepare_query_into(query.vector(), given)?;
        mapped.resize(map.shift.len(), 0.0);
        map.map(given, mapped);
        Ok(())
    }

    fn list_bytes(&self, list: usize) -> u64 {
        match &self.scans {
            Scans::Own { store, .. } => {
                ivf_list_bytes(store.len(list) as u64, store.row_bytes() as u64)
            }
            #[cfg(feature = "faiss")]
            Scans::Faiss(lists) => lists.list_bytes(list),
        }
    }

    /// The nearest rows of the lists that `query` visits, by their codes.
    fn found(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        scratch::with(|scratch| {
            self.visits(query, scratch, context)?;
            match &self.scans {
                Scans::Own { store, .. } => {
                    own::begin(store, self.asked_widths(query), scratch);
                    for at in 0..scratch.visits.len() {
                        let (list, distance) = scratch.visits[at];
                        own::scan(store, query, list as usize, distance, scratch, context)?;
                    }
                    Ok(scratch.best.answer())
                }
                #[cfg(feature = "faiss")]
                Scans::Faiss(lists) => {
                    let probes: Vec<_> = scratch.visits.iter().map(|v| self.probe(v)).collect();
                    lists.nearest(query, &scratch.query, &probes, context)
                }
            }
        })
    }

    fn probe(&self, &(list, distance): &(u32, f32)) -> Probe {
        Probe {
            list: u64::from(list),
            distance,
            cost_bytes: self.list_bytes(list as usize),
        }
    }
}

impl Table for IvfTable {
    fn dim(&self) -> usize {
        self.dim
    }

    fn len(&self) -> usize {
        self.rows
    }

    /// Codes, ids and centroids, and the rows where they are kept too. What a graph over the centroids takes is not
    /// known.
    fn size_bytes(&self) -> u64 {
        match &self.scans {
            Scans::Own { store, .. } => store.image().bytes() as u64,
            #[cfg(feature = "faiss")]
            Scans::Faiss(lists) => {
                let ids = 1 + u64::from(lists.ids.is_some());
                let code_and_id = lists.code_bytes + ids * size_of::<i64>() as u64;
                let centroids = (self.lists * self.dim * size_of::<f32>()) as u64;
                self.rows as u64 * code_and_id + centroids
            }
        }
    }

    fn residence(&self) -> Vec<(u32, u64)> {
        match &self.scans {
            Scans::Own { store, .. } => store.image().residence(),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => Vec::new(),
        }
    }

    /// Not of a table whose lists Faiss scans: its memory is Faiss'. A graph over the centroids is shared.
    fn copy_to(
        &self,
        nodes: &[u32],
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Box<dyn Table>>, SearchError> {
        match &self.scans {
            Scans::Own {
                store,
                #[cfg(feature = "faiss")]
                quantizer,
            } => store.image().copy_to(nodes, pace, |image| {
                let table = Self::open(image)?;
                #[cfg(feature = "faiss")]
                let table = table.with_quantizer(quantizer.clone());
                Ok(table)
            }),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => Ok(None),
        }
    }

    fn search(&self, query: &Query, context: &mut Context) -> Result<Vec<Neighbor>, SearchError> {
        let found = self.found(query, context)?;
        self.answer(query, found, context)
    }

    /// By [`Table::search_each`], which searches several together.
    fn search_batch(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Vec<Result<Vec<Neighbor>, SearchError>> {
        crate::batch::answers(self, queries, context)
    }

    fn search_each(&self, queries: &[Query], context: &mut Context, answer: &mut TakeAnswer<'_>) {
        match &self.scans {
            Scans::Own { store, .. } => self.search_together(store, queries, context, answer),
            #[cfg(feature = "faiss")]
            Scans::Faiss(_) => {
                for (number, query) in queries.iter().enumerate() {
                    match self.search(query, context) {
                        Ok(found) => answer(number, Ok(&found)),
                        Err(error) => answer(number, Err(error)),
                    }
                }
            }
        }
    }

    /// As many as [`Table::search_each`] searches together.
    fn batch_size(&self) -> usize {
        self.searched_together()
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl SplitTable for IvfTable {
    fn coarse(&self, query: &Query, context: &mut Context) -> Result<Vec<Probe>, SearchError> {
        scratch::with(|scratch| {
            self.visits(query, scratch, context)?;
            Ok(scratch.visits.iter().map(|v| self.probe(v)).collect())
        })
    }

    fn grain(&self) -> usize {
        self.grain
    }

    /// As [`SplitTable::scan`]; a unit that is cut elsewhere than at a multiple of the grain, or probes that
    /// name no list, are a [`SearchError::Backend`].
    fn scan(
        &self,
        query: &Query,
        probes: &[Probe],
        unit: Range<usize>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        let grain = self.grain;
        let Range { start, end } = unit;
        let cut = |at: usize| at.is_multiple_of(grain) || at == probes.len();
        if start > end || end > probes.len() || !cut(start) || !cut(end) {
            return Err(SearchError::Backend(format!(
                "unit {start}..{end} of {} probes is not cut at multiples of the grain, {grain}",
                probes.len()
            )));
        }
        let probes = &probes[start..end];
        if let Some(probe) = probes.iter().find(|probe| probe.list >= self.lists as u64) {
            return Err(SearchError::Backend(format!(
                "there is no list {}, only {}",
                probe.list, self.lists
            )));
        }
        scratch::with(|scratch| {
            self.prepare(query, scratch)?;
            match &self.scans {
                Scans::Own { store, .. } => {
                    own::begin(store, self.asked_widths(query), scratch);
                    for probe in probes {
                        own::scan(
                            store,
                            query,
                            probe.list as usize,
                            probe.distance,
                            scratch,
                            context,
                        )?;
                    }
                    Ok(scratch.best.answer())
                }
                #[cfg(feature = "faiss")]
                Scans::Faiss(lists) => lists.nearest(query, &scratch.query, probes, context),
            }
        })
    }

    fn merge(
        &self,
        query: &Query,
        parts: Vec<Vec<Neighbor>>,
        context: &mut Context,
    ) -> Result<Vec<Neighbor>, SearchError> {
        query.check(self.dim)?;
        let found = merge_nearest(self.asked_widths(query).0, parts);
        self.answer(query, found, context)
    }
}
