//! A worker thread: asks the scheduler what is next, runs it, and never dies of what it runs.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::group::PublishedLoads;
use chiplet_policy::queue::Underway;
use chiplet_policy::{Hands, StealLevel, TableId, Time, is_too_late};
use chiplet_table::Class;
use chiplet_table::Probe;
use chiplet_table::host::Tally;
use chiplet_topology::DomainId;
use crossbeam_utils::CachePadded;

use super::registry::TableEntry;
use super::stats::{Note, Notes, OwnCounts};
use super::substitutes::Substitutes;
use super::task::{Header, Invitation, Shared, Task};
use super::{Engine, current};
use crate::counts::End;
use crate::report::Record;
use crate::scheduler::{Cover, Found, Late, Local, Refusal};
use crate::sync::now;

/// Where a worker's tasks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Locality {
    pub(crate) domain: DomainId,
    /// Its NUMA node, by the operating system's number.
    pub(crate) node: u32,
    pub(crate) package: u32,
}

/// The thread's own state.
pub(crate) struct Worker {
    pub(crate) engine: Arc<Engine>,
    local: Local<Invitation>,
    pub(crate) place: Locality,
    notes: RefCell<Notes>,
    /// What it shows of itself.
    pub(crate) counts: Arc<CachePadded<OwnCounts>>,
    /// When the task that it runs, or takes part in, was begun.
    pub(crate) began: Time,
    /// It has done nothing since its last task ended than to leave the answer.
    is_fresh: Cell<bool>,
}

/// A worker that blocks, until it goes.
struct Blocked<'a>(&'a Worker);

impl<'a> Blocked<'a> {
    fn begin(worker: &'a Worker) -> Self {
        let (engine, local) = (&worker.engine, &worker.local);
        let covered = match engine.scheduler.block(local) {
            Cover::Found(_) => true,
            Cover::Nobody => false,
            Cover::Start(substitute) => match Substitutes::start(engine, substitute) {
                Ok(()) => true,
                Err(error) => {
                    tracing::warn!(%error, "no thread could be started for a worker whose task blocks");
                    engine.scheduler.do_without(local, substitute);
                    false
                }
            },
        };
        current::set_covered(covered);
        Self(worker)
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        current::set_covered(false);
        self.0.engine.scheduler.unblock(&self.0.local);
    }
}

impl Worker {
    pub(crate) fn new(engine: Arc<Engine>, local: Local<Invitation>) -> Self {
        let domain = engine.scheduler.layout.domain_of(local.group);
        let spec = &engine.topology.domains()[domain.0 as usize];
        let (node, package) = (spec.node, spec.package);
        Self {
            notes: RefCell::new(engine.stats.join(local.group)),
            counts: engine.stats.own_counts(local.worker),
            engine,
            local,
            place: Locality {
                domain,
                node,
                package,
            },
            began: Time::ZERO,
            is_fresh: Cell::new(false),
        }
    }

    /// Runs tasks until the executor has closed and nothing is left.
    pub(crate) fn run(mut self) {
        current::enter(self.engine.id);
        let engine = Arc::clone(&self.engine);
        while let Some(found) = engine.scheduler.next(&mut self.local) {
            match found {
                Found::Task(task, level) => task.run(&mut self, level),
                Found::Invitation(invitation, level) => {
                    if let Some(more) = invitation.accept(&mut self, level) {
                        self.local.postpone(more, level);
                    }
                }
            }
        }
    }

    /// What time it is.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.engine.scheduler.clock().now()
    }

    /// Starts the task which it has taken from `level`. That is now; or when its last task ended, if nothing but the
    /// hand-over came between, which is so short that a plain task need not ask what time it is.
    #[inline]
    pub(crate) fn start(&mut self, header: &Header, level: StealLevel) -> Time {
        let is_fresh = self.is_fresh.take();
        let waited = header.accepted <= self.local.now && level == StealLevel::Own;
        let now = match is_fresh && waited && !header.has_deadline() {
            true => self.local.now,
            false => self.now(),
        };
        self.began = now;
        self.local.present().start(now);
        now
    }

    /// Says that it takes part in a task that was begun at `began`.
    pub(crate) fn take_part(&mut self, began: Time) {
        self.is_fresh.set(false);
        self.began = began;
    }

    /// Whether it should leave the task in which it takes part, which came and was begun then, for one that waits in
    /// its own domain.
    pub(crate) fn gives_way(&self, class: Class, came: Time, began: Time) -> bool {
        let scheduler = &self.engine.scheduler;
        scheduler.gives_way(&self.local, &Underway { class, came, began })
    }

    /// Says that a task has ended at `now`, which has used so much.
    #[inline]
    pub(crate) fn end_task(&mut self, now: Time, used: &Tally) {
        match used.helped.is_zero() && used.blocked.is_zero() {
            true => self.local.end_task(now, Duration::ZERO, Duration::ZERO),
            false => self.local.end_task(now, used.helped, used.blocked),
        }
    }

    /// Says that it has left the answer of the task which it has ended, and whether it called nobody for that.
    #[inline]
    pub(crate) fn has_answered(&self, quietly: bool) {
        self.is_fresh.set(quietly);
    }

    /// Says that it has done its part of a task at `now`, in which others still take part.
    pub(crate) fn hand_over(&mut self, now: Time, used: &Tally) -> Late {
        self.local.hand_over(now, used.blocked)
    }

    /// Says that another worker's task has ended at `now`, to which others than that one have given so much time.
    pub(crate) fn end_late(&self, task: Late, now: Time, helped: Duration) {
        self.engine.scheduler.end_late(task, now, helped);
    }

    /// Runs `code`, which waits for something that takes no processor, while a substitute takes tasks in this worker's
    /// place. Returns how long it took.
    pub(crate) fn block(&self, code: &mut dyn FnMut()) -> Duration {
        let began = self.now();
        self.counts.set_occupied(false);
        let blocked = Blocked::begin(self);
        code();
        drop(blocked);
        self.counts.set_occupied(true);
        self.now().since(began)
    }

    /// Says that it is `now`, when this worker has taken part in another's task.
    pub(crate) fn set_clock(&mut self, now: Time) {
        self.local.now = now;
    }

    /// What is known of a task in one piece that this worker took from `level` and ran: when it came, was begun and
    /// has ended.
    #[inline(always)]
    pub(crate) fn report(&self, level: StealLevel, [came, began, ended]: [Time; 3]) -> Record {
        let nanos = |from: Time, to: Time| to.as_nanos().saturating_sub(from.as_nanos());
        Record {
            wait: nanos(came, began),
            service: nanos(began, ended),
            domain: self.place.domain,
            units: 1,
            level,
        }
    }

    /// Whether the task that it has taken cannot be answered before its deadline, as far as can be told, and so is not
    /// begun: others wait, and the time is better spent on them.
    #[inline]
    pub(crate) fn is_too_late(&mut self, header: &Header, started: Time) -> bool {
        header.has_deadline() && self.ends_too_late(header, started)
    }

    #[cold]
    fn ends_too_late(&mut self, header: &Header, started: Time) -> bool {
        let left = header
            .deadline()
            .map_or(Duration::MAX, |at| at.saturating_duration_since(now()));
        let expected = self.local.expected().unwrap_or_default();
        let is_late = left.is_zero() || is_too_late(header.waited(started), left, expected);
        if is_late {
            self.local.present().miss();
        }
        is_late
    }

    /// Says that the task which it has taken had ended before.
    pub(crate) fn found_ended(&mut self, table: TableId, end: End, weight: u64) {
        if end == End::Expired {
            self.local.present().miss();
        }
        self.is_fresh.set(false);
        self.note(Note::untouched(table, end, weight));
    }

    /// Counts what it has done for a table, before anybody is told of that. It is on no task any more.
    #[inline]
    pub(crate) fn note(&self, note: Note) {
        self.notes.borrow_mut().add(note, &self.engine.stats);
        self.counts.set_occupied(false);
    }

    /// Workers that may take part in what this one starts, itself among them; with `spills` also other domains'.
    pub(crate) fn team(&self, spills: bool) -> usize {
        let scheduler = &self.engine.scheduler;
        let workers = match spills {
            true => scheduler.groups.at_work(),
            false => scheduler.groups.at_work_in(self.local.group),
        };
        workers.max(1)
    }

    /// Whether scan units of a table of `bytes` may go to other domains: its home's cache does not keep it.
    pub(crate) fn spills(&self, bytes: u64) -> bool {
        let domain = self
            .engine
            .topology
            .domains()
            .get(self.place.domain.0 as usize);
        domain.is_some_and(|domain| self.engine.split.is_stream(bytes, domain.cache_bytes))
    }

    /// Who could scan a query of which `left` bytes are left and on which `inside` workers are.
    pub(crate) fn hands(&self, inside: usize, left: u128) -> Hands {
        let (idle, waiting) = match self.engine.split.is_divisible(left) {
            true => self.engine.scheduler.idle_and_waiting(self.local.group),
            false => (0, 0),
        };
        Hands {
            inside,
            idle,
            waiting,
        }
    }

    /// How many of the next probes are the next scan unit, a multiple of `grain` or all of them.
    pub(crate) fn next_unit(
        &self,
        probes: &[Probe],
        grain: usize,
        left: u128,
        hands: &Hands,
        team: usize,
    ) -> usize {
        let costs = probes
            .chunks(grain)
            .map(|chunk| chunk.iter().map(|probe| probe.cost_bytes).sum());
        let config = &self.engine.split;
        let grains = config.next_unit(costs, left, hands, team);
        (grains * grain).min(probes.len())
    }

    /// Invites `places` workers to take part in `shared`, and wakes up to `wanted` that sleep.
    pub(crate) fn invite(&self, shared: &Arc<dyn Shared>, places: usize, wanted: usize) {
        if places == 0 {
            return;
        }
        let invitation = Invitation::new(Arc::clone(shared));
        let scheduler = &self.engine.scheduler;
        scheduler.invite(&self.local, invitation, places, wanted);
    }

    /// Lets `places` workers of other domains take part in `shared`, until [`Worker::withdraw`].
    pub(crate) fn spill(&self, shared: &Arc<dyn Shared>, places: usize) {
        let invitation = Invitation::new(Arc::clone(shared));
        self.engine.scheduler.spill(&self.local, invitation, places);
    }

    /// Takes back what this worker has spilled.
    pub(crate) fn withdraw(&self) {
        self.engine.scheduler.withdraw(&self.local);
    }

    /// How many parts of one block of the table's queries there should be at a time.
    pub(crate) fn parts_for(&self, entry: &TableEntry) -> usize {
        self.engine.parts_for(entry, self.engine.workers_for(entry))
    }

    /// Queues a task that goes on with what this worker has done a part of, and answers so many queries; or says why
    /// not.
    pub(crate) fn queue_again(&self, task: Arc<dyn Task>, queries: usize) -> Result<(), Refusal> {
        let now = self.now();
        let again = self.engine.go_on(task, queries, now);
        again.map_err(|(refusal, _)| refusal)
    }

    /// Counts tasks as accepted that no queue had: this worker goes on with them.
    pub(crate) fn accept(&self, table: TableId, tasks: u64) {
        let mut state = self.engine.scheduler.groups.lock(self.local.group);
        state.queue.count_accepted(table, tasks);
    }

    /// Whether a task waits in its own domain.
    pub(crate) fn is_wanted_at_home(&self) -> bool {
        self.engine.scheduler.is_wanted_at_home(&self.local)
    }
}
