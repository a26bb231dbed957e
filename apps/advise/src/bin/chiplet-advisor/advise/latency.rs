//! How much longer far memory takes than near memory, under the present load.
//!
//! A thread that is tied to a node follows a random cycle of cache lines, once in memory of its own node and once in
//! that of each other. Each line is known only when the one before has arrived, so the time a step is a latency.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use chiplet_advise::Node;
use chiplet_memory::{MemoryPolicy, Pages, Region};
use chiplet_topology::{LevelChoice, Topology, pin};
use rand::SeedableRng as _;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom as _;
use serde::Serialize;

/// Bytes of a cache line.
const LINE: usize = 64;

/// The memory is so many times as large as a last-level cache, within these bounds.
const TIMES_L3: u64 = 4;
const BYTES: (u64, u64) = (64 << 20, 512 << 20);

/// Steps of one measurement: some 25 ms.
const STEPS: u32 = 1 << 17;

/// Nodes that are looked at. What counts is a ratio, and more nodes cost time and memory.
const NODES: usize = 4;

/// Latencies, on the mean over the pairs of nodes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Latencies {
    /// Nanoseconds of a line from memory of the cpu's own node.
    pub(crate) near_ns: f64,
    /// The same of another node.
    pub(crate) far_ns: f64,
}

impl Latencies {
    /// Far over near. Noise may put far below near where both are alike.
    pub(crate) fn ratio(self) -> f64 {
        (self.far_ns / self.near_ns).max(1.0)
    }

    /// Measures them, which takes one core for a second or two, and memory on each node.
    pub(crate) fn measure(nodes: &[Node]) -> anyhow::Result<Self> {
        let machine = Topology::from_sysfs("/", LevelChoice::Auto)?;
        let caches = machine.domains().iter().map(|domain| domain.cache_bytes);
        let largest = caches.max().unwrap_or(0);
        let bytes = (TIMES_L3 * largest).clamp(BYTES.0, BYTES.1);
        let roomy = |node: &&Node| node.memory_left.is_some_and(|left| left / 2 > bytes);
        let with_memory: Vec<u32> = nodes.iter().filter(roomy).map(|node| node.node).collect();
        let with_cpus = nodes.iter().filter(|node| !node.cpus.is_empty());
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for from in with_cpus.take(NODES) {
            for &to in with_memory.iter().take(NODES) {
                let nanos = apart(&from.cpus, to, bytes as usize)?;
                if from.node == to {
                    near.push(nanos)
                } else {
                    far.push(nanos)
                }
            }
        }
        ensure!(
            !near.is_empty() && !far.is_empty(),
            "fewer than two nodes have {} MiB to spare for it",
            bytes >> 20
        );
        let mean = |nanos: &[f64]| nanos.iter().sum::<f64>() / nanos.len() as f64;
        Ok(Self {
            near_ns: mean(&near),
            far_ns: mean(&far),
        })
    }
}

/// Nanoseconds of a line of `node`'s memory on one of these cpus. A thread of its own is tied, and ends.
fn apart(cpus: &BTreeSet<u32>, node: u32, bytes: usize) -> anyhow::Result<f64> {
    let cpus: Vec<u32> = cpus.iter().copied().collect();
    let measure = move || -> anyhow::Result<f64> {
        pin::pin_current_thread(&cpus).context("the measuring thread cannot be tied to a node")?;
        let place = MemoryPolicy::on([node]).pages(Pages::Transparent);
        let mut region = Region::new(bytes, place)?;
        let memory = region
            .as_mut_slice()
            .expect("a region that is no file can be written");
        link(memory);
        let most = region
            .residence()
            .into_iter()
            .max_by_key(|&(_, bytes)| bytes);
        ensure!(
            most.is_some_and(|(most, _)| most == node),
            "memory cannot be placed on node {node} (a container needs CAP_SYS_NICE for that)"
        );
        Ok(follow(region.as_slice(), STEPS))
    };
    let thread = std::thread::spawn(measure);
    thread.join().expect("measuring does not panic")
}

/// Writes a cycle through all lines, in an order that no prefetcher foresees.
fn link(memory: &mut [u8]) {
    let lines = u32::try_from(memory.len() / LINE).expect("512 MiB at most");
    let mut order: Vec<u32> = (0..lines).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
    let nexts = order.iter().skip(1).chain(order.first());
    for (&line, next) in order.iter().zip(nexts) {
        let at = line as usize * LINE;
        memory[at..at + 4].copy_from_slice(&next.to_le_bytes());
    }
}

/// Nanoseconds a step.
fn follow(memory: &[u8], steps: u32) -> f64 {
    let begun = Instant::now();
    black_box(walk(memory, steps));
    begun.elapsed().as_nanos() as f64 / f64::from(steps)
}

/// The line after so many steps from the first.
fn walk(memory: &[u8], steps: u32) -> u32 {
    (0..steps).fold(0, |line, _| {
        let at = line as usize * LINE;
        u32::from_le_bytes(memory[at..at + 4].try_into().expect("four bytes"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_goes_through_every_line() {
        let mut memory = vec![0; 1_000 * LINE];
        link(&mut memory);
        let met: BTreeSet<u32> = (0..1_000).map(|steps| walk(&memory, steps)).collect();
        assert_eq!(met.len(), 1_000);
        assert_eq!(walk(&memory, 1_000), 0);
    }

    #[test]
    fn far_memory_is_never_nearer() {
        let ratio = |near_ns, far_ns| Latencies { near_ns, far_ns }.ratio();
        assert_eq!(ratio(100.0, 170.0), 1.7);
        assert_eq!(ratio(100.0, 97.0), 1.0);
    }
}
