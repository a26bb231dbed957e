//! From rows, or from a Faiss index, to a table.

use std::ops::RangeInclusive;
use std::sync::Arc;

use chiplet_table::{Neighbor, Query, SearchError, Table};
use faiss::index::IndexImpl;

use super::adopt::{Extras, FullRows};
use super::description::Description;
use super::faiss_scan::FaissLists;
use super::ffi::Ivf;
use super::kind::Kind;
use super::linear::Linear;
use super::{IvfConfig, IvfTable, Scans, factory, ffi, in_memory};
use crate::error::BuildError;
use crate::hnsw::{RowFormat, check_rows, check_small};
use crate::ids::RowIds;
use crate::metric::{Metric, norm};
use crate::options::BuildOptions;
use crate::progress::{Stage, Watch};
use crate::{reserve, rows};

/// Rows handed to Faiss at once while a table is filled: enough for its batch arithmetic. Fewer where they take long,
/// as Faiss does not stop in between: so many that they are compared with [`ADD_WORK`] components of centroids, some 20
/// ms. Fewer than 20 rows would be compared one by one (`distance_compute_blas_threshold`).
const ADD_BATCH: RangeInclusive<usize> = 32..=8192;
const ADD_WORK: usize = 1 << 28;

/// Lists that one call of Faiss may scan. Queries seldom visit more; those that do take several calls. Wider
/// calls would only add list numbers to skip to short ones (12 bytes each).
const CALL_LISTS: usize = 128;

impl IvfTable {
    /// Trains an index on `rows` (`[n][dim]`, one after the other) and adds them. Ids are row numbers, unless
    /// [`IvfTable::build_with`] gets others.
    ///
    /// `factory` is a Faiss description such as `"IVF256,Flat"`, `"IVF256,SQ8"`, `"IVF256,PQ16x4fs"` or
    /// `"IVF256_HNSW32,Flat"`. Faiss trains and adds with OpenMP threads, and prints a warning to stderr for
    /// fewer than 39 rows a list.
    ///
    /// `OPQ..`, `PCA..` and `RR..` before the lists map rows and queries first, as in `"OPQ16_64,IVF256,PQ16x4fs"`; for
    /// inner products and cosine without centring them. `"IVF4096(IVF64,Flat),SQ8"` finds lists through 64 groups of
    /// them, which takes less time and loses some of the lists.
    ///
    /// With `,RFlat` or `,Refine(Flat)` behind it, as in `"IVF256,PQ16x4fs,RFlat"`, the table keeps the rows a second
    /// time and compares the nearest it finds by their codes with them: distances are exact, and a search for `k` rows
    /// finds those of the best 1.5 k + 16. `,Refine(SQfp16)`, `,Refine(SQbf16)` and `,Refine(SQ8)` keep them as
    /// [`RowFormat`]'s `F16`, `Bf16` and `Sq8` do, with distances of these. [`Refined`](crate::Refined) does the same
    /// over rows that are kept elsewhere.
    ///
    /// # Errors
    /// [`BuildError::ZeroDimension`], [`BuildError::DimensionTooLarge`], [`BuildError::RaggedRows`],
    /// [`BuildError::NotFinite`], [`BuildError::RowTooLong`], [`BuildError::Setting`],
    /// [`BuildError::Factory`], [`BuildError::TooFewRows`], [`BuildError::UnsupportedIndex`],
    /// [`BuildError::OutOfRange`] and [`BuildError::TooSmall`] (rows that `SQfp16` does not hold, or shorter than
    /// 1e-21), [`BuildError::Memory`], [`BuildError::Faiss`] (a dimension that does not fit the code, for example).
    pub fn build(
        rows: &[f32],
        dim: usize,
        factory: &str,
        config: &IvfConfig,
    ) -> Result<Self, BuildError> {
        Self::build_with(rows, dim, factory, config, BuildOptions::new())
    }

    /// [`IvfTable::build`] with ids for the rows, or with a report of its progress that can stop it. Faiss' training
    /// cannot be stopped; the report is asked before and after it.
    ///
    /// # Errors
    /// As [`IvfTable::build`]; [`BuildError::IdCount`], [`BuildError::IdTwice`], [`BuildError::Stopped`].
    pub fn build_with(
        rows: &[f32],
        dim: usize,
        factory: &str,
        config: &IvfConfig,
        options: BuildOptions<'_>,
    ) -> Result<Self, BuildError> {
        config.check()?;
        let watch = &Watch::new(options.report, options.every);
        let total = rows::count(rows, dim)?;
        watch.begin(Stage::Checking, total)?;
        let ids = RowIds::new(options.ids, total, watch)?;
        rows::check(rows, dim, config.settings.metric, watch)?;
        let description = Description::parse(factory, dim)?;
        let refined_by = description.refined_by;
        let Description { linear, groups, .. } = description;
        let beyond_faiss = refined_by.is_some() || linear.is_some() || groups.is_some();
        if config.faiss_scans && beyond_faiss {
            return Err(BuildError::Setting {
                setting: "faiss_scans",
                value: "true".to_owned(),
                accepted: "false for a table that transforms its rows, groups its lists or refines its answers",
            });
        }
        // Before anything is trained.
        description.check_lists(total)?;
        let rows = &*rows::prepared(rows, dim, config.settings.metric, watch)?;
        let full = refined_by.map(|format| FullRows { format, rows });
        if let Some(format) = refined_by {
            check_rows(rows, dim, format, watch)?;
        }
        watch.end()?;
        watch.begin(Stage::Training, total)?;
        let map = match linear {
            Some(map) => Some(factory::linear(map, dim, config.settings.metric, rows)?),
            None => None,
        };
        let map = map.as_ref().map(|(from, matrix, shift)| Linear {
            from: *from,
            matrix,
            shift,
        });
        let mapped;
        let (coded, coded_dim) = match map {
            Some(map) => {
                mapped = map_all(map, rows, watch)?;
                (&mapped[..], map.shift.len())
            }
            None => (rows, dim),
        };
        check_coded(coded, coded_dim, &description.coded, watch)?;
        let mut index = factory::by_name(&description.coded, coded_dim, config.settings.metric)?;
        if config.settings.metric == Metric::InnerProduct && are_short(coded, coded_dim) {
            ffi::code_rows(&mut index);
        }
        watch.look()?;
        factory::train(&mut index, coded)?;
        watch.end()?;
        watch.begin(Stage::Adding, total)?;
        let compared = coded_dim.saturating_mul(description.lists.max(1));
        let batch = (ADD_WORK / compared).clamp(*ADD_BATCH.start(), *ADD_BATCH.end());
        let mut done = 0;
        for batch in coded.chunks(batch * coded_dim) {
            factory::add(&mut index, batch)?;
            done += batch.len() / coded_dim;
            watch.done(done)?;
        }
        watch.end()?;
        watch.begin(Stage::Finishing, total)?;
        let ids = Some(&ids);
        let table = Self::adopt(index, config, groups, Extras { map, full, ids }, watch)?;
        watch.end()?;
        Ok(table)
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
        Self::adopt(index, config, None, Extras::default(), &Watch::none())
    }

    fn adopt(
        index: IndexImpl,
        config: &IvfConfig,
        groups: Option<usize>,
        extras: Extras<'_>,
        watch: &Watch<'_>,
    ) -> Result<Self, BuildError> {
        let settings = &config.settings;
        let kind = Kind::of(&index);
        let refused = |reason| BuildError::UnsupportedIndex {
            kind: kind.to_string(),
            reason,
        };
        let cut = kind.cut().map_err(refused)?;
        if ffi::metric(&index) != Some(settings.metric.of_faiss()) {
            return Err(refused("its metric is not the one asked for"));
        }
        let mut ivf = Ivf::adopt(index).ok_or_else(|| refused("it holds no inverted lists"))?;
        if !ivf.is_trained() {
            return Err(BuildError::Untrained);
        }
        let (rows, lists) = (ivf.rows(), ivf.lists());
        let dim = extras.map.map_or(ivf.dim(), |map| map.from);
        let flat = ivf.quantizer_is_flat();
        let store = match config.faiss_scans {
            true => None,
            false => in_memory::store(&ivf, settings, groups, extras, watch)?,
        };
        let beyond_faiss = groups.is_some() || extras.map.is_some() || extras.full.is_some();
        if store.is_none() && beyond_faiss {
            return Err(refused(
                "Faiss scans its codes, and transforms, groups of lists and refinement go with codes that this crate scans: \
                 take Flat, SQ8, SQ4, SQfp16, SQbf16, PQ<m>, PQ<m>x4 or PQ<m>x4fs, or drop these",
            ));
        }
        let (scans, grain) = match store {
            Some(store) => {
                let quantizer = if flat || groups.is_some() {
                    None
                } else {
                    ivf.forget_rows().map_err(BuildError::Faiss)?;
                    Some(Arc::new(ivf))
                };
                let grain = store.shape().grain;
                (Scans::Own { store, quantizer }, grain)
            }
            None => {
                // search_preassigned reads no more lists than there are.
                let grain = settings.grain.unwrap_or(cut.grain).min(lists);
                let width = if cut.by_grain {
                    grain
                } else {
                    cut.grain.max(CALL_LISTS)
                };
                ivf.set_width(width.min(lists));
                let scans = FaissLists {
                    metric: settings.metric,
                    ids: match extras.ids.and_then(RowIds::given) {
                        Some(given) => {
                            let mut own = reserve::room(given.len())?;
                            own.extend_from_slice(given);
                            Some(own)
                        }
                        None => None,
                    },
                    by_grain: cut.by_grain,
                    code_bytes: ivf.code_bytes().map_err(BuildError::Faiss)?,
                    ivf,
                };
                (Scans::Faiss(scans), grain)
            }
        };
        Ok(Self {
            scans,
            metric: settings.metric,
            dim,
            rows,
            lists,
            nprobe: settings.nprobe,
            grain,
        })
    }

    /// Searches many queries in one call of Faiss, on its own OpenMP threads: what a service without an executor
    /// would do, for comparison. Only for tables whose lists Faiss scans ([`IvfConfig::faiss_scans`]). All queries are
    /// searched with the `top` and `nprobe` of the first. Which of several equally distant rows come last is Faiss'
    /// choice, unlike in [`Table::search`].
    ///
    /// # Errors
    /// As [`Table::search`], for the first query that is refused; [`SearchError::Backend`] for a table that scans its
    /// lists itself.
    pub fn search_by_faiss(&self, queries: &[Query]) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        let Scans::Faiss(lists) = &self.scans else {
            return Err(SearchError::Backend(
                "Faiss does not scan this table; build it with IvfConfig::faiss_scans, or use search_many".to_owned(),
            ));
        };
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
        let (ids, distances) = lists
            .ivf
            .search_batch(&prepared, k, self.nprobe_of(first))
            .map_err(SearchError::Backend)?;
        let answers = ids.chunks_exact(k).zip(distances.chunks_exact(k));
        Ok(answers
            .map(|(ids, distances)| {
                let found = ids.iter().zip(distances).filter(|&(&id, _)| id >= 0);
                found
                    .map(|(&id, &distance)| Neighbor {
                        id: lists.id(id),
                        distance: lists.reported(distance),
                    })
                    .collect()
            })
            .collect())
    }
}

/// The length below which the square of a row has fewer than three digits in `f32`. Lists are found by such squares.
const LEAST_NORM: f64 = 1e-21;

/// Refuses rows that the lists, or the code of `factory`, would lose.
fn check_coded(
    rows: &[f32],
    dim: usize,
    factory: &str,
    watch: &Watch<'_>,
) -> Result<(), BuildError> {
    let lost = |row: &[f32]| (f64::MIN_POSITIVE..LEAST_NORM).contains(&norm(row));
    check_small(rows, dim, "a square in f32", lost, watch)?;
    match factory.ends_with(",SQfp16") {
        true => check_rows(rows, dim, RowFormat::F16, watch),
        false => Ok(()),
    }
}

/// Whether `rows` are no longer than what is left of them when a centroid is taken off: under the inner product Faiss'
/// have length 1.
fn are_short(rows: &[f32], dim: usize) -> bool {
    let squares = rows.iter().map(|&x| f64::from(x).powi(2));
    squares.sum::<f64>() < 0.25 * (rows.len() / dim) as f64
}

/// Components that a thread multiplies between two looks at the report, about: some 10 ms.
const MAP_WORK: usize = 1 << 24;

/// Maps all `rows`, `[n][from]`, on as many threads as the process may use, and checks what comes out.
fn map_all(map: Linear<'_>, rows: &[f32], watch: &Watch<'_>) -> Result<Vec<f32>, BuildError> {
    let to = map.shift.len();
    let count = rows.len() / map.from;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = MAP_WORK / map.from.saturating_mul(to).max(1);
    let part = part.clamp(1, count.div_ceil(threads).max(1));
    let mut mapped: Vec<f32> = reserve::room(count.saturating_mul(to))?;
    for rows in rows.chunks(threads * part * map.from) {
        let start = mapped.len();
        mapped.resize(start + rows.len() / map.from * to, 0.0);
        std::thread::scope(|scope| {
            let parts = rows.chunks(part * map.from);
            for (rows, mapped) in parts.zip(mapped[start..].chunks_mut(part * to)) {
                scope.spawn(move || {
                    let rows = rows.chunks_exact(map.from);
                    for (x, y) in rows.zip(mapped.chunks_exact_mut(to)) {
                        map.map(x, y);
                    }
                });
            }
        });
        for (number, row) in (start / to..).zip(mapped[start..].chunks_exact(to)) {
            rows::check_row(number, row, Metric::L2)?;
        }
        watch.look()?;
    }
    Ok(mapped)
}
