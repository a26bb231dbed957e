//! What happened between two snapshots.

use super::{DomainSnapshot, Snapshot, TableSnapshot};

impl Snapshot {
    /// What was counted since `earlier`, an older snapshot of the same executor: for exporters that report an interval,
    /// and for percentiles that recover after a bad minute.
    ///
    /// Values that only grow are differences: every count of tasks that were accepted, refused or ended, steals, busy
    /// time, remaps, copies, and the histograms. Momentary values are as in `self`: tasks queued and running, workers,
    /// homes, memory, load and traffic. So `accepted` is not the sum of the others here. A table or domain that
    /// `earlier` does not have counts from nothing, and one that was removed is left out, though the totals have its
    /// tasks.
    ///
    /// ```
    /// use chiplet_executor::{Executor, Topology};
    ///
    /// let executor = Executor::builder().topology(Topology::uniform(1, 2, 32 << 20)).build()?;
    /// let table = executor.add_closure_table("songs", 1 << 20);
    /// executor.spawn(table, || ()).wait()?;
    /// let before = executor.snapshot();
    /// executor.spawn(table, || ()).wait()?;
    /// let interval = executor.snapshot().since(&before);
    /// assert_eq!(interval.total.accepted, 1);
    /// assert_eq!(interval.tables[0].wait.count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let table = |now: &TableSnapshot| {
            // In order of their ids.
            let tables = &earlier.tables;
            match tables.binary_search_by_key(&now.id, |table| table.id) {
                Ok(at) => now.since(&tables[at]),
                Err(_) => now.clone(),
            }
        };
        let domain = |now: &DomainSnapshot| {
            let before = earlier.domains.iter().find(|domain| domain.id == now.id);
            before.map_or_else(|| now.clone(), |before| now.since(before))
        };
        Snapshot {
            tables: self.tables.iter().map(table).collect(),
            domains: self.domains.iter().map(domain).collect(),
            total: self.total.since(earlier.total),
            steals: self.steals.since(earlier.steals),
            remaps: self.remaps.saturating_sub(earlier.remaps),
            copied_tables: self.copied_tables.saturating_sub(earlier.copied_tables),
            copied_bytes: self.copied_bytes.saturating_sub(earlier.copied_bytes),
            placement: self.placement.clone(),
        }
    }
}

impl TableSnapshot {
    fn since(&self, earlier: &TableSnapshot) -> TableSnapshot {
        TableSnapshot {
            counts: self.counts.since(earlier.counts),
            wait: self.wait.since(&earlier.wait),
            service: self.service.since(&earlier.service),
            id: self.id,
            name: self.name.clone(),
            homes: self.homes.clone(),
            memory: self.memory.clone(),
            ..*self
        }
    }
}

impl DomainSnapshot {
    fn since(&self, earlier: &DomainSnapshot) -> DomainSnapshot {
        DomainSnapshot {
            shed: self.shed.saturating_sub(earlier.shed),
            done: self.done.saturating_sub(earlier.done),
            expired: self.expired.saturating_sub(earlier.expired),
            cancelled: self.cancelled.saturating_sub(earlier.cancelled),
            panicked: self.panicked.saturating_sub(earlier.panicked),
            steals: self.steals.since(earlier.steals),
            busy: self.busy.saturating_sub(earlier.busy),
            wait: self.wait.since(&earlier.wait),
            service: self.service.since(&earlier.service),
            ..*self
        }
    }
}
