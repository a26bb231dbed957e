//! Who runs what next: groups of workers, their queues, the steal order, and the wake-up handshake.
//!
//! A *group* is the set of workers that share one queue: all workers of a domain. [`Scheduler::push`] accepts a task
//! for a group and wakes whoever may run it; [`Scheduler::next`] hands a worker its next task, or parks it. The order
//! in which a worker looks is the steal order of `chiplet_policy`: its own work, its siblings', another group's.
//! `README.md` in this folder says what state there is, `docs/correctness.md` states the handshake as numbered steps;
//! the tests in `loom_tests.rs` explore this very code.

mod find_task;
mod free_cores;
mod groups;
mod invitations;
mod local;
#[cfg(all(test, chiplet_loom))]
mod loom_tests;
mod monitor;
mod parkers;
mod prefetched;
mod published;
#[cfg(feature = "replay")]
pub(crate) mod replay;
mod standby;
mod steal_while_busy;
#[cfg(all(test, not(any(chiplet_loom, chiplet_shuttle))))]
mod tests;
mod wake;
mod worker_layout;

use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::group::Group;
pub(crate) use chiplet_policy::group::{Cover, Crossing};
use chiplet_policy::queue::Outlook;
pub(crate) use chiplet_policy::queue::{Discipline, Pace, Refusal, Terms};
use chiplet_policy::{TableId, Time};
use chiplet_table::Class;
use crossbeam_utils::CachePadded;

use crate::clock::Clock;
use crate::sync::{Step, left_out};
pub(crate) use free_cores::FreeCores;
use groups::{Groups, Held};
use invitations::Invitations;
pub(crate) use invitations::Invite;
pub(crate) use local::{Found, Late, Local};
use monitor::Monitor;
use parkers::Parkers;
use prefetched::Prefetched;
pub(crate) use worker_layout::GroupSpec;
use worker_layout::WorkerLayout;

/// What the scheduler decides by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) crossing: Crossing,
    pub(crate) discipline: Discipline,
    /// How many threads may stand in for each worker while its task blocks.
    pub(crate) substitutes: usize,
    /// How many processors the process may use.
    pub(crate) processors: usize,
    /// Whether workers take several short tasks at once.
    pub(crate) prefetches: bool,
}

/// The scheduler's shared state, each part under its own locks. `T` is a task, `U` an invitation to take part in one
/// that has been started.
pub(crate) struct Scheduler<T, U> {
    rules: Rules,
    clock: Clock,
    pub(crate) layout: WorkerLayout,
    pub(crate) groups: Groups<T>,
    pub(crate) cores: Arc<FreeCores>,
    parkers: Parkers,
    prefetched: Prefetched<T>,
    invitations: Invitations<U>,
    /// Those for other groups' workers.
    spills: Invitations<U>,
    /// Apart from the rest, which every worker reads with every task and nobody writes.
    monitor: CachePadded<Monitor>,
}

impl<T, U> Scheduler<T, U> {
    /// A scheduler and one [`Local`] for each worker, in their order. Groups cover the workers `0..n` in order.
    pub(crate) fn new(rules: Rules, specs: Vec<GroupSpec>) -> (Self, Vec<Local<U>>) {
        let mut rules = rules;
        if left_out(Step::BoundRefuses) {
            let discipline = &mut rules.discipline;
            (discipline.limit, discipline.table_limit) = (usize::MAX, usize::MAX);
        }
        let Rules {
            crossing,
            discipline,
            substitutes,
            processors,
            ..
        } = rules;
        let clock = Clock::start();
        let layout = WorkerLayout::new(&specs, substitutes);
        let count = specs.len();
        let groups = specs.into_iter().map(|spec| {
            let state = Group::new(crossing, discipline, spec.workers.clone());
            (spec, state)
        });
        let cores = Arc::new(FreeCores::new(processors, layout.workers()));
        let scheduler = Self {
            rules,
            clock,
            groups: Groups::new(groups, &cores),
            cores,
            parkers: Parkers::new(layout.threads()),
            prefetched: Prefetched::new(layout.workers()),
            invitations: Invitations::new(count),
            spills: Invitations::new(count),
            monitor: CachePadded::default(),
            layout,
        };
        let locals = (0..scheduler.layout.workers()).map(|worker| scheduler.local(worker));
        let locals = locals.collect();
        (scheduler, locals)
    }

    /// What only the thread itself touches of a worker or substitute.
    pub(crate) fn local(&self, thread: usize) -> Local<U> {
        let place = self.layout.stands_in_for(thread);
        Local::new(
            (thread, place),
            self.layout.group_of(thread),
            self.clock.now(),
        )
    }

    /// What times are counted by.
    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// When work may leave its group.
    pub(crate) fn crossing(&self) -> &Crossing {
        &self.rules.crossing
    }

    /// Workers of `group` that have nothing to do now, asleep, about to be, or just woken; and tasks that wait for
    /// them.
    pub(crate) fn idle_and_waiting(&self, group: usize) -> (usize, usize) {
        let state = self.groups.lock(group);
        (state.idle(), state.queue.len())
    }

    /// Says that a task has ended at `now`, to which others than its worker have given so much time.
    pub(crate) fn end_late(&self, mut task: Late, now: Time, helped: Duration) {
        // Its own worker has not been at it since.
        let blocked = task.blocked + now.since(task.ended);
        task.run.end_shared(now, helped, blocked);
        let mut state = self.groups.lock(task.group);
        state.queue.end_late(task.run, task.away);
    }

    /// A group under its lock. What changes of it is shown to others.
    #[inline]
    fn hold(&self, group: usize) -> Held<'_, T> {
        self.groups.hold(group, &self.parkers)
    }

    /// Counts refused tasks of `table` and `class`, `weight` of them; with `full` because there was no place: for that
    /// table, or for anybody. Dead tasks that hold places are then searched for, by the thread of the timed look.
    /// Returns what waits.
    pub(crate) fn refuse(
        &self,
        group: usize,
        (table, class): (TableId, Class),
        weight: u64,
        full: bool,
    ) -> Outlook {
        let now = self.clock.now();
        let outlook = {
            let mut state = self.groups.lock(group);
            state.refuse(table, class, weight, full);
            state.queue.outlook(now)
        };
        if full {
            self.monitor.arm();
        }
        outlook
    }

    /// Looks at the next tasks of `group`'s queue, and takes those out for which `dead` holds ([`Group::search`]).
    pub(crate) fn search(&self, group: usize, dead: impl FnMut(&T) -> bool) -> Vec<(TableId, T)> {
        let now = self.clock.now();
        self.hold(group).search(dead, now)
    }

    /// Queues again what `worker` has taken ahead, and wakes others for it. In one step: until the worker itself looks
    /// again, somebody has to see the tasks.
    fn put_back(&self, worker: usize, now: Time) {
        if !self.prefetched.may_be_with(worker..worker + 1) {
            return;
        }
        let group = self.layout.group_of(worker);
        let (woken, tasks) = {
            let mut state = self.hold(group);
            let before = state.queue.len();
            self.prefetched.put_back(worker, &mut state.queue);
            let tasks = state.queue.len() - before;
            (state.wake_for_all(now), tasks)
        };
        let unseen = tasks.saturating_sub(woken.len());
        for worker in woken {
            self.parkers.unpark(worker);
        }
        self.seek_help(group, unseen);
    }

    /// Takes every task out of `group`'s queue. What its workers have taken ahead goes there when it is closed.
    pub(crate) fn empty(&self, group: usize) -> Vec<(TableId, T)> {
        let now = self.clock.now();
        self.hold(group).empty(now)
    }

    /// Accepts nothing from now on and wakes everybody: workers finish what is queued, then get `None`.
    pub(crate) fn close(&self) {
        for group in 0..self.groups.count() {
            let sleepers = {
                let mut state = self.hold(group);
                let workers = self.layout.workers_of(group);
                for worker in workers.filter(|_| !left_out(Step::CloseTakesBack)) {
                    self.prefetched.put_back(worker, &mut state.queue);
                }
                let (mut sleepers, off) = state.close(!left_out(Step::CloseRefuses));
                if !left_out(Step::CloseCallsAll) {
                    sleepers.extend(off);
                }
                sleepers
            };
            for worker in sleepers {
                self.parkers.unpark(worker);
            }
        }
        self.monitor.close();
    }
}
