//! A run, as it is asked for.

use std::time::Duration;

use chiplet_baselines::Strategy;
use chiplet_policy::queue::Discipline;
use chiplet_policy::{PlannerConfig, SplitConfig, StealConfig};

use crate::compute::Compute;
use crate::machine::Machine;
use crate::workload::{Flip, Prepared};

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

impl Load {
    /// Queries for each worker of a saturated run, where nothing is said. With many, a short run counts more short
    /// queries than come: long ones are still waiting when it ends.
    pub const OUTSTANDING: u32 = 4;
}

impl Default for Load {
    fn default() -> Self {
        Self::Saturated {
            outstanding: Self::OUTSTANDING,
        }
    }
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
    /// The socket whose memory holds each table; without it tables lie on sockets in turn. It may be one that no worker
    /// runs on.
    pub holders: Option<&'a [usize]>,
    /// GB/s that others read from each socket's memory all the time; sockets beyond the last figure are left alone.
    pub others: &'a [f64],
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
    /// The weight of all bulk work while interactive tasks wait.
    pub bulk_weight: f32,
    /// Bytes that copies of tables' memory may take beyond one of each.
    pub memory_budget: u64,
    /// Between two looks of the planner.
    pub tick: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            planner: PlannerConfig::default(),
            steal: StealConfig::default(),
            split: SplitConfig::default(),
            reorder: Discipline::REORDER,
            queue_per_worker: chiplet_policy::queue::QUEUE_PER_WORKER,
            bulk_weight: Discipline::BULK_WEIGHT,
            memory_budget: 0,
            tick: Duration::from_secs(1),
        }
    }
}

impl<'a> Scenario<'a> {
    /// A run of one strategy with defaults for the rest: saturated; or, where tables are asked by clients of their own,
    /// for as many virtual seconds as the workload says.
    pub fn new(machine: &'a Machine, prepared: &'a Prepared, strategy: Strategy) -> Self {
        let asking = &prepared.workload.asking;
        let timed = prepared.workload.is_timed();
        Self {
            machine,
            prepared,
            strategy,
            load: Load::default(),
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
            holders: None,
            others: &[],
            seed: 1,
            settings: Settings::default(),
        }
    }

    /// Counts so many queries, after a third as many that warm the caches.
    #[must_use]
    pub fn counting(mut self, queries: u64) -> Self {
        (self.warmup, self.measured) = (queries / 3, queries);
        self
    }
}
