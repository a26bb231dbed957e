//! Two threads that pass a line of memory back and forth.
//!
//! One writes odd numbers and waits for the next even one, the other answers. Each waits by reading, without a hint to
//! the processor: on some the hint takes longer than a pass. A pair is given up after a quarter of a second, in which a
//! core that is shared with something else makes few passes; what it has made by then counts.

use crate::latencies::Sample;
use chiplet_topology::pin::{PinError, pin_current_thread};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs whose best counts, after one that warms up.
const RUNS: usize = 9;
/// There and back in a run: long against reading the clock, short against a time slice.
const TRIPS: u32 = 200;
const LIMIT: Duration = Duration::from_millis(250);
/// Reads between looks at the clock while the other does not answer.
const READS: u32 = 10_000;
/// Tells the other thread to end.
const STOP: u32 = u32::MAX;

/// Alone on its line, and on the one that some processors fetch with it.
#[repr(align(128))]
struct Line(AtomicU32);

/// Measures two cpus.
pub(crate) fn pair(a: u32, b: u32) -> Result<Sample, PinError> {
    let line = Line(AtomicU32::new(0));
    let ready = Barrier::new(2);
    thread::scope(|scope| {
        let answering = scope.spawn(|| {
            let pinned = pin_current_thread(&[b]);
            ready.wait();
            if pinned.is_ok() {
                answer(&line.0);
            }
            pinned.map(drop)
        });
        let asking = scope.spawn(|| {
            let pinned = pin_current_thread(&[a]);
            ready.wait();
            let sample = pinned.map(|_| ask(&line.0));
            line.0.store(STOP, Ordering::Release);
            sample
        });
        let sample = asking.join().expect("asking does not panic");
        answering.join().expect("answering does not panic")?;
        sample
    })
}

fn ask(line: &AtomicU32) -> Sample {
    let begin = Instant::now();
    let mut runs = Vec::with_capacity(RUNS);
    let mut number = 0;
    for run in 0..=RUNS {
        let start = Instant::now();
        for trip in 0..TRIPS {
            line.store(number + 1, Ordering::Release);
            number += 2;
            if !comes(line, number, begin) {
                let passes = f64::from(2 * trip + 1);
                runs.push(start.elapsed().as_nanos() as f64 / passes);
                return sample(runs);
            }
        }
        if run > 0 {
            runs.push(start.elapsed().as_nanos() as f64 / f64::from(2 * TRIPS));
        }
    }
    sample(runs)
}

/// Waits for a number; false if it takes too long.
fn comes(line: &AtomicU32, number: u32, begin: Instant) -> bool {
    loop {
        for _ in 0..READS {
            if line.load(Ordering::Acquire) == number {
                return true;
            }
        }
        if begin.elapsed() > LIMIT {
            return false;
        }
    }
}

fn answer(line: &AtomicU32) {
    let mut number = 1;
    loop {
        match line.load(Ordering::Acquire) {
            STOP => return,
            asked if asked == number => {
                line.store(number + 1, Ordering::Release);
                number += 2;
            }
            _ => {}
        }
    }
}

fn sample(mut runs: Vec<f64>) -> Sample {
    runs.sort_by(f64::total_cmp);
    Sample {
        best: runs[0],
        typical: runs[runs.len() / 2],
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_measured_and_its_threads_end() {
        let cpus = chiplet_topology::pin::current_affinity();
        // Also where both threads share one cpu and hand over only when their time is up.
        for b in [cpus[0], cpus[cpus.len() - 1]] {
            let begin = Instant::now();
            let Sample { best, typical } = pair(cpus[0], b).unwrap();
            assert!(best > 0.0 && best <= typical, "{best} of {typical}");
            assert!(best < begin.elapsed().as_nanos() as f64);
        }
    }

    #[test]
    fn a_cpu_that_cannot_be_pinned_to_is_an_error_and_hangs_nobody() {
        let cpu = chiplet_topology::pin::current_affinity()[0];
        for (a, b) in [(cpu, 60_000), (60_000, cpu), (60_000, 60_000)] {
            assert!(matches!(pair(a, b), Err(PinError::Refused { .. })));
        }
    }
}
