//! The executor in virtual time.
//!
//! Queries come, wait in the queues of `chiplet_policy::queue`, are taken by workers as the steal ladder says, and take
//! as long as what they read takes. Time is counted in nanoseconds and passes from event to event; events of one moment
//! happen in the order in which they were made. There are no threads, so what takes turns by chance in the executor
//! takes turns by a seed here.
//!
//! | file | does what of the executor |
//! |---|---|
//! | `group` | `scheduler`: queues, sleepers, who calls for help |
//! | `clients`, `asked` | who asks, deadlines: `engine/worker.rs`, `engine/purge.rs` |
//! | `queries` | queries come and end |
//! | `replay` | a log instead of a workload |
//! | `route` | `engine/admit.rs`: a query's way into a queue |
//! | `relief` | `scheduler/relief.rs`: a busy worker helps a queue that has fallen behind |
//! | `worker` | `scheduler/ladder.rs`: what a worker does next |
//! | `read` | what searching takes: caches, links, memory |
//! | `rerank` | the second copy of a graph's rows |
//! | `scan` | `jobs/units.rs`: probes that several workers scan |
//! | `items` | regions of tables, which the executor does not have |
//! | `together` | queries that read a list once, which it does not have for single ones |
//! | `balance` | `placement/balancer.rs`: the tick |
//! | `meter`, `rows`, `served` | counts |

mod asked;
mod balance;
#[cfg(test)]
mod client_tests;
mod clients;
mod group;
mod items;
mod memory;
mod meter;
#[cfg(test)]
mod promises;
mod queries;
mod read;
mod relief;
pub(crate) mod replay;
mod rerank;
mod route;
#[cfg(test)]
mod row_tests;
mod rows;
mod scan;
mod served;
#[cfg(test)]
mod tests;
mod together;
mod worker;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use chiplet_baselines::{Routing, Strategy};
use chiplet_policy::group::Crossing;
use chiplet_policy::ladder::Ladder;
use chiplet_policy::queue::{Discipline, Run};
use chiplet_policy::replay::Decision;
use chiplet_policy::{
    Class, Homes, PlannerConfig, SplitConfig, StealConfig, TableId, Time, neighbours,
};
use chiplet_topology::DomainId;
use chiplet_workload::traffic::{Stream, Traffic};

use crate::cache::Caches;
use crate::compute::Compute;
use crate::ideas::Ideas;
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::workload::{Flip, Prepared};
use balance::{Balancer, Means};
use clients::Clients;
use group::{Call, Group, Groups};
use items::Items;
use memory::Memory;
use meter::Meter;
use scan::{Cursor, Shared, Units};
use together::Gathering;

/// Short runs before a run, each with tables where the one before has them put: what queries take depends on where tables
/// lie, and the other way round. An executor finds its way remap by remap.
const PILOTS: u32 = 4;

/// Virtual seconds of such a run where runs are timed.
const PILOT: f64 = 1.0;

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many queries for each worker wait or run at all times.
    Saturated {
        /// Queries for each worker.
        outstanding: u32,
    },
    /// Queries come at random, so many a second on average, whether there is room for them or not.
    Open {
        /// Queries a second.
        rate: f64,
    },
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct Scenario<'a> {
    /// Where.
    pub machine: &'a Machine,
    /// What.
    pub prepared: &'a Prepared,
    /// How.
    pub strategy: Strategy,
    /// How much.
    pub load: Load,
    /// What computing takes.
    pub compute: Compute,
    /// Queries that end before anything is counted, so that caches are warm.
    pub warmup: u64,
    /// Queries that are counted.
    pub measured: u64,
    /// The run ends at this many virtual seconds even if fewer were answered.
    pub longest: f64,
    /// Virtual seconds before anything is counted, besides `warmup`.
    pub warm: f64,
    /// The hot set moves.
    pub flip: Option<Flip>,
    /// Let the placement settle before the run, on the loads that the tables will have; else tables are where they were
    /// put when nothing was known of them.
    pub settled: bool,
    /// Same seed, same arrivals.
    pub seed: u64,
    /// The executor's settings.
    pub settings: Settings,
}

/// The executor's settings, its defaults unless changed.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// When tables move.
    pub planner: PlannerConfig,
    /// The price of crossing.
    pub steal: StealConfig,
    /// How queries are cut.
    pub split: SplitConfig,
    /// How far runs leave the order of arrival.
    pub reorder: f64,
    /// Tasks that may wait for each worker of a domain.
    pub queue_per_worker: usize,
    /// How long bulk tasks give way to interactive ones.
    pub bulk_wait: Option<Duration>,
    /// Between two looks of the planner.
    pub tick: Duration,
    /// What the executor does not do.
    pub ideas: Ideas,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            planner: PlannerConfig::default(),
            steal: StealConfig::default(),
            split: SplitConfig::default(),
            reorder: Discipline::REORDER,
            queue_per_worker: chiplet_policy::queue::QUEUE_PER_WORKER,
            bulk_wait: Discipline::BULK_WAIT,
            tick: Duration::from_secs(1),
            ideas: Ideas::default(),
        }
    }
}

impl<'a> Scenario<'a> {
    /// A run of one strategy with defaults for the rest: saturated; or, where tables are asked by clients of their own, for
    /// as many virtual seconds as the workload says.
    pub fn new(machine: &'a Machine, prepared: &'a Prepared, strategy: Strategy) -> Self {
        let asking = &prepared.workload.asking;
        let timed = prepared.workload.is_timed();
        Self {
            machine,
            prepared,
            strategy,
            load: Load::Saturated { outstanding: 4 },
            compute: Compute::default(),
            warmup: if timed { 0 } else { 20_000 },
            measured: if timed { u64::MAX } else { 40_000 },
            longest: if timed {
                asking.warm + asking.seconds
            } else {
                3_600.0
            },
            warm: if timed { asking.warm } else { 0.0 },
            flip: None,
            settled: true,
            seed: 1,
            settings: Settings::default(),
        }
    }

    /// Runs it. `report` is told now and then how many queries have been answered.
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
        engine.balancer.means(&pilot, &engine.items)
    }
}

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A query comes.
    Arrive,
    /// A client of a table's own asks.
    Ask(usize),
    /// The deadline of the query in this place that has this number passes.
    Due(usize, u64),
    /// Things are counted from now on.
    Begin,
    /// A worker is through with what it does, or wakes up.
    Work(usize),
    /// The planner looks.
    Tick,
    /// The timed look at tasks that wait.
    Look,
}

/// A query under way.
struct Query {
    /// Counts queries: a place in the list is used again.
    serial: u64,
    table: u32,
    /// The table, or the region of it, by which it is placed.
    item: u32,
    /// Which of the table's queries.
    number: u32,
    arrived: u64,
    started: u64,
    /// Segments of a walk that are done.
    segment: u32,
    /// Time of all workers.
    busy: u64,
    units: Option<Units>,
    /// Queries that are answered with it.
    mates: Vec<usize>,
    /// Who asks, if that is not the common stream.
    client: Option<usize>,
    /// The row that it counts for.
    row: Option<u32>,
    class: Class,
    /// How many times what its table's tasks take.
    work: f64,
    due: Option<u64>,
    /// Its client has been told that it has expired.
    told: bool,
    running: bool,
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
    call: Call,
    ladder: Ladder,
    /// Where it is in its unit.
    cursor: Cursor,
    /// Which parts of rows and of links it last found in the L3 and in memory.
    found: [[f64; 2]; 2],
    /// The same of rows that are compared once more.
    found_full: [f64; 2],
}

struct Engine<'a> {
    scenario: &'a Scenario<'a>,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    made: u64,
    groups: Groups,
    crossing: Crossing,
    workers: Vec<Worker>,
    domains: Vec<DomainId>,
    queries: Vec<Query>,
    /// Places in `queries` that are free.
    free: Vec<usize>,
    stream: Option<Stream>,
    clients: Clients,
    /// The query that comes next, in an open loop.
    coming: Option<chiplet_workload::traffic::Arrival>,
    items: Items,
    gathering: Gathering,
    caches: Caches,
    memory: Memory,
    homes: Vec<Homes>,
    /// Whose homes are not the planner's to change.
    fixed: Vec<bool>,
    over_share: Vec<bool>,
    /// Units of each item's last query.
    last_units: Vec<u32>,
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
        let mut asleep = Ladder::default();
        asleep.lists(false, false, false);
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
            bulk_wait: settings.bulk_wait,
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
                        call: Call::None,
                        ladder: asleep,
                        cursor: Cursor::default(),
                        found: [[0.0, 1.0]; 2],
                        found_full: [0.0, 1.0],
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
        let sample = prepared.sampling.sample;
        let sizes = topology.domains().iter();
        let sizes = sizes.map(|spec| (spec.cache_bytes, spec.cores.len()));
        let shares = shares(scenario, traffic.as_ref());
        let items = Items::new(scenario, &shares);
        let mut balancer = Balancer::new(scenario, &items);
        let mut homes = balancer.place(scenario, &items, &shares, means);
        let given = items.tables.iter();
        let given: Vec<_> = given
            .map(|&table| prepared.workload.asking.home(table as usize))
            .map(|home| home.and_then(|home| domains.get(home).copied()))
            .collect();
        for (homes, &given) in homes.iter_mut().zip(&given) {
            if let Some(domain) = given {
                *homes = Homes::single(domain);
            }
        }
        let count = items.tables.len();
        Self {
            scenario,
            now: 0,
            events: BinaryHeap::new(),
            made: 0,
            groups,
            crossing,
            caches: Caches::new(sizes, machine.costs.l2_bytes, sample),
            memory: Memory::new(machine, prepared.plans.len()),
            meter: Meter::new(workers.len(), Clients::rows(&prepared.workload.asking)),
            workers,
            domains,
            queries: Vec::new(),
            free: Vec::new(),
            stream,
            clients: Clients::new(&prepared.workload.asking, seed, pilot),
            coming: None,
            items,
            gathering: Gathering::default(),
            homes,
            fixed: given.iter().map(Option::is_some).collect(),
            over_share: vec![false; count],
            last_units: vec![0; count],
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
            self.at((self.scenario.warm * 1e9) as u64, Event::Begin);
        }
        match self.scenario.load {
            _ if self.stream.is_none() => {}
            Load::Open { .. } => self.expect_next(),
            Load::Saturated { outstanding } => {
                for _ in 0..outstanding as usize * self.workers.len() {
                    self.at(0, Event::Arrive);
                }
            }
        }
        self.at(self.scenario.settings.tick.as_nanos() as u64, Event::Tick);
        let all = self.scenario.warmup.saturating_add(self.scenario.measured);
        let longest = (self.scenario.longest * 1e9) as u64;
        let mut told = 0;
        while self.meter.answered < all
            && let Some(Reverse((at, _, event))) = self.events.pop()
            && at <= longest
        {
            self.now = at;
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
            Event::Begin => self.meter.begin(self.now, &self.memory),
            Event::Work(worker) => self.work(worker),
            Event::Tick => self.tick(),
            Event::Look => self.look(),
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.made += 1;
        let order = match self.decisions {
            Some(_) => Self::order(event),
            None => self.made,
        };
        self.events.push(Reverse((time, order, event)));
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now)
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

/// What queues and the planner know an item by.
fn table_id(item: u32) -> TableId {
    TableId {
        slot: item,
        generation: 0,
    }
}
