//! The threads of a build: the calling one, or as many as were asked for, on the cpus that were named.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use chiplet_topology::pin;

use crate::error::BuildError;
use crate::hnsw::config::HnswConfig;
use crate::progress::{Progress, REPORT_EVERY, Stage};

/// A thread's part of the work.
pub(super) trait Step {
    /// Does one piece; `false` if nothing is left.
    fn step(&mut self) -> bool;
}

/// Runs steps until nothing is left of `total - 1` pieces (the first row needs none), reporting about every thousand.
pub(super) fn run<S: Step>(
    config: &HnswConfig,
    total: usize,
    mut report: impl FnMut(Progress),
    worker: impl Fn() -> S + Sync,
) -> Result<(), BuildError> {
    let mut tell = |done| {
        report(Progress {
            stage: Stage::Adding,
            done,
            total,
        });
    };
    tell(0);
    if total == 0 {
        return Ok(());
    }
    let mut done = 1;
    let mut add = |more: usize| {
        let before = done;
        done += more;
        for mark in before / REPORT_EVERY + 1..=done / REPORT_EVERY {
            tell(mark * REPORT_EVERY);
        }
    };
    if config.threads == 1 && config.cpus.is_empty() {
        let mut worker = worker();
        while worker.step() {
            add(1);
        }
    } else {
        let (sender, receiver) = mpsc::channel();
        let stopped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // If a thread is refused, `report` panics, or all are done.
            let _stops = Stops(&stopped);
            for number in 0..config.threads {
                let (sender, worker, stopped) = (sender.clone(), &worker, &stopped);
                let cpu = config.cpus.get(number % config.cpus.len().max(1)).copied();
                std::thread::Builder::new()
                    .name(format!("hnsw-build-{number}"))
                    .spawn_scoped(scope, move || {
                        if let Some(cpu) = cpu {
                            // Elsewhere the build is slower, not wrong.
                            let _ = pin::pin_current_thread(&[cpu]);
                        }
                        // A thread that panics ends the others; one that is done finds nothing left for them.
                        let _stops = Stops(stopped);
                        let mut worker = worker();
                        let mut steps = 0;
                        while !stopped.load(Ordering::Relaxed) && worker.step() {
                            steps += 1;
                            if steps == PORTION {
                                // The receiver is gone if `report` has panicked.
                                let _ = sender.send(steps);
                                steps = 0;
                            }
                        }
                        let _ = sender.send(steps);
                    })
                    .map_err(|error| BuildError::Threads {
                        asked: config.threads,
                        reason: error.to_string(),
                    })?;
            }
            drop(sender);
            receiver.iter().for_each(&mut add);
            Ok::<(), BuildError>(())
        })?;
    }
    if !total.is_multiple_of(REPORT_EVERY) {
        tell(total);
    }
    Ok(())
}

/// Rows that a thread inserts between two messages.
const PORTION: usize = 64;

/// Ends the threads of a build when it goes.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicUsize;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::metric::Metric;

    struct Slow<'a>(&'a AtomicUsize);

    /// More than anybody waits for.
    const PIECES: usize = 200_000;

    impl Step for Slow<'_> {
        fn step(&mut self) -> bool {
            thread::sleep(Duration::from_micros(10));
            self.0.fetch_add(1, Ordering::Relaxed) < PIECES
        }
    }

    #[test]
    fn a_report_that_panics_ends_the_build() {
        let done = AtomicUsize::new(0);
        let config = HnswConfig::new(Metric::L2).threads(2);
        let built = catch_unwind(AssertUnwindSafe(|| {
            let report = |progress: Progress| assert_eq!(progress.done, 0, "told to");
            run(&config, PIECES, report, || Slow(&done))
        }));
        assert!(built.is_err());
        assert!(done.into_inner() < PIECES);
    }
}
