//! A worker thread: asks the hub what is next, runs it, and never dies of what it runs.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use chiplet_policy::{Rung, Splitting, StealRule, Strategy};

use crate::context::{Context, Place, Scratch, Wanted};
use crate::current;
use crate::ledger::Page;
use crate::scheduler::{Found, Local};
use crate::search::Unit;
use crate::shared::Shared;
use crate::table::{Probe, SplitTable};
use crate::task;

/// The thread's own state.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    local: Local<Unit>,
    place: Place,
    scratch: Scratch,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, local: Local<Unit>) -> Self {
        let domain = shared.hub.domain_of(local.group);
        let node = shared.topology.domains()[domain.0 as usize].node;
        Self {
            shared,
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
        current::enter(self.shared.id);
        let shared = Arc::clone(&self.shared);
        // Counted out even if a panic escapes, so that shutdown does not wait for a thread that is gone.
        let _leaves = shared.exits.leave_on_drop();
        while let Some(found) = shared.hub.next(&mut self.local) {
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

    pub(crate) fn index(&self) -> usize {
        self.local.worker
    }

    /// This worker's page of the ledger, locked.
    pub(crate) fn page(&self) -> impl std::ops::DerefMut<Target = Page> + '_ {
        self.shared.ledger.page(self.local.worker).lock()
    }

    pub(crate) fn splitting(&self) -> Splitting {
        self.strategy().splitting
    }

    /// Whether a split query's worker takes nothing but scan units until it is answered: `fork-join`.
    pub(crate) fn has_barrier(&self) -> bool {
        self.splitting() == Splitting::AllCores && self.strategy().stealing == StealRule::Never
    }

    fn strategy(&self) -> &Strategy {
        &self.shared.strategy
    }

    /// Cuts a query's probes into scan units, at multiples of the table's grain, for idle siblings.
    pub(crate) fn cut(&self, table: &dyn SplitTable, probes: &[Probe]) -> Vec<Range<usize>> {
        let grain = table.grain().max(1);
        let costs: Vec<u64> = probes
            .chunks(grain)
            .map(|chunk| chunk.iter().map(|probe| probe.cost_bytes).sum())
            .collect();
        let idle = match self.splitting() {
            Splitting::Domain => self.shared.hub.idle(self.local.group),
            Splitting::Never | Splitting::AllCores => 0,
        };
        let cut =
            self.strategy()
                .units(&costs, idle, self.shared.hub.at_work(), &self.shared.split);
        cut.into_iter()
            .map(|unit| unit.start * grain..(unit.end * grain).min(probes.len()))
            .collect()
    }

    pub(crate) fn push_units(&self, units: impl ExactSizeIterator<Item = Unit>) {
        self.shared.hub.push_units(&self.local, units);
    }

    pub(crate) fn next_unit(&mut self) -> Option<(Unit, Rung)> {
        self.shared.hub.next_unit(&mut self.local)
    }

    pub(crate) fn park(&self) {
        self.shared.hub.park(self.local.worker);
    }

    pub(crate) fn unpark(&self, worker: usize) {
        self.shared.hub.unpark(worker);
    }
}
