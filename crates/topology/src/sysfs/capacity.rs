//! How much each core of a tree does, where they differ.
//!
//! Arm's kernels tell it of each cpu (`cpu_capacity`). Intel's tell which cpus are of which kind
//! (`/sys/devices/cpu_core/cpus`, `cpu_atom`, `cpu_lowpower`); then the highest frequency of a kind stands for it. That
//! leaves out that the kinds do not do as much in a cycle, and is what there is. Where neither is told all cores count
//! alike: frequencies alone differ between cores of one kind too, and mean little.

use super::tree::Tree;
use crate::error::TopologyError;
use crate::machine::Machine;
use crate::model::Core;
use std::collections::BTreeMap;

/// The folders of Intel's kinds.
const KINDS: [&str; 3] = ["cpu_core", "cpu_atom", "cpu_lowpower"];

/// Enters the capacity of each core of the machine, that of its first cpu.
pub(super) fn weigh(tree: &Tree, machine: &mut Machine) -> Result<(), TopologyError> {
    let speeds = match told(tree, machine) {
        Some(told) => told,
        None => by_kind(tree, machine)?,
    };
    let Some(fastest) = speeds.values().copied().max() else {
        return Ok(());
    };
    for core in &mut machine.cores {
        let speed = speeds.get(&core.cpus[0]).copied().unwrap_or(fastest);
        let full = u128::from(Core::FULL);
        let part = (u128::from(speed) * full).div_ceil(u128::from(fastest));
        core.capacity = u32::try_from(part)
            .unwrap_or(Core::FULL)
            .clamp(1, Core::FULL);
    }
    Ok(())
}

/// What the kernel tells of the first cpu of each core, if it does of all.
fn told(tree: &Tree, machine: &Machine) -> Option<BTreeMap<u32, u64>> {
    let of = |cpu: u32| tree.number(&format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"));
    let each = machine.cores.iter().map(|core| {
        let cpu = core.cpus[0];
        Some((cpu, of(cpu).filter(|&capacity| capacity > 0)?))
    });
    each.collect()
}

/// The highest frequency of each cpu's kind; empty if the kernel tells of fewer than two kinds, or of one no frequency.
fn by_kind(tree: &Tree, machine: &Machine) -> Result<BTreeMap<u32, u64>, TopologyError> {
    let mut speeds = BTreeMap::new();
    let mut kinds = 0;
    for kind in KINDS {
        let Some(cpus) = tree.list(&format!("sys/devices/{kind}/cpus"))? else {
            continue;
        };
        let ours: Vec<u32> = (machine.cores.iter().map(|core| core.cpus[0]))
            .filter(|cpu| cpus.contains(cpu))
            .collect();
        let frequency = |&cpu: &u32| {
            let file = "cpufreq/cpuinfo_max_freq";
            tree.number(&format!("sys/devices/system/cpu/cpu{cpu}/{file}"))
        };
        match ours.iter().filter_map(frequency).max() {
            Some(frequency) if frequency > 0 => {
                speeds.extend(ours.into_iter().map(|cpu| (cpu, frequency)));
                kinds += 1;
            }
            _ if ours.is_empty() => {}
            _ => return Ok(BTreeMap::new()),
        }
    }
    if kinds < 2 {
        speeds.clear();
    }
    Ok(speeds)
}
