//! How a task gets into a queue: its table's home, another domain that has room, or back to its submitter.

use std::sync::Arc;
use std::time::Instant;

use chiplet_policy::{Class, Routing, Splitting};
use chiplet_topology::DomainId;

use super::Engine;
use super::registry::TableEntry;
use super::task::Task;
use crate::error::SubmitError;
use crate::scheduler::{Pace, Refusal};
use crate::sync::atomic::Ordering;
use crate::sync::{Step, left_out};

impl Engine {
    /// The group for a task of the table, which is of `class` and came at `at`.
    pub(crate) fn route(&self, entry: &TableEntry, at: Instant, class: Class) -> usize {
        match self.strategy.routing {
            Routing::Rotate => self.turn.fetch_add(1, Ordering::Relaxed) % self.hub.groups(),
            Routing::Home => {
                let (first, second) = entry.state.next_homes(self.draw(at));
                let first = self.group_of(first);
                let wait = |group| self.hub.wait(group, class, entry.state.pace());
                match second.map(|second| self.group_of(second)) {
                    Some(second) if wait(second) < wait(first) => second,
                    _ => first,
                }
            }
        }
    }

    /// A number for a choice at `at`. The clock's low digits are as good as a random number here, and need no shared state.
    fn draw(&self, at: Instant) -> u32 {
        at.saturating_duration_since(self.began).subsec_nanos() / 8
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
        let helpers = match self.strategy.splitting {
            Splitting::Domain | Splitting::Spill => entry.state.last_units.load(Ordering::Relaxed),
            Splitting::Never | Splitting::AllCores => 0,
        };
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
        (at, class): (Instant, Class),
        push: impl Fn(usize, L) -> Result<Pace, (Refusal, L)>,
    ) -> Result<(), (SubmitError, L)> {
        let mut group = self.route(entry, at, class);
        let load = match self.evens_out(entry, group, class) {
            Some(other) => match push(other, load) {
                Ok(_) => return Ok(()),
                Err((_, load)) => load,
            },
            None => load,
        };
        let mut refused = match push(group, load) {
            Ok(pace) => {
                entry.state.note(pace);
                return Ok(());
            }
            Err(refused) => refused,
        };
        // The home had its workers taken away between the look and the push: the table has another by now. Where
        // queries know no home the next group will do; so it will if homes change faster than this can follow.
        for step in 0..=self.hub.groups() {
            if refused.0 != Refusal::Vacant || left_out(Step::HomeSoughtAgain) {
                break;
            }
            group = match step {
                0 => self.route(entry, at, class),
                _ => (group + 1) % self.hub.groups(),
            };
            refused = match push(group, refused.1) {
                Ok(_) => return Ok(()),
                Err(refused) => refused,
            };
        }
        // Where memory is wanting, places are not.
        let full = !matches!(refused.0, Refusal::Closed | Refusal::NoMemory);
        // Full: another domain's workers are idle, so the task is better off there than refused.
        if full && let Some(spare) = self.hub.nearest_spare(group) {
            refused = match push(spare, refused.1) {
                Ok(_) => return Ok(()),
                Err((_, load)) => (refused.0, load),
            };
        }
        let (refusal, load) = refused;
        if refusal != Refusal::Closed {
            let full = full.then_some(refusal);
            self.hub.refuse(group, entry.id, weight, full);
        }
        let reason = match refusal {
            Refusal::Closed => SubmitError::ShuttingDown,
            // Vacant only if workers came and went throughout; a later try finds them.
            Refusal::GroupFull | Refusal::Vacant => SubmitError::Overloaded {
                domain: self.hub.domain_of(group).0,
                limit: self.queue_limit,
            },
            Refusal::TableFull => SubmitError::TableOverloaded {
                limit: entry
                    .state
                    .options
                    .queue_limit()
                    .unwrap_or(self.table_limit),
            },
            Refusal::NoMemory => SubmitError::OutOfMemory,
        };
        Err((reason, load))
    }

    /// Another domain whose queue is shorter than the home's by more than chance and a cold cache are worth, if any. A
    /// table that asks for more than its share waits at home: others need not pay for it.
    fn evens_out(&self, entry: &TableEntry, home: usize, class: Class) -> Option<usize> {
        match self.strategy.routing {
            Routing::Home if !entry.state.is_over_share() => {
                self.hub.evens_out(home, entry.id, class)
            }
            _ => None,
        }
    }
}
