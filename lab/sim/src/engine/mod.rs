//! The executor in virtual time.
//!
//! Queries come, wait in the queues of `chiplet_policy::queue`, are taken by workers as the steal order says, and take
//! as long as what they read takes. Time is counted in nanoseconds and passes from event to event; events of one moment
//! happen in the order in which they were made. There are no threads, so what takes turns by chance in the executor
//! takes turns by a seed here.
//!
//! | file | does what of the executor |
//! |---|---|
//! | `scenario` | what is asked for: a builder's settings |
//! | `group`, `calls` | `scheduler/groups.rs`, `wake.rs`, `monitor.rs`: queues, sleepers, who calls for help |
//! | `clients`, `asked` | who asks, deadlines: `engine/worker.rs`, `engine/purge.rs` |
//! | `queries`, `arrive` | queries under way; they come and end |
//! | `replay` | a log instead of a workload |
//! | `route` | `engine/admit.rs`: a query's way into a queue |
//! | `steal_while_busy` | `scheduler/steal_while_busy.rs`: a busy worker helps a queue that has fallen behind |
//! | `worker` | `scheduler/find_task.rs`: what a worker does next |
//! | `timeline` | events in order |
//! | `hardware` | what searching takes: cores, caches, links, memory; the second copy of a graph's rows |
//! | `segment` | a query's parts, as one worker runs them |
//! | `units`, `scan` | `jobs/split.rs`: probes that several workers scan |
//! | `balance` | `placement/balancer.rs` |
//! | `meter`, `rows`, `served` | counts, and what they show |

mod arrive;
mod asked;
mod balance;
mod calls;
#[cfg(test)]
mod client_tests;
mod clients;
mod group;
mod hardware;
mod meter;
#[cfg(test)]
mod parts_tests;
#[cfg(test)]
mod promises;
mod queries;
pub(crate) mod replay;
mod route;
#[cfg(test)]
mod row_tests;
mod rows;
mod scan;
mod scenario;
mod segment;
mod served;
mod steal_while_busy;
#[cfg(test)]
mod tests;
mod timeline;
mod units;
mod worker;

use std::time::Duration;

use chiplet_baselines::Routing;
use chiplet_policy::group::Crossing;
use chiplet_policy::group::PublishedLoads as _;
use chiplet_policy::neighbours;
use chiplet_policy::queue::{Discipline, Run};
use chiplet_policy::replay::Decision;
use chiplet_policy::steal_order::StealOrder;
use chiplet_topology::DomainId;
use chiplet_workload::traffic::{Stream, Traffic};

use crate::outcome::Outcome;
use balance::{Balancer, Means};
use clients::Clients;
use group::{Group, Groups};
use hardware::Hardware;
use meter::Meter;
use queries::{Known, Queries};
pub use scenario::{Load, Scenario, Settings};
use timeline::{Event, Timeline};
use units::{Cursor, Shared};

/// Short runs before a run, each with tables where the one before has them put: what queries take depends on where
/// tables lie, and the other way round. An executor finds its way remap by remap.
const PILOTS: u32 = 4;

/// Virtual seconds of such a run where runs are timed.
const PILOT: f64 = 1.0;

impl Scenario<'_> {
    /// Runs it. `report` is told now and then how many queries have been answered.
    ///
    /// # Panics
    /// If there are `holders`, and not one for each table.
    pub fn run(&self, report: &mut dyn FnMut(u64)) -> Outcome {
        let tenants = &self.prepared.workload.asking.tenants;
        let fixed = !tenants.is_empty() && tenants.iter().all(|tenant| tenant.home.is_some());
        let settles = self.settled && self.strategy.routing == Routing::Home && !fixed;
        let pilots = if settles { PILOTS } else { 0 };
        let means = (0..pilots).fold(None, |means, _| Some(self.pilot(means.as_ref())));
        let mut engine = Engine::new(self, means.as_ref(), false);
        engine.run(report);
        engine.outcome()
    }

    /// A short run for what queries take where tables lie by what is known before.
    fn pilot(&self, means: Option<&Means>) -> Means {
        let timed = self.prepared.workload.is_timed();
        let pilot = Self {
            warmup: 0,
            measured: if timed { u64::MAX } else { self.warmup.max(1) },
            longest: if timed {
                self.longest.min(PILOT)
            } else {
                self.longest
            },
            warm: 0.0,
            flip: None,
            ..*self
        };
        let mut engine = Engine::new(&pilot, means, true);
        engine.run(&mut |_| {});
        engine.balancer.means(&pilot)
    }
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing, since then; it is among its group's sleepers.
    Idle(u64),
    /// It has been called and is on its way.
    Waking,
    /// A query, or its coarse search.
    Query(usize),
    /// A unit of a query.
    Unit(usize),
    /// Waits for the others at the end of a query.
    Barrier(usize),
}

struct Worker {
    domain: usize,
    group: usize,
    doing: Doing,
    run: Run,
    /// The group that it last took a task from besides its own, and what it ran of it.
    away: Option<(usize, Run)>,
    /// Woken to help another group, and has found no work there yet.
    called: bool,
    steal_order: StealOrder,
    /// Where it is in its unit.
    cursor: Cursor,
}

/// A run under way. Each part owns its state; the engine's own methods are what happens.
struct Engine<'a> {
    scenario: &'a Scenario<'a>,
    timeline: Timeline,
    hardware: Hardware<'a>,
    groups: Groups,
    crossing: Crossing,
    workers: Vec<Worker>,
    domains: Vec<DomainId>,
    queries: Queries,
    stream: Option<Stream>,
    clients: Clients,
    /// The query that comes next, in an open loop.
    coming: Option<chiplet_workload::traffic::Arrival>,
    /// What is known of each table.
    known: Vec<Known>,
    /// Queries with units to take, under strategies that know no domains.
    open: Vec<Shared>,
    turn: usize,
    looking: bool,
    balancer: Balancer,
    meter: Meter,
    /// What has been decided, in a replay.
    decisions: Option<Vec<Decision>>,
}

impl<'a> Engine<'a> {
    fn new(scenario: &'a Scenario<'a>, means: Option<&Means>, pilot: bool) -> Self {
        let machine = scenario.machine;
        let topology = &machine.topology;
        let prepared = scenario.prepared;
        let (seed, flip) = (scenario.seed, scenario.flip);
        let rate = match scenario.load {
            Load::Open { rate } => rate,
            // Only the order counts.
            Load::Saturated { .. } => 1e6,
        };
        let traffic = prepared.workload.traffic(rate, seed, flip);
        let stream = traffic.as_ref();
        let stream = stream.map(|traffic| traffic.stream().expect("a recipe's values are checked"));
        let mut workers = Vec::new();
        let mut asleep = StealOrder::default();
        asleep.lists(false, false);
        let mut groups: Vec<Group> = Vec::new();
        let per_group = |cores: usize| match scenario.strategy.routing {
            Routing::Home => cores,
            Routing::Rotate => 1,
        };
        let cores = topology.domains().iter().map(|spec| spec.cores.len());
        let crossing = Crossing {
            steal: scenario.strategy.steal(scenario.settings.steal),
            groups: cores.map(|cores| cores / per_group(cores)).sum(),
        };
        let strategy = scenario.strategy;
        let settings = &scenario.settings;
        // As in an executor, of the largest domain's workers.
        let largest = topology
            .domains()
            .iter()
            .map(|spec| per_group(spec.cores.len()));
        let limit = settings.queue_per_worker * largest.max().unwrap_or(1);
        let discipline = Discipline {
            run_length: strategy.run_length,
            reorder: settings.reorder,
            limit,
            table_limit: Discipline::usual_table_limit(limit),
            bulk_weight: settings.bulk_weight,
        };
        for (domain, spec) in topology.domains().iter().enumerate() {
            let per_group = per_group(spec.cores.len());
            for _ in 0..spec.cores.len() / per_group {
                let first = workers.len();
                for _ in 0..per_group {
                    workers.push(Worker {
                        domain,
                        group: groups.len(),
                        doing: Doing::Idle(0),
                        run: Run::default(),
                        away: None,
                        called: false,
                        steal_order: asleep,
                        cursor: Cursor::default(),
                    });
                }
                groups.push(Group::new(
                    domain,
                    first..workers.len(),
                    crossing,
                    discipline,
                ));
            }
        }
        let domains: Vec<DomainId> = topology.domains().iter().map(|spec| spec.id).collect();
        let known: Vec<DomainId> = groups.iter().map(|group| domains[group.domain]).collect();
        let groups = Groups::new(groups, neighbours(topology, &known));
        let shares = shares(scenario, traffic.as_ref());
        let mut balancer = Balancer::new(scenario);
        balancer.place(scenario, &shares, means);
        Self {
            scenario,
            timeline: Timeline::new(None),
            hardware: Hardware::new(
                machine,
                prepared,
                scenario.compute,
                workers.len(),
                &balancer.holders,
                scenario.others,
            ),
            groups,
            crossing,
            meter: Meter::new(workers.len(), Clients::rows(&prepared.workload.asking)),
            workers,
            domains,
            queries: Queries::default(),
            stream,
            clients: Clients::new(&prepared.workload.asking, seed, pilot),
            coming: None,
            known: vec![Known::default(); prepared.workload.tables.len()],
            open: Vec::new(),
            turn: 0,
            looking: false,
            balancer,
            decisions: None,
        }
    }

    fn run(&mut self, report: &mut dyn FnMut(u64)) {
        self.begin_asking();
        if self.scenario.warm > 0.0 {
            self.timeline
                .at((self.scenario.warm * 1e9) as u64, Event::Begin);
        }
        match self.scenario.load {
            _ if self.stream.is_none() => {}
            Load::Open { .. } => self.expect_next(),
            Load::Saturated { outstanding } => {
                for _ in 0..outstanding as usize * self.workers.len() {
                    self.timeline.at(0, Event::Arrive);
                }
            }
        }
        self.timeline
            .at(self.scenario.settings.tick.as_nanos() as u64, Event::Tick);
        let all = self.scenario.warmup.saturating_add(self.scenario.measured);
        let longest = (self.scenario.longest * 1e9) as u64;
        let mut told = 0;
        while self.meter.answered < all
            && let Some(event) = self.timeline.next(longest)
        {
            self.happen(event);
            if self.meter.answered >= told + 10_000 {
                told = self.meter.answered;
                report(told);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive => self.arrive(),
            Event::Ask(client) => self.ask(client),
            Event::Due(place, serial) => self.due(place, serial),
            Event::Begin => self.begin_counting(),
            Event::Work(worker) => self.work(worker),
            Event::Tick => {
                let tick = self.scenario.settings.tick.as_nanos() as u64;
                self.timeline.after(tick, Event::Tick);
                let places = self.scenario.strategy.routing == Routing::Home;
                for group in 0..self.groups.groups() {
                    self.balancer
                        .note_in_vain(group, &self.groups[group].state.queue);
                }
                self.balancer.tick(self.timeline.time(), places);
            }
            Event::Look => self.look(),
        }
    }
}

/// The part of the common stream's queries that each table gets.
fn shares(scenario: &Scenario<'_>, traffic: Option<&Traffic>) -> Vec<f64> {
    let shares = traffic.map(|traffic| {
        let shares = traffic.table_shares(Duration::ZERO);
        shares.expect("a recipe's values are checked")
    });
    let mut shares = shares.unwrap_or_default();
    shares.resize(scenario.prepared.workload.tables.len(), 0.0);
    shares
}
