//! Workers that share a queue, as a value: what waits, who sleeps, is awake without work, or runs another group's task.
//!
//! Every operation says whom to wake and whom to call, and keeps what others may see of the group ([`PublishedLoad`]).
//! The executor holds a group under a lock and carries that out with atomics and parkers ([`Group::unpublished`]); a
//! simulator does it with events. A worker is known by its number, and its group by its place in a list.
//!
//! ```
//! use chiplet_policy::group::{Crossing, Group, Rest};
//! use chiplet_policy::queue::{Discipline, Run, Terms};
//! use chiplet_policy::{StealConfig, TableId, Time};
//!
//! let crossing = Crossing {
//!     steal: StealConfig::default(),
//!     groups: 2,
//! };
//! let mut group = Group::new(crossing, Discipline::for_workers(2), 0..2);
//! // Both workers have nothing to do; a task wakes the one that slept shortest.
//! for worker in 0..2 {
//!     assert!(matches!(group.rest(worker), Rest::Listed { .. }));
//! }
//! let came = Time::from_nanos(5_000);
//! let pushed = group.push(TableId::default(), &Terms::default(), "a query", came).unwrap();
//! assert_eq!((pushed.wake, group.queue.len()), (Some(1), 1));
//! ```

mod away;
mod published_load;
mod search;
mod worker_slots;

use std::ops::Range;

use chiplet_table::Class;

use crate::queue::{Discipline, Pace, Parts, Queue, Refusal, Run, Terms};
use crate::steal::Prices;
use crate::{Staff, TableId, Time, can_help};
pub use away::{LOOK, Looked};
pub use published_load::{Crossing, Next, PublishedLoad, PublishedLoads, Unpublished};
use search::{STEPS, Search};
pub use worker_slots::Cover;
use worker_slots::WorkerSlots;

/// A group of workers.
pub struct Group<T> {
    /// What waits. Tasks come and go by the group's own operations; what the queue counts and learns may be reached
    /// here.
    pub queue: Queue<T>,
    crossing: Crossing,
    prices: Prices,
    search: Search,
    slots: WorkerSlots,
    /// Workers that sleep, or are about to.
    sleepers: Vec<usize>,
    /// Workers that were taken off `sleepers` and have not come to look yet.
    woken: usize,
    /// Workers that are awake without work and look at the queue.
    spinning: usize,
    /// Workers that run another group's task now.
    away: usize,
    load: PublishedLoad,
    unpublished: Unpublished,
}

/// A task was accepted, or several at once. `W` is whom to wake for it.
#[must_use]
#[derive(Debug)]
pub struct Pushed<W> {
    /// How fast its table's tasks come.
    pub pace: Pace,
    /// Where the queue keeps the table, if the caller did not say.
    pub place: Option<u32>,
    /// Workers to wake.
    pub wake: W,
    /// So many tasks none of the group's workers will see soon.
    pub unseen: usize,
    /// It is left to workers that are awake while others sleep, so the timed look has to see whether they come.
    pub left: bool,
}

/// What a worker finds at its own group.
#[must_use]
#[derive(Debug)]
pub enum Take<T> {
    /// It is to stand by.
    OffDuty,
    /// No task.
    Nothing,
    /// A task.
    Task {
        /// It.
        task: T,
        /// The queue has become worth crossing for, so another group's worker is to be called.
        calls: bool,
    },
}

/// What a worker without work does.
#[must_use]
#[derive(Debug)]
pub enum Rest {
    /// There is something for it after all.
    LookAgain,
    /// It sleeps, as far as its group knows: it makes a last look at what is elsewhere, and parks.
    Listed {
        /// It may help other groups.
        helps: bool,
        /// The queue is closed: nobody calls it any more.
        closed: bool,
    },
}

impl<T> Group<T> {
    /// A group of `workers`, all of them awake.
    pub fn new(crossing: Crossing, discipline: Discipline, workers: Range<usize>) -> Self {
        Self {
            queue: Queue::new(discipline, workers.len()),
            crossing,
            prices: crossing.steal.prices(),
            search: Search::default(),
            slots: WorkerSlots::new(workers),
            sleepers: Vec::new(),
            woken: 0,
            spinning: 0,
            away: 0,
            load: PublishedLoad::default(),
            unpublished: Unpublished::default(),
        }
    }

    /// Accepts `task`, which came at `at`, or hands it back.
    #[inline(always)]
    pub fn push(
        &mut self,
        table: TableId,
        terms: &Terms,
        task: T,
        at: Time,
    ) -> Result<Pushed<Option<usize>>, (Refusal, T)> {
        let pace = self.queue.push(table, terms, task, at)?;
        self.show_at(at);
        // Each spinning worker will see one.
        let seen = self.queue.len() <= self.spinning;
        let wake = match seen {
            true => None,
            false => self.wake_one(),
        };
        self.show_spare();
        let place = match terms.place {
            Some(_) => None,
            None => self.queue.place_of(table),
        };
        Ok(Pushed {
            pace,
            place,
            wake,
            unseen: usize::from(wake.is_none() && !seen),
            left: seen && self.is_left_to_others(),
        })
    }

    /// Accepts all of `tasks`, each with its queries, which came at `at`, or hands all of them back. As many workers
    /// are to be woken as if they had come one by one.
    pub fn push_all(
        &mut self,
        table: TableId,
        terms: &Terms,
        tasks: Parts<T>,
        at: Time,
    ) -> Result<Pushed<Vec<usize>>, (Refusal, Parts<T>)> {
        let count = tasks.len();
        let pace = self.queue.push_all(table, terms, tasks, at)?;
        self.show_at(at);
        let unseen = self.queue.len().saturating_sub(self.spinning).min(count);
        let wake = self.wake(unseen);
        Ok(Pushed {
            pace,
            place: None,
            unseen: unseen - wake.len(),
            wake,
            left: unseen < count && self.is_left_to_others(),
        })
    }

    /// The next task for one of the group's own workers, which comes back from another group's if it `returns`. `now`
    /// may be a little old. `ahead` may take so many more for it ([`Queue::prefetch`]).
    #[inline(always)]
    pub fn take(
        &mut self,
        worker: usize,
        returns: bool,
        run: &mut Run,
        now: Time,
        ahead: impl FnOnce(&mut Queue<T>, &Run, usize),
    ) -> Take<T> {
        if returns {
            self.away -= 1;
        }
        if self.is_off(worker) {
            return Take::OffDuty;
        }
        match self.queue.take(false, run, now) {
            None => Take::Nothing,
            Some(task) => {
                let part = self.part_ahead(run);
                if part > 0 {
                    ahead(&mut self.queue, run, part);
                }
                let calls = self.show_at(now);
                self.show_spare();
                Take::Task { task, calls }
            }
        }
    }

    /// How many tasks more a worker may [take ahead](Queue::prefetch) that has just taken the one of `run`: its part of
    /// what waits, if the task is short and nobody is without work.
    #[inline]
    fn part_ahead(&self, run: &Run) -> usize {
        match run.is_short() && self.idle() == 0 && !self.queue.is_closed() {
            true => self.queue.len() / self.queue.workers().max(1),
            false => 0,
        }
    }

    /// A worker without work stays awake for a moment. False: there is something for it.
    ///
    /// It is counted, so that a push need not wake a sleeper for a task that this worker is about to see. When it stops
    /// looking it says so ([`Group::stop_spinning`]) and looks at the queue once more after that.
    pub fn spin(&mut self) -> bool {
        let waits = self.queue.is_empty() && !self.queue.is_closed();
        self.spinning += usize::from(waits);
        waits
    }

    /// A worker does not stay awake any longer.
    pub fn stop_spinning(&mut self) {
        self.spinning -= 1;
    }

    /// A worker without work joins the sleepers.
    pub fn rest(&mut self, worker: usize) -> Rest {
        if !self.queue.is_empty() || self.is_off(worker) {
            return Rest::LookAgain;
        }
        let closed = self.queue.is_closed();
        if !closed {
            self.sleepers.push(worker);
            self.show_spare();
        }
        Rest::Listed {
            helps: self.load.spare || closed,
            closed,
        }
    }

    /// A worker that has joined the sleepers is awake. False: it was not among them, because somebody has woken it
    /// meanwhile, or because the queue is closed.
    pub fn leave(&mut self, worker: usize) -> bool {
        let slept = self.take_off(worker);
        if !slept {
            self.woken -= 1;
        }
        self.show_spare();
        slept
    }

    fn take_off(&mut self, worker: usize) -> bool {
        let before = self.sleepers.len();
        self.sleepers.retain(|&other| other != worker);
        self.sleepers.len() < before
    }

    /// Takes up to `wanted` workers off the sleepers, those that slept shortest first. The caller wakes them.
    pub fn wake(&mut self, wanted: usize) -> Vec<usize> {
        let keep = self.sleepers.len().saturating_sub(wanted);
        let woken = self.sleepers.split_off(keep);
        self.woken += woken.len();
        self.show_spare();
        woken
    }

    /// As [`Group::wake`], for one.
    pub fn wake_one(&mut self) -> Option<usize> {
        let worker = self.sleepers.pop()?;
        self.woken += 1;
        self.show_spare();
        Some(worker)
    }

    /// As [`Group::wake`], unless more than `at_most` tasks wait, for which they are woken anyway. A submitter calls it
    /// when there will be work for several in a moment: waking takes longer than that.
    pub fn wake_several(&mut self, wanted: usize, at_most: usize) -> Vec<usize> {
        match self.queue.len() > at_most {
            true => Vec::new(),
            false => self.wake(wanted),
        }
    }

    /// One of its workers takes part in what a sibling has started, though a task waits that a push may have left to
    /// it. `Ok`: whom to wake in its place; `Err`: nobody, and whether the task is left to others that are awake.
    pub fn hand_on(&mut self) -> Result<Option<usize>, bool> {
        match self.queue.len() <= self.spinning {
            true => Err(self.is_left_to_others()),
            false => Ok(self.wake_one()),
        }
    }

    /// Whether what waits is left to workers that are awake while others sleep.
    pub fn is_left_to_others(&self) -> bool {
        !self.queue.is_empty() && !self.sleepers.is_empty()
    }

    /// Workers that have nothing to do, asleep, about to be, or just woken.
    pub fn idle(&self) -> usize {
        self.sleepers.len() + self.spinning + self.woken
    }

    /// Workers that sleep, or are about to.
    pub fn asleep(&self) -> usize {
        self.sleepers.len()
    }

    /// A task of `table` and `class` was refused, `weight` of them; for want of a place if it was `full`. Dead tasks
    /// that hold places are to be searched for then.
    pub fn refuse(&mut self, table: TableId, class: Class, weight: u64, full: bool) {
        self.queue.count_shed(table, class, weight);
        self.search.wanted |= full;
    }

    /// Looks at the next thousand tasks or so, and takes those out for which `dead` holds. Until all have been looked
    /// at, more is due at once.
    pub fn search(&mut self, dead: impl FnMut(&T) -> bool, now: Time) -> Vec<(TableId, T)> {
        let (out, is_through) = self.queue.search(STEPS, dead);
        if is_through {
            self.search.ends(now);
        }
        // With fewer tasks it is hardly worth more; if it is, the timed look sees it.
        self.show_at(now);
        out
    }

    /// Takes out all that waits.
    pub fn empty(&mut self, now: Time) -> Vec<(TableId, T)> {
        let out = self.queue.extract(|_| true);
        self.show_at(now);
        out
    }

    /// Closes the queue, and with `refuses` accepts nothing from now on. Gives all that are to be woken: sleepers, and
    /// those that stand by.
    pub fn close(&mut self, refuses: bool) -> (Vec<usize>, &[usize]) {
        self.queue.close(refuses);
        (self.wake(usize::MAX), self.slots.off())
    }

    /// How others see the group.
    pub fn published_load(&self) -> &PublishedLoad {
        &self.load
    }

    /// What of the load others have not been shown. Whoever holds the group's lock shows it before letting go.
    pub fn unpublished(&mut self) -> Unpublished {
        std::mem::take(&mut self.unpublished)
    }

    /// Whether the queue is closed and empty: whoever has stayed for what waited here may go.
    pub fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.queue.is_closed()
    }

    /// Sets what others see of the queue at `now`. True if it has become worth crossing for.
    #[inline]
    pub fn show_at(&mut self, now: Time) -> bool {
        self.crossing.is_possible() && self.set_published_load(now)
    }

    fn set_published_load(&mut self, now: Time) -> bool {
        self.unpublished.tasks = true;
        if self.queue.is_empty() {
            (self.load.work, self.load.next) = Default::default();
            return self.set_overloaded(false);
        }
        let outlook = self.queue.outlook(now);
        let (load, backlog) = (&mut self.load, &outlook.backlog);
        load.price = self.prices.of(backlog);
        load.work = outlook.work;
        load.next = Some(Next {
            since: Time::from_nanos(now.as_nanos().saturating_sub(backlog.age)),
            fair: outlook.fair,
        });
        let is_overloaded = self.prices.are_worth(backlog, load.price);
        self.set_overloaded(is_overloaded)
    }

    #[inline(always)]
    fn set_overloaded(&mut self, overloaded: bool) -> bool {
        let before = std::mem::replace(&mut self.load.overloaded, overloaded);
        self.unpublished.overloaded |= before != overloaded;
        overloaded && !before
    }

    /// Sets whether the group has workers to spare: a sleeper that may help others, and nothing queued.
    #[inline]
    fn show_spare(&mut self) {
        if self.crossing.is_possible() {
            self.set_spare();
        }
    }

    fn set_spare(&mut self) {
        let spare = self.queue.is_empty() && can_help(&self.staff());
        self.unpublished.spare |= std::mem::replace(&mut self.load.spare, spare) != spare;
    }

    /// How the group's own need of its workers stands. Those that spin count as at work: they are about to be.
    fn staff(&self) -> Staff {
        let workers = self.slots.active();
        let idle = self.sleepers.len();
        Staff {
            workers: workers as u32,
            idle: idle as u32,
            at_home: (workers - idle - self.away) as u32,
        }
    }
}
