//! chiplet's executor with the settings of one of its strategies.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use chiplet_bench::baselines::{Strategy, scrambled};
use chiplet_executor::{
    Builder, Executor, Pin, PlannerConfig, RemapEvent, SplitConfig, TableId, Ticket,
};
use chiplet_policy::WindowConfig;
use chiplet_table::Neighbor;
use chiplet_topology::Topology;

use super::{Done, Job, Pool, Workers, bound};
use crate::bench::arguments::{Arguments, Choice};
use crate::bench::report::Steals;
use crate::bench::tables::BuiltTable;

pub(super) struct Executed {
    executor: Executor,
    tables: Vec<TableId>,
    remaps: Arc<Mutex<Vec<(Instant, RemapEvent)>>>,
}

impl Executed {
    pub(super) fn start(
        strategy: Strategy,
        choice: &Choice,
        arguments: &Arguments,
        topology: &Topology,
        workers: &Workers,
        tables: &[BuiltTable],
    ) -> anyhow::Result<Self> {
        let mut builder = Executor::builder().topology(topology.clone());
        // As the placebo's, or the two would differ in more than their domains.
        if arguments.has_placebo() {
            builder = builder.pin(Pin::Core);
        }
        Self::build(builder, strategy, choice, arguments, workers, tables)
    }

    /// `ccd-aware-fifo` over domains that share no cache. Workers stay on their cores, or they would wander between
    /// caches, which those of true domains cannot.
    pub(super) fn placebo(
        choice: &Choice,
        arguments: &Arguments,
        workers: &Workers,
        tables: &[BuiltTable],
    ) -> anyhow::Result<Self> {
        let dealt = scrambled(&workers.physical, arguments.seed);
        // Siblings of a core stay in one domain.
        let dealt = match arguments.smt {
            true => dealt.cpus_as_cores(),
            false => dealt,
        };
        let builder = Executor::builder().topology(dealt).pin(Pin::Core);
        let strategy = Strategy::CCD_AWARE_FIFO;
        Self::build(builder, strategy, choice, arguments, workers, tables)
    }

    fn build(
        builder: Builder,
        strategy: Strategy,
        choice: &Choice,
        arguments: &Arguments,
        workers: &Workers,
        tables: &[BuiltTable],
    ) -> anyhow::Result<Self> {
        let workers = workers.count;
        let remaps = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&remaps);
        let mut planner = PlannerConfig::default();
        if let Some(window) = choice.window.or(arguments.window) {
            planner = planner.windows(WindowConfig::new().fast(window).slow(window * 6));
        }
        let limit = bound(arguments, workers);
        let executor = builder
            .planner(strategy.planner(planner))
            .split(strategy.split(SplitConfig::default()))
            .run_length(strategy.run_length)
            .max_workers(workers)
            .queue_limit(limit)
            .table_queue_limit(limit)
            .name(choice.to_string())
            .on_remap(move |event: &RemapEvent| {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.push((Instant::now(), event.clone()));
            })
            .build()
            .with_context(|| format!("the executor did not start under {choice}"))?;
        let tables = tables
            .iter()
            .map(|table| executor.add_table(table.name.as_str(), table.index(choice.graph).clone()))
            .collect();
        Ok(Self {
            executor,
            tables,
            remaps,
        })
    }
}

impl Pool for Executed {
    fn send(&self, job: Job) {
        match self.executor.submit(self.tables[job.table], job.query) {
            Ok(ticket) => Pending::follow(ticket, job.done),
            Err(_) => job.done.finish(None),
        }
    }

    fn turn(&self, begins: bool) {
        self.executor.hold_placement(!begins);
    }

    fn counts(&self) -> Option<(Steals, u64)> {
        let snapshot = self.executor.snapshot();
        let steals = Steals {
            own: snapshot.steals.own,
            domain: snapshot.steals.domain,
            remote: snapshot.steals.remote,
            moved: snapshot.steals.rebalanced + snapshot.steals.overflow,
        };
        Some((steals, snapshot.remaps))
    }

    fn homes(&self) -> Option<Vec<u32>> {
        let placement = self.executor.placement();
        self.tables
            .iter()
            .map(|&table| Some(placement.homes(table)?.main().domain.0))
            .collect()
    }

    fn moves(&self) -> Vec<(usize, Instant, u32)> {
        let mut remaps = self.remaps.lock().unwrap_or_else(PoisonError::into_inner);
        let remaps = std::mem::take(&mut *remaps);
        let mut moves = Vec::new();
        for (at, event) in remaps {
            for moved in &event.moves {
                let Some(table) = self.tables.iter().position(|&id| id == moved.table) else {
                    continue;
                };
                moves.push((table, at, moved.to.main().domain.0));
            }
        }
        moves
    }
}

/// A ticket and what to do when it is ready: polled once at sending and once by the waker, on the thread that has
/// the answer. That is the least a runtime could add.
struct Pending(Mutex<Option<(Ticket<Vec<Neighbor>>, Done)>>);

impl Pending {
    fn follow(ticket: Ticket<Vec<Neighbor>>, done: Done) {
        Arc::new(Self(Mutex::new(Some((ticket, done))))).poll();
    }

    fn poll(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((ticket, _)) = pending.as_mut() else {
            return;
        };
        if let Poll::Ready(answer) =
            std::pin::Pin::new(ticket).poll(&mut Context::from_waker(&waker))
            && let Some((_, done)) = pending.take()
        {
            done.finish(answer.ok().as_deref());
        }
    }
}

impl Wake for Pending {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

/// How long an executor may take to end; what it runs is microseconds.
const PATIENCE: Duration = Duration::from_secs(10);

impl Drop for Executed {
    fn drop(&mut self) {
        self.executor
            .shutdown(chiplet_executor::Shutdown::Abandon(PATIENCE));
    }
}
