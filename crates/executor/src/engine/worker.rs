//! A worker thread: asks the hub what is next, runs it, and never dies of what it runs.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet_policy::{Rung, Splitting, StealRule, Strategy, is_too_late};

use super::stats::WorkerStats;
use super::task::{self, Header, Unit};
use super::{Engine, current};
use crate::context::{Context, Place, Scratch, Wanted};
use crate::report::Report;
use crate::scheduler::{Found, Local};
use crate::table::{Probe, SplitTable};

/// The thread's own state.
pub(crate) struct Worker {
    engine: Arc<Engine>,
    local: Local<Unit>,
    place: Place,
    scratch: Scratch,
}

impl Worker {
    pub(crate) fn new(engine: Arc<Engine>, local: Local<Unit>) -> Self {
        let domain = engine.hub.domain_of(local.group);
        let node = engine.topology.domains()[domain.0 as usize].node;
        Self {
            engine,
            local,
            place: Place { domain, node },
            scratch: Scratch::default(),
        }
    }

    /// Runs `code` with a context for a task of which `wanted` knows whether it still is. Returns with its result the bytes
    /// that it has reported.
    pub(crate) fn in_context<R>(
        &mut self,
        wanted: &dyn Wanted,
        code: impl FnOnce(&mut Self, &mut Context) -> R,
    ) -> (R, u64) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut context = Context::new(wanted, self.place, &mut scratch);
        let result = code(self, &mut context);
        let bytes = context.bytes();
        self.scratch = scratch;
        (result, bytes)
    }

    /// Runs tasks until the executor has closed and nothing is left.
    pub(crate) fn run(mut self) {
        current::enter(self.engine.id);
        let engine = Arc::clone(&self.engine);
        // Counted out even if a panic escapes, so that shutdown does not wait for a thread that is gone.
        let _leaves = engine.exits.leave_on_drop();
        while let Some(found) = engine.hub.next(&mut self.local) {
            match found {
                Found::Task(task, rung) => task::run(task, &mut self, rung),
                Found::Unit(unit, rung) => unit.run(&mut self, rung),
            }
        }
    }

    /// Says that a task has ended at `now`.
    pub(crate) fn tell(&mut self, now: Instant) {
        self.local.tell(now);
    }

    /// What is known of a task in one piece that this worker took from `rung` and ran.
    pub(crate) fn report(&self, rung: Rung, wait: Duration, service: Duration) -> Report {
        Report {
            wait,
            service,
            domain: self.place.domain,
            units: 1,
            rung,
        }
    }

    /// Whether the task that it has taken cannot be answered before its deadline, as far as can be told: others wait, and
    /// the time is better spent on them.
    pub(crate) fn is_too_late(&self, header: &Header, started: Instant) -> bool {
        let Some(expires) = header.expires else {
            return false;
        };
        let left = expires.saturating_duration_since(started);
        let expected = self.local.expected().unwrap_or_default();
        left.is_zero() || is_too_late(header.waited(started), left, expected)
    }

    pub(crate) fn index(&self) -> usize {
        self.local.worker
    }

    /// What this worker did, locked.
    pub(crate) fn stats(&self) -> impl std::ops::DerefMut<Target = WorkerStats> + '_ {
        self.engine.stats.of(self.local.worker).lock()
    }

    pub(crate) fn splitting(&self) -> Splitting {
        self.strategy().splitting
    }

    /// Whether a split query's worker takes nothing but scan units until it is answered: `fork-join`.
    pub(crate) fn has_barrier(&self) -> bool {
        self.splitting() == Splitting::AllCores && self.strategy().stealing == StealRule::Never
    }

    fn strategy(&self) -> &Strategy {
        &self.engine.strategy
    }

    /// Cuts a query's probes into scan units, at multiples of the table's grain, for idle siblings.
    pub(crate) fn cut(&self, table: &dyn SplitTable, probes: &[Probe]) -> Vec<Range<usize>> {
        let grain = table.grain().max(1);
        let costs: Vec<u64> = probes
            .chunks(grain)
            .map(|chunk| chunk.iter().map(|probe| probe.cost_bytes).sum())
            .collect();
        let idle = match self.splitting() {
            Splitting::Domain => self.engine.hub.idle(self.local.group),
            Splitting::Never | Splitting::AllCores => 0,
        };
        let cut =
            self.strategy()
                .units(&costs, idle, self.engine.hub.at_work(), &self.engine.split);
        cut.into_iter()
            .map(|unit| unit.start * grain..(unit.end * grain).min(probes.len()))
            .collect()
    }

    pub(crate) fn push_units(&self, units: impl ExactSizeIterator<Item = Unit>) {
        self.engine.hub.push_units(&self.local, units);
    }

    pub(crate) fn next_unit(&mut self) -> Option<(Unit, Rung)> {
        self.engine.hub.next_unit(&mut self.local)
    }

    pub(crate) fn park(&self) {
        self.engine.hub.park(self.local.worker);
    }

    pub(crate) fn unpark(&self, worker: usize) {
        self.engine.hub.unpark(worker);
    }
}
