//! What tables asked of the workers since the balancer last looked: time and bytes of what was served, and the time
//! that what was refused or expired in a queue would have taken.

use std::time::Duration;

use chiplet_policy::queue::InVain;
use chiplet_policy::{TableId, Usage};
use chiplet_topology::DomainId;
use rustc_hash::FxHashMap;

use crate::engine::Engine;

/// What each table used since the last call, in time of the fastest cores.
pub(super) fn drain(engine: &Engine) -> FxHashMap<TableId, Usage> {
    let mut tables: FxHashMap<TableId, Usage> = FxHashMap::default();
    for group in 0..engine.scheduler.groups.count() {
        let domain = engine.scheduler.layout.domain_of(group);
        engine.stats.drain_used(group, |table, mut used| {
            used.busy = of_fastest(engine, domain, used.busy);
            *tables.entry(table).or_default() += used;
        });
    }
    tables
}

/// So much time of a core of `domain`, in time of the fastest cores.
fn of_fastest(engine: &Engine, domain: DomainId, time: Duration) -> Duration {
    match engine.topology.domains()[domain.0 as usize].speed() {
        speed if speed < 1.0 => time.mul_f64(speed),
        _ => time,
    }
}

/// What was asked for in vain in the queues when last asked, in nanoseconds. The queues count it, who may have no
/// memory to count anything apart for us.
#[derive(Default)]
pub(super) struct Missed {
    /// For each group.
    in_vain: Vec<u64>,
    /// For each group and table.
    seen: InVain,
}

impl Missed {
    /// Adds to `tables` what each asked for in vain since the last call.
    pub(super) fn add_to(&mut self, tables: &mut FxHashMap<TableId, Usage>, engine: &Engine) {
        self.in_vain.resize(engine.scheduler.groups.count(), 0);
        for (group, in_vain) in self.in_vain.iter_mut().enumerate() {
            let groups = &engine.scheduler.groups;
            let before = std::mem::replace(in_vain, groups.lock(group).queue.in_vain());
            if before == *in_vain {
                continue;
            }
            let domain = engine.scheduler.layout.domain_of(group);
            for (table, time) in self.seen.since(group, groups.intake(group)) {
                tables.entry(table).or_default().busy += of_fastest(engine, domain, time);
            }
        }
    }

    pub(super) fn forget(&mut self, table: TableId) {
        self.seen.forget(table);
    }
}
