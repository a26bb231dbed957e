//! How large the tables are where the user does not say, and what tables of some size can show on a machine.
//!
//! A pool that knows no domains loses where its caches forget what placement would keep. So tables together have to
//! exceed one domain's cache, and to fit into all of them.

use chiplet_index::RowFormat;
use chiplet_topology::Topology;

use super::arguments::Arguments;

/// Tables of a machine whose caches are not known.
const TABLES: u32 = 8;
const ROWS: u32 = 1_500;

/// Tables for each domain, at least: with fewer there is little to place.
const TABLES_A_DOMAIN: u32 = 4;

/// How much of all caches the tables take together: queries, queues and code need some too.
const FILLED: f64 = 0.75;

/// Links of a graph's node: 32 on the ground at M = 16, and few above it.
const LINK_BYTES: usize = 136;

/// Bytes that drawn tables of these sizes take while they are built: their rows twice, and links; 0 where a file has
/// them.
pub(super) fn need(arguments: &Arguments) -> u64 {
    let row = 8 * u64::from(arguments.dims) + LINK_BYTES as u64;
    let rows = u64::from(
        arguments
            .rows
            .filter(|_| arguments.data == "synthetic")
            .unwrap_or(0),
    );
    rows * u64::from(arguments.tables()) * row
}

/// Numbers of tables, and of rows in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(super) tables: u32,
    pub(super) rows: u32,
}

/// The caches of a machine's domains, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caches {
    domains: usize,
    smallest: u64,
    all: u64,
}

impl Caches {
    pub(super) fn of(topology: &Topology) -> Self {
        let caches = topology.domains().iter().map(|domain| domain.cache_bytes);
        Self {
            domains: topology.domains().len(),
            smallest: caches.clone().min().unwrap_or(0),
            all: caches.sum(),
        }
    }

    /// Sizes that fill three quarters of all caches, with what the user has chosen.
    pub(super) fn fill(self, tables: Option<u32>, rows: Option<u32>, dims: u32) -> Sizes {
        let least = (self.domains as u32).saturating_mul(TABLES_A_DOMAIN);
        let tables = tables.unwrap_or(TABLES.max(least));
        let row = (RowFormat::F32.stride(dims as usize) + LINK_BYTES) as f64;
        let fitting = self.all as f64 * FILLED / f64::from(tables) / row;
        let rows = rows.unwrap_or(match self.smallest {
            0 => ROWS,
            _ => (fitting as u32).clamp(100, 1_000_000),
        });
        Sizes { tables, rows }
    }

    /// What the user asked for, with sizes where none were chosen.
    pub(super) fn sized(self, arguments: &Arguments) -> Arguments {
        let mut arguments = arguments.clone();
        if arguments.workload.is_none() {
            let sizes = self.fill(arguments.tables, arguments.rows, arguments.dims);
            arguments.tables = Some(sizes.tables);
            if arguments.data == "synthetic" {
                arguments.rows = Some(sizes.rows);
            }
        }
        arguments
    }

    /// What tables of `bytes` in all, the largest of `largest`, can show here.
    pub(super) fn verdict(self, bytes: u64, largest: u64) -> String {
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        if self.domains == 1 {
            return "One domain: there is nothing to place. What differs is what each pool costs, and runs of one table."
                .to_owned();
        }
        if self.smallest == 0 {
            return "The domains' caches are not known, so neither is whether the tables fit."
                .to_owned();
        }
        let each = mib(self.smallest);
        if bytes <= self.smallest {
            return format!(
                "All tables together ({}) fit one domain's cache ({each}). So every pool keeps them warm and placement \
                 cannot show: give larger --rows or more --tables.",
                mib(bytes)
            );
        }
        if largest > self.smallest {
            return format!(
                "A table ({}) exceeds its domain's cache ({each}). So no pool keeps it warm and placement shows little: \
                 give smaller --rows.",
                mib(largest)
            );
        }
        match bytes > self.all {
            true => format!(
                "The tables ({}) exceed all caches together ({}). Placement keeps some of them warm, no pool all.",
                mib(bytes),
                mib(self.all)
            ),
            false => format!(
                "The tables ({}) fit all caches together ({}) and not one of them ({each}): the sizes at which placement can \
                 gain most.",
                mib(bytes),
                mib(self.all)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caches(domains: u32, mib: u64) -> Caches {
        Caches::of(&Topology::uniform(domains, 8, mib << 20))
    }

    #[test]
    fn tables_fill_three_quarters_of_all_caches_and_are_four_for_each_domain() {
        let genoa = caches(12, 32);
        let sizes = genoa.fill(None, None, 64);
        assert_eq!(sizes.tables, 48);
        let each = u64::from(sizes.rows) * 392;
        let all = u64::from(sizes.tables) * each;
        assert!((280 << 20..290 << 20).contains(&all), "{all}");
        assert!(genoa.verdict(all, each).contains("placement can gain most"));
    }

    #[test]
    fn what_the_user_gives_wins() {
        let sizes = caches(12, 32).fill(Some(3), Some(500), 64);
        assert_eq!(
            sizes,
            Sizes {
                tables: 3,
                rows: 500
            }
        );
        assert_eq!(caches(2, 0).fill(None, None, 64).rows, ROWS);
    }

    #[test]
    fn the_verdict_says_what_cannot_be_seen() {
        let genoa = caches(12, 32);
        for (bytes, largest, said) in [
            (5 << 20, 1 << 20, "placement cannot show"),
            (100 << 20, 40 << 20, "exceeds its domain's cache"),
            (500 << 20, 10 << 20, "exceed all caches together"),
        ] {
            let verdict = genoa.verdict(bytes, largest);
            assert!(verdict.contains(said), "{verdict}");
        }
        assert!(caches(1, 32).verdict(1, 1).contains("nothing to place"));
        assert!(caches(2, 0).verdict(1, 1).contains("not known"));
    }
}
