//! Where a build asks whether to go on: in all that it does for each row.

use std::cell::RefCell;

use super::*;
use crate::error::BuildError;
use crate::flat::FlatTable;
use crate::hnsw::{Fit, HnswConfig, HnswTable, RowFormat};
use crate::metric::Metric;
use crate::progress::Stage;

const DIM: usize = 8;
const ROWS: usize = 600;

type Build<'a> = &'a dyn Fn(BuildOptions<'_>) -> Result<(), BuildError>;

fn rows() -> Vec<f32> {
    let value = |at: usize| ((at * 7919 + at / 8 * 31) % 1009) as f32 / 100.0 - 5.0;
    let mut rows: Vec<f32> = (0..ROWS * DIM).map(value).collect();
    // Some are copies.
    rows.copy_within(..20 * DIM, 300 * DIM);
    rows
}

/// In no order.
fn ids() -> Vec<u64> {
    let id = |row: u64| (row * 7919 % ROWS as u64) << 40;
    (0..ROWS as u64).map(id).collect()
}

/// What a build of these options tells, whenever it may, until it is told to stop: at the `stop`-th report.
fn told(build: Build<'_>, stop: usize) -> (Result<(), BuildError>, Vec<Progress>) {
    let told = RefCell::new(Vec::new());
    let mut options = BuildOptions::new().report(|progress| {
        told.borrow_mut().push(progress);
        match told.borrow().len() > stop {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    options.every = Duration::ZERO;
    let built = build(options);
    (built, told.into_inner())
}

/// Stops `build` at many of its reports, each of which must be the last one.
fn assert_stops(build: Build<'_>) -> Vec<Progress> {
    let (built, all) = told(build, usize::MAX);
    assert_eq!(built, Ok(()));
    let step = (all.len() / 25).max(1);
    for stop in (0..all.len()).step_by(step).chain([all.len() - 1]) {
        let (built, told) = told(build, stop);
        assert_eq!(built, Err(BuildError::Stopped), "report {stop}");
        assert_eq!(told, all[..=stop], "report {stop}");
    }
    all
}

/// How often `stage` was reported.
fn reports(all: &[Progress], stage: Stage) -> usize {
    all.iter().filter(|report| report.stage == stage).count()
}

#[test]
fn a_graph_asks_at_every_row() {
    let (rows, ids) = (rows(), ids());
    for (metric, walked, full) in [
        (Metric::L2, RowFormat::Sq8, RowFormat::F16),
        (Metric::Cosine, RowFormat::Sq4, RowFormat::F32),
        (Metric::InnerProduct, RowFormat::Sq4, RowFormat::Sq8),
    ] {
        let config = HnswConfig::new(metric).m(4).ef_construction(10);
        let config = config.rows(walked).rerank(full);
        let all = assert_stops(&|options| {
            HnswTable::build_with(&rows, DIM, &config, options.ids(&ids)).map(drop)
        });
        assert!(reports(&all, Stage::Checking) > ROWS);
        // Equal rows are looked for, rows copied, and linked.
        assert!(reports(&all, Stage::Adding) > 2 * ROWS);
        assert!(reports(&all, Stage::Finishing) > 2 * ROWS);
    }
}

#[test]
fn formats_are_tried_with_a_look_at_every_query() {
    let rows = rows();
    let config = HnswConfig::new(Metric::L2).m(4).ef_construction(10);
    let config = config.fit(Fit::recall(0.99));
    let all =
        assert_stops(&|options| HnswTable::build_with(&rows, DIM, &config, options).map(drop));
    // 200 queries against blocks of rows, and against what they find in a format.
    assert!(reports(&all, Stage::Choosing) > 1000);
}

#[test]
fn a_flat_table_asks_at_every_row() {
    let (rows, ids) = (rows(), ids());
    for metric in [Metric::L2, Metric::Cosine] {
        let all = assert_stops(&|options| {
            FlatTable::build_with(&rows, DIM, metric, options.ids(&ids)).map(drop)
        });
        assert!(reports(&all, Stage::Checking) > ROWS);
        assert!(reports(&all, Stage::Finishing) > ROWS);
    }
}

#[cfg(feature = "faiss")]
#[test]
fn lists_ask_at_every_row() {
    use crate::ivf::{IvfConfig, IvfTable};

    let (rows, ids) = (rows(), ids());
    let config = IvfConfig::new(Metric::L2);
    for factory in ["IVF4,SQ8,Refine(SQ8)", "PCA4,IVF4,Flat,RFlat"] {
        let all = assert_stops(&|options| {
            IvfTable::build_with(&rows, DIM, factory, &config, options.ids(&ids)).map(drop)
        });
        assert!(reports(&all, Stage::Checking) > ROWS);
        assert!(reports(&all, Stage::Finishing) > ROWS);
    }
}
