//! `IvfTable`: inverted lists, over Faiss; the table whose queries split best.
//!
//! A query runs in three steps, none of which changes the index, so any number of threads may be in any of
//! them:
//!
//! 1. `coarse`: the quantizer finds the `nprobe` lists whose centroids are nearest.
//! 2. `scan`: a scan unit's lists are handed to Faiss in one call (or in several, if they are many).
//! 3. `merge`: the nearest of all units, ties broken by id.
//!
//! **Invariant: an answer is the `k` first rows of all lists visited, ordered by distance, then id.** That
//! names no unit, so a split search equals an unsplit one exactly, however its units were cut. Faiss
//! does not promise as much: which of several equally distant rows end up last among its `k` depends on the
//! order in which it met them. So more than `k` rows are asked for, until the last row returned is
//! farther away than the k-th: then every row as near as the k-th has been seen. (If thousands of rows are
//! equally far away, as with one vector stored over and over, that is given up for Faiss' choice list by
//! list; `ivf/scan.rs` says why that names no unit either.)
//!
//! The distance of a row must not depend on the other lists in the call. One kind of code breaks this: the
//! 8-bit tables of residual fast-scan (`PQ<m>x4fsr`) are scaled to all lists of a call. For fast-scan,
//! calls therefore are always the same runs of lists, [`SplitTable::grain`] each.
//!
//! A unit costs a few microseconds whatever its lists, and more the larger `k` is, as Faiss fills a new heap of
//! `k` rows for it: 5 us for k = 10, 17 us for k = 100 (IVF256,Flat over 50,000 rows of 50, 32 probes, in one
//! unit and in 32; November 2026). Units should be large against that.
//!
//! Two traps of Faiss shape the calls. `nprobe` is a field of the index that `search_preassigned` reads as
//! the number of lists it was passed: it is set once, before the index is shared, and shorter calls are
//! filled up with list -1, which Faiss skips. And through the C interface every search adds to global statistics
//! (`indexIVF_stats`) without synchronisation: a data race, on a cache line that travels between cores. `ivf/scan.cpp`
//! passes statistics of the call's own instead; fast-scan indexes write the global ones all the same.

mod config;
mod factory;
mod ffi;
mod kind;
mod scan;

use std::ops::Range;

use chiplet_executor::{Neighbor, Probe, Query, SearchError, SplitTable, Table, Work};
use chiplet_policy::ivf_list_bytes;
use faiss::index::IndexImpl;

use crate::error::BuildError;
use crate::metric::Metric;
use crate::progress::{Progress, Stage};
use crate::rows;

pub use config::IvfConfig;
use ffi::Ivf;
use kind::Kind;

/// Rows handed to Faiss at once while a table is filled: enough for its batch arithmetic, few enough for a
/// progress bar to move.
const ADD_BATCH: usize = 8192;

/// Lists that one call of Faiss may scan. Queries seldom visit more; those that do take several calls. Wider
/// calls would only add list numbers to skip to short ones (12 bytes each).
const CALL_LISTS: usize = 128;

/// A Faiss IVF index as a table.
///
/// ```
/// use chiplet_executor::{Query, Table, Work};
/// use chiplet_index::{IvfConfig, IvfTable, Metric};
///
/// let rows: Vec<f32> = (0..2000).map(|x| (x % 97) as f32).collect(); // 1,000 rows of 2
/// let config = IvfConfig::new(Metric::L2).nprobe(4);
/// let table = IvfTable::build(&rows, 2, "IVF8,Flat", &config)?;
/// let hits = table.search(&Query::new([10.0, 11.0]).top(3).nprobe(8), &mut Work::default())?;
/// assert_eq!(hits[0].distance, 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IvfTable {
    ivf: Ivf,
    metric: Metric,
    /// Lists visited by a query that does not say how many.
    nprobe: usize,
    grain: usize,
    /// Whether every call scans exactly one grain.
    by_grain: bool,
    /// Bytes of one stored code.
    code_bytes: u64,
    /// Bytes a coarse search reads, where that is known: all centroids of a flat quantizer.
    coarse_bytes: u64,
}

impl IvfTable {
    /// Trains an index on `rows` (`[n][dim]`, one after the other) and adds them; ids are row numbers.
    ///
    /// `factory` is a Faiss description such as `"IVF256,Flat"`, `"IVF256,SQ8"`, `"IVF256,PQ16x4fs"` or
    /// `"IVF256_HNSW32,Flat"`. Faiss trains and adds with OpenMP threads, and prints a warning to stderr for
    /// fewer than 39 rows a list.
    ///
    /// # Errors
    /// [`BuildError::ZeroDimension`], [`BuildError::DimensionTooLarge`], [`BuildError::RaggedRows`],
    /// [`BuildError::NotFinite`], [`BuildError::RowTooLong`], [`BuildError::Setting`],
    /// [`BuildError::Factory`], [`BuildError::TooFewRows`], [`BuildError::UnsupportedIndex`],
    /// [`BuildError::Faiss`] (a dimension that does not fit the code, for example).
    pub fn build(
        rows: &[f32],
        dim: usize,
        factory: &str,
        config: &IvfConfig,
    ) -> Result<Self, BuildError> {
        Self::build_with(rows, dim, factory, config, |_| ())
    }

    /// [`IvfTable::build`], reporting progress: the begin and end of training, and every batch added.
    ///
    /// # Errors
    /// As [`IvfTable::build`].
    pub fn build_with(
        rows: &[f32],
        dim: usize,
        factory: &str,
        config: &IvfConfig,
        mut report: impl FnMut(Progress),
    ) -> Result<Self, BuildError> {
        config.check()?;
        let total = rows::check(rows, dim, config.metric)?;
        let mut index = factory::create(factory, dim, total, config.metric)?;
        let prepared;
        let rows = match config.metric {
            Metric::Cosine => {
                prepared = rows::prepare(rows.to_vec(), dim, config.metric);
                &prepared
            }
            Metric::L2 | Metric::InnerProduct => rows,
        };
        let stage = Stage::Training;
        report(Progress {
            stage,
            done: 0,
            total,
        });
        factory::train(&mut index, rows)?;
        report(Progress {
            stage,
            done: total,
            total,
        });
        let stage = Stage::Adding;
        report(Progress {
            stage,
            done: 0,
            total,
        });
        let mut done = 0;
        for batch in rows.chunks(ADD_BATCH * dim) {
            factory::add(&mut index, batch)?;
            done += batch.len() / dim;
            report(Progress { stage, done, total });
        }
        Self::adopt(index, config)
    }

    /// A table of an existing, trained index, with the default settings of [`IvfConfig`] and the index's own
    /// metric. Its ids are those the rows were added under; it may be empty.
    ///
    /// The index becomes the table's own: its `nprobe` is overwritten. Rows longer than
    /// [`MAX_NORM`](crate::MAX_NORM) cannot be seen from here; they may be missing from answers.
    ///
    /// # Errors
    /// [`BuildError::UnsupportedIndex`], [`BuildError::Untrained`].
    pub fn new(index: IndexImpl) -> Result<Self, BuildError> {
        let metric = ffi::metric(&index).ok_or_else(|| BuildError::UnsupportedIndex {
            kind: Kind::of(&index).to_string(),
            reason: "its metric is neither L2 nor inner product",
        })?;
        Self::with_config(index, &IvfConfig::new(metric))
    }

    /// [`IvfTable::new`] with settings. An index of inner products becomes a table of
    /// [`Metric::Cosine`] by saying so in `config`, if the rows added to it had length 1.
    ///
    /// # Errors
    /// As [`IvfTable::new`], and [`BuildError::Setting`]; [`BuildError::UnsupportedIndex`] also for an index of
    /// another metric than `config` has.
    pub fn with_config(index: IndexImpl, config: &IvfConfig) -> Result<Self, BuildError> {
        config.check()?;
        Self::adopt(index, config)
    }

    fn adopt(index: IndexImpl, config: &IvfConfig) -> Result<Self, BuildError> {
        let kind = Kind::of(&index);
        let refused = |reason| BuildError::UnsupportedIndex {
            kind: kind.to_string(),
            reason,
        };
        let cut = kind.cut().map_err(refused)?;
        let needed = match config.metric {
            Metric::L2 => Metric::L2,
            Metric::Cosine | Metric::InnerProduct => Metric::InnerProduct,
        };
        if ffi::metric(&index) != Some(needed) {
            return Err(refused("its metric is not the one asked for"));
        }
        let mut ivf = Ivf::adopt(index).ok_or_else(|| refused("it holds no inverted lists"))?;
        if !ivf.is_trained() {
            return Err(BuildError::Untrained);
        }
        // search_preassigned reads no more lists than there are.
        let grain = config.grain.unwrap_or(cut.grain).min(ivf.lists());
        let width = if cut.by_grain {
            grain
        } else {
            cut.grain.max(CALL_LISTS)
        };
        ivf.set_width(width.min(ivf.lists()));
        let centroid_bytes = (ivf.dim() * size_of::<f32>()) as u64;
        Ok(Self {
            metric: config.metric,
            nprobe: config.nprobe,
            code_bytes: ivf.code_bytes().map_err(BuildError::Faiss)?,
            coarse_bytes: match ivf.quantizer_is_flat() {
                true => ivf_list_bytes(ivf.lists() as u64, centroid_bytes),
                false => 0,
            },
            grain,
            by_grain: cut.by_grain,
            ivf,
        })
    }

    /// The metric distances are reported in.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Inverted lists (`nlist`).
    pub fn lists(&self) -> usize {
        self.ivf.lists()
    }

    /// Searches many queries in one call of Faiss, on its own OpenMP threads: what a service without an executor
    /// would do, for comparison. All queries are searched with the `top` and `nprobe` of the first. Which of several
    /// equally distant rows come last is Faiss' choice, unlike in [`Table::search`].
    ///
    /// # Errors
    /// As [`Table::search`], for the first query that is refused.
    pub fn search_batch(&self, queries: &[Query]) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        let Some(first) = queries.first() else {
            return Ok(Vec::new());
        };
        let mut prepared = Vec::with_capacity(queries.len() * self.dim());
        for query in queries {
            query.check(self.dim())?;
            prepared.extend_from_slice(&self.metric.prepare_query(query.vector())?);
        }
        let k = first.k().min(self.len());
        if k == 0 {
            return Ok(vec![Vec::new(); queries.len()]);
        }
        let (ids, distances) = self
            .ivf
            .search_batch(&prepared, k, self.nprobe_of(first))
            .map_err(SearchError::Backend)?;
        let answers = ids.chunks_exact(k).zip(distances.chunks_exact(k));
        Ok(answers
            .map(|(ids, distances)| {
                let found = ids.iter().zip(distances).filter(|&(&id, _)| id >= 0);
                found
                    .map(|(&id, &distance)| Neighbor {
                        id: id as u64,
                        distance: self.reported(distance),
                    })
                    .collect()
            })
            .collect())
    }

    /// Lists that `query` visits.
    fn nprobe_of(&self, query: &Query) -> usize {
        query
            .requested_nprobe()
            .unwrap_or(self.nprobe)
            .min(self.lists())
    }

    /// What Faiss calls a distance, in the convention of [`Metric`].
    fn reported(&self, faiss: f32) -> f32 {
        match self.metric {
            Metric::L2 => faiss,
            // As everywhere, never negative; a compressed code can claim to be nearer than identical.
            Metric::Cosine => (1.0 - faiss).max(0.0),
            // Not -faiss: a product of 0 shall be 0.0, as -0.0 would sort before it.
            Metric::InnerProduct => 0.0 - faiss,
        }
    }

    /// The centroid distance as a [`Probe`] has it (smaller is nearer) and back: Faiss' own, negated for inner
    /// products. It is passed back to Faiss, so nothing may round it.
    fn centroid_distance(&self, distance: f32) -> f32 {
        match self.metric {
            Metric::L2 => distance,
            Metric::Cosine | Metric::InnerProduct => -distance,
        }
    }

    /// The lists that the prepared `query` visits.
    fn probes(
        &self,
        query: &Query,
        prepared: &[f32],
        work: &mut Work,
    ) -> Result<Vec<Probe>, SearchError> {
        let nprobe = self.nprobe_of(query);
        work.add_bytes(self.coarse_bytes);
        let found = self
            .ivf
            .coarse(prepared, nprobe)
            .map_err(SearchError::Backend)?;
        Ok(found
            .into_iter()
            .map(|(list, distance)| Probe {
                list: list as u64,
                distance: self.centroid_distance(distance),
                cost_bytes: self.list_bytes(list),
            })
            .collect())
    }

    fn list_bytes(&self, list: usize) -> u64 {
        ivf_list_bytes(self.ivf.list_len(list) as u64, self.code_bytes)
    }
}

impl Table for IvfTable {
    fn dim(&self) -> usize {
        self.ivf.dim()
    }

    fn len(&self) -> usize {
        self.ivf.rows()
    }

    /// Codes, ids and centroids.
    fn size_bytes(&self) -> u64 {
        let code_and_id = self.code_bytes + size_of::<i64>() as u64;
        let centroids = (self.lists() * self.dim() * size_of::<f32>()) as u64;
        self.len() as u64 * code_and_id + centroids
    }

    fn search(&self, query: &Query, work: &mut Work) -> Result<Vec<Neighbor>, SearchError> {
        query.check(self.dim())?;
        let prepared = self.metric.prepare_query(query.vector())?;
        let probes = self.probes(query, &prepared, work)?;
        scan::nearest(self, query.k(), &prepared, &probes, work)
    }

    fn as_split(&self) -> Option<&dyn SplitTable> {
        Some(self)
    }
}

impl SplitTable for IvfTable {
    fn coarse(&self, query: &Query, work: &mut Work) -> Result<Vec<Probe>, SearchError> {
        query.check(self.dim())?;
        let prepared = self.metric.prepare_query(query.vector())?;
        self.probes(query, &prepared, work)
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
        work: &mut Work,
    ) -> Result<Vec<Neighbor>, SearchError> {
        query.check(self.dim())?;
        let grain = self.grain;
        let Range { start, end } = unit;
        let cut = |at: usize| at.is_multiple_of(grain) || at == probes.len();
        if start > end || end > probes.len() || !cut(start) || !cut(end) {
            return Err(SearchError::Backend(format!(
                "unit {start}..{end} of {} probes is not cut at multiples of the grain, {grain}",
                probes.len()
            )));
        }
        let prepared = self.metric.prepare_query(query.vector())?;
        scan::nearest(self, query.k(), &prepared, &probes[start..end], work)
    }
}
