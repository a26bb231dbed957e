//! What tables asked of the workers since the balancer last looked: time and bytes of what was served, and the time
//! that what was refused or expired in a queue would have taken.

use std::time::Duration;

use chiplet_policy::{TableId, TableUsage};
use rustc_hash::FxHashMap;

use crate::engine::Engine;

/// What each table used since the last call, in time of the fastest cores, and of each worker, the time it has been busy
/// in all and the bytes since the last call.
pub(super) fn drain(engine: &Engine) -> (FxHashMap<TableId, TableUsage>, Vec<(Duration, u64)>) {
    let mut tables: FxHashMap<TableId, TableUsage> = FxHashMap::default();
    let worked = engine.stats.drain_used(|domain, table, mut used| {
        let speed = engine.topology.domains()[domain.0 as usize].speed();
        if speed < 1.0 {
            used.busy = used.busy.mul_f64(speed);
        }
        tables.entry(table).or_default().absorb(used);
    });
    (tables, worked)
}

/// What was refused or expired in the queues when last asked. The queues count it, who may have no memory to count
/// anything apart for us.
#[derive(Default)]
pub(super) struct Missed {
    /// For each group.
    in_vain: Vec<u64>,
    /// For each group and table.
    seen: FxHashMap<(usize, TableId), u64>,
}

impl Missed {
    /// Adds to `tables` what each asked for in vain since the last call.
    pub(super) fn add_to(&mut self, tables: &mut FxHashMap<TableId, TableUsage>, engine: &Engine) {
        self.in_vain.resize(engine.hub.groups.count(), 0);
        for (group, in_vain) in self.in_vain.iter_mut().enumerate() {
            let groups = &engine.hub.groups;
            let before = std::mem::replace(in_vain, groups.lock(group).queue.in_vain());
            if before == *in_vain {
                continue;
            }
            // A table may stand in the list once for each class.
            let mut now: FxHashMap<TableId, u64> = FxHashMap::default();
            for (table, intake, _) in groups.intake(group) {
                if intake.shed + intake.expired > 0 {
                    *now.entry(table).or_default() += intake.shed + intake.expired;
                }
            }
            for (table, now) in now {
                let before = self.seen.insert((group, table), now).unwrap_or(0);
                if now > before {
                    tables.entry(table).or_default().missed += now - before;
                }
            }
        }
    }

    pub(super) fn forget(&mut self, table: TableId) {
        self.seen.retain(|&(_, known), _| known != table);
    }
}
