//! The threads of a build: the calling one, or as many as were asked for, on the cpus that were named.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};

use chiplet_topology::pin;

use crate::error::BuildError;
use crate::hnsw::config::HnswConfig;
use crate::progress::EVERY;

/// A thread's part of the work.
pub(super) trait Step {
    /// Does one piece; `false` if nothing is left.
    fn step(&mut self) -> bool;
}

/// Runs steps until nothing is left of `total - 1` pieces (the first row needs none), or until `done` fails, which is
/// told how many are done on the calling thread: after each that this thread does, or at least every [`EVERY`].
///
/// # Errors
/// That of `done`; [`BuildError::Threads`].
pub(super) fn run<S: Step>(
    config: &HnswConfig,
    total: usize,
    mut done: impl FnMut(usize) -> Result<(), BuildError>,
    worker: impl Fn() -> S + Sync,
) -> Result<(), BuildError> {
    if total < 2 {
        return Ok(());
    }
    let mut pieces = 1;
    if config.threads == 1 && config.cpus.is_empty() {
        let mut worker = worker();
        while worker.step() {
            pieces += 1;
            done(pieces)?;
        }
    } else {
        let (sender, receiver) = mpsc::channel();
        let stopped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // If a thread is refused, `done` fails or panics, or all are done.
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
                                // The receiver is gone if `done` has failed.
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
            loop {
                match receiver.recv_timeout(EVERY) {
                    Ok(more) => pieces += more,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Ok::<(), BuildError>(()),
                }
                done(pieces)?;
            }
        })?;
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
            let report = |_| panic!("told to");
            run(&config, PIECES, report, || Slow(&done))
        }));
        assert!(built.is_err());
        assert!(done.into_inner() < PIECES);
    }

    #[test]
    fn a_stop_ends_the_threads() {
        for threads in [1, 2, 4] {
            let (done, alive) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let config = HnswConfig::new(Metric::L2).threads(threads);
            let stop = |_| Err(BuildError::Stopped);
            let stopped = run(&config, PIECES, stop, || Counted::new(&alive, Slow(&done)));
            assert_eq!(stopped, Err(BuildError::Stopped));
            assert_eq!(alive.into_inner(), 0, "workers of {threads} threads");
            assert!(done.into_inner() < PIECES);
        }
    }

    /// A worker that is counted as long as its thread has it.
    struct Counted<'a, S>(&'a AtomicUsize, S);

    impl<'a, S> Counted<'a, S> {
        fn new(alive: &'a AtomicUsize, step: S) -> Self {
            alive.fetch_add(1, Ordering::Relaxed);
            Self(alive, step)
        }
    }

    impl<S: Step> Step for Counted<'_, S> {
        fn step(&mut self) -> bool {
            self.1.step()
        }
    }

    impl<S> Drop for Counted<'_, S> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
