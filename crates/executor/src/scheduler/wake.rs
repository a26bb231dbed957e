//! Making work available: accept it, then wake whoever may run it. The waking half of `README.md`.

use std::time::Instant;

use chiplet_policy::group::Faces;
use chiplet_policy::{TableId, ladder};

use super::{Hub, Local, Pace, Refusal, Terms, call};
use crate::sync::atomic::{Ordering, fence};
use crate::sync::{Step, left_out};

impl<T, U> Hub<T, U> {
    /// Accepts `task`, which came at `at`, for `group` and wakes a worker that may run it, or hands it back.
    pub(crate) fn push(
        &self,
        group: usize,
        table: TableId,
        terms: Terms,
        task: T,
        at: Instant,
    ) -> Result<Pace, (Refusal, T)> {
        let at = self.clock.time(at);
        let pushed = self.hold(group).push(table, terms, task, at)?;
        if let Some(worker) = pushed.wake
            && !left_out(Step::PushWakes)
        {
            self.seats[worker].parker.unpark();
        }
        if pushed.left {
            self.leave_to_spinning();
        }
        self.seek_help(group, pushed.unseen);
        Ok(pushed.pace)
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
        let at = self.clock.time(at);
        let pushed = self.hold(group).push_all(table, terms, tasks, weight, at)?;
        if !left_out(Step::PushAllWakes) {
            for worker in pushed.wake {
                self.seats[worker].parker.unpark();
            }
        }
        if pushed.left {
            self.leave_to_spinning();
        }
        self.seek_help(group, pushed.unseen);
        Ok(pushed.pace)
    }

    /// A task is left to a worker that spins while others of its group sleep. The system may run something else on that
    /// one's core for some time, so the timed look sees whether it comes.
    pub(super) fn leave_to_spinning(&self) {
        if !left_out(Step::SpinnersTaskArms) {
            self.watch.arm();
        }
    }

    /// So many tasks were pushed to `group` that none of its workers will see soon: calls other groups' workers if the queue
    /// is worth crossing for, and has the timed look see whether it becomes so.
    pub(super) fn seek_help(&self, group: usize, unseen: usize) {
        if unseen == 0 {
            return;
        }
        if self.is_needy(group) {
            self.call_help(group, unseen);
        }
        if self.rules.crossing.is_priced() {
            self.watch.arm();
        }
    }

    /// Wakes up to `wanted` sleeping workers of other groups that can spare them; returns how many that were.
    pub(super) fn call_help(&self, group: usize, wanted: usize) -> usize {
        // Pairs with the fence in `GroupSet::insert`: either this load sees the group that has just become
        // spare, or that group's look at the queues sees what was pushed before this call.
        fence(Ordering::SeqCst);
        if self.spare.is_empty() {
            return 0;
        }
        let (mut called, mut at) = (0, 0);
        while called < wanted
            && let Some(next) = ladder::next_spare(self, group, at)
        {
            at = next;
            match self.call_helper(self.groups[group].nearest[next], call::HELP) {
                true => called += 1,
                false => at += 1,
            }
        }
        called
    }

    /// Wakes a sleeper of `group` to help elsewhere, if the group can spare it; for a task that is overdue
    /// ([`call::OVERDUE`]) also if it would rather not.
    pub(super) fn call_helper(&self, group: usize, reason: u8) -> bool {
        let sleeper = {
            let mut state = self.hold(group);
            let sleeper = state.lend(reason == call::OVERDUE);
            // Under the lock: the worker may be awake already, and next asks for work of its own.
            if let Some(worker) = sleeper {
                self.seats[worker].call.store(reason, Ordering::Release);
            }
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
        let needs = |other| self.is_needy(other) || self.has_spilled(other);
        let needy = (0..self.groups.len()).find(|&other| other != local.group && needs(other));
        if let Some(needy) = needy {
            self.call_help(needy, 1);
        }
    }
}
