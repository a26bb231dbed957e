//! Where each table lived while a pool was under load.

use std::time::Instant;

use super::super::pools::Pool;
use super::super::report::{Placed, PlacedTable, PlacementHistory};

/// Tables whose homes are drawn: more rows than this nobody reads.
const DRAWN_TABLES: usize = 24;

/// Homes over the time a pool was under load, pauses cut out.
pub(super) struct Followed {
    active: f64,
    homes: Vec<Vec<Placed>>,
}

impl Followed {
    /// Of a pool that places tables.
    pub(super) fn start(pool: &dyn Pool) -> Option<Self> {
        let homes = pool.homes()?.into_iter();
        Some(Self {
            active: 0.0,
            homes: homes
                .map(|domain| vec![Placed { at_s: 0.0, domain }])
                .collect(),
        })
    }

    /// Adds the moves of a round that began at `began` and took `lasted` seconds.
    pub(super) fn follow(
        &mut self,
        moves: Vec<(usize, Instant, u32)>,
        began: Instant,
        lasted: f64,
    ) {
        for (table, at, domain) in moves {
            let at = at
                .saturating_duration_since(began)
                .as_secs_f64()
                .min(lasted);
            self.homes[table].push(Placed {
                at_s: self.active + at,
                domain,
            });
        }
        self.active += lasted;
    }

    /// What the report draws, by each table's share of the queries.
    pub(super) fn history(
        &self,
        strategy: String,
        names: &[&str],
        shares: &[f64],
        domains: usize,
    ) -> PlacementHistory {
        let mut order: Vec<usize> = (0..names.len()).collect();
        order.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]).then(a.cmp(&b)));
        let tables = order.into_iter().take(DRAWN_TABLES);
        PlacementHistory {
            strategy,
            domains,
            length_s: self.active,
            tables: tables
                .map(|table| PlacedTable {
                    name: names[table].to_owned(),
                    share: shares[table],
                    homes: self.homes[table].clone(),
                })
                .collect(),
        }
    }
}
