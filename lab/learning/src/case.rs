//! One instance of a service on a machine of two sockets, not bound and bound, by the simulator.
//!
//! 1. The instance's memory is spread over the two nodes, whole tables at a time. *Home* is the node with more of it.
//! 2. Unbound, its workers run on both nodes, in a proportion that is drawn: schedulers do not look at memory.
//! 3. Bound, as many workers run on home. No memory moves, as with MAO.
//! 4. Neighbours read from both nodes' memory and over the bridge in both runs alike.
//! 5. Both runs get the same queries a second: a part of what the unbound instance can answer.
//!
//! The label is the part of processor time for each query that binding saves. What a monitor sees is of the unbound
//! run.

use chiplet_baselines::Strategy;
use chiplet_sim::{Load, Machine, Outcome, Scenario};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Serialize;

use crate::draw::{between, seeded, shuffled};
use crate::family::{Family, Size};
use crate::sample::{Sample, Unseen};

/// Queries that wait or run for each worker when it is found out how many can be answered.
const OUTSTANDING: u32 = 3;

/// A run ends after so many virtual seconds, however few queries have been answered.
const LONGEST: f64 = 30.0;

/// NPMR of an instance is its family's and up to so much more or less.
const NPMR_SPREAD: f64 = 0.05;

/// What is drawn of an instance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// Its family's number.
    pub family: usize,
    /// Domains of each node that it runs on when it is not bound, and of home when it is.
    pub domains: [usize; 2],
    /// Workers on home and on the other node when it is not bound; bound, all of them are on home.
    pub workers: [usize; 2],
    /// The node of each table: 0 is home.
    pub holders: Vec<usize>,
    /// Of all bytes, those that do not lie at home.
    pub away: f64,
    /// Use of each node's memory by neighbours, of 1.
    pub neighbours: [f64; 2],
    /// Of the bridge's bandwidth, what neighbours take.
    pub bridge: f64,
    /// Queries a second, of what the unbound instance can answer.
    pub load: f64,
    /// Mapped share of the memory. Nothing in the simulator depends on it.
    pub npmr: f64,
    /// Of the arrivals.
    pub seed: u64,
}

impl Case {
    /// The case of that number, an instance of `family`.
    pub fn draw(seed: u64, number: usize, family: usize, of: &Family) -> Self {
        let mut dice = StdRng::seed_from_u64(seeded(&[seed, 3, number as u64]));
        let domains = of.machine.topology.domains();
        let on_home = domains.iter().filter(|domain| domain.package == 0).count();
        let cores = domains[0].cores.len();
        let wide = dice.random_range(1..=on_home.min(3));
        let bound = (wide * dice.random_range(1..=2)).min(on_home);
        let all = wide * cores;
        let workers = dice.random_range(all / 2..=all).max(2);
        let home = (between(&mut dice, 0.1, 0.9) * workers as f64).round() as usize;
        let home = home.clamp(1, workers - 1);
        let (holders, away) = spread(&mut dice, of);
        Self {
            family,
            domains: [wide, bound],
            workers: [home, workers - home],
            holders,
            away,
            neighbours: [0, 1].map(|_| between(&mut dice, 0.0, 0.8)),
            bridge: between(&mut dice, 0.0, 0.6),
            load: between(&mut dice, 0.2, 0.8),
            npmr: of.kind.npmr + between(&mut dice, -NPMR_SPREAD, NPMR_SPREAD),
            seed: seeded(&[seed, 4, number as u64]),
        }
    }

    /// Runs it.
    pub fn measure(&self, of: &Family, size: &Size) -> Sample {
        let both = self.machine(of, [self.workers[0], self.workers[1]], self.domains[0]);
        let workers = self.workers.iter().sum();
        let home = self.machine(of, [workers, 0], self.domains[1]);
        let outstanding = OUTSTANDING;
        let most = self.run(of, &both, Load::Saturated { outstanding }, size.queries / 2);
        let rate = self.load * most.qps;
        let load = Load::Open { rate };
        let unbound = self.run(of, &both, load, size.queries);
        let bound = self.run(of, &home, load, size.queries);
        let costs = &of.machine.costs;
        let at_rest = costs.remote_ns / costs.memory_ns;
        Sample {
            family: self.family,
            mbw: unbound.memory_bytes_per_query * unbound.qps / 1e9,
            msr: unbound.stall_share.clamp(0.0, 1.0),
            npmr: self.npmr,
            rmbr: unbound.remote_share,
            q: self.away,
            lambda: at_rest,
            lambda_loaded: match unbound.near_ns > 0.0 && unbound.far_ns > 0.0 {
                true => unbound.far_ns / unbound.near_ns,
                // Nothing came from one of the two.
                false => at_rest,
            },
            gain: 1.0 - busy_us(&bound) / busy_us(&unbound),
            // Poisson arrivals alone differ by a few percent from the rate.
            kept_up: bound.qps > 0.9 * unbound.qps && bound.shed == 0,
            unseen: Unseen {
                home_use: self.neighbours[0],
                away_use: self.neighbours[1],
                caches: [&both, &home].map(|machine| machine.topology.domains().len()),
            },
        }
    }

    /// The machine as the instance sees it: so many cores of each node, spread over so many of its domains.
    fn machine(&self, of: &Family, workers: [usize; 2], wide: usize) -> Machine {
        let mut machine = of.machine.clone();
        let mut kept = Vec::new();
        for (package, workers) in workers.into_iter().enumerate() {
            let domains = machine.topology.domains().iter();
            let domains = domains.filter(|domain| domain.package as usize == package);
            for (at, domain) in domains.take(wide).enumerate() {
                let here = workers / wide + usize::from(at < workers % wide);
                let cores = domain.cores.iter().take(here);
                kept.extend(cores.flat_map(|core| core.cpus.iter().copied()));
            }
        }
        let topology = machine.topology.restricted_to(&kept);
        machine.topology = topology.expect("the cpus are the machine's own, and some are kept");
        machine.costs.bridge_gbs *= 1.0 - self.bridge;
        machine
    }

    fn run(&self, of: &Family, machine: &Machine, load: Load, queries: u64) -> Outcome {
        let others = self
            .neighbours
            .map(|part| part * of.machine.costs.socket_gbs);
        let mut scenario = Scenario::new(machine, &of.prepared, Strategy::GLOBAL_STEAL);
        scenario.compute = of.compute;
        scenario.seed = self.seed;
        scenario.load = load;
        (scenario.warmup, scenario.measured) = (queries / 2, queries);
        scenario.longest = LONGEST;
        scenario.holders = Some(&self.holders);
        scenario.others = &others;
        scenario.run(&mut |_| ())
    }
}

/// Puts tables on the other node, in a drawn order, until it has a drawn part of all bytes; returns where each is, and
/// that part as it came out.
fn spread(dice: &mut StdRng, of: &Family) -> (Vec<usize>, f64) {
    let tables = &of.prepared.workload.tables;
    let bytes: Vec<f64> = tables.iter().map(|table| table.bytes() as f64).collect();
    let all: f64 = bytes.iter().sum();
    let wanted = between(dice, 0.0, 0.5) * all;
    let mut holders = vec![0; bytes.len()];
    let mut away = 0.0;
    for table in shuffled(dice, bytes.len()) {
        if away + bytes[table] <= wanted {
            holders[table] = 1;
            away += bytes[table];
        }
    }
    (holders, away / all)
}

/// Microseconds of processor time for each query.
fn busy_us(outcome: &Outcome) -> f64 {
    1e6 * outcome.utilisation * outcome.workers as f64 * outcome.seconds
        / outcome.counted.max(1) as f64
}
