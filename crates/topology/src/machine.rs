//! The whole machine as a reader found it, before a level is chosen and before anything is taken away.
//!
//! Every reader fills in the same table of cores, so that what is decided from it
//! ([`level`](crate::level), [`assemble`](crate::assemble)) is decided once.

use std::collections::{BTreeMap, BTreeSet};

/// A machine, one row a physical core that is online.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) cores: Vec<MachineCore>,
    pub(crate) processor: Processor,
    /// Whether the processor tells that it is a virtual one.
    pub(crate) is_virtual: bool,
}

/// A physical core and what it shares with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineCore {
    /// Its online cpus, ascending; never empty.
    pub(crate) cpus: Vec<u32>,
    /// In 1/1024 of the fastest core.
    pub(crate) capacity: u32,
    pub(crate) l2: Option<Cache>,
    pub(crate) l3: Option<Cache>,
    /// Unique in the whole machine; `None` if unknown, or if the package is a single die.
    pub(crate) die: Option<u32>,
    pub(crate) node: u32,
    pub(crate) package: u32,
}

/// One cache of a level; two cores share it if and only if the keys are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    /// Unique among the caches of its level.
    pub(crate) key: u32,
    /// Size in bytes, 0 if unknown.
    pub(crate) bytes: u64,
    /// The number that the system gives it, which on AMD is the part of the APIC id above the cores.
    pub(crate) os_id: Option<u32>,
}

/// Which processor it is, as far as it decides how CCXs are laid out on dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Processor {
    pub(crate) amd: bool,
    pub(crate) family: u32,
    pub(crate) model: u32,
}

impl Processor {
    /// Whether every die holds two L3s: Zen, Zen+ and Zen 2 (family 17h), and the Zen 4c of Bergamo
    /// and Siena (family 19h, models A0h-AFh). AMD's Processor Programming Reference of each family
    /// draws two core complexes per die for these, and one for Zen 3, Zen 4 and Zen 5.
    fn has_two_ccx_per_die(self) -> bool {
        self.amd
            && (self.family == 0x17 || self.family == 0x19 && (0xa0..=0xaf).contains(&self.model))
    }
}

impl Machine {
    /// Fills in dies that the system does not tell, for processors that are known to have two CCXs on
    /// a die. The number of an L3 is then the APIC id without its core bits, so numbers 2k and 2k+1
    /// are one die. Where L3s have no numbers, exactly two of them on a NUMA node are one die.
    pub(crate) fn pair_ccxs(&mut self) {
        if !self.processor.has_two_ccx_per_die() || self.cores.iter().any(|core| core.die.is_some())
        {
            return;
        }
        let mut l3s = BTreeMap::<(u32, u32), BTreeSet<u32>>::new();
        for core in &self.cores {
            let beside = l3s.entry((core.package, core.node)).or_default();
            beside.extend(core.l3.map(|l3| l3.key));
        }
        let dies: Vec<Option<u32>> = (self.cores.iter())
            .map(|core| match core.l3?.os_id {
                Some(id) => Some(id / 2),
                None => {
                    let beside = &l3s[&(core.package, core.node)];
                    beside.first().copied().filter(|_| beside.len() == 2)
                }
            })
            .collect();
        for (core, die) in self.cores.iter_mut().zip(dies) {
            core.die = die;
        }
    }

    pub(crate) fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.cores.iter().flat_map(|core| core.cpus.iter().copied())
    }
}
