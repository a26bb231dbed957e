//! Ending tasks that no worker will start: those that are dead in a full queue, and all at a shutdown.

use std::sync::Arc;

use chiplet_policy::TableId;
use chiplet_table::host::contain;

use super::Engine;
use super::task::Task;
use crate::counts::End;
use crate::error::Error;
use crate::sync::atomic::Ordering;
use crate::sync::now;

impl Engine {
    /// The thread of the timed look: sees to it that nobody waits beside idle workers, and that dead tasks keep no
    /// places in a queue that refuses others.
    pub(crate) fn watch(&self) {
        self.scheduler.watch(|group| self.purge(group));
    }

    /// Ends what is dead among the next tasks of a queue that refuses others: cancelled tasks and those past their
    /// deadline hold places that living ones could use.
    fn purge(&self, group: usize) {
        let now = now();
        let dead = self.scheduler.search(group, |task| {
            let header = task.header();
            header.stop_reason().is_some() || header.is_expired(now)
        });
        self.bury(group, dead, &Error::Expired);
    }

    /// Whether a shutdown has ended what was queued.
    pub(crate) fn abandons(&self) -> bool {
        self.abandons.load(Ordering::SeqCst)
    }

    /// Takes everything out of every queue and ends it as shut down; what goes on without a queue ends, too. Returns
    /// how many tasks that were.
    pub(crate) fn abandon_queued(&self) -> u64 {
        self.abandons.store(true, Ordering::SeqCst);
        (0..self.scheduler.groups.count())
            .map(|group| {
                let dead = self.scheduler.empty(group);
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
                let mut state = self.scheduler.groups.lock(group);
                state.queue.intake_mut(table).leaving -= weight;
                match end {
                    End::Expired => {
                        let class = task.header().class;
                        state.queue.count_expired(table, class, weight);
                    }
                    _ => state.queue.intake_mut(table).cancelled += weight,
                }
            }
            contain(|| drop(task));
        }
        count
    }
}
