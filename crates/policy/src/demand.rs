//! What a table asks for, and what a domain can serve, from what workers have measured.

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::{TableId, Usage};

/// A mean follows a new measurement by this part of the difference: steady against one odd query, quick enough for a
/// table whose queries change.
const FOLLOW: f64 = 0.25;

/// What the queries of one table used in some time, and how many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableUsage {
    /// Time that cores were busy with them.
    pub busy: Duration,
    /// Bytes that they read.
    pub bytes: u64,
    /// Queries that were run to whatever end.
    pub ran: u64,
    /// Queries that were refused or that expired before they could start: what the table asked for in vain.
    pub missed: u64,
}

impl TableUsage {
    /// Adds `bytes` that were read, and time for which a core was `busy`.
    pub fn use_more(&mut self, bytes: u64, busy: Duration) {
        self.bytes += bytes;
        self.busy += busy;
    }

    /// Adds what others used.
    pub fn absorb(&mut self, other: Self) {
        self.busy += other.busy;
        self.bytes += other.bytes;
        self.ran += other.ran;
        self.missed += other.missed;
    }
}

/// Mean core time of each table's queries, in nanoseconds. It is counted from all cores that work for a query, so it
/// holds for queries that are cut and for parts of batches too.
///
/// ```
/// use std::time::Duration;
/// use chiplet_policy::{Costs, TableId, TableUsage};
///
/// let (mut costs, table) = (Costs::default(), TableId::default());
/// let busy = Duration::from_millis(20);
/// let used = TableUsage { busy, ran: 10, missed: 30, ..TableUsage::default() };
/// // What was missed counts as much as what ran: 2 ms each.
/// assert_eq!(costs.usage(table, used).busy, Duration::from_millis(80));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Costs(FxHashMap<TableId, f64>);

impl Costs {
    /// What a table asks for: what it used, and what it missed would have taken. Nothing is known of that until its
    /// first query has ended.
    pub fn usage(&mut self, table: TableId, used: TableUsage) -> Usage {
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

    /// Drops what is known of `table`.
    pub fn forget(&mut self, table: TableId) {
        self.0.remove(&table);
    }
}

/// How fast one busy worker of a domain reads, as measured lately.
///
/// ```
/// use chiplet_policy::Speed;
///
/// let mut speed = Speed::default();
/// assert_eq!(speed.per_worker(), None);
/// speed.add(3e9, 2.0);
/// assert_eq!(speed.per_worker(), Some(1.5e9));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Speed {
    bytes: f64,
    seconds: f64,
}

impl Speed {
    /// What each tick leaves of what was known: half is left after about seven. Steady against one odd tick, quick to follow
    /// a new mix of tables.
    const KEEP: f64 = 0.9;

    /// Busy seconds below which nothing is told.
    const ENOUGH: f64 = 0.001;

    /// Workers that were busy for so many seconds since the last tick have read so many bytes.
    pub fn add(&mut self, bytes: f64, seconds: f64) {
        self.bytes = self.bytes * Self::KEEP + bytes;
        self.seconds = self.seconds * Self::KEEP + seconds;
    }

    /// Bytes per second of one busy worker, once there is enough to tell.
    pub fn per_worker(&self) -> Option<f64> {
        let known = self.seconds > Self::ENOUGH && self.bytes > 0.0;
        known.then(|| self.bytes / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(busy: u64, ran: u64, missed: u64) -> TableUsage {
        TableUsage {
            busy: Duration::from_millis(busy),
            ran,
            missed,
            ..TableUsage::default()
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
