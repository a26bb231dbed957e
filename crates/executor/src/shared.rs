//! What all threads of one executor share, and the way a task gets in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chiplet_policy::{Routing, SplitConfig, Splitting, Strategy, TableId};
use chiplet_topology::{DomainId, Topology};

use crate::balance::Balancer;
use crate::batch::Batch;
use crate::cell::contain;
use crate::counts::End;
use crate::error::{Error, SubmitError};
use crate::ledger::Ledger;
use crate::registry::{Registry, TableEntry};
use crate::scheduler::{Hub, Pace, Refusal};
use crate::search::Unit;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex, Step, left_out, now};
use crate::task::Task;
use crate::timer::Timer;

/// A full queue is searched for dead tasks at most this often, so that a flood of refused submits does not
/// walk it each time.
const PURGE_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) struct Shared {
    pub(crate) id: u64,
    pub(crate) topology: Arc<Topology>,
    pub(crate) strategy: Strategy,
    pub(crate) split: SplitConfig,
    pub(crate) hub: Hub<Arc<dyn Task>, Unit>,
    pub(crate) registry: Registry,
    pub(crate) ledger: Ledger,
    pub(crate) balancer: Balancer,
    pub(crate) exits: Exits,
    pub(crate) timer: Arc<Timer>,
    /// Group of each domain of the topology; `None` if it has no worker.
    pub(crate) group_of_domain: Vec<Option<usize>>,
    pub(crate) queue_limit: usize,
    pub(crate) table_limit: usize,
    turn: AtomicUsize,
    began: Instant,
}

/// The fixed parts of [`Shared`].
pub(crate) struct Parts {
    pub(crate) topology: Arc<Topology>,
    pub(crate) strategy: Strategy,
    pub(crate) split: SplitConfig,
    pub(crate) hub: Hub<Arc<dyn Task>, Unit>,
    pub(crate) balancer: Balancer,
    pub(crate) group_of_domain: Vec<Option<usize>>,
    pub(crate) queue_limit: usize,
    pub(crate) table_limit: usize,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Self {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let workers = parts.hub.workers();
        let timer = Arc::new(Timer::default());
        Self {
            id: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            topology: parts.topology,
            strategy: parts.strategy,
            split: parts.split,
            hub: parts.hub,
            registry: Registry::new(Arc::clone(&timer)),
            ledger: Ledger::new(workers),
            balancer: parts.balancer,
            exits: Exits::new(workers, Arc::clone(&timer)),
            timer,
            group_of_domain: parts.group_of_domain,
            queue_limit: parts.queue_limit,
            table_limit: parts.table_limit,
            turn: AtomicUsize::new(0),
            began: now(),
        }
    }

    /// The group for the table's next task.
    pub(crate) fn route(&self, entry: &TableEntry) -> usize {
        match self.strategy.routing {
            Routing::Rotate => self.turn.fetch_add(1, Ordering::Relaxed) % self.hub.groups(),
            Routing::Home => {
                let (first, second) = entry.state.next_homes();
                let first = self.group_of(first);
                match second.map(|second| self.group_of(second)) {
                    Some(second) if self.hub.wait(second) < self.hub.wait(first) => second,
                    _ => first,
                }
            }
        }
    }

    fn group_of(&self, domain: DomainId) -> usize {
        let group = self.group_of_domain.get(domain.0 as usize);
        group.copied().flatten().unwrap_or(0)
    }

    /// Accepts `task` for its table's home, or says why not.
    pub(crate) fn admit(&self, entry: &TableEntry, task: Arc<dyn Task>) -> Result<(), SubmitError> {
        let at = task.header().accepted;
        // If the last query was worth cutting this one probably is, and its units want hands.
        let helpers = match self.strategy.splitting {
            Splitting::Domain => {
                let units = entry.state.last_units.load(Ordering::Relaxed);
                units.saturating_sub(1) as usize
            }
            Splitting::Never | Splitting::AllCores => 0,
        };
        let push = |group, task, is_home| {
            let helpers = if is_home { helpers } else { 0 };
            self.hub.push(group, entry.id, task, at, helpers)
        };
        self.place(entry, task, 1, at, push)
            .map_err(|(refusal, _)| refusal)
    }

    /// As [`Shared::admit`], for all parts of a batch or none; hands the batch back.
    pub(crate) fn admit_batch(&self, batch: Arc<Batch>) -> Result<(), (SubmitError, Arc<Batch>)> {
        let entry = Arc::clone(&batch.header.entry);
        let at = batch.header.accepted;
        let weight = batch.queries.len() as u64;
        let push = |group, batch: Arc<Batch>, _| {
            let workers = match self.strategy.routing {
                Routing::Home => self.hub.at_work_in(group),
                // Whoever may steal from anywhere.
                Routing::Rotate => self.hub.at_work(),
            };
            let parts = batch.cut(workers.max(1));
            let pushed = self.hub.push_all(group, entry.id, parts, weight, at);
            pushed.map_err(|(refusal, _)| (refusal, batch))
        };
        self.place(&entry, batch, weight, at, push)
    }

    /// Finds a group for `load`, which counts as `weight` tasks that came at `at`: its table's home if that has places,
    /// else one that helps. Hands it back with the reason if there is none. `push` tries a group, and is told whether
    /// that is the home.
    fn place<L>(
        &self,
        entry: &TableEntry,
        load: L,
        weight: u64,
        at: Instant,
        push: impl Fn(usize, L, bool) -> Result<Pace, (Refusal, L)>,
    ) -> Result<(), (SubmitError, L)> {
        let mut group = self.route(entry);
        let load = match self.evens_out(entry, group, at) {
            Some(other) => match push(other, load, false) {
                Ok(_) => return Ok(()),
                Err((_, load)) => load,
            },
            None => load,
        };
        let mut refused = match push(group, load, true) {
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
                0 => self.route(entry),
                _ => (group + 1) % self.hub.groups(),
            };
            refused = match push(group, refused.1, true) {
                Ok(_) => return Ok(()),
                Err(refused) => refused,
            };
        }
        // Places are not what is wanting where memory is, and looking for dead tasks would want more of it.
        let full = !matches!(refused.0, Refusal::Closed | Refusal::NoMemory);
        // Full: another domain's workers are idle, so the task is better off there than refused.
        if full && let Some(spare) = self.hub.nearest_spare(group) {
            refused = match push(spare, refused.1, false) {
                Ok(_) => return Ok(()),
                Err((_, load)) => (refused.0, load),
            };
        }
        let of = (refused.0 == Refusal::TableFull).then_some(entry.id);
        let (refusal, load) = if full && self.purge(group, of, at) {
            match push(group, refused.1, true) {
                Ok(_) => return Ok(()),
                Err(refused) => refused,
            }
        } else {
            refused
        };
        if refusal != Refusal::Closed {
            let mut inbox = self.hub.inbox(group).lock();
            inbox.queue.count_shed(entry.id, weight);
        }
        let reason = match refusal {
            Refusal::Closed => SubmitError::ShuttingDown,
            // Vacant only if workers came and went throughout; a later try finds them.
            Refusal::GroupFull | Refusal::Vacant => SubmitError::Overloaded {
                domain: self.hub.domain_of(group).0,
                limit: self.queue_limit,
            },
            Refusal::TableFull => SubmitError::TableOverloaded {
                limit: self.table_limit,
            },
            Refusal::NoMemory => SubmitError::OutOfMemory,
        };
        Err((reason, load))
    }

    /// Another domain whose queue is shorter than the home's by more than chance and a cold cache are worth, if any. A
    /// table that asks for more than its share waits at home: others need not pay for it.
    fn evens_out(&self, entry: &TableEntry, home: usize, at: Instant) -> Option<usize> {
        // The clock's low digits are as good as a random number here, and need no shared state.
        let draw = at.saturating_duration_since(self.began).subsec_nanos() as usize / 8;
        match self.strategy.routing {
            Routing::Home if !entry.state.is_over_share() => self.hub.evens_out(home, draw),
            _ => None,
        }
    }

    /// Ends what is dead in a full queue, or in the full share of one table: cancelled tasks and those past their deadline
    /// hold places that living ones could use. True if any place was freed.
    fn purge(&self, group: usize, of: Option<TableId>, now: Instant) -> bool {
        let inbox = self.hub.inbox(group);
        if !inbox.lock().queue.may_purge(now, PURGE_INTERVAL) {
            return false;
        }
        let dead = self.hub.extract(group, of, |task| {
            task.is_ended() || task.header().is_expired(now)
        });
        self.bury(group, dead, &Error::Expired) > 0
    }

    /// Takes everything out of every queue and ends it as shut down. Returns how many tasks that were.
    pub(crate) fn abandon_queued(&self) -> u64 {
        (0..self.hub.groups())
            .map(|group| {
                let dead = self.hub.extract(group, None, |_| true);
                self.bury(group, dead, &Error::ShutDown)
            })
            .sum()
    }

    /// Ends tasks that were taken out of `group`'s queue and counts how each ended.
    fn bury(&self, group: usize, tasks: Vec<(TableId, Arc<dyn Task>)>, error: &Error) -> u64 {
        let count = tasks.len() as u64;
        for (table, task) in tasks {
            let end = task.end_queued(error.clone());
            let weight = task.weight();
            {
                let mut inbox = self.hub.inbox(group).lock();
                let intake = inbox.queue.intake_mut(table);
                match end {
                    Some(End::Expired) => intake.expired += weight,
                    _ => intake.cancelled += weight,
                }
            }
            contain(|| drop(task));
        }
        count
    }
}

/// Counts workers out; shutdown waits for them here. The last one stops the timer: not before, as a task that outlives
/// the shutdown still has its deadline.
pub(crate) struct Exits {
    left: Mutex<usize>,
    changed: Condvar,
    timer: Arc<Timer>,
}

impl Exits {
    fn new(workers: usize, timer: Arc<Timer>) -> Self {
        Self {
            left: Mutex::new(workers),
            changed: Condvar::new(),
            timer,
        }
    }

    /// Counts one worker out when the guard goes.
    pub(crate) fn leave_on_drop(&self) -> impl Drop + '_ {
        struct Leaves<'a>(&'a Exits);
        impl Drop for Leaves<'_> {
            fn drop(&mut self) {
                let left = {
                    let mut left = self.0.left.lock();
                    *left -= 1;
                    *left
                };
                self.0.changed.notify_all();
                if left == 0 && !left_out(Step::LastStopsTimer) {
                    self.0.timer.stop();
                }
            }
        }
        Leaves(self)
    }

    /// Waits until all workers but `but` have left, at most until `deadline`. Returns how many have not.
    pub(crate) fn wait_until(&self, deadline: Instant, but: usize) -> usize {
        let mut left = self.left.lock();
        while *left > but && now() < deadline {
            left = self.changed.wait_until(left, deadline);
        }
        *left
    }
}
