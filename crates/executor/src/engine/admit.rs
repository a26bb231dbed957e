//! How a task gets into a queue: its table's home, another domain that has room, or back to its submitter.

use std::sync::Arc;
use std::time::Duration;

use chiplet_policy::route::{self, Queues, Unplaced};
use chiplet_policy::{Class, Time};
use chiplet_topology::DomainId;

use super::Engine;
use super::registry::TableEntry;
use super::task::Task;
use crate::error::SubmitError;
use crate::scheduler::{Pace, Refusal};
use crate::sync::atomic::Ordering;
use crate::sync::{Step, left_out};

/// A longer wait is told as this one: nobody waits that long.
const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

impl Engine {
    /// The group for a task of the table, which is of `class` and came at `at`.
    pub(crate) fn route(&self, entry: &TableEntry, at: Time, class: Class) -> usize {
        let (first, second) = entry.state.next_homes(Self::draw(at));
        let homes = [first, second.unwrap_or(first)].map(|home| self.group_of(home));
        route::shorter(&self.hub.groups, homes, class, entry.state.pace())
    }

    /// A number for a choice at `at`. The clock's low digits are as good as a random number here, and need no shared state.
    fn draw(at: Time) -> u32 {
        (at.as_nanos() / 8) as u32
    }

    fn group_of(&self, domain: DomainId) -> usize {
        let group = self.group_of_domain.get(domain.0 as usize);
        group.copied().flatten().unwrap_or(0)
    }

    /// Accepts `task` for its table's home, or says why not.
    pub(crate) fn admit(&self, entry: &TableEntry, task: Arc<dyn Task>) -> Result<(), SubmitError> {
        let (at, class) = (task.header().accepted, task.header().class);
        let terms = entry.state.options.terms(class);
        // If the last query had work for others this one probably has. Were they woken by its runner, which sleeps too,
        // they would come when most is done.
        let helpers = entry.state.last_units.load(Ordering::Relaxed);
        let push = |group, task| {
            let pace = self.hub.push(group, entry.id, terms, task, at)?;
            if helpers > 1 {
                // At most this task itself waits.
                self.hub.rouse(group, helpers as usize - 1, 1);
            }
            Ok(pace)
        };
        self.place(entry, task, 1, (at, class), push)
            .map_err(|(refusal, _)| refusal)
    }

    /// Finds a group for `load`, which counts as `weight` tasks of a class that came at `at`: its table's home if that
    /// has places, else one that helps. Hands it back with the reason if there is none. `push` tries a group.
    pub(crate) fn place<L>(
        &self,
        entry: &TableEntry,
        load: L,
        weight: u64,
        (at, class): (Time, Class),
        push: impl Fn(usize, L) -> Result<Pace, (Refusal, L)>,
    ) -> Result<(), (SubmitError, L)> {
        let mut queues = Homes {
            engine: self,
            entry,
            at,
            class,
            push,
        };
        let Unplaced {
            home,
            refusal,
            load,
        } = match route::place(&mut queues, load) {
            Ok(pace) => {
                pace.into_iter().for_each(|pace| entry.state.note(pace));
                return Ok(());
            }
            Err(unplaced) => unplaced,
        };
        let mut wait_us = 0;
        if refusal != Refusal::Closed {
            let full = refusal.is_for_places().then_some(refusal);
            let outlook = self.hub.refuse(home, entry.id, weight, full);
            let wait = outlook.wait(class, entry.state.pace()).min(LONGEST_WAIT);
            // A number, as a refused query is moved back to its sender with it: the smaller, the better.
            wait_us = wait.as_micros() as u32;
        }
        let reason = match refusal {
            Refusal::Closed => SubmitError::ShuttingDown,
            // Vacant only if workers came and went throughout; a later try finds them.
            Refusal::GroupFull | Refusal::Vacant => SubmitError::Overloaded {
                domain: self.hub.crew.domain_of(home).0,
                limit: self.queue_limit,
                wait_us,
            },
            Refusal::TableFull => SubmitError::TableOverloaded {
                limit: entry
                    .state
                    .options
                    .queue_limit()
                    .unwrap_or(self.table_limit),
                wait_us,
            },
            Refusal::NoMemory => SubmitError::OutOfMemory,
        };
        Err((reason, load))
    }
}

/// The queues that a load of one table may go to.
struct Homes<'a, F> {
    engine: &'a Engine,
    entry: &'a TableEntry,
    at: Time,
    class: Class,
    push: F,
}

impl<L, F: Fn(usize, L) -> Result<Pace, (Refusal, L)>> Queues<L> for Homes<'_, F> {
    fn home(&mut self) -> usize {
        self.engine.route(self.entry, self.at, self.class)
    }

    fn evened(&mut self, home: usize) -> Option<usize> {
        let of = (self.entry.id, self.class, self.entry.state.pace());
        route::evens_out(
            &self.engine.hub.groups,
            self.engine.hub.crossing(),
            home,
            of,
        )
    }

    fn spare(&mut self, home: usize) -> Option<usize> {
        route::nearest_spare(&self.engine.hub.groups, self.engine.hub.crossing(), home)
    }

    fn groups(&self) -> usize {
        self.engine.hub.groups.count()
    }

    fn push(&mut self, group: usize, load: L) -> Result<Pace, (Refusal, L)> {
        (self.push)(group, load).map_err(|(refusal, load)| match refusal {
            Refusal::Vacant if left_out(Step::HomeSoughtAgain) => (Refusal::GroupFull, load),
            _ => (refusal, load),
        })
    }
}
