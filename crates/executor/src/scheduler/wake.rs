//! Making work available: accept it, then wake whoever may run it. The waking half of `README.md`.

use std::time::Instant;

use chiplet_policy::{TableId, can_lend};

use super::{Hub, Local, Pace, Refusal, Terms, call};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{Step, left_out};

/// Helpers that a push wakes besides, at most: as many as the largest domains have cores. They stand in an array, because
/// a submit makes one allocation. Were there more, they are woken when the query has been cut.
const HELPERS: usize = 16;

impl<T, U> Hub<T, U> {
    /// Accepts `task`, which came at `at`, for `group` and wakes a worker that may run it, or hands it back. If the task
    /// will be cut, `helpers` more are woken at once, as waking takes longer than cutting.
    pub(crate) fn push(
        &self,
        group: usize,
        table: TableId,
        terms: Terms,
        task: T,
        at: Instant,
        helpers: usize,
    ) -> Result<Pace, (Refusal, T)> {
        let home = &self.groups[group];
        let mut others = [0; HELPERS];
        let mut helping = 0;
        let (pace, sleeper, unseen) = {
            let mut inbox = home.inbox.lock();
            let pace = inbox.queue.push(table, terms, task, at)?;
            let _ = self.publish(group, &mut inbox, at);
            let queued = inbox.queue.len();
            // Each spinning worker will see one.
            let sleeper = if queued > inbox.spinning && !left_out(Step::PushWakes) {
                inbox.wake_one()
            } else {
                None
            };
            // Helpers have nothing to share while other tasks wait for them.
            if queued == 1 {
                while helping < helpers.min(HELPERS)
                    && let Some(helper) = inbox.wake_one()
                {
                    others[helping] = helper;
                    helping += 1;
                }
            }
            self.refresh_spare(group, &mut inbox);
            (pace, sleeper, sleeper.is_none() && queued > inbox.spinning)
        };
        for &worker in sleeper.iter().chain(&others[..helping]) {
            self.seats[worker].parker.unpark();
        }
        self.seek_help(group, usize::from(unseen));
        Ok(pace)
    }

    /// Accepts all of `tasks`, which came at `at` and count as `weight` accepted ones, for `group`, or hands all of
    /// them back. As many workers are woken as if they had been pushed one by one, but at once: under one lock.
    pub(crate) fn push_all(
        &self,
        group: usize,
        table: TableId,
        terms: Terms,
        tasks: Vec<T>,
        weight: u64,
        at: Instant,
    ) -> Result<Pace, (Refusal, Vec<T>)> {
        let count = tasks.len();
        let (pace, sleepers, unseen) = {
            let mut inbox = self.groups[group].inbox.lock();
            let pace = inbox.queue.push_all(table, terms, tasks, weight, at)?;
            let _ = self.publish(group, &mut inbox, at);
            // Each spinning worker will see one.
            let unseen = inbox.queue.len().saturating_sub(inbox.spinning).min(count);
            let sleepers = match left_out(Step::PushAllWakes) {
                false => inbox.wake(unseen),
                true => Vec::new(),
            };
            self.refresh_spare(group, &mut inbox);
            let unseen = unseen - sleepers.len();
            (pace, sleepers, unseen)
        };
        for worker in sleepers {
            self.seats[worker].parker.unpark();
        }
        self.seek_help(group, unseen);
        Ok(pace)
    }

    /// So many tasks were pushed to `group` that none of its workers will see soon: calls other groups' workers if the queue
    /// is worth crossing for, and has the timed look see whether it becomes so.
    fn seek_help(&self, group: usize, unseen: usize) {
        if unseen == 0 {
            return;
        }
        if self.is_needy(group) {
            self.call_help(group, unseen);
        }
        if self.is_watched() {
            self.watch.arm();
        }
    }

    /// Makes `units` stealable and wakes as many workers as could take one, all at once: a cascade of single
    /// wake-ups would start the last of them late.
    pub(crate) fn push_units(&self, local: &Local<U>, units: impl ExactSizeIterator<Item = U>) {
        let others = units.len().saturating_sub(1);
        for unit in units {
            local.units.push(unit);
        }
        let woken = self.rouse(local, others);
        if self.rules.units_anywhere && woken < others {
            self.call_help(local.group, others - woken);
        }
    }

    /// Wakes up to `wanted` sleeping siblings, all at once; returns how many that were.
    fn rouse(&self, local: &Local<U>, wanted: usize) -> usize {
        let woken = {
            let mut inbox = self.groups[local.group].inbox.lock();
            let woken = inbox.wake(wanted);
            self.refresh_spare(local.group, &mut inbox);
            woken
        };
        for &worker in &woken {
            self.seats[worker].parker.unpark();
        }
        woken.len()
    }

    /// Wakes up to `wanted` sleeping workers of other groups that can spare them; returns how many that were.
    pub(super) fn call_help(&self, group: usize, wanted: usize) -> usize {
        // Pairs with the fence in `GroupSet::insert`: either this load sees the group that has just become
        // spare, or that group's look at the queues sees what was pushed before this call.
        fence(Ordering::SeqCst);
        if self.spare.is_empty() {
            return 0;
        }
        let mut called = 0;
        for &other in &self.groups[group].nearest {
            // A group may have several to spare.
            while called < wanted
                && self.spare.contains(other)
                && self.call_helper(other, call::HELP)
            {
                called += 1;
            }
        }
        called
    }

    /// The nearest other group with workers to spare, which may take tasks that `group` has no place for.
    pub(crate) fn nearest_spare(&self, group: usize) -> Option<usize> {
        if !self.is_watched() {
            return None;
        }
        let mut nearest = self.groups[group].nearest.iter().copied();
        nearest.find(|&other| self.spare.contains(other))
    }

    /// Wakes a sleeper of `group` to help elsewhere, if the group can spare it; for a task that is overdue
    /// ([`call::OVERDUE`]) also if it would rather not.
    pub(super) fn call_helper(&self, group: usize, reason: u8) -> bool {
        let sleeper = {
            let mut inbox = self.groups[group].inbox.lock();
            let lent = reason == call::OVERDUE
                && inbox.queue.len() == 0
                && can_lend(&self.staff_of(group, &inbox));
            let sleeper = if inbox.offered || lent {
                inbox.wake_one()
            } else {
                None
            };
            // Under the lock: the worker may be awake already, and next asks for work of its own.
            if let Some(worker) = sleeper {
                self.seats[worker].call.store(reason, Ordering::Release);
            }
            self.refresh_spare(group, &mut inbox);
            sleeper
        };
        let Some(worker) = sleeper else { return false };
        self.seats[worker].parker.unpark();
        true
    }

    /// This worker has found work elsewhere, which answers any call for help. Until then the call stands: it may yet find
    /// work at home.
    pub(super) fn answer_call(&self, local: &Local<U>) {
        self.seats[local.worker]
            .call
            .store(call::NONE, Ordering::Release);
    }

    /// This worker was called to help another group and found work at home, or nothing: calls somebody else in its place,
    /// if there is still need.
    pub(super) fn pass_on(&self, local: &Local<U>) {
        if left_out(Step::CallPassedOn) {
            return;
        }
        let mine = &self.seats[local.worker].call;
        if mine.load(Ordering::Acquire) == call::NONE
            || mine.swap(call::NONE, Ordering::AcqRel) == call::NONE
        {
            return;
        }
        if self.rules.units_anywhere && self.units_within(local, 0..self.seats.len()) {
            self.call_help(local.group, 1);
            return;
        }
        let needy =
            (0..self.groups.len()).find(|&other| other != local.group && self.is_needy(other));
        if let Some(needy) = needy {
            self.call_help(needy, 1);
        }
    }
}
