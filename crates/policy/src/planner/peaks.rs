//! What tables have asked for at most, lately: where load alternates between tables, they are placed so that both sides
//! fit.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::mapper::Demand;
use crate::{TableId, Time};

/// In how many slow windows a peak halves. Two sets of six tables on 12 domains of 8 cores took turns of 30, 60 and 120
/// s; a table asked for 8 cores when it was its set's turn. The mean predicted wait of an hour, in service times, was
/// 0.4, 0.1 and 1.4 with one window, 2.6, 0.5 and 0.1 with two, 2.6, 2.6 and 0.6 with five, 7.7, 2.3 and 1.8 without
/// peaks, and 4.6 without any remap. With one, the side that is not at work is forgotten too early, and 19 remaps were
/// made instead of 8.
const HALF_LIFE: u32 = 2;

/// Cores below which a peak is none.
const FORGOTTEN: f64 = 0.001;

/// The most that each table has asked for in the fast window; what is long ago counts less.
#[derive(Clone, Debug)]
pub(super) struct Peaks {
    half_life: Duration,
    noted: Time,
    of: BTreeMap<TableId, f64>,
}

impl Peaks {
    pub(super) fn new(slow_window: Duration) -> Self {
        Self {
            half_life: slow_window.saturating_mul(HALF_LIFE),
            noted: Time::ZERO,
            of: BTreeMap::new(),
        }
    }

    /// Takes note of what is asked for `now`. Tables that are left out ask for nothing.
    pub(super) fn note(&mut self, now: Time, demands: &[Demand]) {
        let passed = now.since(self.noted).as_secs_f64();
        let keeps = 0.5_f64.powf(passed / self.half_life.as_secs_f64().max(1e-9));
        self.noted = now;
        self.of.values_mut().for_each(|peak| *peak *= keeps);
        for demand in demands.iter().filter(|demand| demand.load >= FORGOTTEN) {
            let peak = self.of.entry(demand.table).or_default();
            *peak = peak.max(demand.load);
        }
        self.of.retain(|_, peak| *peak >= FORGOTTEN);
    }

    /// The tables that have one, in id order.
    pub(super) fn tables(&self) -> impl Iterator<Item = TableId> + '_ {
        self.of.keys().copied()
    }

    pub(super) fn forget(&mut self, table: TableId) {
        self.of.remove(&table);
    }

    /// `demands` with the peaks for loads, where those are higher.
    pub(super) fn over(&self, demands: &[Demand]) -> Vec<Demand> {
        let peak = |table| self.of.get(&table).copied().unwrap_or(0.0);
        let raised = demands.iter().map(|demand| Demand {
            load: demand.load.max(peak(demand.table)),
            ..*demand
        });
        raised.collect()
    }
}
