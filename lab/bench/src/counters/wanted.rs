//! Which events are opened on a processor. Nothing is opened here.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use chiplet_topology::parse_list;
use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Dynamic, Hardware, Raw};

use super::names::{CYCLES, INSTRUCTIONS, LLC_MISSES, STALLED};
use super::processor::{L3_PMU, Processor};

/// An event to open.
pub(super) struct Wanted {
    pub(super) name: &'static str,
    pub(super) unit: f64,
    pub(super) group: usize,
    pub(super) event: Builder<'static>,
}

/// What is worth counting on this processor.
pub(super) fn wanted(processor: Processor) -> Vec<Wanted> {
    let one = |name, event| Wanted {
        name,
        unit: 1.0,
        group: 0,
        event,
    };
    let mut wanted = vec![
        one(INSTRUCTIONS, Builder::new(Hardware::INSTRUCTIONS)),
        one(CYCLES, Builder::new(Hardware::CPU_CYCLES)),
    ];
    if processor == Processor::Other {
        // Not `Hardware::CACHE_MISSES`, which is some other cache's on several processors.
        let misses = Cache {
            which: CacheId::LL,
            operation: CacheOp::READ,
            result: CacheResult::MISS,
        };
        let stalls = Hardware::STALLED_CYCLES_BACKEND;
        wanted.push(one(LLC_MISSES, Builder::new(misses)));
        wanted.push(one(STALLED, Builder::new(stalls)));
    }
    wanted.extend(processor.stalls().map(|event| own(0, event)));
    for (group, events) in processor.sources().into_iter().enumerate() {
        wanted.extend(events.into_iter().map(|event| own(group + 1, event)));
    }
    wanted
}

/// One of the processor's own events.
fn own(group: usize, raw: super::processor::Raw) -> Wanted {
    Wanted {
        name: raw.name,
        unit: raw.unit,
        group,
        event: Builder::new(Raw::new(raw.config)),
    }
}

/// This machine's processor.
pub(super) fn processor() -> Processor {
    Processor::of(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// Instructions and cycles.
pub(super) fn progress(processor: Processor) -> Vec<Wanted> {
    wanted(processor).into_iter().take(2).collect()
}

/// What tells how a group uses memory.
pub(super) fn wanted_of_memory(processor: Processor) -> Vec<Wanted> {
    let mut wanted = progress(processor);
    wanted.extend(processor.memory().into_iter().map(|raw| own(0, raw)));
    wanted
}

/// The cpu of each L3 at which the kernel counts it; `None` without such counters.
pub(super) fn one_cpu_of_each_l3() -> Option<BTreeSet<u32>> {
    let path = format!("/sys/bus/event_source/devices/{L3_PMU}/cpumask");
    parse_list(fs::read_to_string(path).ok()?.trim()).ok()
}

/// An event of the L3's own counters: of all its slices and all cores, which is what the kernel takes where neither is
/// named (`arch/x86/events/amd/uncore.c`, `l3_thread_slice_mask`).
pub(super) fn l3_event(event: u16, mask: u8) -> io::Result<Builder<'static>> {
    let mut fields = Dynamic::builder(L3_PMU)?;
    fields
        .field("event", event.into())
        .map_err(io::Error::other)?;
    fields
        .field("umask", mask.into())
        .map_err(io::Error::other)?;
    Ok(Builder::new(fields.build().map_err(io::Error::other)?))
}
