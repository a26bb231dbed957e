//! The level-2 and level-3 caches of a tree, and which cpus lie under each.
//!
//! A cache is told by every cpu under it, and believed of one: the lowest cpu in its own mask. The
//! masks of sane kernels all agree; where they do not, this is what hwloc does, and no cpu comes to
//! lie under a cache whose own mask leaves it out.

use super::Cpus;
use super::tree::Tree;
use crate::cpuset::CpuSet;
use crate::error::TopologyError;
use crate::machine::{Cache, Processor};
use std::collections::HashMap;

/// As many entries as any kernel lists for a cpu: L1d, L1i, L2, L3, L4 and room.
const ENTRIES: u32 = 10;

/// Xeon Phi of the second generation, the processor with a cache that is none.
const KNIGHTS_LANDING: Processor = Processor {
    amd: false,
    family: 6,
    model: 0x57,
};

/// The caches by level and cpu.
pub(super) struct Caches(HashMap<(u64, u32), Cache>);

impl Caches {
    pub(super) fn of(
        tree: &Tree,
        cpus: &Cpus,
        processor: Processor,
    ) -> Result<Self, TopologyError> {
        let mut caches = HashMap::new();
        for &cpu in &cpus.described {
            for entry in 0..ENTRIES {
                let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{entry}");
                let Some(level @ (2 | 3)) = tree.number(&format!("{folder}/level")) else {
                    continue;
                };
                let sharers = sharers(tree, cpus, cpu, &folder)?;
                if sharers.first() != Some(&cpu) {
                    continue;
                }
                if let Some(cache) = cache(tree, &folder, level, cpu, processor) {
                    for sharer in sharers {
                        caches.entry((level, sharer)).or_insert(cache);
                    }
                }
            }
        }
        Ok(Self(caches))
    }

    pub(super) fn at(&self, level: u64, cpu: u32) -> Option<Cache> {
        self.0.get(&(level, cpu)).copied()
    }
}

/// The cpus under a cache.
fn sharers(tree: &Tree, cpus: &Cpus, cpu: u32, folder: &str) -> Result<CpuSet, TopologyError> {
    let mut sharers = match tree.mask(&format!("{folder}/shared_cpu_map"))? {
        Some(mask) => mask,
        None => tree
            .list(&format!("{folder}/shared_cpu_list"))?
            .unwrap_or_default(),
    };
    if sharers.is_empty() {
        // Itanium kernels leave the masks of private caches empty.
        sharers = cpus.siblings(tree, cpu)?.unwrap_or_default();
    }
    sharers.retain(|cpu| cpus.described.contains(cpu));
    Ok(sharers)
}

/// The cache that a folder describes, unless it is one of instructions.
fn cache(tree: &Tree, folder: &str, level: u64, key: u32, processor: Processor) -> Option<Cache> {
    let kind = tree.text(&format!("{folder}/type")).unwrap_or_default();
    let bytes = tree.bytes(&format!("{folder}/size")).unwrap_or(0);
    if kind.starts_with("Instr") || bytes == 0 && level == 3 && processor == KNIGHTS_LANDING {
        return None;
    }
    let os_id = tree
        .number(&format!("{folder}/id"))
        .and_then(|id| u32::try_from(id).ok());
    Some(Cache { key, bytes, os_id })
}
