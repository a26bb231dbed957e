//! Placement: what tables used goes to the planner once a tick, and what it decides becomes their homes.

use std::time::Duration;

use chiplet_policy::queue::{InVain, Queue};
use chiplet_policy::{DomainSpec, Homes, MemoryChange, Planner, Time, Usage};

use super::hardware::Holders;
use super::queries::table_id;
use super::scenario::{Load, Scenario};
use crate::outcome::Moved;
use crate::workload::Plan;

/// Virtual seconds that the placement settles for before the run: a little longer than the slow window.
const SETTLING: u64 = 75;

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

pub(super) struct Balancer {
    planner: Planner,
    /// When the run began, in the planner's time.
    offset: Duration,
    /// What each table has used since the last tick.
    usage: Vec<Usage>,
    in_vain: InVain,
    /// How many there are of both.
    domains: f64,
    cores: f64,
    pub(super) remaps: Vec<Moved>,
    /// Where each table lives.
    pub(super) homes: Vec<Homes>,
    /// Whose homes are not the planner's to change.
    fixed: Vec<bool>,
    /// What all queries of each table took, for [`Balancer::means`].
    taken: Vec<(u64, u64)>,
    /// The packages whose memory holds each table.
    pub(super) holders: Vec<Holders>,
}

impl Balancer {
    pub(super) fn new(scenario: &Scenario<'_>) -> Self {
        let domains = scenario.machine.topology.domains();
        let specs = domains.iter();
        let specs = specs.map(|domain| DomainSpec::of(domain, domain.cores.len() as u32));
        let config = scenario.strategy.planner(scenario.settings.planner);
        let cores: usize = domains.iter().map(|domain| domain.cores.len()).sum();
        let tables = &scenario.prepared.workload.tables;
        let mut planner = Planner::new(config, specs.collect());
        planner.set_memory_budget(scenario.settings.memory_budget);
        Self {
            planner,
            offset: Duration::ZERO,
            usage: vec![Usage::default(); tables.len()],
            in_vain: InVain::default(),
            domains: domains.len() as f64,
            cores: cores as f64,
            remaps: Vec::new(),
            homes: Vec::new(),
            fixed: Vec::new(),
            taken: vec![(0, 0); tables.len()],
            holders: match scenario.holders {
                Some(holders) => {
                    assert_eq!(holders.len(), tables.len(), "one holder a table");
                    holders.iter().map(|&holder| vec![holder]).collect()
                }
                None => (0..tables.len())
                    .map(|table| vec![scenario.machine.holder(table)])
                    .collect(),
            },
        }
    }

    /// Places all tables, and lets the placement settle on service times that a pilot run has measured, if there are
    /// any.
    pub(super) fn place(&mut self, scenario: &Scenario<'_>, shares: &[f64], means: Option<&Means>) {
        let domains = scenario.machine.topology.domains();
        let tables = &scenario.prepared.workload.tables;
        for ((slot, table), holders) in (0..).zip(tables).zip(&self.holders) {
            let holder = holders[0] as u32;
            self.planner
                .add_table_on(table_id(slot), table.bytes(), Some(holder));
        }
        if let Some(means) = means {
            self.settle(scenario, shares, means);
        }
        let placement = self.planner.placement();
        let asking = &scenario.prepared.workload.asking;
        for table in 0..tables.len() {
            let home = asking.home(table);
            let given = home.and_then(|home| domains.get(home));
            let planned = placement.homes(table_id(table as u32)).cloned();
            self.homes.push(match given {
                Some(domain) => Homes::single(domain.id),
                None => planned.expect("every table has been added"),
            });
            self.fixed.push(given.is_some());
        }
    }

    /// Feeds the planner the loads that are to come.
    fn settle(&mut self, scenario: &Scenario<'_>, shares: &[f64], means: &Means) {
        let prepared = scenario.prepared;
        // Seconds and bytes of each table's mean query.
        let costs = prepared.plans.iter().enumerate().map(|(table, plan)| {
            let (computing, bytes) = computing(scenario, plan);
            (means.seconds(table, computing), bytes)
        });
        let costs: Vec<(f64, f64)> = costs.collect();
        let mean: f64 = shares
            .iter()
            .zip(&costs)
            .map(|(share, cost)| share * cost.0)
            .sum();
        let cores = self.cores;
        let rate = match scenario.load {
            Load::Open { rate } => rate.min(cores / mean),
            Load::Saturated { .. } => cores / mean,
        };
        // Where nobody asks by the common stream there is no mean.
        let rate = if mean > 0.0 { rate } else { 0.0 };
        let asking = &prepared.workload.asking;
        let domain = cores / self.domains;
        let usage = shares.iter().zip(&costs).enumerate();
        let usage = usage.map(|(table, (share, &(seconds, bytes)))| {
            let own = asking.rate(table, seconds, domain);
            let of_all = |cost: f64| rate * (share * cost) + own * cost;
            Usage {
                busy: Duration::from_nanos((of_all(seconds) * 1e9) as u64),
                bytes: of_all(bytes) as u64,
            }
        });
        let usage: Vec<Usage> = usage.collect();
        for second in 1..=SETTLING {
            let now = Time::from_secs(second);
            for (table, &usage) in (0..).zip(&usage) {
                self.planner.record(table_id(table), now, usage);
            }
            let _ = self.planner.tick(now);
            self.copy_tables();
        }
        self.offset = Duration::from_secs(SETTLING);
    }

    /// Copies tables to where they are searched, as the planner says. It takes seconds, which have passed when the run
    /// begins; none is copied later, as a run is shorter than that.
    fn copy_tables(&mut self) {
        while let Some(step) = self.planner.next_memory_step() {
            self.planner.took(step, true);
            let held = &mut self.holders[step.table.slot as usize];
            let package = step.package as usize;
            match step.change {
                MemoryChange::Move => *held = vec![package],
                MemoryChange::Copy => held.push(package),
                MemoryChange::Drop => held.retain(|&other| other != package),
            }
        }
    }

    pub(super) fn used(&mut self, table: usize, nanos: u64) {
        self.usage[table].busy += Duration::from_nanos(nanos);
        self.taken[table].0 += nanos;
    }

    /// What each table's queries took on average.
    pub(super) fn means(&self, scenario: &Scenario<'_>) -> Means {
        let (mut all, mut computed) = (0.0, 0.0);
        for (plan, &(nanos, ran)) in scenario.prepared.plans.iter().zip(&self.taken) {
            all += nanos as f64 / 1e9;
            computed += ran as f64 * computing(scenario, plan).0;
        }
        Means {
            taken: self.taken.clone(),
            factor: if computed > 0.0 { all / computed } else { 1.0 },
        }
    }

    pub(super) fn pulled(&mut self, table: usize, bytes: u64) {
        self.usage[table].bytes += bytes;
    }

    pub(super) fn ran(&mut self, table: usize) {
        self.taken[table].1 += 1;
    }

    /// Takes note of what each table asked for in vain in a group's queue.
    pub(super) fn note_in_vain(&mut self, group: usize, queue: &Queue<usize>) {
        let mut counts = Vec::new();
        let mut at = Some(0);
        while let Some(from) = at {
            at = queue.intake_part(from, usize::MAX, &mut counts);
        }
        for (table, time) in self.in_vain.since(group, counts) {
            self.usage[table.slot as usize].busy += time;
        }
    }

    /// What has been used since the last tick goes to the planner; what it decides at `now` holds from then on, if it
    /// is to decide anything.
    pub(super) fn tick(&mut self, now: Time, places: bool) {
        let planned_at = now + self.offset;
        for (table, usage) in (0..).zip(&mut self.usage) {
            let usage = std::mem::take(usage);
            if usage != Usage::default() {
                self.planner.record(table_id(table), planned_at, usage);
            }
        }
        if !places {
            return;
        }
        let Some(remap) = self.planner.tick(planned_at) else {
            return;
        };
        let mut moves = remap.moves;
        let planned = moves.len();
        // The planner does not know which tables stay where they are.
        moves.retain(|change| !self.fixed[change.table.slot as usize]);
        let moved = moves.len();
        if moved == 0 && planned > 0 {
            return;
        }
        for change in moves {
            if let Some(to) = change.to {
                self.homes[change.table.slot as usize] = to;
            }
        }
        self.remaps.push(Moved {
            at: now.as_nanos() as f64 / 1e9,
            tables: moved,
            cold_bytes: remap.cold_bytes,
            reason: remap.reason.to_string(),
        });
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
            rerank,
            ..
        } => {
            let scale = scenario.prepared.scale(scale);
            let full = |&known: &u32| rerank.map_or(0, |full| full.rows.min(known));
            let again = scale.candidates.iter().map(|known| u64::from(full(known)));
            let walked = scale.counts.iter().map(|&(rows, _)| u64::from(rows));
            let all: u64 = walked.chain(again).sum();
            let rows = all as f64 / scale.counts.len() as f64;
            let seconds = 1e-9 * rows * compute.row(dim);
            (seconds, rows * f64::from(row_bytes + link_bytes / 2))
        }
        Plan::Lists {
            shape,
            rows_as,
            centroid_bytes,
        } => {
            let rows = shape.rows as f64 * shape.probes as f64 / shape.lists as f64;
            let (listed, centroids) = (rows * shape.row_bytes as f64, centroid_bytes as f64);
            // At the rate of full rows.
            let slower = compute.scan_gbs / compute.scan(rows_as);
            let seconds = 1e-9 * (listed * slower + centroids) / compute.scan_gbs;
            (seconds, listed + centroids)
        }
        Plan::Task { nanos, .. } => (nanos / 1e9, 0.0),
    }
}
