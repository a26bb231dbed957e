//! How a task gets into a queue: its table's home, another domain that has room, or back to its submitter.

use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::group::PublishedLoads;
use chiplet_policy::route::{self, Unplaced};
use chiplet_policy::{LeftHome, Time};
use chiplet_table::Class;
use chiplet_topology::DomainId;

use super::Engine;
use super::registry::TableEntry;
use super::task::{Header, Task};
use crate::error::SubmitError;
use crate::scheduler::{Pace, Refusal, Terms};
use crate::sync::atomic::Ordering;
use crate::sync::{Step, left_out};

/// A longer wait is told as this one: nobody waits that long.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// Parts of one block at a time, for each worker: one that runs, and one for when that has ended.
const PARTS_A_WORKER: usize = 2;

impl Engine {
    /// The group for a task of the table, which is of `class` and came at `at`.
    #[inline(always)]
    pub(crate) fn route(&self, entry: &TableEntry, at: Time, class: Class) -> usize {
        let (first, second) = entry.state.next_homes(Self::draw(at));
        let homes = [first, second.unwrap_or(first)].map(|home| self.group_of(home));
        route::shorter(&self.scheduler.groups, homes, class)
    }

    /// A number for a choice at `at`. The clock's low digits are as good as a random number here, and need no shared
    /// state.
    fn draw(at: Time) -> u32 {
        (at.as_nanos() / 8) as u32
    }

    fn group_of(&self, domain: DomainId) -> usize {
        let group = self.group_of_domain.get(domain.0 as usize);
        group.copied().flatten().unwrap_or(0)
    }

    /// Accepts `task` for its table's home, or says why not. Of a caller that is `patient` no refusal is counted: it
    /// waits for room and asks again.
    pub(crate) fn admit(
        &self,
        header: &Header,
        task: Arc<dyn Task>,
        patient: bool,
    ) -> Result<(), SubmitError> {
        let entry = &*header.entry;
        let of = (header.accepted, header.class);
        // The same twice: each is compiled in where it is called, the first of them into this function.
        let push = |group, task, left_home| self.push_new(header, group, task, left_home);
        let again = |group, task, left_home| self.push_new(header, group, task, left_home);
        self.find_place(entry, task, of, push, again)
            .map_err(|unplaced| self.refuse(entry, unplaced, u64::from(!patient), of.1).0)
    }

    /// Puts a task that has just come into the queue of `group`, or hands it back.
    #[inline(always)]
    fn push_new(
        &self,
        header: &Header,
        group: usize,
        task: Arc<dyn Task>,
        left_home: Option<LeftHome>,
    ) -> Result<Pace, (Refusal, Arc<dyn Task>)> {
        let state = &header.entry.state;
        if left_home.is_some() {
            header.submitted.set(left_home);
        }
        let terms = Terms {
            expires: header.limit(),
            ..state.options.terms(header.class)
        };
        let pushed = self.push(&header.entry, group, terms, task, header.accepted);
        let pace = pushed.inspect_err(|_| header.submitted.set(None))?;
        // If the last query had work for others this one probably has. Were they woken by its runner, which sleeps too,
        // they would come when most is done.
        let helpers = state.last_units.load(Ordering::Relaxed);
        if helpers > 1 {
            // At most this task itself waits.
            self.scheduler.wake_several(group, helpers as usize - 1, 1);
        }
        Ok(pace)
    }

    /// Queues a task that goes on with work which has been accepted before, and answers so many queries of it. It
    /// stands behind what came until `now`. Hands it back if there is no place; nobody is refused then, as its work
    /// goes on.
    pub(crate) fn go_on(
        &self,
        task: Arc<dyn Task>,
        queries: usize,
        now: Time,
    ) -> Result<(), (Refusal, Arc<dyn Task>)> {
        let entry = &task.header().entry.clone();
        let class = task.header().class;
        let terms = Terms {
            queries: queries as u32,
            goes_on: true,
            ..entry.state.options.terms(class)
        };
        let push = |group, task: Arc<dyn Task>, left_home| {
            task.submitted().set(left_home);
            self.push(entry, group, terms, task, now)
        };
        self.find_place(entry, task, (now, class), push, push)
            .map_err(|unplaced| (unplaced.refusal, unplaced.load))
    }

    /// Puts a task that came at `at` into the queue of `group`, or hands it back.
    #[inline(always)]
    fn push(
        &self,
        entry: &TableEntry,
        group: usize,
        mut terms: Terms,
        task: Arc<dyn Task>,
        at: Time,
    ) -> Result<Pace, (Refusal, Arc<dyn Task>)> {
        terms.place = entry.state.place_in(group);
        let (pace, place) = self.scheduler.push(group, entry.id, &terms, task, at)?;
        if let Some(place) = place {
            let is_home = |group| {
                entry
                    .state
                    .homes
                    .contains(self.scheduler.layout.domain_of(group))
            };
            entry.state.keep_place(group, place, is_home);
        }
        Ok(pace)
    }

    /// How many tasks of the table a queue may hold.
    pub(crate) fn places(&self, entry: &TableEntry) -> usize {
        let own = entry.state.options.get().queue_limit;
        own.unwrap_or(self.table_limit).min(self.queue_limit)
    }

    /// How many parts of one block of the table's queries there are at a time, with so many workers. Fewer than
    /// [`PARTS_A_WORKER`] say where a queue may hold fewer.
    pub(crate) fn parts_for(&self, entry: &TableEntry, workers: usize) -> usize {
        (PARTS_A_WORKER * workers).min(self.places(entry)).max(1)
    }

    /// Workers at work in the homes of the table.
    pub(crate) fn workers_for(&self, entry: &TableEntry) -> usize {
        let homes = entry.state.homes.load();
        let at_work = |domain| self.scheduler.groups.at_work_in(self.group_of(domain));
        homes.iter().map(|home| at_work(home.domain)).sum()
    }

    /// Finds a group for `load`, which if refused counts as `weight` tasks, of a class that came at `at`: its table's
    /// home if that has places, else one that helps. Hands it back with the reason if there is none. `push` tries a
    /// group.
    #[inline(always)]
    pub(crate) fn place<L>(
        &self,
        entry: &TableEntry,
        load: L,
        weight: u64,
        (at, class): (Time, Class),
        push: impl Fn(usize, L, Option<LeftHome>) -> Result<Pace, (Refusal, L)>,
    ) -> Result<(), (SubmitError, L)> {
        self.find_place(entry, load, (at, class), &push, &push)
            .map_err(|unplaced| self.refuse(entry, unplaced, weight, class))
    }

    /// Counts a load that no queue has taken as `weight` tasks of `class`, and says why.
    #[cold]
    fn refuse<L>(
        &self,
        entry: &TableEntry,
        unplaced: Unplaced<L>,
        weight: u64,
        class: Class,
    ) -> (SubmitError, L) {
        let Unplaced {
            home,
            refusal,
            load,
        } = unplaced;
        // It would be refused for ever: no load, and no reason to look for dead tasks.
        if refusal == Refusal::TableFull && self.places(entry) == 0 {
            return (SubmitError::TableClosed, load);
        }
        let mut wait_us = 0;
        if refusal != Refusal::Closed {
            let full = refusal.is_for_places();
            let outlook = self.scheduler.refuse(home, (entry.id, class), weight, full);
            let wait = outlook.wait(class, entry.state.pace()).min(LONGEST_WAIT);
            // A number, as a refused query is moved back to its sender with it: the smaller, the better.
            wait_us = wait.as_micros() as u32;
        }
        let own = entry.state.options.get().queue_limit;
        let reason = match refusal {
            Refusal::Closed => SubmitError::ShuttingDown,
            // Vacant only if workers came and went throughout; a later try finds them.
            Refusal::GroupFull | Refusal::Vacant => SubmitError::Overloaded {
                domain: self.scheduler.layout.domain_of(home).0,
                limit: self.queue_limit,
                wait_us,
            },
            Refusal::TableFull => SubmitError::TableOverloaded {
                limit: own.unwrap_or(self.table_limit),
                wait_us,
            },
            Refusal::NoMemory => SubmitError::OutOfMemory,
        };
        (reason, load)
    }

    /// Puts `load` into the queue of a group: `push` tries the first, and `again`, which is the same, others.
    #[inline(always)]
    fn find_place<L>(
        &self,
        entry: &TableEntry,
        load: L,
        (at, class): (Time, Class),
        push: impl FnOnce(usize, L, Option<LeftHome>) -> Result<Pace, (Refusal, L)>,
        again: impl Fn(usize, L, Option<LeftHome>) -> Result<Pace, (Refusal, L)>,
    ) -> Result<(), Unplaced<L>> {
        let (groups, crossing) = (&self.scheduler.groups, self.scheduler.crossing());
        let home = self.route(entry, at, class);
        let of = (entry.id, class, entry.state.pace());
        let told = |(refusal, load)| match refusal {
            Refusal::Vacant if left_out(Step::HomeSoughtAgain) => (Refusal::GroupFull, load),
            _ => (refusal, load),
        };
        let evened = route::evens_out(groups, crossing, home, of);
        let placed = route::choose(
            &mut (),
            groups.count(),
            (home, evened),
            load,
            |()| self.route(entry, at, class),
            |(), home| route::nearest_spare(groups, crossing, home),
            (
                |(), group, left_home, load| push(group, load, left_home).map_err(told),
                |(), group, left_home, load| again(group, load, left_home).map_err(told),
            ),
        )?;
        if let Some(pace) = placed {
            entry.state.note(pace);
        }
        Ok(())
    }
}
