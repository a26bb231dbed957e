//! What a queue counts of one table.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::TableId;

/// What a queue saw of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    /// Tasks taken in.
    pub accepted: u64,
    /// Tasks refused.
    pub shed: u64,
    /// Tasks that were cancelled in the queue, without a worker.
    pub cancelled: u64,
    /// Tasks that expired in the queue.
    pub expired: u64,
    /// Tasks that were taken out to be ended without a worker, and are not counted as ended yet.
    pub leaving: u64,
    /// Nanoseconds that what was refused, or not begun because of its deadline, would have taken of its domain. Begins
    /// anew at 2^64.
    pub in_vain: u64,
}

impl Intake {
    /// Adds another table's counts.
    pub fn absorb(&mut self, other: Intake) {
        self.accepted += other.accepted;
        self.shed += other.shed;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.leaving += other.leaving;
        self.in_vain = self.in_vain.wrapping_add(other.in_vain);
    }
}

/// What tables asked for in vain of several queues, as it was last told.
#[derive(Debug, Default)]
pub struct InVain(FxHashMap<(usize, TableId), u64>);

impl InVain {
    /// The time that each table asked for in vain of the queue with this number since its counts were told before. A
    /// table may stand among them more than once.
    pub fn since(
        &mut self,
        queue: usize,
        counts: impl IntoIterator<Item = (TableId, Intake, u64)>,
    ) -> FxHashMap<TableId, Duration> {
        let mut now: FxHashMap<TableId, u64> = FxHashMap::default();
        for (table, intake, _) in counts {
            if intake.in_vain > 0 {
                let now = now.entry(table).or_default();
                *now = now.wrapping_add(intake.in_vain);
            }
        }
        let fresh = now.into_iter().map(|(table, now)| {
            let before = self.0.insert((queue, table), now).unwrap_or(0);
            (table, Duration::from_nanos(now.saturating_sub(before)))
        });
        fresh.filter(|(_, time)| !time.is_zero()).collect()
    }

    /// Forgets a table.
    pub fn forget(&mut self, table: TableId) {
        self.0.retain(|&(_, known), _| known != table);
    }
}
