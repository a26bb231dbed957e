//! What reading beyond the private caches takes on this machine: for the simulator's description of it.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use chiplet::Topology;
use chiplet_caches::spread::Spread;
use chiplet_topology::pin::pin_current_thread;

/// What has been measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beyond {
    /// Nanoseconds until a line has come that a private cache does not have.
    pub line_ns: f64,
    /// GB/s that one core reads.
    pub core_gbs: f64,
    /// GB/s that all cores read together.
    pub all_gbs: f64,
    /// Nanoseconds for a line from core to core.
    pub hop_ns: f64,
}

/// Words of a cache line.
const WORDS: usize = 8;

/// Lines that are timed together: some 100 us, so that few pieces see another process take the core.
const PIECE: usize = 4_096;

/// Measures for about two seconds.
///
/// # Errors
/// If threads cannot be tied to cores.
pub fn measure(topology: &Topology) -> anyhow::Result<Beyond> {
    let cores = topology.domains().iter().flat_map(|domain| &domain.cores);
    let cpus: Vec<u32> = cores.map(|core| core.cpus[0]).collect();
    let largest = topology.domains().iter().map(|domain| domain.cache_bytes);
    let private = largest.max().unwrap_or(0) as usize;
    let matrix = chiplet_probe::measure(topology, Duration::from_secs(5), |_| ())?;
    let hops = matrix.pairs().map(|(_, _, sample)| sample.best);
    let hops: Vec<f64> = hops.collect();
    let hop_ns = hops.iter().sum::<f64>() / hops.len().max(1) as f64;
    Ok(Beyond {
        line_ns: on(&cpus[..1], |_| line_ns(3 * private))?,
        core_gbs: on(&cpus[..1], stream_gbs)?,
        all_gbs: on(&cpus, stream_gbs)?,
        hop_ns,
    })
}

/// Runs `work` on each of the cpus at once; the sum of what it finds.
fn on(cpus: &[u32], work: impl Fn(&Barrier) -> f64 + Sync) -> anyhow::Result<f64> {
    let begin = Barrier::new(cpus.len());
    thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .map(|&cpu| {
                let (begin, work) = (&begin, &work);
                scope.spawn(move || {
                    let pinned = pin_current_thread(&[cpu]);
                    let found = work(begin);
                    pinned.map(|_| found)
                })
            })
            .collect();
        let found = threads.into_iter().map(|thread| {
            let found = thread.join().ok().context("a measuring thread panicked")?;
            Ok(found?)
        });
        found.sum()
    })
}

/// The median over pieces of a way through a buffer's lines, each of which names the next, in no order.
fn line_ns(bytes: usize) -> f64 {
    let lines = bytes / 64;
    let mut next: Vec<usize> = (0..lines).collect();
    // Sattolo's shuffle: one cycle through all lines.
    let mut state = 1_u64;
    for last in (1..lines).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        next.swap(last, (state >> 33) as usize % last);
    }
    let mut buffer = vec![0_usize; lines * WORDS];
    for (line, next) in next.into_iter().enumerate() {
        buffer[line * WORDS] = next * WORDS;
    }
    let mut at = 0;
    let pieces = (0..12 * lines / PIECE).map(|_| {
        let begun = Instant::now();
        for _ in 0..PIECE {
            at = buffer[at];
        }
        black_box(at);
        begun.elapsed().as_nanos() as f64 / PIECE as f64
    });
    Spread::of(pieces).median
}

/// The median over pieces of 64 MiB.
fn stream_gbs(begin: &Barrier) -> f64 {
    let buffer = vec![1_u64; (64 << 20) / 8];
    begin.wait();
    let pieces = (0..12).flat_map(|_| {
        buffer.chunks_exact(PIECE * WORDS).map(|piece| {
            let begun = Instant::now();
            black_box(
                piece
                    .iter()
                    .fold(0, |sum: u64, word| sum.wrapping_add(*word)),
            );
            size_of_val(piece) as f64 / begun.elapsed().as_nanos() as f64
        })
    });
    Spread::of(pieces).median
}
