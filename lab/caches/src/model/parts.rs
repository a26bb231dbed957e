//! Processors to model, and what each constant is. `results/lab/2026-11/emulated-caches.md` has the sources.

use chiplet_sim::Machine;
use serde::{Deserialize, Serialize};

/// A processor: its caches, how long things take (nanoseconds), and what its links carry (10^9 bytes a second).
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Part {
    /// As users name it.
    pub name: String,
    /// L3 domains of a socket.
    pub domains: u32,
    /// Cores of a domain.
    pub cores: u32,
    /// Domains that share a link to memory.
    pub domains_per_link: u32,
    /// Private first level, and its ways.
    pub l1_bytes: u64,
    /// See [`Part::l1_bytes`].
    pub l1_ways: usize,
    /// Private second level, 8 ways.
    pub l2_bytes: u64,
    /// A domain's third level, 16 ways.
    pub l3_bytes: u64,
    /// Clock of a core with all cores at work, GHz.
    pub ghz: f64,
    /// Cycles an instruction takes where all data is in the first level, with the kernels that QEMU is fast with.
    pub cpi: f64,
    /// From the second level.
    pub l2_ns: f64,
    /// From the domain's L3, or a sibling's L2.
    pub l3_ns: f64,
    /// From memory.
    pub dram_ns: f64,
    /// A line that follows the last one from memory: what one core streams.
    pub stream_ns: f64,
    /// A written line from a core of the same domain.
    pub near_ns: f64,
    /// A written line from a core of another domain.
    pub far_ns: f64,
    /// What one link carries, reading.
    pub link_gbs: f64,
    /// What a socket's memory carries.
    pub socket_gbs: f64,
    /// Pages that the second-level TLB covers (its first level has 64 here).
    pub tlb_entries: usize,
    /// Ways of the second-level TLB.
    pub tlb_ways: usize,
    /// A page walk.
    pub walk_ns: f64,
    /// How many waits for L3 and memory a core has at a time: out-of-order execution and prefetches.
    pub overlap: f64,
    /// A system call that does not sleep.
    pub syscall_ns: f64,
    /// From waking a thread until it runs.
    pub wake_ns: f64,
    /// A spin loop's `pause`.
    pub pause_ns: f64,
}

/// Names of all parts.
pub const NAMES: [&str; 5] = [
    "genoa-9654",
    "rome-7k62",
    "milan-7763",
    "bergamo-9754",
    "turin-9575f",
];

impl Part {
    /// The part of that name. What the simulator knows of it too, it has from there: both model the same machine.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if !NAMES.contains(&name) {
            return None;
        }
        let machine = Machine::preset(name).ok()?;
        let domain = &machine.topology.domains()[0];
        let costs = machine.costs;
        let zen4 = Self {
            name: name.to_owned(),
            domains: machine.topology.domains().len() as u32,
            cores: domain.cores.len() as u32,
            domains_per_link: 1,
            l1_bytes: 32 << 10,
            l1_ways: 8,
            l2_bytes: costs.l2_bytes,
            l3_bytes: domain.cache_bytes,
            ghz: 3.55,
            cpi: 0.33,
            l2_ns: 4.0,
            l3_ns: costs.l3_ns,
            dram_ns: costs.memory_ns,
            stream_ns: 3.0,
            near_ns: costs.line_same_ns,
            far_ns: costs.line_other_ns,
            link_gbs: costs.link_gbs,
            socket_gbs: costs.socket_gbs,
            tlb_entries: 3072,
            tlb_ways: 12,
            walk_ns: 20.0,
            overlap: 2.0,
            syscall_ns: 200.0,
            wake_ns: 3_000.0,
            pause_ns: 18.0,
        };
        let zen2 = |ghz| Self {
            ghz,
            tlb_entries: 2048,
            tlb_ways: 16,
            ..zen4.clone()
        };
        Some(match name {
            "rome-7k62" => Self {
                domains_per_link: 2,
                ..zen2(3.0)
            },
            "milan-7763" => zen2(3.2),
            "bergamo-9754" => Self {
                domains_per_link: 2,
                ghz: 3.1,
                ..zen4
            },
            "turin-9575f" => Self {
                l1_bytes: 48 << 10,
                l1_ways: 12,
                ghz: 4.5,
                tlb_entries: 4096,
                tlb_ways: 16,
                ..zen4
            },
            _ => zen4,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cache::Cache;

    #[test]
    fn every_part_can_be_built() {
        for name in NAMES {
            let part = Part::named(name).unwrap();
            assert_eq!(part.name, name);
            let _ = Cache::of_bytes(part.l1_bytes, part.l1_ways);
            let _ = Cache::of_bytes(part.l2_bytes, 8);
            let _ = Cache::of_bytes(part.l3_bytes, 16);
            let _ = Cache::new(part.tlb_entries, part.tlb_ways);
            assert!(
                part.l3_ns < part.dram_ns && part.near_ns < part.far_ns,
                "{name}"
            );
        }
    }
}
