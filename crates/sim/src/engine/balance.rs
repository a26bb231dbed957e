//! Placement: what tables used goes to the planner once a tick, and what it decides becomes their homes.

use std::time::Duration;

use chiplet_policy::{DomainSpec, Homes, Planner, Routing, Usage};
use chiplet_workload::traffic::Traffic;

use super::{Engine, Event, Load, Scenario, table_id};
use crate::outcome::Moved;
use crate::workload::Plan;

/// Virtual seconds that the placement settles for before the run: a little longer than the slow window.
const SETTLING: u64 = 75;

/// A mean follows a new measurement by this part of the difference, as in the executor.
const FOLLOW: f64 = 0.25;

/// Of a domain's speed so much is kept at each tick, as in the executor.
const KEEP: f64 = 0.9;

/// Of fewer queries no table's own mean is taken.
const ENOUGH: u64 = 20;

/// What queries took in a pilot run.
pub(super) struct Means {
    /// Nanoseconds and number of each table's queries.
    taken: Vec<(u64, u64)>,
    /// How many times what computing takes.
    factor: f64,
}

impl Means {
    /// Seconds of a table's mean query, whose computing takes so many.
    fn seconds(&self, table: usize, computing: f64) -> f64 {
        match self.taken[table] {
            (nanos, ran) if ran >= ENOUGH => nanos as f64 / ran as f64 / 1e9,
            _ => computing * self.factor,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Used {
    busy: u64,
    bytes: u64,
    ran: u64,
    missed: u64,
}

pub(super) struct Balancer {
    planner: Planner,
    /// When the run began, in the planner's time.
    offset: Duration,
    tables: Vec<Used>,
    /// Mean nanoseconds of each table's queries.
    costs: Vec<f64>,
    domain_of: Vec<usize>,
    workers: Vec<usize>,
    /// Bytes and nanoseconds of each domain's workers since the last tick, and faded.
    fresh: Vec<(f64, f64)>,
    speed: Vec<(f64, f64)>,
    pub(super) remaps: Vec<Moved>,
    /// What all queries of each table took, for [`Balancer::means`].
    taken: Vec<(u64, u64)>,
    /// Each table's size.
    pub(super) bytes: Vec<u64>,
    /// Each domain's cache.
    pub(super) caches: Vec<u64>,
}

impl Balancer {
    pub(super) fn new(scenario: &Scenario<'_>) -> Self {
        let domains = scenario.machine.topology.domains();
        let specs = domains.iter().map(|domain| DomainSpec {
            cache_bytes: domain.cache_bytes,
            node: domain.node,
            package: domain.package,
            ..DomainSpec::new(domain.id, domain.cores.len() as u32)
        });
        let mut config = scenario.settings.planner;
        config.mapper.placing = scenario.strategy.placing;
        let workers: Vec<usize> = domains.iter().map(|domain| domain.cores.len()).collect();
        let domain_of = workers.iter().enumerate();
        let domain_of = domain_of.flat_map(|(domain, &cores)| std::iter::repeat_n(domain, cores));
        let tables = scenario.prepared.plans.len();
        Self {
            planner: Planner::new(config, specs.collect()),
            offset: Duration::ZERO,
            tables: vec![Used::default(); tables],
            costs: vec![0.0; tables],
            domain_of: domain_of.collect(),
            fresh: vec![(0.0, 0.0); workers.len()],
            speed: vec![(0.0, 0.0); workers.len()],
            workers,
            remaps: Vec::new(),
            taken: vec![(0, 0); tables],
            bytes: scenario
                .prepared
                .workload
                .tables
                .iter()
                .map(|table| table.bytes())
                .collect(),
            caches: domains.iter().map(|domain| domain.cache_bytes).collect(),
        }
    }

    /// Places all tables, and lets the placement settle on service times that a pilot run has measured, if there are any.
    pub(super) fn place(
        &mut self,
        scenario: &Scenario<'_>,
        traffic: &Traffic,
        means: Option<&Means>,
    ) -> Vec<Homes> {
        let prepared = scenario.prepared;
        let (machine, domains) = (scenario.machine, scenario.machine.topology.domains());
        for (slot, table) in prepared.workload.tables.iter().enumerate() {
            let holder = machine.holder(slot);
            let node = domains
                .iter()
                .find(|domain| domain.package as usize == holder);
            let (id, bytes) = (table_id(slot as u32), table.bytes());
            let node = node.map(|domain| domain.node);
            self.planner.add_table_on(id, bytes, node);
        }
        if let Some(means) = means {
            self.settle(scenario, traffic, means);
        }
        let placement = self.planner.placement();
        let homes = |slot| placement.homes(table_id(slot)).cloned();
        (0..prepared.plans.len() as u32)
            .map(|slot| homes(slot).expect("every table has been added"))
            .collect()
    }

    /// Feeds the planner the loads that are to come.
    fn settle(&mut self, scenario: &Scenario<'_>, traffic: &Traffic, means: &Means) {
        let prepared = scenario.prepared;
        let shares = traffic.table_shares(Duration::ZERO);
        let shares = shares.expect("a recipe's values are checked");
        let plans = prepared.plans.iter().enumerate();
        let costs: Vec<(f64, f64)> = plans
            .map(|(table, plan)| {
                let (computing, bytes) = computing(scenario, plan);
                (means.seconds(table, computing), bytes)
            })
            .collect();
        let mean: f64 = shares
            .iter()
            .zip(&costs)
            .map(|(share, cost)| share * cost.0)
            .sum();
        let cores = self.domain_of.len() as f64;
        let rate = match scenario.load {
            Load::Open { rate } => rate.min(cores / mean),
            Load::Saturated { .. } => cores / mean,
        };
        for second in 1..=SETTLING {
            let now = Duration::from_secs(second);
            for (slot, (share, &(busy, bytes))) in shares.iter().zip(&costs).enumerate() {
                let queries = rate * share;
                let usage = Usage {
                    busy: Duration::from_nanos((queries * busy * 1e9) as u64),
                    bytes: (queries * bytes) as u64,
                };
                self.planner.record(table_id(slot as u32), now, usage);
            }
            let _ = self.planner.tick(now, &[]);
        }
        self.offset = Duration::from_secs(SETTLING);
    }

    pub(super) fn used(&mut self, table: usize, worker: usize, nanos: u64) {
        self.tables[table].busy += nanos;
        self.taken[table].0 += nanos;
        self.fresh[self.domain_of[worker]].1 += nanos as f64;
    }

    /// What each table's queries took on average.
    pub(super) fn means(&self, scenario: &Scenario<'_>) -> Means {
        let plans = scenario.prepared.plans.iter().zip(&self.taken);
        let (mut all, mut computed) = (0.0, 0.0);
        for (plan, &(nanos, ran)) in plans {
            all += nanos as f64 / 1e9;
            computed += ran as f64 * computing(scenario, plan).0;
        }
        Means {
            taken: self.taken.clone(),
            factor: if computed > 0.0 { all / computed } else { 1.0 },
        }
    }

    pub(super) fn pulled(&mut self, table: usize, worker: usize, bytes: u64) {
        self.tables[table].bytes += bytes;
        self.fresh[self.domain_of[worker]].0 += bytes as f64;
    }

    pub(super) fn ran(&mut self, table: usize) {
        self.tables[table].ran += 1;
        self.taken[table].1 += 1;
    }

    pub(super) fn missed(&mut self, table: usize) {
        self.tables[table].missed += 1;
    }

    /// What each domain could pull, in bytes a second.
    fn capacities(&mut self) -> Vec<Option<f64>> {
        let domains = self
            .speed
            .iter_mut()
            .zip(&mut self.fresh)
            .zip(&self.workers);
        let each = domains.map(|((speed, fresh), &workers)| {
            let (bytes, nanos) = std::mem::take(fresh);
            *speed = (speed.0 * KEEP + bytes, speed.1 * KEEP + nanos / 1e9);
            (speed.1 > 0.001 && speed.0 > 0.0).then(|| speed.0 / speed.1 * workers as f64)
        });
        each.collect()
    }
}

/// Seconds of computing and bytes of a table's mean query.
fn computing(scenario: &Scenario<'_>, plan: &Plan) -> (f64, f64) {
    let compute = &scenario.compute;
    match *plan {
        Plan::Graph {
            scale,
            row_bytes,
            link_bytes,
            dim,
            ..
        } => {
            let counts = &scenario.prepared.scale(scale).counts;
            let all: u64 = counts.iter().map(|&(rows, _)| u64::from(rows)).sum();
            let rows = all as f64 / counts.len() as f64;
            let seconds = 1e-9 * rows * compute.row(dim);
            (seconds, rows * f64::from(row_bytes + link_bytes / 2))
        }
        Plan::Lists {
            shape,
            centroid_bytes,
        } => {
            let rows = shape.rows as f64 * shape.probes as f64 / shape.lists as f64;
            let bytes = rows * shape.row_bytes as f64 + centroid_bytes as f64;
            (1e-9 * bytes / compute.scan_gbs, bytes)
        }
        #[cfg(test)]
        Plan::Task { nanos, .. } => (nanos / 1e9, 0.0),
    }
}

impl Engine<'_> {
    pub(super) fn tick(&mut self) {
        let tick = self.scenario.settings.tick;
        self.at(self.now + tick.as_nanos() as u64, Event::Tick);
        let now = self.balancer.offset + Duration::from_nanos(self.now);
        let balancer = &mut self.balancer;
        for (slot, used) in balancer.tables.iter_mut().enumerate() {
            let used = std::mem::take(used);
            let cost = &mut balancer.costs[slot];
            if used.ran > 0 {
                let fresh = used.busy as f64 / used.ran as f64;
                let known = if *cost > 0.0 { *cost } else { fresh };
                *cost = known + (fresh - known) * FOLLOW;
            }
            if used.busy + used.bytes + used.missed == 0 {
                continue;
            }
            let missed = (used.missed as f64 * *cost) as u64;
            let usage = Usage {
                busy: Duration::from_nanos(used.busy + missed),
                bytes: used.bytes,
            };
            balancer.planner.record(table_id(slot as u32), now, usage);
        }
        let capacities = balancer.capacities();
        if self.scenario.strategy.routing == Routing::Rotate {
            return;
        }
        let Some(remap) = self.balancer.planner.tick(now, &capacities) else {
            return;
        };
        let moved = remap.moves.len();
        for change in remap.moves {
            if let Some(to) = change.to {
                self.homes[change.table.slot as usize] = to;
            }
        }
        self.balancer.remaps.push(Moved {
            at: self.now as f64 / 1e9,
            tables: moved,
            cold_bytes: remap.cold_bytes,
            reason: remap.reason.to_string(),
        });
    }
}
