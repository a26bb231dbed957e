//! What all lives came to.

use std::fmt;

use chiplet::snapshot::{Counts, Snapshot, Steals};

use crate::common::load::Tables;

const MIB: u64 = 1 << 20;

#[derive(Default)]
pub struct Ledger {
    total: Counts,
    steals: Steals,
    remaps: u64,
    tables: Tables,
    /// Threads before and after each life.
    threads: Vec<(usize, usize)>,
    /// Resident bytes after each life.
    resident: Vec<u64>,
}

impl Ledger {
    /// Adds a life that has ended.
    pub fn add(&mut self, snapshot: &Snapshot, tables: Tables) {
        self.total.absorb(snapshot.total);
        self.steals.own += snapshot.steals.own;
        self.steals.domain += snapshot.steals.domain;
        self.steals.remote += snapshot.steals.remote;
        self.steals.rebalanced += snapshot.steals.rebalanced;
        self.steals.overflow += snapshot.steals.overflow;
        self.remaps += snapshot.remaps;
        self.tables.added += tables.added;
        self.tables.removed += tables.removed;
        self.tables.checked += tables.checked;
    }

    /// Notes what is left between two lives.
    pub fn rest(&mut self, before: usize, after: usize, resident: u64) {
        self.threads.push((before, after));
        self.resident.push(resident);
    }

    pub fn accepted(&self) -> u64 {
        self.total.accepted
    }

    /// One line on the way.
    pub fn brief(&self) -> String {
        format!(
            "{:.1} M tasks, {} lives, {} remaps, {} MiB resident",
            self.total.accepted as f64 / 1e6,
            self.threads.len(),
            self.remaps,
            self.resident.last().unwrap_or(&0) / MIB
        )
    }

    /// A load that never panics, overflows or remaps would prove little.
    pub fn check_every_kind(&self) {
        let total = &self.total;
        for (what, count) in [
            ("done", total.done),
            ("cancelled", total.cancelled),
            ("expired", total.expired),
            ("panicked", total.panicked),
            ("shed", total.shed),
            ("remaps", self.remaps),
            ("stolen in the domain", self.steals.domain),
            ("stolen from afar", self.steals.remote),
            (
                "moved at their submit",
                self.steals.rebalanced + self.steals.overflow,
            ),
            ("removed tables", self.tables.removed),
            ("removed tables checked by themselves", self.tables.checked),
        ] {
            assert!(count > 0, "no {what} in the whole run");
        }
        assert_eq!(total.ended(), total.accepted);
        assert_eq!(self.threads.first(), self.threads.last(), "threads");
    }

    /// Memory may settle in the first quarter of the lives; after that it is flat, but for a tenth and for what the
    /// allocator has not given back: glibc keeps up to eight arenas a core, and each life's threads fill others.
    /// `CHIPLET_SOAK_SLACK_MIB` allows more under a sanitizer, which keeps freed memory back and looks for leaks
    /// itself.
    pub fn check_memory(&self) {
        let quarter = self.resident.len() / 4;
        assert!(quarter > 0, "too few lives to compare");
        let median = |part: &[u64]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part[part.len() / 2]
        };
        let early = median(&self.resident[quarter..2 * quarter]);
        let late = median(&self.resident[self.resident.len() - quarter..]);
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let slack = std::env::var("CHIPLET_SOAK_SLACK_MIB").map_or(8 * cores.max(2), |mib| {
            mib.parse()
                .expect("CHIPLET_SOAK_SLACK_MIB is a whole number")
        });
        let most = early + early / 10 + slack * MIB;
        assert!(
            late <= most,
            "memory grows: from {early} to {late} bytes; {self}"
        );
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = &self.total;
        let threads = |side: fn(&(usize, usize)) -> usize| {
            let counts = self.threads.iter().map(side);
            format!(
                "{}-{}",
                counts.clone().min().unwrap_or(0),
                counts.max().unwrap_or(0)
            )
        };
        // Twelve points, evenly spread, the last one included.
        let count = self.resident.len();
        let points =
            (1..=12.min(count)).map(|point| self.resident[count * point / 12.min(count) - 1]);
        let resident: Vec<String> = points.map(|bytes| (bytes / MIB).to_string()).collect();
        let rows = [
            ("accepted", total.accepted.to_string()),
            ("done", total.done.to_string()),
            ("cancelled", total.cancelled.to_string()),
            ("expired", total.expired.to_string()),
            ("panicked", total.panicked.to_string()),
            ("shed (not accepted)", total.shed.to_string()),
            ("steals own/domain/remote", {
                format!(
                    "{}/{}/{}",
                    self.steals.own, self.steals.domain, self.steals.remote
                )
            }),
            ("moved at submit: rebalanced/overflow", {
                format!("{}/{}", self.steals.rebalanced, self.steals.overflow)
            }),
            ("remaps", self.remaps.to_string()),
            (
                "tables added/removed",
                format!("{}/{}", self.tables.added, self.tables.removed),
            ),
            ("  checked one by one", self.tables.checked.to_string()),
            ("lives", self.threads.len().to_string()),
            ("threads before/after", {
                format!("{}/{}", threads(|both| both.0), threads(|both| both.1))
            }),
            ("resident MiB over time", resident.join(" ")),
        ];
        for (what, figure) in rows {
            writeln!(f, "  {what:<26}{figure}")?;
        }
        Ok(())
    }
}
