//! Who runs what next: groups of workers, their queues, the steal ladder, and the wake-up handshake.
//!
//! A *group* is the set of workers that share one queue: all workers of a domain. [`Hub::push`] accepts a task for a group and wakes
//! whoever may run it; [`Hub::next`] hands a worker its next task, or parks it. The order in which a worker
//! looks is the ladder of `chiplet_policy`: its own work, its siblings', another group's. `README.md` in this
//! folder says what state there is, `docs/correctness.md` states the handshake as numbered steps; the tests in
//! `loom_tests.rs` explore this very code.

mod faces;
mod invitations;
mod ladder;
#[cfg(all(test, chiplet_loom))]
mod loom_tests;
mod relief;
#[cfg(feature = "replay")]
pub(crate) mod replay;
mod seen;
mod sleep;
mod spill;
mod standby;
#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests;
mod wake;
mod watch;

use std::ops::Range;
use std::time::{Duration, Instant};

use chiplet_policy::group::Group;
pub(crate) use chiplet_policy::group::{Cover, Crossing};
use chiplet_policy::ladder::Ladder;
use chiplet_policy::queue::Run;
pub(crate) use chiplet_policy::queue::{Discipline, Pace, Refusal, Terms};
use chiplet_policy::{Rung, TableId, Time};
use chiplet_topology::DomainId;
use crossbeam_utils::CachePadded;

use crate::clock::Clock;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use crate::sync::{PAUSES, Step, deque, left_out};
pub(crate) use invitations::Invite;
use seen::Seen;
use sleep::{GroupSet, Parker};
use spill::Spilled;
use watch::Watch;

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
    pub(crate) crossing: Crossing,
    pub(crate) discipline: Discipline,
    /// How many threads may stand in for each worker while its task blocks.
    pub(crate) substitutes: usize,
}

/// A group, and what its workers and others share of it.
struct Shared<T, U> {
    domain: DomainId,
    workers: Range<usize>,
    substitutes: Range<usize>,
    /// Whether a substitute has ever been started.
    has_substitutes: AtomicBool,
    nearest: Vec<usize>,
    state: CachePadded<Mutex<Group<T>>>,
    seen: CachePadded<Seen>,
    /// Invitations on its workers' deques, at least. Written when something is shared out, not with every task.
    invitations: CachePadded<AtomicUsize>,
    /// What its workers let other groups' take part in.
    spilled: CachePadded<Mutex<Vec<Spilled<U>>>>,
}

impl<T, U> Shared<T, U> {
    /// Its workers, and their substitutes once there are any.
    fn threads(&self) -> impl Iterator<Item = usize> + Clone + use<T, U> {
        let substitutes = match self.has_substitutes.load(Ordering::Acquire) {
            true => self.substitutes.clone(),
            false => 0..0,
        };
        self.workers.clone().chain(substitutes)
    }
}

/// What a worker is woken for besides work of its own group ([`Seat::call`]).
mod call {
    pub(super) const NONE: u8 = 0;
    /// To help another group, if its own can spare it.
    pub(super) const HELP: u8 = 1;
    /// To help another group whose oldest task has waited too long.
    pub(super) const OVERDUE: u8 = 2;
}

struct Seat<U> {
    group: usize,
    parker: CachePadded<Parker>,
    /// It was woken to help another group and has not found work there yet. Whoever is diverted passes the call on.
    call: AtomicU8,
    invitations: deque::Stealer<U>,
}

/// The part of a worker that only its own thread touches.
pub(crate) struct Local<U> {
    pub(crate) worker: usize,
    pub(crate) group: usize,
    /// To take part in what this worker has started.
    invitations: deque::Worker<U>,
    run: Run,
    /// An invitation that it gave way with, and the rung that it came from: there is more to do.
    postponed: Option<(U, Rung)>,
    /// The group that it last took a task from besides its own, and what it ran of it.
    away: Option<(usize, Run)>,
    /// A recent time: when the last task ended or the last park did. Spares asking the clock for each take.
    now: Time,
    clock: Clock,
    /// For how many rounds it stays awake next.
    pauses: u32,
    ladder: Ladder,
    /// Where the last look for a sibling's invitations began; rotates so that thieves spread.
    turn: usize,
}

impl<U> Local<U> {
    fn new(worker: usize, group: usize, invitations: deque::Worker<U>, clock: Clock) -> Self {
        Self {
            worker,
            group,
            invitations,
            postponed: None,
            run: Run::default(),
            away: None,
            now: clock.now(),
            clock,
            pauses: PAUSES,
            ladder: Ladder::default(),
            turn: worker,
        }
    }

    /// It has something to run, and may spin again after it.
    fn found(&mut self) {
        self.ladder.found();
        self.pauses = PAUSES;
    }

    /// Says that it is `now`: when a task has ended, to which others have given time besides (`helped`), and which has
    /// waited for something else meanwhile (`blocked`).
    pub(crate) fn end_task(&mut self, now: Instant, helped: Duration, blocked: Duration) {
        self.now = self.clock.time(now);
        let now = self.now;
        self.present().end_shared(now, helped, blocked);
    }

    /// Says that the task which it has taken starts at `now`.
    pub(crate) fn start(&mut self, now: Instant) {
        let now = self.clock.time(now);
        self.present().start(now);
    }

    /// Says that it is `now`, when this worker has done its part of a task in which others still take part, and has waited
    /// for something else meanwhile (`blocked`). Whoever leaves that last says what it took: [`Hub::end_late`].
    pub(crate) fn hand_over(&mut self, now: Instant, blocked: Duration) -> Late {
        let now = self.clock.time(now);
        self.now = now;
        let away = self.away.as_ref().filter(|_| self.ladder.is_away());
        Late {
            group: away.map_or(self.group, |(group, _)| *group),
            away: away.is_some(),
            run: self.present().hand_over(),
            ended: now,
            blocked,
        }
    }

    /// Of the group that its task is from.
    fn present(&mut self) -> &mut Run {
        match &mut self.away {
            Some((_, run)) if self.ladder.is_away() => run,
            _ => &mut self.run,
        }
    }

    /// Says that it is `now`: when this worker has helped with another's task.
    pub(crate) fn set_clock(&mut self, now: Instant) {
        self.now = self.clock.time(now);
    }

    /// Keeps an invitation for after the task that goes before it.
    pub(crate) fn postpone(&mut self, invitation: U, rung: Rung) {
        debug_assert!(self.postponed.is_none(), "one thing is done at a time");
        self.postponed = Some((invitation, rung));
    }

    /// How long the task that it has taken will take, as far as is known, if others wait meanwhile.
    pub(crate) fn expected(&self) -> Option<Duration> {
        match &self.away {
            Some((_, run)) if self.ladder.is_away() => run.expected(),
            _ => self.run.expected(),
        }
    }
}

/// A task of which its worker has done its part, until the last of those who help leaves it.
pub(crate) struct Late {
    /// The group whose queue it was taken from, and whether by a worker of another.
    group: usize,
    away: bool,
    run: Run,
    /// When its worker had done its part.
    ended: Time,
    blocked: Duration,
}

#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
impl Default for Late {
    /// Of no queue.
    fn default() -> Self {
        Self {
            group: 0,
            away: false,
            run: Run::default(),
            ended: Time::ZERO,
            blocked: Duration::ZERO,
        }
    }
}

/// Something to run, and the rung of the ladder it came from.
pub(crate) enum Found<T, U> {
    Task(T, Rung),
    Invitation(U, Rung),
}

/// The scheduler's shared state. `T` is a task, `U` an invitation to take part in one that has been started.
pub(crate) struct Hub<T, U> {
    rules: Rules,
    groups: Box<[Shared<T, U>]>,
    /// Of every thread that there may be: the workers, then their substitutes.
    seats: Box<[Seat<U>]>,
    workers: usize,
    /// Groups with a worker to spare.
    spare: GroupSet,
    /// Groups whose queue is worth crossing for.
    needy: GroupSet,
    /// Groups that have spilled invitations.
    spilling: GroupSet,
    clock: Clock,
    /// Apart from the rest, which every worker reads with every task and nobody writes.
    watch: CachePadded<Watch>,
}

impl<T, U> Hub<T, U> {
    /// A hub and one [`Local`] for each worker, in worker order, and then for each substitute, in the order of the workers
    /// that they stand in for. Groups cover the workers `0..n` in order.
    pub(crate) fn new(rules: Rules, specs: Vec<GroupSpec>) -> (Self, Vec<Local<U>>) {
        let mut rules = rules;
        if left_out(Step::BoundRefuses) {
            let discipline = &mut rules.discipline;
            (discipline.limit, discipline.table_limit) = (usize::MAX, usize::MAX);
        }
        let crossing = rules.crossing;
        let clock = Clock::start();
        let workers: usize = specs.iter().map(|spec| spec.workers.len()).sum();
        let each = rules.substitutes;
        let group_of = |worker: usize| specs.iter().position(|spec| spec.workers.contains(&worker));
        let threads = (0..workers).chain((0..workers * each).map(|substitute| substitute / each));
        let mut seats = Vec::new();
        let mut locals = Vec::new();
        for (thread, worker) in threads.enumerate() {
            let group = group_of(worker).expect("groups cover all workers");
            let invitations = deque::Worker::new_fifo();
            seats.push(Seat {
                group,
                parker: CachePadded::new(Parker::new()),
                call: AtomicU8::new(call::NONE),
                invitations: invitations.stealer(),
            });
            locals.push(Local::new(thread, group, invitations, clock));
        }
        let count = specs.len();
        let groups = specs.into_iter().map(|spec| {
            let own = spec.workers;
            let substitutes = workers + own.start * each..workers + own.end * each;
            let state = Group::new(crossing, rules.discipline, own.clone(), substitutes.clone());
            let at_work = own.len() as u32;
            Shared {
                domain: spec.domain,
                workers: own,
                substitutes,
                has_substitutes: AtomicBool::new(false),
                nearest: spec.nearest,
                state: CachePadded::new(Mutex::new(state)),
                seen: CachePadded::new(Seen::new(at_work)),
                invitations: CachePadded::new(AtomicUsize::new(0)),
                spilled: CachePadded::new(Mutex::new(Vec::new())),
            }
        });
        let hub = Self {
            rules,
            groups: groups.collect(),
            seats: seats.into_boxed_slice(),
            workers,
            spare: GroupSet::new(count),
            needy: GroupSet::new(count),
            spilling: GroupSet::new(count),
            clock,
            watch: CachePadded::new(Watch::new()),
        };
        (hub, locals)
    }

    /// What times are counted by.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// When work may leave its group.
    pub(crate) fn crossing(&self) -> &Crossing {
        &self.rules.crossing
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Workers and substitutes, started or not.
    pub(crate) fn threads(&self) -> usize {
        self.seats.len()
    }

    pub(crate) fn domain_of(&self, group: usize) -> DomainId {
        self.groups[group].domain
    }

    pub(crate) fn group_of(&self, worker: usize) -> usize {
        self.seats[worker].group
    }

    /// Workers of `group` that have nothing to do now, asleep, about to be, or just woken; and tasks that wait for
    /// them.
    pub(crate) fn idle_and_waiting(&self, group: usize) -> (usize, usize) {
        let state = self.groups[group].state.lock();
        (state.idle(), state.queue.len())
    }

    /// Says that a task has ended at `now`, to which others than its worker have given so much time.
    pub(crate) fn end_late(&self, task: Late, now: Instant, helped: Duration) {
        let Late {
            group,
            away,
            mut run,
            ended,
            blocked,
        } = task;
        // Its own worker has not been at it since.
        let now = self.clock.time(now);
        let after = now.since(ended);
        run.end_shared(now, helped, blocked + after);
        self.groups[group].state.lock().queue.end_late(run, away);
    }

    /// A group, under its lock.
    pub(crate) fn group(&self, group: usize) -> &Mutex<Group<T>> {
        &self.groups[group].state
    }

    /// Counts refused tasks of `table`, `weight` of them; with `full` because there was no place: for that table, or for
    /// anybody. Dead tasks that hold places are then searched for, by the thread of the timed look.
    pub(crate) fn refuse(&self, group: usize, table: TableId, weight: u64, full: Option<Refusal>) {
        self.groups[group].state.lock().refuse(table, weight, full);
        if full.is_some() {
            self.watch.arm();
        }
    }

    /// Takes every task out of `group`'s queue for which `dead` holds, or those of one table.
    pub(crate) fn extract(
        &self,
        group: usize,
        of: Option<TableId>,
        dead: impl FnMut(&T) -> bool,
    ) -> Vec<(TableId, T)> {
        let now = self.clock.now();
        self.hold(group).extract(of, dead, now)
    }

    /// Accepts nothing from now on and wakes everybody: workers finish what is queued, then get `None`.
    pub(crate) fn close(&self) {
        for group in 0..self.groups.len() {
            let sleepers = {
                let mut state = self.hold(group);
                let (mut sleepers, off) = state.close(!left_out(Step::CloseRefuses));
                if !left_out(Step::CloseCallsAll) {
                    sleepers.extend(off);
                }
                sleepers
            };
            for worker in sleepers {
                self.seats[worker].parker.unpark();
            }
        }
        self.watch.close();
    }
}
