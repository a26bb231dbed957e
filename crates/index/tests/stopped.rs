//! Builds that their report stops: at each stage, with one thread and several.

mod common;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use chiplet_index::{
    AnyTable, BuildError, BuildOptions, Fit, FlatTable, HnswConfig, HnswTable, Metric, Stage,
};
use common::clustered;

const DIM: usize = 32;
const ROWS: usize = 1500;

/// Stops `build` at the first report of `stage` that says so many rows are done, and returns what it was told before.
fn stop(
    build: &dyn Fn(BuildOptions<'_>) -> Result<AnyTable, BuildError>,
    stage: Stage,
    least: usize,
) -> Vec<Stage> {
    let mut told = Vec::new();
    let options = BuildOptions::new().report(|progress| {
        told.push(progress.stage);
        match progress.stage == stage && progress.done >= least {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    assert_eq!(build(options).err(), Some(BuildError::Stopped), "{stage:?}");
    let last = told.pop();
    assert_eq!(last, Some(stage), "nothing is reported after a stop");
    no_threads_are_left();
    told.dedup();
    told
}

/// Waits until this process has no thread of a build, as their names tell.
#[cfg(target_os = "linux")]
fn no_threads_are_left() {
    let left = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("hnsw-build")).count()
    };
    // They have ended, and the system may take a moment to forget them.
    let began = Instant::now();
    while left() > 0 {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{} threads",
            left()
        );
        std::thread::yield_now();
    }
}

#[cfg(not(target_os = "linux"))]
fn no_threads_are_left() {}

// The only test here of graphs, as others of this process would build at the same time.
#[test]
fn a_stop_at_any_stage_ends_the_build_and_its_threads() {
    use Stage::{Adding, Checking, Choosing, Finishing};

    let rows = clustered(ROWS, DIM, 4);
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        let build = |options: BuildOptions<'_>| {
            FlatTable::build_with(&rows, DIM, metric, options).map(AnyTable::from)
        };
        for least in [0, 1, ROWS] {
            assert_eq!(stop(&build, Checking, least).len(), usize::from(least > 0));
            stop(&build, Finishing, least);
        }
    }
    for threads in [1, 4] {
        let config = HnswConfig::new(Metric::L2).m(8).ef_construction(40);
        let config = config.threads(threads).fit(Fit::recall(0.9));
        let build = |options: BuildOptions<'_>| {
            HnswTable::build_with(&rows, DIM, &config, options).map(AnyTable::from)
        };
        let stages = [Checking, Choosing, Adding, Finishing];
        for (at, stage) in stages.into_iter().enumerate() {
            for least in [0, 1, ROWS] {
                let before = stop(&build, stage, least);
                assert!(before.starts_with(&stages[..at]), "{before:?}");
            }
        }
    }
}

#[cfg(feature = "faiss")]
#[test]
fn lists_stop_before_and_after_training() {
    use chiplet_index::{IvfConfig, IvfTable};

    let rows = clustered(ROWS, DIM, 4);
    let config = IvfConfig::new(Metric::L2);
    for factory in ["IVF16,Flat", "PCA16,IVF16(IVF4,Flat),SQ8,RFlat"] {
        let build = |options: BuildOptions<'_>| {
            IvfTable::build_with(&rows, DIM, factory, &config, options).map(AnyTable::from)
        };
        let stages = [
            Stage::Checking,
            Stage::Training,
            Stage::Adding,
            Stage::Finishing,
        ];
        for (at, stage) in stages.into_iter().enumerate() {
            for least in [0, 1, ROWS] {
                let before = stop(&build, stage, least);
                assert!(before.starts_with(&stages[..at]), "{before:?}");
            }
        }
    }
}
