//! Who runs what next: groups of workers, their queues, the steal ladder, and the wake-up handshake.
//!
//! A *group* is the set of workers that share one queue: all workers of a domain under `ccd-aware`, a single
//! worker under the strategies that know no domains. [`Hub::push`] accepts a task for a group and wakes
//! whoever may run it; [`Hub::next`] hands a worker its next task, or parks it. The order in which a worker
//! looks is the ladder of `chiplet_policy`: its own work, its siblings', another group's. `README.md` in this
//! folder says what state there is, `docs/correctness.md` states the handshake as numbered steps; the tests in
//! `loom_tests.rs` explore this very code.

mod inbox;
mod ladder;
mod lanes;
#[cfg(all(test, chiplet_loom))]
mod loom_tests;
mod sleep;
mod standby;
#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests;
mod wake;

use std::ops::Range;
use std::time::Instant;

use chiplet_policy::{DomainLoad, Rung, StealConfig, StealRule, TableId};
use chiplet_topology::DomainId;
use crossbeam_utils::CachePadded;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{PAUSES, Step, deque, left_out, now};
pub(crate) use inbox::{Discipline, Inbox, Refusal, Run};
use sleep::{Parker, SpareGroups};

/// A group as it is asked for.
pub(crate) struct GroupSpec {
    pub(crate) domain: DomainId,
    pub(crate) workers: Range<usize>,
    /// Every other group, nearest first.
    pub(crate) nearest: Vec<usize>,
}

/// What the hub decides by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) stealing: StealRule,
    /// Whether scan units may leave their domain: so in the strategies that know no domains.
    pub(crate) units_anywhere: bool,
    pub(crate) steal: StealConfig,
    pub(crate) discipline: Discipline,
}

struct Group<T> {
    domain: DomainId,
    workers: Range<usize>,
    nearest: Vec<usize>,
    inbox: CachePadded<Mutex<Inbox<T>>>,
    /// The inbox's length, for looks without the lock. Written under it.
    queued: CachePadded<AtomicU32>,
    /// Workers that are not standing by, and the queue length from which an idle group may help them. Written under the
    /// inbox's lock, and hardly ever.
    at_work: AtomicU32,
    worth_crossing: AtomicU32,
}

impl<T> Group<T> {
    fn worth_crossing(&self) -> u32 {
        self.worth_crossing.load(Ordering::Acquire)
    }

    /// Whether its queue is long enough for an idle group to help, as far as can be seen without the lock.
    fn is_worth_crossing(&self) -> bool {
        self.queued.load(Ordering::Acquire) >= self.worth_crossing()
    }
}

impl Rules {
    /// Queue length from which an idle group may help one of so many workers.
    fn worth_crossing(&self, workers: usize) -> u32 {
        match self.stealing {
            StealRule::Never => u32::MAX,
            StealRule::Anywhere => 1,
            StealRule::Ladder => chiplet_policy::crossing_backlog(workers as u32, &self.steal),
        }
    }
}

struct Seat<U> {
    group: usize,
    parker: CachePadded<Parker>,
    /// It was woken to help another group and has not found work there yet. Whoever is diverted passes the call on.
    asked: AtomicBool,
    units: deque::Stealer<U>,
}

/// The part of a worker that only its own thread touches.
pub(crate) struct Local<U> {
    pub(crate) worker: usize,
    pub(crate) group: usize,
    units: deque::Worker<U>,
    run: Run,
    /// A recent time: when the last task ended or the last park did. Spares asking the clock for each take.
    now: Instant,
    abroad: bool,
    /// It has stayed awake for a while since it last found something: next it sleeps.
    lingered: bool,
    /// It has joined the sleepers and not left them itself; it may have been taken off.
    listed: bool,
    /// For how many rounds it stays awake next.
    pauses: u32,
    /// Where the last look for a sibling's units began; rotates so that thieves spread.
    turn: usize,
    loads: Vec<DomainLoad>,
}

impl<U> Local<U> {
    /// It has something to run, and may linger again after it.
    fn found(&mut self) {
        self.lingered = false;
        self.pauses = PAUSES;
    }

    /// Says that it is `now`: when a task has ended.
    pub(crate) fn tell(&mut self, now: Instant) {
        self.now = now;
        self.run.tell(now);
    }
}

/// Something to run, and the rung of the ladder it came from.
pub(crate) enum Found<T, U> {
    Task(T, Rung),
    Unit(U, Rung),
}

/// The scheduler's shared state. `T` is a task, `U` a scan unit.
pub(crate) struct Hub<T, U> {
    rules: Rules,
    groups: Box<[Group<T>]>,
    seats: Box<[Seat<U>]>,
    spare: SpareGroups,
}

impl<T, U> Hub<T, U> {
    /// A hub and one [`Local`] for each worker, in worker order. Groups cover the workers `0..n` in order.
    pub(crate) fn new(rules: Rules, specs: Vec<GroupSpec>) -> (Self, Vec<Local<U>>) {
        let mut seats = Vec::new();
        let mut locals = Vec::new();
        for (group, spec) in specs.iter().enumerate() {
            for worker in spec.workers.clone() {
                let units = deque::Worker::new_fifo();
                seats.push(Seat {
                    group,
                    parker: CachePadded::new(Parker::new()),
                    asked: AtomicBool::new(false),
                    units: units.stealer(),
                });
                locals.push(Local {
                    worker,
                    group,
                    units,
                    run: Run::default(),
                    now: now(),
                    abroad: false,
                    lingered: false,
                    listed: false,
                    pauses: PAUSES,
                    turn: worker,
                    loads: Vec::with_capacity(specs.len()),
                });
            }
        }
        let spare = SpareGroups::new(specs.len());
        let groups = specs
            .into_iter()
            .map(|spec| Group {
                at_work: AtomicU32::new(spec.workers.len() as u32),
                worth_crossing: AtomicU32::new(rules.worth_crossing(spec.workers.len())),
                domain: spec.domain,
                workers: spec.workers,
                nearest: spec.nearest,
                inbox: CachePadded::new(Mutex::new(Inbox::new(rules.discipline))),
                queued: CachePadded::new(AtomicU32::new(0)),
            })
            .collect();
        (
            Self {
                rules,
                groups,
                seats: seats.into_boxed_slice(),
                spare,
            },
            locals,
        )
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn workers(&self) -> usize {
        self.seats.len()
    }

    pub(crate) fn domain_of(&self, group: usize) -> DomainId {
        self.groups[group].domain
    }

    pub(crate) fn group_of(&self, worker: usize) -> usize {
        self.seats[worker].group
    }

    /// Workers of `group` that have nothing to do now, asleep, about to be, or just woken.
    pub(crate) fn idle(&self, group: usize) -> usize {
        let inbox = self.groups[group].inbox.lock();
        (inbox.sleepers.len() + inbox.lingering + inbox.woken).saturating_sub(inbox.queued())
    }

    /// The queue of `group`, for counters and for taking dead tasks out.
    pub(crate) fn inbox(&self, group: usize) -> &Mutex<Inbox<T>> {
        &self.groups[group].inbox
    }

    fn publish_length(&self, group: usize, inbox: &Inbox<T>) {
        self.groups[group]
            .queued
            .store(inbox.queued() as u32, Ordering::Release);
    }

    /// Keeps the group's bit in `spare` true to its inbox: a sleeper to call, nothing queued, and no worker on
    /// this group's own work (all asleep, abroad or standing by).
    fn refresh_spare(&self, group: usize, inbox: &mut Inbox<T>) {
        if !self.crosses() {
            return;
        }
        let offered = !inbox.sleepers.is_empty()
            && inbox.queued() == 0
            && inbox.sleepers.len() + inbox.abroad + inbox.standing_by
                == self.groups[group].workers.len();
        if offered != inbox.offered {
            inbox.offered = offered;
            if offered {
                self.spare.insert(group)
            } else {
                self.spare.remove(group)
            }
        }
    }

    /// Takes every task out of `group`'s queue for which `dead` holds, or those of one table.
    pub(crate) fn extract(
        &self,
        group: usize,
        of: Option<TableId>,
        dead: impl FnMut(&T) -> bool,
    ) -> Vec<(TableId, T)> {
        let mut inbox = self.groups[group].inbox.lock();
        let out = inbox.extract(of, dead);
        self.publish_length(group, &inbox);
        out
    }

    /// Accepts nothing from now on and wakes everybody: workers finish what is queued, then get `None`.
    pub(crate) fn close(&self) {
        for group in &self.groups {
            let sleepers = {
                let mut inbox = group.inbox.lock();
                inbox.close();
                let mut sleepers = inbox.wake(usize::MAX);
                if !left_out(Step::CloseCallsAll) {
                    sleepers.extend(&inbox.standby);
                }
                sleepers
            };
            for worker in sleepers {
                self.seats[worker].parker.unpark();
            }
        }
    }

    /// Parks `worker` until [`Hub::unpark`]; for waits that are not about queued work.
    pub(crate) fn park(&self, worker: usize) {
        self.seats[worker].parker.park();
    }

    /// Ends a [`Hub::park`].
    pub(crate) fn unpark(&self, worker: usize) {
        self.seats[worker].parker.unpark();
    }
}
