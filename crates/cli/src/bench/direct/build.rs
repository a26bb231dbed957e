//! The table of a direct measurement, and what building it took.

use std::time::Instant;

use anyhow::bail;
use chiplet_executor::Table;
use chiplet_index::{HnswConfig, HnswTable, Metric, Progress, Stage};
use indicatif::{MultiProgress, ProgressBar};

use super::super::arguments::Arguments;
use super::super::usage::Usage;
use super::super::{machine, shelf, style};
use super::options::Index;

/// A table that is ready to be searched.
pub(super) struct Built {
    pub(super) table: Box<dyn Table>,
    /// As in `chiplet HNSW f32`.
    pub(super) name: String,
    pub(super) seconds: f64,
    /// Processor time of all threads, in seconds.
    pub(super) cpu_seconds: f64,
    /// How much memory in RAM the process had more after building than before, in bytes; what the allocator keeps for
    /// later is in it.
    pub(super) grown: Option<u64>,
}

/// Builds the table that `--index` names.
pub(super) fn build(
    arguments: &Arguments,
    source: &shelf::Source,
    bars: &MultiProgress,
) -> anyhow::Result<Built> {
    let metric = source.index_metric()?;
    let bar = bars.add(ProgressBar::new(source.vectors.len() as u64));
    bar.set_style(style("{msg} {bar:30} {pos}/{len} rows, {eta} left"));
    let show = |progress: Progress| {
        bar.set_message(match progress.stage {
            Stage::Training => "training",
            _ => "building",
        });
        bar.set_position(progress.done as u64);
    };
    let before = machine::resident();
    let (began, usage) = (Instant::now(), Usage::now());
    let (table, name) = match arguments.direct.index {
        Index::Hnsw => graph(arguments, source, metric, show)?,
        Index::Ivf => lists(arguments, source, metric, show)?,
    };
    let seconds = began.elapsed().as_secs_f64();
    let cpu_seconds = (Usage::now() - usage).process_cores() * seconds;
    bar.finish_and_clear();
    let grown = before
        .zip(machine::resident())
        .map(|(before, after)| after.saturating_sub(before));
    Ok(Built {
        table,
        name,
        seconds,
        cpu_seconds,
        grown,
    })
}

fn graph(
    arguments: &Arguments,
    source: &shelf::Source,
    metric: Metric,
    show: impl FnMut(Progress),
) -> anyhow::Result<(Box<dyn Table>, String)> {
    let rows = &source.vectors;
    let config = graph_config(arguments, metric);
    let table = HnswTable::build_with(rows.as_slice(), rows.dim(), &config, show)?;
    let options = &arguments.direct;
    let mut name = format!("chiplet HNSW {}", options.rows_as);
    if let Some(format) = options.rerank {
        name = format!("{name}, re-ranked {format}");
    }
    Ok((Box::new(table), name))
}

/// The command line as the table's settings: what a graph learns to do is added here.
fn graph_config(arguments: &Arguments, metric: Metric) -> HnswConfig {
    let options = &arguments.direct;
    let mut config = HnswConfig::new(metric)
        .m(options.m as usize)
        .ef_construction(options.ef_construction as usize)
        .threads(options.build_threads.unwrap_or(1) as usize)
        .rows(options.rows_as)
        .reorder(!options.no_reorder)
        .pages(options.pages.into());
    if let Some(format) = options.rerank {
        config = config.rerank(format);
    }
    config
}

#[cfg(feature = "faiss")]
fn lists(
    arguments: &Arguments,
    source: &shelf::Source,
    metric: Metric,
    show: impl FnMut(Progress),
) -> anyhow::Result<(Box<dyn Table>, String)> {
    if let Some(threads) = arguments.direct.build_threads {
        bail!(
            "--build-threads {threads}: Faiss builds on OMP_NUM_THREADS threads; set that instead"
        );
    }
    let rows = &source.vectors;
    let factory = shelf::factory(arguments, rows.len());
    let config = chiplet_index::IvfConfig::new(metric);
    let table =
        chiplet_index::IvfTable::build_with(rows.as_slice(), rows.dim(), &factory, &config, show)?;
    Ok((Box::new(table), format!("chiplet {factory}")))
}

#[cfg(not(feature = "faiss"))]
fn lists(
    _: &Arguments,
    _: &shelf::Source,
    _: Metric,
    _: impl FnMut(Progress),
) -> anyhow::Result<(Box<dyn Table>, String)> {
    bail!("--index ivf: this chiplet was built without Faiss; build it with --features faiss")
}
