//! The memory of the machine's NUMA nodes, as a person or a program reads it.

use std::fmt::Write as _;

use chiplet_topology::{NumaMemory, Source, Topology};
use serde::Serialize;

/// What the system tells of it now, or told when the machine was saved; nothing of machines that are described or made
/// up.
pub(super) fn of(machine: &Topology) -> NumaMemory {
    match machine.source() {
        _ if machine.is_this_machine() => NumaMemory::read("/"),
        Source::Sysfs(root) => NumaMemory::read(root),
        _ => NumaMemory::default(),
    }
}

/// A line for each node, and with several nodes one on automatic NUMA balancing. Empty if nothing is known.
pub(super) fn lines(memory: &NumaMemory) -> String {
    let nodes = memory.nodes();
    if nodes.is_empty() {
        return String::new();
    }
    let mut text = "memory:\n".to_owned();
    for node in nodes {
        let (total, free) = (size(node.total_bytes), size(node.free_bytes));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  NUMA node {}  {total}, {free} free", node.node);
    }
    if nodes.len() > 1 {
        let _ = writeln!(text, "automatic NUMA balancing: {}", balancing(memory));
    }
    text
}

/// What the setting means for tables.
fn balancing(memory: &NumaMemory) -> &'static str {
    match memory.balancing() {
        Some(true) => {
            "on: the kernel unmaps pages to see which node uses them, which costs time, and moves some;\n  \
             tables whose memory was placed (MemoryPolicy::on) keep their policy and are left alone"
        }
        Some(false) => "off: the kernel moves no page by itself",
        None => "not there: the kernel moves no page by itself",
    }
}

/// Bytes as GiB with a decimal, or as MiB below one.
pub(super) fn size(bytes: u64) -> String {
    let gib = bytes as f64 / f64::from(1 << 30);
    if gib < 1.0 {
        return format!("{} MiB", bytes >> 20);
    }
    let gib = format!("{gib:.1}");
    format!("{} GiB", gib.trim_end_matches(".0"))
}

/// The form that programs read; its fields are a promise.
#[derive(Serialize)]
pub(super) struct Json {
    node: u32,
    total_bytes: u64,
    free_bytes: u64,
}

impl Json {
    pub(super) fn of(memory: &NumaMemory) -> Vec<Self> {
        let nodes = memory.nodes().iter();
        let each = nodes.map(|node| Self {
            node: node.node,
            total_bytes: node.total_bytes,
            free_bytes: node.free_bytes,
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_the_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 MiB"),
            (16 << 20, "16 MiB"),
            (1 << 30, "1 GiB"),
            (2560 << 20, "2.5 GiB"),
            (24_683_656 << 10, "23.5 GiB"),
            (1 << 40, "1024 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn a_machine_that_is_made_up_has_no_memory() {
        let memory = of(&Topology::uniform(2, 4, 0));
        assert_eq!(memory, NumaMemory::default());
        assert_eq!(lines(&memory), "");
    }
}
