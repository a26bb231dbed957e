//! The table of a direct measurement, built or from a file, and what that took.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use anyhow::{bail, ensure};
use chiplet_index::{
    BuildOptions, FileError, Fit, HnswConfig, HnswTable, IvfTable, Metric, Pages, Progress, Stage,
};
use chiplet_table::{Context, Neighbor, Query, SearchError, Table};
use indicatif::{MultiProgress, ProgressBar};

use super::super::arguments::{Arguments, Index};
use super::super::dataset::Dataset;
use super::super::machine;
#[cfg(feature = "faiss")]
use super::super::tables;
use super::super::usage::Usage;
use chiplet_bench::output::style;

/// A table that is ready to be searched, and what getting it took.
pub(super) struct Built {
    pub(super) table: Any,
    pub(super) from: From,
    pub(super) seconds: f64,
    /// Processor time of all threads, in seconds.
    pub(super) cpu_seconds: f64,
    /// How much memory in RAM the process had more after that than before, in bytes; what the allocator keeps for later
    /// is in it.
    pub(super) grown: Option<u64>,
}

/// Where a table comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Rows,
    LoadedFile,
    MappedFile,
}

impl From {
    /// `seconds` if they went into building.
    pub(super) fn build_time(self, seconds: f64) -> Option<f64> {
        (self == Self::Rows).then_some(seconds)
    }

    /// `seconds` if they went into opening a file.
    pub(super) fn open_time(self, seconds: f64) -> Option<f64> {
        (self != Self::Rows).then_some(seconds)
    }
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rows => "built",
            Self::LoadedFile => "loaded",
            Self::MappedFile => "mapped",
        })
    }
}

/// The table that `--index` names, from `--file` if that is there.
pub(super) fn build(
    arguments: &Arguments,
    source: &Dataset,
    bars: &MultiProgress,
) -> anyhow::Result<Built> {
    let options = &arguments.direct;
    let build = || Any::build(arguments, source, bars);
    let Some(file) = options.file.as_deref() else {
        return timed(From::Rows, build);
    };
    if !file.exists() {
        let made = timed(From::Rows, build)?;
        made.table.save(file)?;
        if !options.map {
            return Ok(made);
        }
    }
    let from = if options.map {
        From::MappedFile
    } else {
        From::LoadedFile
    };
    let opened = timed(from, || Ok(Any::open(file, arguments)?))?;
    opened.table.check(file, arguments, source)?;
    Ok(opened)
}

fn timed(from: From, get: impl FnOnce() -> anyhow::Result<Any>) -> anyhow::Result<Built> {
    let before = machine::resident();
    let (began, usage) = (Instant::now(), Usage::of_process());
    let table = get()?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_seconds = (Usage::of_process() - usage).cores() * seconds;
    let grown = before
        .zip(machine::resident())
        .map(|(before, after)| after.saturating_sub(before));
    Ok(Built {
        table,
        from,
        seconds,
        cpu_seconds,
        grown,
    })
}

/// Either table.
#[allow(
    clippy::large_enum_variant,
    reason = "one a process; with Faiss the lists are the larger"
)]
pub(super) enum Any {
    Graph(HnswTable),
    /// With the lists' kind, as in `IVF1024,Flat`.
    Lists(IvfTable, String),
}

impl Any {
    fn build(
        arguments: &Arguments,
        source: &Dataset,
        bars: &MultiProgress,
    ) -> anyhow::Result<Self> {
        let metric = source.index_metric()?;
        let bar = bars.add(ProgressBar::new(source.vectors.len() as u64));
        bar.set_style(style("{msg} {bar:30} {pos}/{len} rows, {eta} left"));
        let show = |progress: Progress| {
            bar.set_message(match progress.stage {
                Stage::Checking => "checking",
                Stage::Choosing => "choosing",
                Stage::Training => "training",
                Stage::Finishing => "finishing",
                _ => "building",
            });
            bar.set_position(progress.done as u64);
            ControlFlow::Continue(())
        };
        let options = BuildOptions::new().report(show);
        let built = match arguments.direct.index {
            Index::Hnsw => {
                let rows = &source.vectors;
                let config = graph_config(arguments, metric);
                let table = HnswTable::build_with(rows.as_slice(), rows.dim(), &config, options)?;
                Self::Graph(table)
            }
            Index::Ivf => lists(arguments, source, metric, options)?,
        };
        bar.finish_and_clear();
        Ok(built)
    }

    /// The table in `file`.
    #[expect(unsafe_code, reason = "mapped files")]
    fn open(file: &Path, arguments: &Arguments) -> Result<Self, FileError> {
        let options = &arguments.direct;
        let pages = Pages::from(options.pages);
        Ok(match (options.index, options.map) {
            (Index::Hnsw, false) => Self::Graph(HnswTable::load(file, pages)?),
            // SAFETY: `--map` tells its user that the file must stay as it is.
            (Index::Hnsw, true) => Self::Graph(unsafe { HnswTable::map(file) }?),
            (Index::Ivf, false) => {
                let table = IvfTable::load(file, pages)?;
                let kind = format!("IVF{}", table.lists());
                Self::Lists(table, kind)
            }
            (Index::Ivf, true) => {
                // SAFETY: as above.
                let table = unsafe { IvfTable::map(file) }?;
                let kind = format!("IVF{}", table.lists());
                Self::Lists(table, kind)
            }
        })
    }

    fn save(&self, file: &Path) -> Result<(), FileError> {
        match self {
            Self::Graph(table) => table.save(file),
            Self::Lists(table, _) => table.save(file),
        }
    }

    /// Whether the table of `file` can be of these rows, and is as the command line has it.
    fn check(&self, file: &Path, arguments: &Arguments, source: &Dataset) -> anyhow::Result<()> {
        let wanted = source.index_metric()?;
        let table = self.table();
        let metric = match self {
            Self::Graph(table) => table.metric(),
            Self::Lists(table, _) => table.metric(),
        };
        let (rows, dim) = (source.vectors.len(), source.vectors.dim());
        let file = file.display();
        ensure!(
            (table.len(), table.dim(), metric) == (rows, dim, wanted),
            "{file} holds a table of {} x {}, {metric:?}; these are {rows} x {dim}, {wanted:?}: give another --file",
            table.len(),
            table.dim()
        );
        if let Self::Graph(table) = self {
            let options = &arguments.direct;
            let kept = (table.row_format(), table.rerank_format());
            ensure!(
                options.fit.is_some() || kept == (options.rows_as, options.rerank),
                "{file} holds {}, not what --rows-as and --rerank ask for: give another --file",
                self.name()
            );
        }
        Ok(())
    }

    pub(super) fn table(&self) -> &dyn Table {
        match self {
            Self::Graph(table) => table,
            Self::Lists(table, _) => table,
        }
    }

    pub(super) fn search_many(
        &self,
        queries: &[Query],
        context: &mut Context,
    ) -> Result<Vec<Vec<Neighbor>>, SearchError> {
        match self {
            Self::Graph(table) => table.search_many(queries, context),
            Self::Lists(table, _) => table.search_many(queries, context),
        }
    }

    /// Bytes of the cache lines that the answer to `query` reads; `None` for lists, scans, and where a filter decides
    /// what is read.
    pub(super) fn bytes_read(&self, query: &Query) -> Result<Option<u64>, SearchError> {
        const LINE: u64 = 64;
        let (Self::Graph(table), None) = (self, query.requested_filter()) else {
            return Ok(None);
        };
        let Some(ef) = query.requested_ef() else {
            return Ok(None);
        };
        let mut lines = 0;
        table.search_observed(query.vector(), query.k(), ef, &mut |read| {
            let end = read.offset + u64::from(read.bytes);
            lines += end.div_ceil(LINE) - read.offset / LINE;
        })?;
        // A scan is not told.
        Ok((lines > 0).then_some(LINE * lines))
    }

    /// As in `chiplet HNSW f32`.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Graph(table) => {
                let rows = format!("chiplet HNSW {}", table.row_format());
                match table.rerank_format() {
                    Some(format) => format!("{rows}, re-ranked {format}"),
                    None => rows,
                }
            }
            Self::Lists(_, kind) => format!("chiplet {kind}"),
        }
    }
}

/// The command line as the table's settings: what a graph learns to do is added here.
fn graph_config(arguments: &Arguments, metric: Metric) -> HnswConfig {
    let options = &arguments.direct;
    let mut config = HnswConfig::new(metric)
        .m(options.m as usize)
        .ef_construction(options.ef_construction as usize)
        .threads(options.build_threads.unwrap_or(1) as usize)
        .reorder(!options.no_reorder)
        .memory(Pages::from(options.pages));
    if let Some(format) = options.rerank {
        config = config.rerank(format);
    }
    match options.fit {
        Some(recall) => config.fit(Fit::recall(recall).top(arguments.k as usize)),
        None => config.rows(options.rows_as),
    }
}

#[cfg(feature = "faiss")]
fn lists(
    arguments: &Arguments,
    source: &Dataset,
    metric: Metric,
    options: BuildOptions<'_>,
) -> anyhow::Result<Any> {
    if let Some(threads) = arguments.direct.build_threads {
        bail!(
            "--build-threads {threads}: Faiss builds on OMP_NUM_THREADS threads; set that instead"
        );
    }
    let rows = &source.vectors;
    let factory = tables::factory(arguments, rows.len());
    let config = chiplet_index::IvfConfig::new(metric).memory(Pages::from(arguments.direct.pages));
    let table = IvfTable::build_with(rows.as_slice(), rows.dim(), &factory, &config, options)?;
    Ok(Any::Lists(table, factory))
}

#[cfg(not(feature = "faiss"))]
fn lists(_: &Arguments, _: &Dataset, _: Metric, _: BuildOptions<'_>) -> anyhow::Result<Any> {
    bail!("--index ivf: this chiplet was built without Faiss; build it with --features faiss")
}
