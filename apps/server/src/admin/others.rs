//! The counters of the label `other`: what tables counted while they had no label of their own.
//!
//! Which tables have one changes with their traffic, so the sum over those that have none may fall, and a counter that
//! falls has begun anew for Prometheus. So growth is added up instead: from one scrape to the next, each table's goes
//! to its own label or to `other`.

use std::collections::HashMap;
use std::ops::AddAssign;

use chiplet::TableId;
use chiplet::snapshot::TableSnapshot;
use rustc_hash::FxBuildHasher;

/// What is counted of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) done: u64,
    pub(crate) shed: u64,
}

impl Counted {
    pub(crate) fn of(table: &TableSnapshot) -> Self {
        Self {
            done: table.counts.done,
            shed: table.counts.shed,
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            done: self.done.saturating_sub(before.done),
            shed: self.shed.saturating_sub(before.shed),
        }
    }
}

impl AddAssign for Counted {
    fn add_assign(&mut self, more: Self) {
        self.done += more.done;
        self.shed += more.shed;
    }
}

#[derive(Default)]
pub(crate) struct Others {
    sum: Counted,
    /// Each table's counts at the last scrape. Of a table that is removed, what it counted after that is lost.
    last: HashMap<TableId, Counted, FxBuildHasher>,
}

impl Others {
    /// Takes in a scrape: all tables, those with a label of their own and those without. Returns what `other` counts.
    pub(crate) fn scrape(
        &mut self,
        shown: impl Iterator<Item = (TableId, Counted)>,
        others: impl Iterator<Item = (TableId, Counted)>,
    ) -> Counted {
        let mut now: HashMap<_, _, _> = shown.collect();
        for (id, counted) in others {
            let before = self.last.get(&id).copied().unwrap_or_default();
            self.sum += counted.since(before);
            now.insert(id, counted);
        }
        self.last = now;
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table in the given slot.
    fn table(slot: u32, done: u64) -> (TableId, Counted) {
        let id = TableId {
            slot,
            ..TableId::default()
        };
        (
            id,
            Counted {
                done,
                shed: 2 * done,
            },
        )
    }

    fn scrape(others: &mut Others, shown: &[(u32, u64)], unlisted: &[(u32, u64)]) -> u64 {
        let sum = others.scrape(
            shown.iter().map(|&(slot, done)| table(slot, done)),
            unlisted.iter().map(|&(slot, done)| table(slot, done)),
        );
        assert_eq!(sum.shed, 2 * sum.done);
        sum.done
    }

    #[test]
    fn the_sum_never_falls_whichever_tables_are_shown() {
        let mut others = Others::default();
        let sums = [
            // The whole count of those that have no label at the first scrape.
            (scrape(&mut others, &[(0, 50)], &[(1, 20), (2, 10)]), 30),
            // One of them enters the busiest; what it counted on the way is on its own label.
            (scrape(&mut others, &[(1, 90)], &[(0, 50), (2, 11)]), 31),
            (scrape(&mut others, &[(1, 95)], &[(0, 53), (2, 11)]), 34),
            // And leaves them again.
            (scrape(&mut others, &[(0, 99)], &[(1, 96), (2, 11)]), 35),
            // Tables go away, shown or not, until none is left.
            (scrape(&mut others, &[(0, 99)], &[(2, 12)]), 36),
            (scrape(&mut others, &[(2, 13)], &[]), 36),
            (scrape(&mut others, &[], &[]), 36),
            // A new one.
            (scrape(&mut others, &[], &[(3, 4)]), 40),
        ];
        for (sum, expected) in sums {
            assert_eq!(sum, expected);
        }
        assert_eq!(others.last.len(), 1, "what is gone is forgotten");
    }
}
