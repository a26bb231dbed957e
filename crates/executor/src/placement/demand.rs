//! What tables asked of the workers since the balancer last looked: time and bytes of what was served, and the time
//! that what was refused or expired in a queue would have taken.

use std::time::Duration;

use chiplet_policy::{TableId, Usage};
use rustc_hash::FxHashMap;

use crate::engine::Engine;
use crate::engine::stats::Used;

/// A mean follows a new measurement by this part of the difference: steady against one odd query, quick enough for a
/// table whose queries change.
const FOLLOW: f64 = 0.25;

/// What each table used since the last call, in time of the fastest cores, and of each worker, the time it has been busy
/// in all and the bytes since the last call.
pub(super) fn drain(engine: &Engine) -> (FxHashMap<TableId, Used>, Vec<(Duration, u64)>) {
    let mut tables: FxHashMap<TableId, Used> = FxHashMap::default();
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
    pub(super) fn add_to(&mut self, tables: &mut FxHashMap<TableId, Used>, engine: &Engine) {
        self.in_vain.resize(engine.hub.groups(), 0);
        for (group, in_vain) in self.in_vain.iter_mut().enumerate() {
            let inbox = engine.hub.inbox(group).lock();
            let before = std::mem::replace(in_vain, inbox.queue.in_vain());
            if before == *in_vain {
                continue;
            }
            // A table may stand in the list once for each class.
            let mut now: FxHashMap<TableId, u64> = FxHashMap::default();
            for (table, intake) in inbox.queue.intake() {
                if intake.shed + intake.expired > 0 {
                    *now.entry(table).or_default() += intake.shed + intake.expired;
                }
            }
            drop(inbox);
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

/// Mean core time of each table's queries, in nanoseconds. It is counted from all cores that work for a query, so it
/// holds for queries that are cut and for parts of batches too.
#[derive(Default)]
pub(super) struct Costs(FxHashMap<TableId, f64>);

impl Costs {
    /// The load of what was used and missed. Nothing is known of a table until its first query has ended.
    pub(super) fn usage(&mut self, table: TableId, used: Used) -> Usage {
        let cost = self.0.entry(table).or_default();
        if used.ran > 0 {
            let fresh = used.busy.as_nanos() as f64 / used.ran as f64;
            let known = if *cost > 0.0 { *cost } else { fresh };
            *cost = known + (fresh - known) * FOLLOW;
        }
        let missed = Duration::from_nanos((used.missed as f64 * *cost) as u64);
        Usage {
            busy: used.busy + missed,
            bytes: used.bytes,
        }
    }

    pub(super) fn forget(&mut self, table: TableId) {
        self.0.remove(&table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(busy: u64, ran: u64, missed: u64) -> Used {
        Used {
            busy: Duration::from_millis(busy),
            ran,
            missed,
            ..Used::default()
        }
    }

    #[test]
    fn what_was_missed_counts_as_much_as_what_ran() {
        let (mut costs, table) = (Costs::default(), TableId::default());
        let millis = |usage: Usage| usage.busy.as_millis();
        // Nobody knows yet what they cost.
        assert_eq!(millis(costs.usage(table, used(0, 0, 5))), 0);
        assert_eq!(millis(costs.usage(table, used(20, 10, 0))), 20);
        assert_eq!(millis(costs.usage(table, used(20, 10, 30))), 80);
        // Long queries, none of which has ended meanwhile.
        assert_eq!(millis(costs.usage(table, used(0, 0, 7))), 14);
        costs.forget(table);
        assert_eq!(millis(costs.usage(table, used(0, 0, 7))), 0);
    }
}
